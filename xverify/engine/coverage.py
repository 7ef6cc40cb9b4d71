"""Structures, numbers and codes that the calls of a run contained, and those that they did not."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from xverify.contracts.model import Domain
from xverify.core.call import BITS, LAYOUTS, Outcome
from xverify.core.dtypes import is_float, values
from xverify.core.rounding import to_dtype
from xverify.strategies.walk import USUAL_BLOCKS
from xverify.verify.verdicts import Judged

WIDTHS = (16, 32, 64)
POSITIONS = ("last", "second-last", "third-last")
LONG = 65_535
BLOCK_SIZES = tuple(sorted(USUAL_BLOCKS))

CHANNELS = "more than 65 535 channels"
BLOCKS = "more than 65 535 blocks along an axis"
BLOCK_ROWS = "more than 65 535 rows of a blocked scale"
ROWS = "more than 262 144 rows"
ELEMENTS = "more than 2^24 elements"
HUGE = "more than 2^31 elements (--huge)"

TIES_EACH, TIES_MOST = 8, 1 << 14

_ALWAYS = (
    "negative axes",
    "blocks with a remainder",
    "empty tensors",
    "extents past 256",
    "extents past 65 536",
    *(f"{name} extents past 65 535" for name in POSITIONS),
    CHANNELS,
    BLOCKS,
    BLOCK_ROWS,
    ROWS,
    ELEMENTS,
    HUGE,
    *(f"blocks of {size} on the last axis" for size in BLOCK_SIZES),
    "subnormal results",
    "infinite results of finite operands",
    "results halfway between two codes",
    "values that readings disagree on",
    "NaN scales",
    "infinite scales",
    "negative scales",
    "rejections of forbidden calls",
    "calls that the text leaves open",
    *(f"rank {rank}" for rank in range(7)),
    *(f"tails around {width}" for width in WIDTHS),
    *(f"layout {layout}" for layout in LAYOUTS),
)
"""Structures and numbers that calls can contain; the report adds the codes of each type."""

_SCALED = frozenset([
    "infinite results of finite operands", "results halfway between two codes",
    "NaN scales", "infinite scales", "negative scales",
])  # fmt: skip
_PER_AXIS = frozenset([CHANNELS])
_BLOCKED = frozenset([
    "blocks with a remainder", BLOCKS, BLOCK_ROWS, *(f"blocks of {size} on the last axis" for size in BLOCK_SIZES),
])  # fmt: skip
"""Structures and numbers that only calls of editions with scales, per axis or with blocks can contain."""


IMPORTANCE = (
    "rank 1", "rank 2", "rank 3", "rank 4", "blocks", "layout", "last extents", "second-last extents", "third-last extents",
    "extents", "tails", "codes of", CHANNELS, BLOCKS, BLOCK_ROWS, ROWS, ELEMENTS, "negative axes",
    "results halfway", "subnormal results", "negative scales", "infinite results", "empty tensors", "values that readings",
    "rank", "infinite scales", "NaN scales", "rejections", "calls that the text leaves open", HUGE,
)  # fmt: skip
"""Beginnings of names, the most important first: ordinary use and common faults come before special values."""

_COUNT_OF_CODES = re.compile(r"\d+ of the \d+ ")


def by_importance(names: Iterable[str]) -> list[str]:
    """Sort names of structures and numbers that were not met, the most important first.

    Names of equal importance keep their order.
    """

    def importance(name: str) -> int:
        plain = _COUNT_OF_CODES.sub("", name)
        return next((i for i, start in enumerate(IMPORTANCE) if plain.startswith(start)), IMPORTANCE.index("rank"))

    return sorted(names, key=importance)


class Coverage:
    """Counters of what the calls contained. Codes are counted for types of 8 bits or fewer."""

    def __init__(self) -> None:
        self.met: Counter[str] = Counter()
        self._codes: dict[str, np.ndarray[tuple[int], np.dtype[np.bool_]]] = defaultdict(
            lambda: np.zeros(256, np.bool_)
        )

    def count(self, judged: Judged, outcomes: Iterable[Outcome]) -> None:
        """Count one call and its outcomes."""
        call, met = judged.call, self.met
        if judged.judgement.verdict == "forbidden":
            met["rejections of forbidden calls"] += sum(outcome.refused for outcome in outcomes)
            return
        if judged.judgement.verdict == "unspecified":
            met["calls that the text leaves open"] += 1
            return
        if judged.contract.fixed_result is not None and not judged.contract.readings(call):
            return  # beyond the text: legal only because the reference implementation answers it
        x = call.data
        met[f"rank {len(x.shape)}"] += 1
        met[f"layout {x.layout}"] += 1
        met["empty tensors"] += x.size == 0
        met["negative axes"] += int(call.attributes.get("axis", 0)) < 0
        longest = max(x.shape, default=0)
        met["extents past 256"] += longest > 256
        met["extents past 65 536"] += longest > 65536
        for name, extent in zip(POSITIONS, reversed(x.shape), strict=False):
            met[f"{name} extents past 65 535"] += extent > LONG
        met[ROWS] += max(x.shape[:-1], default=0) > 1 << 18
        met[ELEMENTS] += x.size > 1 << 24
        met[HUGE] += x.size > 1 << 31
        for width in WIDTHS:
            met[f"tails around {width}"] += bool(x.shape) and x.shape[-1] > 0 and x.shape[-1] % width in (1, width - 1)
        self._parameters(judged)
        self._numbers(judged)
        self._ties(judged)
        if BITS[x.dtype] <= 8 and not (codes := self._codes[x.dtype])[: 1 << BITS[x.dtype]].all():
            codes[x.codes.reshape(-1)] = True

    def _parameters(self, judged: Judged) -> None:
        call, met = judged.call, self.met
        granularity = judged.cell.granularity if judged.cell else "per_tensor"
        scale = call.tensors.get("scale")
        if scale is None or granularity == "per_tensor":
            return
        if granularity == "per_axis":
            met[CHANNELS] += scale.size > LONG
            return
        block_size, rank = int(call.attributes.get("block_size", 0)), len(call.data.shape)
        if not rank:  # an edition of a user may call it blocked
            return
        axis = int(call.attributes.get("axis", 1)) % rank
        met["blocks with a remainder"] += block_size > 0 and call.data.shape[axis] % block_size != 0
        if block_size in BLOCK_SIZES and axis == rank - 1 and call.data.shape[axis] > block_size:
            met[f"blocks of {block_size} on the last axis"] += 1
        if len(scale.shape) == rank:
            met[BLOCKS] += scale.shape[axis] > LONG
            met[BLOCK_ROWS] += any(extent > LONG for i, extent in enumerate(scale.shape) if i != axis)

    def _numbers(self, judged: Judged) -> None:
        met, legal = self.met, judged.legal
        if legal is None or legal.in_graph:
            return
        met["subnormal results"] += int(legal.subnormal.sum())
        if len(legal.distinct) > 1:
            met["values that readings disagree on"] += int(
                np.logical_or.reduce([codes != legal.distinct[0] for codes in legal.distinct[1:]]).sum()
            )
        scale = judged.call.tensors.get("scale")
        if scale is None or not is_float(scale.dtype):
            return
        numbers = values(scale.dtype, scale.codes)
        met["NaN scales"] += int(np.isnan(numbers).sum())
        met["infinite scales"] += int(np.isinf(numbers).sum())
        met["negative scales"] += int((numbers < 0).sum())
        if np.isfinite(numbers).all():
            infinite = np.isinf(values(legal.dtype, legal.distinct[0]))
            met["infinite results of finite operands"] += int(infinite.sum())

    def _ties(self, judged: Judged) -> None:
        """Count values halfway between two codes of the output type.

        One call in `TIES_EACH` is examined, if it has at most `TIES_MOST` values.
        """
        legal = judged.legal
        if legal is None or legal.in_graph or judged.number % TIES_EACH or judged.contract.domain.family != "linear":
            return
        if judged.call.values > TIES_MOST:
            return
        operands = judged.contract.operands(judged.call)
        x, scale = (values(operands.dtypes[role], operands.codes[role]) for role in ("x", "scale"))
        with np.errstate(all="ignore"):
            if "zero_point" in operands.codes:
                x = x - values(operands.dtypes["zero_point"], operands.codes["zero_point"])
            exact = x * scale
            nearest = to_dtype(exact, legal.dtype)
            mirrored = 2 * exact - nearest
            # A value lies halfway if its mirror image at the exact value is a code as well.
            tie = (mirrored != nearest) & (to_dtype(mirrored, legal.dtype) == mirrored) & np.isfinite(mirrored)
        self.met["results halfway between two codes"] += int(tie.sum())

    def codes(self) -> dict[str, str]:
        """The codes of each type that occurred: bit i of the hexadecimal number is set if code i did."""
        return {
            dtype: np.packbits(codes[: max(8, 1 << BITS[dtype])], bitorder="little").tobytes()[::-1].hex()
            for dtype, codes in sorted(self._codes.items())
        }

    def report(self, domains: Iterable[Domain]) -> dict[str, object]:
        """Counts of what the calls contained, and the names of what they could contain but did not."""
        impossible = [_impossible(domain) for domain in domains]
        never = frozenset.intersection(*impossible) if impossible else frozenset()
        return trust(self.met, set(_ALWAYS) - never, {dtype: int(codes.sum()) for dtype, codes in self._codes.items()})


def trust(counts: Mapping[str, int], possible: Collection[str], codes: Mapping[str, int]) -> dict[str, object]:
    """The entry "trust" of a report.

    Args:
        counts: What the calls contained.
        possible: Names of what they could contain.
        codes: For each type of 8 bits or fewer, the number of codes that they contained.
    """
    met = {name: counts[name] for name in _ALWAYS if counts.get(name)}
    not_met = [name for name in _ALWAYS if not counts.get(name) and name in possible]
    for dtype, count in sorted(codes.items()):
        every = 1 << BITS[dtype]
        met[f"codes of {dtype}"] = count
        if count < every:
            not_met.append(f"{every - count} of the {every} codes of {dtype}")
    return {"met": met, "not_met": by_importance(not_met)}


def _impossible(domain: Domain) -> frozenset[str]:
    """Structures and numbers that no call of the domain can contain."""
    never = frozenset() if domain.family == "linear" else _SCALED
    never |= frozenset() if "per_axis" in domain.granularities else _PER_AXIS
    return never | (frozenset() if "blocked" in domain.granularities else _BLOCKED)
