"""Measure the comparison: values per second and core, of the legal set and of the comparison.

Attribution is not measured. Calls are of ONNX's newest edition with 8-bit x and float32 output, of every size in
``--sizes``, per tensor, per axis and blocked. `xverify.verify.legal.legal_set` and `xverify.verify.compare.compare` judge
each call as a sweep does. The compared output is right. The process stays on one core. Figures are medians of interleaved
rounds. A round judges a small call repeatedly for 20 ms, as a sweep judges calls of one size in sequence. It judges a
larger call once. ``--profile`` lists the functions in which the largest call spends its time.

    python benchmarks/comparison.py
    python benchmarks/comparison.py --sizes 1Mi --profile

Exit code 1 if a size from `LARGE` on misses the goal.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from xverify.bench.cases import Case, draw, size_in_words, sizes_of
from xverify.bench.data import expected
from xverify.contracts import get, newest
from xverify.contracts.model import Contract
from xverify.core.call import Attribute, Call, Tensor, code_dtype
from xverify.verify.compare import compare
from xverify.verify.legal import legal_set

GOAL = 200e6
"""The goal, in values per second and core (issue 6)."""

LARGE = 1 << 16
"""Values of a call from which on the goal applies."""

Made = tuple[Contract, Call, Tensor]


def made(case: Case, seed: int) -> Made:
    """The contract, the call and a right output of a case."""
    operands = draw(case, seed)
    tensors = {"x": Tensor(case.x_dtype, operands.x), "scale": Tensor(case.out_dtype, operands.scale)}
    if operands.zero_point is not None:
        tensors["zero_point"] = Tensor(case.x_dtype, operands.zero_point)
    attributes: dict[str, Attribute] = {} if case.axis is None else {"axis": case.axis}
    if case.block_size:
        attributes["block_size"] = case.block_size
    contract = get(newest())
    right = expected(case, operands).view(code_dtype(case.out_dtype))
    return contract, Call(contract.id, tensors, attributes), Tensor(case.out_dtype, right)


SAMPLE = 0.02
"""The least time of one sample, in seconds."""


def sample(contract: Contract, call: Call, output: Tensor) -> tuple[float, float]:
    """Seconds of the legal set, and of the comparison: means of calls one after the other."""
    times = [judge(contract, call, output)]
    while sum(map(sum, times)) < SAMPLE:
        times.append(judge(contract, call, output))
    legal, comparison = (statistics.fmean(part) for part in zip(*times, strict=True))
    return legal, comparison


def judge(contract: Contract, call: Call, output: Tensor) -> tuple[float, float]:
    """Seconds of the legal set, and of the comparison."""
    start = time.perf_counter()
    legal = legal_set(contract, call)
    between = time.perf_counter()
    comparison = compare(legal, output)
    end = time.perf_counter()
    if not comparison.clean:
        raise AssertionError(f"the in-house kernel gives {comparison.wrong_values} wrong values")
    return between - start, end - between


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sizes", default="256,4Ki,64Ki,1Mi,16Mi", help="values of a call, comma-separated (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=9, help="interleaved rounds (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the data (default: %(default)s)")
    parser.add_argument(
        "--profile", action="store_true", help="also list the functions in which the largest call spends its time"
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    cases = [
        Case(x, "float32", granularity, size)
        for x in ("uint8", "int8")
        for granularity in ("per-tensor", "per-axis", "blocked")
        for size in sizes_of(arguments.sizes)
    ]
    calls = {case: made(case, arguments.seed) for case in cases}
    taken: dict[Case, list[tuple[float, float]]] = {case: [] for case in cases}
    for case in cases:
        judge(*calls[case])  # caches of the engine are warm after a sweep's first calls
    for _ in range(arguments.rounds):
        for case in cases:
            taken[case].append(sample(*calls[case]))
    print(
        f"{'x':6} {'granularity':12} {'values':>8} {'10^6 values/s':>14} {'of which legal set':>19} {'comparison':>11}"
    )
    figures: list[dict[str, Any]] = []
    for case, times in taken.items():
        whole = statistics.median(sum(pair) for pair in times)
        legal = statistics.median(pair[0] for pair in times)
        speed = case.elements / whole
        figures.append(
            {"x": case.x_dtype, "granularity": case.granularity, "values": case.elements, "per_second": speed}
        )
        shares = f"{100 * legal / whole:>17.0f} % {100 * (1 - legal / whole):>9.0f} %"
        print(f"{case.x_dtype:6} {case.granularity:12} {size_in_words(case.elements):>8} {speed / 1e6:>14.1f} {shares}")
    if arguments.profile:
        _profile(calls[max(cases, key=lambda case: (case.granularity == "per-tensor", case.elements))])
    if arguments.json:
        arguments.json.write_text(json.dumps({"goal": GOAL, "figures": figures}, indent=1) + "\n")
    large = [figure for figure in figures if figure["values"] >= LARGE]
    for granularity in dict.fromkeys(figure["granularity"] for figure in large):
        speeds = [figure["per_second"] for figure in large if figure["granularity"] == granularity]
        word = "reached" if min(speeds) >= GOAL else "missed"
        print(f"{granularity}: {min(speeds) / 1e6:.0f} to {max(speeds) / 1e6:.0f} million; goal {GOAL / 1e6:g}: {word}")
    return 0 if large and min(figure["per_second"] for figure in large) >= GOAL else 1


def _profile(call: Made) -> None:
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(5):
        judge(*call)
    profile.disable()
    pstats.Stats(profile).strip_dirs().sort_stats("tottime").print_stats(12)


if __name__ == "__main__":
    sys.exit(main())
