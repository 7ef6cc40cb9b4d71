"""The command line. Each command parses its options, calls the library, and prints the result."""

from __future__ import annotations

import gc

import click

from xverify.cli.bench import bench
from xverify.cli.bisect import bisect
from xverify.cli.certify import certify
from xverify.cli.gate import gate
from xverify.cli.history import history
from xverify.cli.inspect import contracts, explain, oracles
from xverify.cli.ledger import ledger
from xverify.cli.merge import merge
from xverify.cli.model import model
from xverify.cli.replay import replay
from xverify.cli.resume import resume
from xverify.cli.sweep import report, sweep
from xverify.cli.vectors import vectors

COLLECTION = (10_000, 20, 20)
"""Thresholds of the garbage collector. Python's default (700) takes a twentieth of a sweep's time."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="xverify")
def main() -> None:
    """Compare implementations of dequantization with their specifications, bit for bit.

    Start with "xverify sweep" for installed frameworks, "xverify gate --kernel file.py:function" for a kernel of
    your own, or "xverify model file.onnx" for a model.

    Exit codes: 0 pass, 1 findings, 2 wrong usage, 3 could not do its work.
    """
    gc.set_threshold(*COLLECTION)


commands = (
    sweep, resume, gate, model, certify, replay, bisect, report, merge, history, ledger, oracles, contracts, explain, vectors,
    bench,
)  # fmt: skip

for command in commands:
    main.add_command(command)
