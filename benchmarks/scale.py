"""Compute what certificates of whole domains cost: triples, units, shards, hours and bytes.

The unit cost is measured: CPU seconds for each triple, in one domain of each family (`MEASURED`). ``xverify certify -n 1``
proves one unit, then a shard, which has units from everywhere. The difference of the CPU times is divided by the triples. So
a busy machine disturbs it little, and the start of a process is a figure of its own.

    python benchmarks/scale.py
    python benchmarks/scale.py --kernel onnxruntime --seconds 10

``--seconds`` is the least CPU time for each shard that is measured. The tables are in Markdown. A row "no domain" is a domain
that certify does not have.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from xverify.certify.bulk import Through
from xverify.certify.domains import FLOAT32, NARROW, SCALES, WIDE, named, size
from xverify.certify.expected import FORMATS, bits_of
from xverify.certify.listing import grouped
from xverify.certify.ranges import MOST_ROUNDS
from xverify.contracts import get, newest
from xverify.core.machine import machine
from xverify.core.shard import MOST_SHARDS

MEASURED = {"float32": "int8-float32", "spread": "float8_e4m3fn-float32-spread", "narrow": "int8-float16"}
"""The measured domain of each family."""

START_SHARE = 0.05
"""Part of the CPU time that the starts of all shards take in the table. It gives the number of shards."""

CORES = 1000
"""Number of cores in the table."""


class Cost(NamedTuple):
    """The measured cost of a domain's family."""

    triple: float
    """CPU seconds of a triple."""
    start: float
    """CPU seconds from the start of a shard until its first request is compared."""
    bytes: int
    """Size of the certificate of one shard."""


def costs(kernel: str, family: str, seconds: float, folder: Path) -> Cost:
    """Measure the costs of a family."""
    domain = named(MEASURED[family])
    through = Through(get(newest()), domain, "per_axis", "float16" if family == "narrow" else "float32")
    start, _ = proven(kernel, domain.name, ["--range", "0:1"], folder)
    shards = domain.units // through.units_of_request // MOST_ROUNDS
    while True:
        spent, certificate = proven(kernel, domain.name, ["--shard", f"1/{shards}"], folder)
        if spent - start >= seconds or shards == 1:
            break
        shards = max(1, shards // 4)
    return Cost((spent - start) / json.loads(certificate)["counts"]["proven"], start, len(certificate))


def proven(kernel: str, name: str, options: Sequence[str], folder: Path) -> tuple[float, str]:
    """Prove a part of a domain with one worker. Return the CPU seconds and the certificate."""
    path = folder / "certificate.json"
    command = [sys.executable, "-m", "xverify", "certify", "--kernel", kernel, "--domain", name, "-n", "1", "--anew"]
    command += [*options, "-o", str(path), *(["--difference", "37"] if name == MEASURED["float32"] else [])]
    before = os.times()
    subprocess.run(command, check=True, capture_output=True)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return spent, path.read_text()


class Row(NamedTuple):
    """A row of the table."""

    words: str
    family: str
    """Family of the unit cost."""
    triples: int
    units: int


def rows() -> list[Row]:
    """Return the rows of the table."""
    floats = [x for x in NARROW if x in FORMATS]
    codes = sum(1 << bits_of(x) for x in floats)
    wide = len(WIDE) * (2 * (1 << 16) - 1)
    return [
        *(
            row(
                f"`int{bits}-float32`, `uint{bits}-float32`", "float32", [f"{x}{bits}-float32" for x in ("int", "uint")]
            )
            for bits in (8, 4, 2)
        ),
        row("`TYPE-float32-spread`, all types", "spread", [f"{x}-float32-spread" for x in NARROW]),
        row("scales of 16 and 8 bits, all types", "narrow", [f"{x}-{scale}" for x in NARROW for scale in SCALES]),
        Row(
            f"no domain: float32 scales, codes of {len(floats)} floating-point types",
            "spread",
            codes * FLOAT32,
            FLOAT32,
        ),
        Row("no domain: float32 scales, differences of int16 and uint16", "float32", wide * FLOAT32, wide * FLOAT32),
    ]


def row(words: str, family: str, names: Sequence[str]) -> Row:
    """Return the row of some domains."""
    domains = [named(name) for name in names]
    return Row(words, family, sum(map(size, domains)), sum(len(d.slices) * d.units for d in domains))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="xverify-numpy")
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = {family: costs(options.kernel, family, options.seconds, Path(folder)) for family in MEASURED}
    print(f"{options.kernel}, {machine()['processor']}:\n")
    print("| measured domain | CPU time for a triple | start of a shard | certificate of a shard |")
    print("|---|---:|---:|---:|")
    for family, cost in measured.items():
        print(f"| `{MEASURED[family]}` | {cost.triple * 1e9:.1f} ns | {cost.start:.1f} s | {cost.bytes / 1e3:.1f} kB |")
    print(f"\n| domains | triples | units | core hours | shards | on {grouped(CORES)} cores | certificates |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for words, family, triples, units in rows():
        cost = measured[family]
        seconds = triples * cost.triple
        shards = min(MOST_SHARDS, max(1, int(seconds * START_SHARE / cost.start)))
        wall = seconds / min(shards, CORES) + cost.start * max(1, shards / CORES)
        print(
            f"| {words} | {triples:.2e} | {units:.2e} | {seconds / 3600:.3g} | {grouped(shards)} | {duration(wall)} "
            f"| {shards * cost.bytes / 1e6:.2g} MB |"
        )


def duration(seconds: float) -> str:
    """Describe a duration."""
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:.1f} h"
    )


if __name__ == "__main__":
    main()
