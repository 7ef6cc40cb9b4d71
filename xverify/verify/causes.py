"""Causes: groups of findings that one fix would remove.

Findings share a cause if one implementation makes the same mistake in them, whatever the types and the edition of the calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from xverify.core.dtypes import common_first
from xverify.core.verdict import Verdict
from xverify.verify.attribute import mistake_of
from xverify.verify.details import is_partly, names_types
from xverify.verify.region import EVERYWHERE, NOWHERE_SIMPLE

T = TypeVar("T")

_ON_VALUES = (Verdict.VIOLATION, Verdict.MIXED)
"""Verdicts on values: one mistake leaves the legal set in some cells, and mixes its readings in others."""


@dataclass(frozen=True)
class CauseKey:
    """The identity of a cause."""

    subject: str
    """The implementation's name."""
    kind: str
    """ "values" for wrong and mixed values; the verdict for all others."""
    mistake: str
    """The recipe or the indexing mistake; else the detail without its types; "" if the kind is enough."""
    region: str
    """The region in words, if the mistake does not imply it."""


def cause_key(subject: str, verdict: str, detail: str, recipe: str = "", region: str = "") -> CauseKey:
    """Return the cause of a finding.

    Args:
        subject: the implementation's name.
        verdict: the finding's verdict.
        detail: its detail, see `xverify.verify.details`.
        recipe: the name of the recipe that explains its values; "" if none does.
        region: its region in words.
    """
    region = "" if region in (EVERYWHERE, NOWHERE_SIMPLE) else region
    kind = "values" if verdict in _ON_VALUES else str(verdict)
    if recipe:
        # A recipe of all values implies the region. A recipe of the wrong values only does not.
        return CauseKey(subject, kind, mistake_of(recipe), region if is_partly(detail) else "")
    if verdict == Verdict.WRONGLY_ACCEPTED:
        return CauseKey(subject, kind, "", "")  # the cause is missing validation
    if verdict == Verdict.WRONGLY_REJECTED:
        return CauseKey(subject, kind, detail.rpartition(":")[2], "")
    if names_types(detail) or detail.startswith("result-type:"):
        return CauseKey(subject, kind, detail.partition(":")[0], region)
    return CauseKey(subject, kind, detail, region)


def grouped(findings: Iterable[T], key_of: Callable[[T], CauseKey], region_of: Callable[[T], str]) -> list[list[T]]:
    """Group findings by cause, in the order in which the causes come.

    Values that no recipe explains join the cause that has the same region, or whose findings have it.

    Args:
        findings: the findings.
        key_of: the function that gives a finding's cause.
        region_of: the function that gives a finding's region in words, "" if it has none.
    """
    groups: dict[CauseKey, list[T]] = defaultdict(list)
    explained: dict[tuple[str, str], CauseKey] = {}
    listed = [(finding, key_of(finding), region_of(finding)) for finding in findings]
    for _, key, region in listed:
        if key.kind == "values" and key.mistake != "types" and region not in ("", EVERYWHERE, NOWHERE_SIMPLE):
            explained.setdefault((key.subject, region), key)
    for finding, key, region in listed:
        joins = explained.get((key.subject, region)) if key.mistake == "types" else None
        groups[joins or key].append(finding)
    return list(groups.values())


def order_in_cause(
    verdict: str, recipe: str, x_dtype: str, scale_dtype: str, cells: int, identity: str
) -> tuple[int, bool, int, int, int, str]:
    """A sort key of findings: the worst verdict, explained values, the commonest types, then most cells.

    The first finding of a cause is the one whose witness is shown.

    Args:
        verdict: the finding's verdict.
        recipe: the name of the recipe that explains its values; "" if none does.
        x_dtype: the type of x in its witness.
        scale_dtype: the type of the scale there.
        cells: the number of cells that show it.
        identity: its id.
    """
    types = common_first(x_dtype), common_first(scale_dtype)
    return Verdict(verdict).severity, not recipe, *types, -cells, identity
