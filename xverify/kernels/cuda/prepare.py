"""Compile the kernels of whole editions into CuPy's cache, in threads. A gate then compiles none.

python -m xverify.kernels.cuda.prepare
python -m xverify.kernels.cuda.prepare --packed --jobs 16
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from xverify.core.errors import DocumentError
from xverify.kernels.cuda.arrays import SUB_BYTE, named, require_device
from xverify.kernels.cuda.compiling import ensured
from xverify.kernels.cuda.launch import Launch, card
from xverify.kernels.cuda.linear import dynamic_plan, linear_plan
from xverify.kernels.cuda.ranges import LOOK_UP_FROM, LookedUp, range_plan
from xverify.kernels.plans import Plan

Macros = tuple[str, ...]


class Structure(NamedTuple):
    """Shapes and attributes of a call."""

    x: tuple[int, ...]
    parameters: tuple[int, ...] = ()
    axis: int | None = None
    block_size: int | None = None


STRUCTURES = (
    Structure((64,)), Structure((64,), (64,), 0), Structure((4, 64), (64,), 1), Structure((3, 5), (5,), 1),
    Structure((4, 64), (4,), 0), Structure((4, 5), (4,), 0), Structure((2, 4, 64), (4,), 1),
    Structure((4, 64), (4, 2), 1, 32), Structure((4, 64), (4, 32), 1, 2), Structure((4, 7), (4, 4), 1, 2),
    Structure((2, 64, 64), (2, 2, 64), 1, 32), Structure((64, 64), (2, 64), 0, 32), Structure((64, 5), (2, 5), 0, 32),
)  # fmt: skip
"""Structures whose kernels differ. Those with another one compile in the first call that needs it."""


def kernels(contracts: Iterable[str], packed: bool = False) -> list[Macros]:
    """The macros of the kernels of all calls of these editions, without a repetition.

    Args:
        contracts: ids of editions. One whose text is not installed here is left out.
        packed: True for packed codes of fewer than 8 bits, in ONNX's editions, instead of one code a byte.
    """
    macros: dict[Macros, None] = {}
    types: set[tuple[Any, ...]] = set()
    for contract in contracts:
        try:
            combinations = set(_combinations(contract)) - types
        except DocumentError:
            continue
        types |= combinations
        for combination in sorted(combinations, key=str):
            for plan in _plans(contract, packed, *combination[1:]):
                launches = (
                    (plan.apply.entries, plan.apply.look_up) if isinstance(plan.apply, LookedUp) else (plan.apply,)
                )
                macros.update((launch.macros, None) for launch in launches if isinstance(launch, Launch))
    return list(macros)


def prepare(wanted: Iterable[Macros], capability: str, jobs: int) -> int:
    """Compile kernels that the cache lacks, in so many threads, and return their number.

    Raises:
        OSError: The cache cannot be written.
    """
    threads = ThreadPoolExecutor(jobs)
    try:
        return sum(threads.map(lambda macros: ensured(macros, capability), wanted))
    finally:
        threads.shutdown(cancel_futures=True)  # after Ctrl-C or a full disk too


def _combinations(contract: str) -> Iterator[tuple[Any, ...]]:
    """Formula, and dtypes of x, scale, zero point and output, that an edition admits."""
    from xverify.contracts import get

    domain = get(contract).domain
    owner = contract.partition("/")[0]
    # Editions of these owners have formulas of their own.
    formula = contract if owner == "tensorflow" or contract.endswith("@divide") else ""
    also = ("int64",) if contract.startswith("onednn/Dequantize-1") else ()
    outputs = domain.output_dtypes if {"output_dtype", "dtype"} & set(domain.attributes) else (None,)
    for x, scale, output in product(domain.x_dtypes, domain.scale_dtypes, outputs):
        zero_points = (scale,) if owner == "tensorflow" else (None, *domain.zero_points_for(x), *also)
        for zero_point, mode in product(zero_points, domain.modes or ("",)):
            yield formula, x, scale, zero_point, output, mode, "narrow_range" in domain.attributes


def _plans(
    contract: str,
    packed: bool,
    x_name: str,
    scale_name: str,
    zero_name: str | None,
    out: str | None,
    mode: str,
    narrow: bool,
) -> Iterator[Plan]:
    """The plans of the structures that the edition admits with these dtypes."""
    x, scale, zero_point = named(x_name, "x"), named(scale_name, "scale"), named(zero_name, "zero_point")
    owner = contract.partition("/")[0]
    for structure in (*STRUCTURES, Structure((LOOK_UP_FROM,))):
        shape, parameters, axis, block_size = structure
        described = (contract, x, shape, scale, parameters, zero_point, None if zero_point is None else parameters)
        calls: list[Any] = []
        if x is None or (packed and (owner != "ai.onnx" or x not in SUB_BYTE)):
            return
        if owner == "tensorflow":
            calls = [
                (range_plan, *described, mode, narrow_range, axis, out)
                for narrow_range in ((None, True) if narrow else (None,))
            ]
        elif owner == "onednn":
            own = parameters or (1,)
            described = (contract, x, shape, scale, own, zero_point, None if zero_point is None else own)
            calls = [
                (dynamic_plan, *described, None, None, None, "per_channel" if parameters else "per_tensor", axis or 0)
            ]
        elif packed:
            byte, bits = np.dtype(np.uint8), SUB_BYTE[x]
            x_bytes, zero_bytes = (-(-prod(extents) * bits // 8) for extents in (shape, parameters))
            last = (None, None) if zero_point is None else (byte, (zero_bytes,))
            described = (contract, byte, (x_bytes,), scale, parameters, *last)
            calls = [(linear_plan, *described, x, None, x, shape, axis, block_size, out)]
        else:
            calls = [(linear_plan, *described, None, None, None, None, axis, block_size, out)]
        for plan, *arguments in calls:
            try:
                yield plan(*arguments)
            except (TypeError, ValueError):  # The edition refuses the call.
                continue


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contract", default="*", help="editions, as a pattern of ids (default: all)")
    parser.add_argument("--packed", action="store_true", help="the kernels of packed codes instead of the others")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="threads (default: cores, %(default)s)")
    arguments = parser.parse_args(argv)
    from xverify.contracts import ids

    contracts = [contract for contract in ids() if fnmatchcase(contract, arguments.contract)]
    if not contracts:
        parser.error(f"no edition matches {arguments.contract!r}; list them with: xverify contracts")
    if arguments.jobs < 1:
        parser.error(f"--jobs is {arguments.jobs}; expected 1 or more")
    start = time.perf_counter()
    try:
        require_device()
        wanted = kernels(contracts, arguments.packed)
        count = prepare(wanted, card(0).capability, arguments.jobs)
    except OSError as error:
        print(f"CuPy's cache cannot be written: {error}; name another folder in CUPY_CACHE_DIR", file=sys.stderr)
        return 3
    except (ImportError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 3
    print(
        f"{len(wanted)} kernels: {count} compiled in {time.perf_counter() - start:.1f} s, the others were in the cache"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
