"""Compute what certificates of whole domains cost: triples, units, shards, hours and bytes.

The unit cost is measured: CPU seconds for each triple, in one domain of each family (`MEASURED`). ``xverify certify -n 1``
proves one request, then a range, and the difference of their CPU times is divided by the triples. So a busy machine
disturbs it little, and the start of a process is a figure of its own.

    python benchmarks/scale.py
    python benchmarks/scale.py --kernel onnxruntime --seconds 10

``--seconds`` is the least CPU time for each range. The tables are in Markdown. A row "no domain" is a domain that certify does
not have.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from xverify.certify.bulk import Through
from xverify.certify.domains import FLOAT32, NARROW, SCALES, WIDE, named, size, triples_of_unit
from xverify.certify.expected import FORMATS, bits_of
from xverify.certify.listing import grouped
from xverify.contracts import get, newest
from xverify.core.machine import machine

MEASURED = {"float32": "int8-float32", "spread": "float8_e4m3fn-float32-spread", "narrow": "int8-float16"}
"""The measured domain of each family."""

FIRST_UNIT = {"float32": 0x3F800000, "spread": 0, "narrow": 0}
"""First unit of the measured range: for float32, the scale 1.0."""

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
    name = MEASURED[family]
    domain = named(name)
    step = Through(get(newest()), domain, "per_axis", "float16" if family == "narrow" else "float32").units_of_request
    short, _ = proven(kernel, name, family, step, folder)
    units = step
    while True:
        spent, written = proven(kernel, name, family, units, folder)
        if spent - short >= seconds or FIRST_UNIT[family] + 4 * units > domain.units:
            break
        units *= 4
    return Cost((spent - short) / ((units - step) * triples_of_unit(domain)), short, written)


def proven(kernel: str, name: str, family: str, units: int, folder: Path) -> tuple[float, int]:
    """Prove units with one worker. Return the CPU seconds, and the size of the certificate."""
    path, first = folder / "certificate.json", FIRST_UNIT[family]
    command = [sys.executable, "-m", "xverify", "certify", "--kernel", kernel, "--domain", name, "-n", "1", "--anew"]
    command += ["--range", f"{first}:{first + units}", "--shard", "1/1", "-o", str(path)]
    command += ["--difference", "37"] if family == "float32" else []
    before = os.times()
    subprocess.run(command, check=True, capture_output=True)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return spent, path.stat().st_size


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
        shards = max(1, int(seconds * START_SHARE / cost.start))
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
