"""The commands: parse, call, print. Exit codes: 0 pass, 1 findings, 2 usage, 3 could not do its work."""

from __future__ import annotations

import gc

import click

from xverify.cli.bench import bench
from xverify.cli.bisect import bisect
from xverify.cli.certify import certify
from xverify.cli.gate import gate
from xverify.cli.inspect import contracts, explain, oracles
from xverify.cli.ledger import ledger
from xverify.cli.replay import replay
from xverify.cli.sweep import report, sweep

COLLECTION = (10_000, 20, 20)
"""When objects are looked through for cycles: Python's default, for every 700 new ones, is a twentieth of a sweep's work."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="xverify")
def main() -> None:
    """Says, bit for bit, what every implementation of dequantization computes, and where that differs from its
    specification."""
    gc.set_threshold(*COLLECTION)


for command in (sweep, gate, certify, replay, bisect, report, ledger, oracles, contracts, explain, bench):
    main.add_command(command)
