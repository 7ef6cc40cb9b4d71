"""Regions that the witness shows, which is known only after shrinking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from xverify.arithmetic.linear_operands import normal_axis
from xverify.contracts.model import Contract
from xverify.core.bits import canonical
from xverify.core.call import Call, Outcome
from xverify.strategies.limits import block_size_of
from xverify.verify import verdicts
from xverify.verify.findings import Finding
from xverify.verify.region import NOWHERE_SIMPLE, Region, Sample, contradicts, holds, is_vacuous, region

REPEATED = 67
"""The number of times that a larger call repeats each row and channel: more than a vector, and no multiple of one."""

MOST_VALUES = 1 << 18
"""The number of values that a larger call may have. A witness that was not shrunk may be large itself."""


def settle_region(finding: Finding, contract: Contract, ask: Callable[[Call], Outcome]) -> None:
    """Replace the region of a finding if its witness contradicts it.

    A smallest call may have too few positions to show where a region ends. Then a larger one of the same numbers is made, and
    the region must say which of its values are wrong. If it does not, the region is searched again with these calls.

    Args:
        finding: The finding, with its smallest call.
        contract: Its edition.
        ask: Makes a call of the implementation.
    """
    if finding.region is None or not finding.region.terms or finding.call is None or finding.outcome is None:
        return
    sample = _sample(contract, finding.call, finding.outcome)
    if sample is None:
        return
    is_partial = finding.attribution is not None and finding.attribution.elsewhere is not None
    seen = [sample]
    if not contradicts(finding.region, sample, is_partial):
        if not is_vacuous(finding.region, sample):
            return
        beyond = _beyond(finding.call, contract, ask)
        if beyond is not None and _predicts(finding.region, beyond, is_partial):
            return
        seen += [] if beyond is None else [beyond]
    again = region([*finding.samples, *seen])
    is_shown = not any(contradicts(again, each, is_partial) or is_vacuous(again, each) for each in seen)
    finding.region = again if is_shown else Region(NOWHERE_SIMPLE, "", 0, finding.region.wrong)


def _beyond(witness: Call, contract: Contract, ask: Callable[[Call], Outcome]) -> Sample | None:
    """The larger call with its wrong values; None if it cannot be made, or shows none."""
    if witness.values * REPEATED ** min(2, len(witness.data.shape)) > MOST_VALUES:
        return None
    call = larger(witness)
    return _sample(contract, call, ask(call)) if contract.judge(call).verdict == "allowed" else None


def larger(call: Call) -> Call:
    """The call with each row and the channels repeated. A scalar becomes a row."""
    shape = call.data.shape or (1,)
    axis = normal_axis(int(call.attributes.get("axis", 1)), len(shape))
    times = [REPEATED if i in (axis, len(shape) - 1) else 1 for i in range(len(shape))]
    tensors = {}
    for role, tensor in call.tensors.items():
        codes = tensor.codes
        if tensor is call.data or (len(shape) > 1 and codes.ndim == len(shape)):
            codes = np.tile(codes.reshape(codes.shape or (1,)), times)
        elif axis is not None and not block_size_of(call) and codes.shape == (shape[axis],):
            codes = np.tile(codes, REPEATED)
        tensors[role] = replace(tensor, codes=codes)
    return replace(call, tensors=tensors)


def _predicts(predicate: Region, sample: Sample, is_partial: bool) -> bool:
    """True if a region ends within a call, and holds just its mismatches."""
    inside = holds(predicate, sample)
    wrong = inside & sample.wrong if is_partial else sample.wrong
    return not inside.all() and bool(sample.wrong.any()) and np.array_equal(inside, wrong)


def _sample(contract: Contract, call: Call, outcome: Outcome) -> Sample | None:
    """A call with the values that differ from the text, or else from its first reading.

    None if no single value does.
    """
    judged = verdicts.judge(contract, call)
    comparison = verdicts.compared(judged, outcome)
    if outcome.tensor is None or comparison is None or judged.legal is None:
        return None
    departs = canonical(outcome.tensor.codes, outcome.tensor.dtype) != judged.legal.codes(0)
    shown = comparison.wrong if comparison.wrong.any() else np.asarray(departs)
    return Sample(contract, call, judged.legal, shown) if shown.any() else None
