"""Measure the CUDA kernels on this machine's card: their share of a copy's bandwidth, beside peers.

For each case ``cupy.copyto`` moves as many bytes as the kernel reads (x and parameters) and writes: half of them read, half
written. Events of the card time ``--calls`` calls in a row, which are all queued before the first begins, in interleaved
rounds; figures are medians. If a size fits the card's last-level cache, both the kernel and the copy run in that cache. A case
of one element measures the host time of a call instead.

Peers are the naive expression, with CuPy and compiled by ``torch.compile``, where these are installed. Every result is first
compared with NumPy's bits; any NaN equals any NaN. Beside a peer is its time divided by the kernel's: above 1 the kernel is
faster.

    python benchmarks/card.py
    python benchmarks/card.py --types uint8,packed-int4:bfloat16 --granularities all --sizes 1Mi,64Mi,1Gi --json card.json

Exit codes: 1 if a kernel fails, or its bits differ from NumPy's, 2 for wrong options, 3 if CuPy or the card cannot be used, 130
after Ctrl-C; the message says why.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import xverify
from xverify.bench.cases import (
    BLOCK,
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
from xverify.core.call import BITS, code_dtype
from xverify.core.dtypes import INTEGERS, numpy_dtype
from xverify.core.errors import DocumentError
from xverify.kernels.cuda import dequantize_linear, dequantize_packed, dequantize_range, require_device
from xverify.oracles.packed_codes import in_packed_form

MODES, RANGED = ("MIN_COMBINED", "MIN_FIRST", "SCALED"), ("int8", "uint8", "int16", "uint16", "int32")
"""TensorFlow's modes, and its types of codes."""

BUSY_BYTES = 1 << 26
"""Bytes of a copy that takes the card longer than this process takes to queue it."""

HOST_CALLS = 200
"""Calls in a row whose host time is measured. The card's queue takes more."""

CASES_AHEAD = 4
"""Cases whose operands other threads draw while the card measures."""

Work = Callable[[], Any]
Array = NDArray[Any]


# -- operands ----------------------------------------------------------------------------------------------


class Drawn(NamedTuple):
    """The operands of a case as the kernel takes them, and the expected codes of its output."""

    arrays: tuple[Array | None, ...]
    """Codes of x, scale and zero point, packed ones packed. For a mode: input, min_range and max_range."""
    right: Array


def drawn(case: Case, mode: str, seed: int) -> Drawn:
    """Draw the operands, and compute the output with NumPy.

    Raises:
        DocumentError: The edition's text is not installed.
    """
    operands = draw(case, seed)
    if mode:
        return _drawn_range(case, mode, operands)
    stored = in_packed_form if case.packed else np.asarray
    x, _, zero_point = typed(case, operands) if case.packed else (operands.x, None, operands.zero_point)
    arrays = (stored(x), operands.scale, None if zero_point is None else stored(zero_point))
    return Drawn(arrays, expected(case, operands).view(code_dtype(case.out_dtype)))


def _drawn_range(case: Case, mode: str, operands: Operands) -> Drawn:
    x, high = operands.x.view(case.x_dtype), np.abs(operands.scale.view(case.out_dtype)) + np.float32(1)
    arrays = (x, np.asarray(high * np.float32(-0.7)), np.asarray(high))
    right = xverify.dequantize_range(*arrays, mode=mode, axis=case.axis, backend="numpy")
    return Drawn(arrays, right.view(code_dtype(case.out_dtype)))


