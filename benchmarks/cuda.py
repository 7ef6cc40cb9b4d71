"""Measure the CUDA kernels on this machine's card, in per cent of its copy bandwidth in the same run.

For each case ``cupy.copyto`` moves as many bytes as the kernel reads (x and parameters) and writes: half of them read, half
written. Events of the card time ``--calls`` calls in a row, which are all queued before the first begins, in interleaved
rounds; figures are medians. Each result is first compared with NumPy's bits. If a size fits the card's last-level cache, both
the kernel and the copy run in that cache.

    python benchmarks/cuda.py
    python benchmarks/cuda.py --types uint8,packed-int4:bfloat16 --granularities all --sizes 1Mi,64Mi,1Gi --json cuda.json

Exit codes: 1 if a kernel's bits differ from NumPy's, 3 without CuPy or a card; no figure is printed then.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import xverify
from xverify.bench.cases import (
    Case,
    Operands,
    case_of,
    draw,
    granularities_of,
    pairs_of,
    size_in_words,
    sizes_of,
    types_in_words,
)
from xverify.bench.data import expected, typed
from xverify.core.call import code_dtype
from xverify.kernels.cuda import dequantize_linear, dequantize_packed, dequantize_range, require_device
from xverify.oracles.packed_codes import in_packed_form

MODES, RANGED = ("MIN_COMBINED", "MIN_FIRST", "SCALED"), ("int8", "uint8", "int16", "uint16", "int32")
"""TensorFlow's modes, and its types of codes."""

BUSY_BYTES = 1 << 26
"""Bytes of a copy that takes the card longer than this process takes to queue it."""

Work = Callable[[], Any]


def prepared(cupy: Any, case: Case, mode: str, seed: int) -> tuple[Work, Work, bool]:
    """The kernel's call, the copy of as many bytes, and True if the kernel's bits are NumPy's."""
    operands = draw(case, seed)
    out = cupy.empty(case.shape, "uint16" if case.out_dtype == "bfloat16" else case.out_dtype)
    kernel, right = (ranged if mode else linear)(cupy, case, mode, operands, out)
    right = right.view(code_dtype(case.out_dtype))
    is_right = bool(np.array_equal(cupy.asnumpy(kernel()).view(right.dtype), right))
    half = moved(case, mode) // 2
    source, target = cupy.empty(half, "uint8"), cupy.empty(half, "uint8")
    source.fill(1)
    return kernel, lambda: cupy.copyto(target, source), is_right


def linear(cupy: Any, case: Case, _: str, operands: Operands, out: Any) -> tuple[Work, Any]:
    """The call of DequantizeLinear, and the expected output."""
    x, _, zero_point = typed(case, operands) if case.packed else (operands.x, None, operands.zero_point)
    stored = in_packed_form if case.packed else np.asarray
    x, scale = cupy.asarray(stored(x)), cupy.asarray(operands.scale)
    zero_point = None if zero_point is None else cupy.asarray(stored(zero_point))
    function, named = dequantize_linear, {"x_dtype": case.x_dtype, "scale_dtype": case.out_dtype}
    if case.packed:
        function, named = dequantize_packed, {"dtype": case.x_dtype, "shape": case.shape, "scale_dtype": case.out_dtype}
    if case.out_dtype != "bfloat16":  # which CuPy has not: its scales and its output stay codes
        scale = scale.view(case.out_dtype)

    def kernel() -> Any:
        return function(x, scale, zero_point, axis=case.axis, block_size=case.block_size or None, out=out, **named)

    return kernel, expected(case, operands)


def ranged(cupy: Any, case: Case, mode: str, operands: Operands, out: Any) -> tuple[Work, Any]:
    """The call of a mode of TensorFlow's Dequantize, and the expected output."""
    x, high = operands.x.view(case.x_dtype), np.abs(operands.scale.view(case.out_dtype)) + np.float32(1)
    arrays, named = (x, high * np.float32(-0.7), high), {"mode": mode, "axis": case.axis}
    operands_there = [cupy.asarray(np.asarray(array)) for array in arrays]

    def kernel() -> Any:
        return dequantize_range(*operands_there, out=out, **named)

    return kernel, xverify.dequantize_range(*arrays, **named)


def moved(case: Case, mode: str) -> int:
    """Bytes that the kernel reads and writes; a range has two ends of four bytes."""
    parameters = 8 * prod(case.parameter_shape) if mode else case.bytes_of_parameters
    return case.bytes_read + case.bytes_written + parameters


def modes_of(text: str, case: Case) -> tuple[str, ...]:
    """The modes of a list of names; none if TensorFlow lacks the case.

    Raises:
        ValueError: for an unknown mode.
    """
    named = tuple(filter(None, text.split(",")))
    if unknown := [mode for mode in named if mode not in MODES]:
        raise ValueError(f"{unknown[0]!r} is no mode; there are {', '.join(MODES)}")
    return named if case.x_dtype in RANGED and case.out_dtype == "float32" and not case.block_size else ()


def seconds(cupy: Any, work: Work, calls: int, before: Work = lambda: None) -> float:
    """Seconds of one call, by the card's clock. before: queues work that is not timed."""
    start, stop = cupy.cuda.Event(), cupy.cuda.Event()
    before()
    start.record()
    for _ in range(calls):
        work()
    stop.record()
    stop.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, stop)) / 1e3 / calls


def busy(cupy: Any, work: Work, calls: int) -> Work:
    """A function that keeps the card busy while this process queues ``calls`` calls.

    It takes twice as long as the queueing. Without it, the measured time of small tensors would be that of the process.
    """
    source, target = cupy.empty(BUSY_BYTES, "uint8"), cupy.empty(BUSY_BYTES, "uint8")
    copy_seconds = seconds(cupy, lambda: cupy.copyto(target, source), 4)
    began = time.perf_counter()
    for _ in range(calls):
        work()
    copies = math.ceil(2 * (time.perf_counter() - began) / copy_seconds)

    def before() -> None:
        for _ in range(copies):
            cupy.copyto(target, source)

    return before


def measure(cupy: Any, case: Case, mode: str, seed: int, rounds: int, calls: int) -> dict[str, Any]:
    """Measure a case: bytes per second of the kernel and of the copy, and their ratio in per cent."""
    kernel, copy, is_right = prepared(cupy, case, mode, seed)
    seconds(cupy, copy, 2)
    before = busy(cupy, kernel, calls)
    taken = [(seconds(cupy, kernel, calls, before), seconds(cupy, copy, calls, before)) for _ in range(rounds)]
    mine, limit = (statistics.median(pair[i] for pair in taken) for i in (0, 1))
    return {
        "x": case.x_dtype, "packed": case.packed, "out": case.out_dtype, "mode": mode, "granularity": case.granularity,
        "elements": case.elements, "right": is_right,
        "kernel_bytes_per_second": moved(case, mode) / mine, "copy_bytes_per_second": moved(case, mode) / limit,
        "per_cent": 100 * limit / mine, "elements_per_second": case.elements / mine,
    }  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--types",
        default="uint8,int8,uint8:float16,int4:bfloat16,packed-int4:float16,float8_e4m3fn:float16,int16,int32",
    )
    parser.add_argument("--granularities", default="all", help="granularities, comma-separated (default: %(default)s)")
    parser.add_argument(
        "--modes",
        default="MIN_COMBINED,MIN_FIRST,SCALED",
        help='modes of TensorFlow\'s Dequantize, comma-separated; "" for none (default: %(default)s)',
    )
    parser.add_argument("--sizes", default="1Mi,16Mi,256Mi", help="elements, comma-separated (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="interleaved rounds (default: %(default)s)")
    parser.add_argument("--calls", type=int, default=20, help="calls of a round (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the data (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args(argv)
    try:
        cases = [
            (case, mode)
            for size in sizes_of(arguments.sizes)
            for x, out in pairs_of(arguments.types)
            for granularity in granularities_of(arguments.granularities)
            for case in [case_of(x, out, granularity, size)]
            for mode in ("", *modes_of(arguments.modes, case))
        ]
    except ValueError as error:
        parser.error(str(error))
    try:
        cupy = require_device()
    except (ImportError, RuntimeError) as error:
        print(f"no GPU here, so nothing was measured: {error}", file=sys.stderr)
        return 3
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    card = properties["name"].decode()
    print(f"{card}, {properties['multiProcessorCount']} multiprocessors; CuPy {cupy.__version__}")
    print(f"{'types':26} {'granularity':14} {'elements':>9} {'GB/s':>8} {'copy GB/s':>10} {'per cent':>9}")
    figures = []
    for case, mode in cases:
        figure = measure(cupy, case, mode, arguments.seed, arguments.rounds, arguments.calls)
        figures.append(figure)
        speeds = f"{figure['kernel_bytes_per_second'] / 1e9:8.1f} {figure['copy_bytes_per_second'] / 1e9:10.1f}"
        types = f"{types_in_words(case.x_dtype, case.packed)} to {mode or case.out_dtype}"
        wrong = "" if figure["right"] else "  OTHER BITS THAN NUMPY'S"
        print(
            f"{types:26} {case.granularity:14} {size_in_words(case.elements):>9} {speeds} {figure['per_cent']:9.1f}{wrong}"
        )
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"card": card, "cupy": cupy.__version__, "figures": figures}, indent=1) + "\n"
        )
    return 0 if all(figure["right"] for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