def drawn_ahead(cases: Sequence[tuple[Case, str]], seed: int) -> Iterator[tuple[Case, str, Future[Drawn]]]:
    """The cases with their operands. Other threads draw those of the next cases meanwhile."""
    ahead = min(CASES_AHEAD, max(1, (os.cpu_count() or 1) // 4))
    pool, queue, rest = ThreadPoolExecutor(ahead), deque[tuple[Case, str, Future[Drawn]]](), iter(cases)
    try:
        for case, mode in rest:
            queue.append((case, mode, pool.submit(drawn, case, mode, seed)))
            if len(queue) == ahead:
                yield queue.popleft()
        yield from queue
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def sent(cupy: Any, array: Array | None) -> Any:
    """A copy on the device, with the dtype of the array.

    Codes are sent, because CuPy loses the sign of a scalar -0.0.
    """
    if array is None:
        return None
    return cupy.asarray(array.view(f"u{array.itemsize}")).view(array.dtype)


def kernel_of(case: Case, mode: str, there: Sequence[Any], out: Any) -> Work:
    """The kernel's call with operands on the device."""
    if mode:
        return partial(dequantize_range, *there, mode=mode, axis=case.axis, out=out)
    x, scale, zero_point = there
    if case.out_dtype != "bfloat16":  # whose scales and output stay codes
        scale = scale.view(case.out_dtype)
    function: Callable[..., Any] = dequantize_packed if case.packed else dequantize_linear
    named: dict[str, Any] = {"dtype": case.x_dtype, "shape": case.shape} if case.packed else {"x_dtype": case.x_dtype}
    block_size = case.block_size or None
    named |= {"scale_dtype": case.out_dtype, "axis": case.axis, "block_size": block_size, "out": out}
    return partial(function, x, scale, zero_point, **named)


def moved(case: Case, mode: str) -> int:
    """Bytes that the kernel reads and writes; a range has two ends of four bytes."""
    parameters = 8 * prod(case.parameter_shape) if mode else case.bytes_of_parameters
    return case.bytes_read + case.bytes_written + parameters


def same_bits(got: Array, right: Array, dtype: str) -> bool:
    """True if all codes are equal. Any NaN equals any NaN."""
    differs = got.reshape(-1) != right.reshape(-1)
    if not differs.any():
        return True
    kind = numpy_dtype(dtype)
    return all(bool(np.isnan(part.reshape(-1)[differs].view(kind).astype(np.float32)).all()) for part in (got, right))


# -- peers -------------------------------------------------------------------------------------------------


class Library(NamedTuple):
    """A peer: a library of arrays, and the operations that libraries spell differently."""

    name: str
    array: Callable[[Any], Any]
    """The library's array over codes on the device."""
    view: Callable[[Any, str], Any]
    cast: Callable[[Any, str], Any]
    stack: Callable[[list[Any]], Any]
    """Stack arrays along a new last axis."""
    floats: tuple[str, ...]
    """The types of x of floating point that the library has. The others are read from a table of values."""
    compiled: Callable[[Callable[..., Any]], Callable[..., Any]]
    codes: Callable[[Any, str], Array]
    """The codes of a result, as a NumPy array. The string is the dtype of the result."""


def libraries(cupy: Any) -> Iterator[Library | str]:
    """The peers, or for each that is missing why it is."""
    yield Library(
        "CuPy",
        array=lambda codes: codes,
        view=lambda array, name: array.view(numpy_dtype(name)),
        cast=lambda array, name: array.astype(numpy_dtype(name)),
        stack=lambda arrays: cupy.stack(arrays, axis=-1),
        floats=(),
        compiled=lambda function: function,
        codes=lambda result, name: np.asarray(cupy.asnumpy(result)).view(code_dtype(name)),
    )
    if find_spec("torch") is None:
        yield "torch.compile: PyTorch is not installed"
        return
    try:
        import torch
    except Exception as error:  # A broken installation may raise any exception.
        yield f"torch.compile: PyTorch cannot be imported: {error}"
        return
    if not torch.cuda.is_available():
        yield "torch.compile: PyTorch finds no CUDA device"
        return

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        torch._dynamo.reset()  # It keeps 8 versions of a function, and interprets further ones.
        work: Callable[..., Any] = torch.compile(function, dynamic=False, fullgraph=True)
        return work

    yield Library(
        "torch.compile",
        array=torch.from_dlpack,
        view=lambda array, name: array.view(getattr(torch, name)),
        cast=lambda array, name: array.to(getattr(torch, name)),
        stack=lambda arrays: torch.stack(arrays, -1),
        floats=tuple(name for name in dir(torch) if name.startswith("float8_")),
        compiled=compiled,
        codes=lambda result, name: result.view(torch.uint8).cpu().numpy().view(code_dtype(name)),
    )


def naive(library: Library, case: Case, there: Sequence[Any], send: Callable[[Array], Any]) -> Work:
    """The naive expression of a case, with its operands.

    It is: float32 values, less the zero point, times the scale, cast to the output.

    Args:
        there: codes of x, scale and zero point on the device.
        send: copies an array to the device.

    Raises:
        NotImplementedError: The blocks are not whole.
    """
    x, scale, zero_point = (None if codes is None else library.array(codes) for codes in there)
    if case.block_size and case.shape[case.axis or 0] % BLOCK:
        raise NotImplementedError("its blocks are not whole")
    bits, table = BITS[case.x_dtype], None
    if case.x_dtype not in INTEGERS and case.x_dtype not in library.floats:
        every = np.arange(1 << bits, dtype=np.uint8).view(numpy_dtype(case.x_dtype))
        table = library.array(send(every.astype(np.float32)))
    scale = library.view(scale, case.out_dtype)

    def number(codes: Any, shape: tuple[int, ...]) -> Any:
        """The float32 values of codes."""
        if case.packed:
            codes = _unpacked(library, codes, bits).reshape(-1)[: prod(shape)].reshape(shape)
        if table is not None:
            return table[library.cast(codes, "int32")]
        if bits < 8:
            codes = library.view(codes, "int8")
            half = 1 << bits - 1
            return library.cast((codes ^ half) - half if case.x_dtype.startswith("int") else codes, "float32")
        return library.cast(library.view(codes, case.x_dtype), "float32")

    def spread(parameter: Any) -> Any:
        """A parameter in the shape that broadcasts with x in the shape of ``blocks``."""
        if case.axis is None or case.block_size:
            return parameter.reshape(_blocks(case, 1)) if case.block_size else parameter
        return parameter.reshape((-1, 1) if case.axis == 0 else (1, -1))

    def dequantize(x: Any, scale: Any, zero_point: Any) -> Any:
        values = number(x, case.shape).reshape(_blocks(case, BLOCK) if case.block_size else case.shape)
        if zero_point is not None:
            values = values - spread(number(zero_point, case.parameter_shape))
        values = values * spread(library.cast(scale, "float32"))
        return library.cast(values.reshape(case.shape), case.out_dtype)

    return partial(library.compiled(dequantize), x, scale, zero_point)


def _blocks(case: Case, size: int) -> tuple[int, ...]:
    """The shape of x with an axis for the elements of a block; with a size of 1, that of parameters."""
    rows, columns = case.shape
    return (rows // BLOCK, size, columns) if case.axis == 0 else (rows, columns // BLOCK, size)


def _unpacked(library: Library, codes: Any, bits: int) -> Any:
    """Codes of one byte each from packed ones. Four codes of 6 bits fill 3 bytes."""
    if bits != 6:
        return library.stack([codes >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)])
    if codes.shape[0] % 3:
        raise NotImplementedError("its groups of 3 bytes are not whole")
    first, second, third = (library.cast(codes.reshape(-1, 3)[:, i], "int32") for i in range(3))
    word = first | second << 8 | third << 16
    return library.cast(library.stack([word >> shift & 63 for shift in (0, 6, 12, 18)]), "uint8")


# -- measurement -------------------------------------------------------------------------------------------


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


def host_seconds(cupy: Any, work: Work, calls: int) -> float:
    """Seconds that this process takes to queue one call."""
    _wait(cupy)
    began = time.perf_counter()
    for _ in range(calls):
        work()
    taken = (time.perf_counter() - began) / calls
    _wait(cupy)
    return taken


def _wait(cupy: Any) -> None:
    """Wait for the work that was queued."""
    event = cupy.cuda.Event()
    event.record()
    event.synchronize()


def busy(cupy: Any, works: Sequence[Work], calls: int) -> Work:
    """A function that keeps the card busy while this process queues ``calls`` calls.

    It takes four times as long as the queueing. Without it, the measured time of small tensors would be that of the process.
    """
    source, target = cupy.empty(BUSY_BYTES, "uint8"), cupy.empty(BUSY_BYTES, "uint8")
    copy_seconds = seconds(cupy, lambda: cupy.copyto(target, source), 4)
    copies = math.ceil(4 * calls * max(host_seconds(cupy, work, calls) for work in works) / copy_seconds)

    def before() -> None:
        for _ in range(copies):
            cupy.copyto(target, source)

    return before


def measure(
    cupy: Any, case: Case, mode: str, data: Drawn, peers: Sequence[Library], rounds: int, calls: int
) -> dict[str, Any]:
    """Measure a case: the kernel, the copy and the peers."""
    there = [sent(cupy, array) for array in data.arrays]
    out = cupy.empty(case.shape, "uint16" if case.out_dtype == "bfloat16" else case.out_dtype)
    kernel = kernel_of(case, mode, there, out)
    _wait(cupy)
    began = time.perf_counter()
    result = kernel()
    _wait(cupy)
    first_call = time.perf_counter() - began
    is_right = same_bits(cupy.asnumpy(result).view(data.right.dtype), data.right, case.out_dtype)
    works: dict[str, Work] = {"kernel": kernel}
    others: dict[str, dict[str, Any]] = {}
    for peer in () if mode else peers:
        try:
            work = naive(peer, case, there, partial(sent, cupy))
            others[peer.name] = {"right": same_bits(peer.codes(work(), case.out_dtype), data.right, case.out_dtype)}
            works[peer.name] = work
        except Exception as error:  # Whatever a library raises for what it lacks.
            reason = (str(error).splitlines() or [""])[0][:200]
            others[peer.name] = {"reason": f"{type(error).__name__}: {reason}"}
    if case.elements == 1:
        taken = {
            name: statistics.median(host_seconds(cupy, work, HOST_CALLS) for _ in range(rounds))
            for name, work in works.items()
        }
        figure = {"host_us": 1e6 * taken["kernel"]}
    else:
        half = moved(case, mode) // 2
        source, target = cupy.empty(half, "uint8"), cupy.empty(half, "uint8")
        source.fill(1)
        works["copy"] = lambda: cupy.copyto(target, source)
        before = busy(cupy, list(works.values()), calls)
        samples = [{name: seconds(cupy, work, calls, before) for name, work in works.items()} for _ in range(rounds)]
        taken = {name: statistics.median(sample[name] for sample in samples) for name in works}
        mine, limit = taken["kernel"], taken["copy"]
        figure = {
            "kernel_bytes_per_second": moved(case, mode) / mine, "copy_bytes_per_second": moved(case, mode) / limit,
            "per_cent": 100 * limit / mine, "elements_per_second": case.elements / mine, "us": 1e6 * mine,
        }  # fmt: skip
    for name, other in others.items():
        if name in taken:
            other.update({"us": 1e6 * taken[name], "ratio": taken[name] / taken["kernel"]})
    return {
        "x": case.x_dtype, "packed": case.packed, "out": case.out_dtype, "mode": mode, "granularity": case.granularity,
        "elements": case.elements, "right": is_right, "first_call_s": first_call, **figure, "peers": others,
    }  # fmt: skip


# -- output ------------------------------------------------------------------------------------------------


def line_of(figure: dict[str, Any], peers: Sequence[str]) -> str:
    """The line of the table."""
    types = f"{types_in_words(figure['x'], figure['packed'])} to {figure['mode'] or figure['out']}"
    if "host_us" in figure:
        measured = f"{'host time':>10} {figure['host_us']:>8.1f} us {'':>5}"
    else:
        speeds = (figure[name] / 1e9 for name in ("kernel_bytes_per_second", "copy_bytes_per_second"))
        measured = "{:>8.1f} {:>10.1f} {:>8.2f}".format(*speeds, figure["per_cent"] / 100)
    cells = "".join(f" {_cell(figure['peers'].get(name, {})):>19}" for name in peers)
    wrong = "" if figure["right"] else "  OTHER BITS THAN NUMPY'S"
    return f"{types:28} {figure['granularity']:14} {size_in_words(figure['elements']):>7} {measured}{cells}{wrong}"


def _cell(peer: dict[str, Any]) -> str:
    if "ratio" not in peer:
        return "-"
    return f"{peer['ratio']:.2f}" + ("" if peer["right"] else " OTHER BITS")


def described(case: Case, mode: str) -> str:
    """A case in words."""
    return f"{case}, {mode}" if mode else str(case)


def modes_of(text: str, case: Case) -> tuple[str, ...]:
    """The modes of a list of names; none if TensorFlow lacks the case.

    Raises:
        ValueError: for an unknown mode.
    """
    named = tuple(filter(None, text.split(",")))
    if unknown := [mode for mode in named if mode not in MODES]:
        raise ValueError(f"{unknown[0]!r} is no mode; there are {', '.join(MODES)}")
    return named if case.x_dtype in RANGED and case.out_dtype == "float32" and not case.block_size else ()


def parsed(argv: list[str] | None) -> tuple[argparse.Namespace, list[tuple[Case, str]]]:
    """The options, and the cases with their modes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--types",
        default="uint8,int8,uint8:float16,int4:bfloat16,packed-int4:float16,float8_e4m3fn:float16,int16,int32",
        help="pairs of types of x and output, comma-separated (default: %(default)s)",
    )
    parser.add_argument("--granularities", default="all", help="granularities, comma-separated (default: %(default)s)")
    parser.add_argument(
        "--modes",
        default="MIN_COMBINED,MIN_FIRST,SCALED",
        help='modes of TensorFlow\'s Dequantize, comma-separated; "" for none (default: %(default)s)',
    )
    parser.add_argument(
        "--sizes",
        default="1,1Mi,16Mi,256Mi",
        help="elements, comma-separated; 1 measures the host time of a call (default: %(default)s)",
    )
    parser.add_argument("--no-peers", action="store_true", help="measure only the kernel and the copy")
    parser.add_argument("--rounds", type=int, default=9, help="interleaved rounds (default: %(default)s)")
    parser.add_argument("--calls", type=int, default=20, help="calls of a round (default: %(default)s)")
    parser.add_argument("--seconds", type=float, help="begin no case after this time, in seconds (default: no limit)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the data (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file, after each case")
    options = parser.parse_args(argv)
    if options.rounds < 1 or options.calls < 1:
        parser.error("--rounds and --calls are counts; expected 1 or more")
    if options.json and not options.json.parent.is_dir():
        parser.error(f"the folder of --json {options.json} does not exist; make it first")
    try:
        # One pair after the other, so that a time limit leaves out pairs and not sizes.
        cases = [
            (case, mode)
            for x, out in pairs_of(options.types)
            for number, granularity in enumerate(granularities_of(options.granularities))
            for size in sizes_of(options.sizes)
            for case in [case_of(x, out, granularity if size > 1 else "per-tensor", size)]
            if size > 1 or number == 0
            for mode in ("", *(modes_of(options.modes, case) if size > 1 else ()))
        ]
    except ValueError as error:
        parser.error(str(error))
    return options, cases


def main(argv: list[str] | None = None) -> int:
    options, cases = parsed(argv)
    try:
        return run(options, cases)
    except KeyboardInterrupt:
        written = (
            f"the figures so far are in {options.json}" if options.json else "--json FILE keeps the figures so far"
        )
        print(f"card.py was interrupted: {written}", file=sys.stderr)
        return 130


def run(options: argparse.Namespace, cases: list[tuple[Case, str]]) -> int:
    """Measure the cases, and print their figures. Return the exit code."""
    began = time.perf_counter()
    try:
        cupy = require_device()
        properties = cupy.cuda.runtime.getDeviceProperties(0)
        cupy.empty(1, "uint8").fill(1)
    except Exception as error:  # CuPy's own classes, which are not documented.
        print(f"nothing was measured: {error}", file=sys.stderr)
        return 3
    listed = [] if options.no_peers else list(libraries(cupy))
    peers = [peer for peer in listed if isinstance(peer, Library)]
    names = [peer.name for peer in peers]
    facts = {"card": properties["name"].decode(), "cupy": cupy.__version__}
    print(f"{facts['card']}, {properties['multiProcessorCount']} multiprocessors; CuPy {facts['cupy']}")
    for reason in (peer for peer in listed if isinstance(peer, str)):
        print(f"not measured: {reason}")
    heads = "".join(f" {name:>19}" for name in names)
    print(f"{'types':28} {'granularity':14} {'elements':>7} {'GB/s':>8} {'copy GB/s':>10} {'of copy':>8}{heads}")
    figures: list[dict[str, Any]] = []
    left_out: list[str] = []
    failed = False

    def write() -> None:
        if options.json:
            report = {**facts, "figures": figures, "left_out": left_out}
            options.json.write_text(json.dumps(report, indent=1) + "\n")

    write()  # so that a file of an earlier run is not taken for this one
    for number, (case, mode, data) in enumerate(drawn_ahead(cases, options.seed)):
        if options.seconds is not None and time.perf_counter() - began > options.seconds:
            left_out += [f"{described(*each)}: the {options.seconds:g} s are over" for each in cases[number:]]
            break
        try:
            figure = measure(cupy, case, mode, data.result(), peers, options.rounds, options.calls)
        except DocumentError as error:
            left_out.append(f"{described(case, mode)}: {error}")
            continue
        except Exception as error:  # The next case may work.
            left_out.append(f"{described(case, mode)}: FAILED: {type(error).__name__}: {error}")
            failed = True
            continue
        figures.append(figure)
        print(line_of(figure, names), flush=True)
        write()
    write()
    for reason in dict.fromkeys(
        f"{name}, {figure['x']} to {figure['out']}, {figure['granularity']}: {peer['reason']}"
        for figure in figures
        for name, peer in figure["peers"].items()
        if "reason" in peer
    ):
        print(f"not measured: {reason}")
    for reason in left_out:
        print(f"not measured: {reason}")
    return 1 if failed or not all(figure["right"] for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
