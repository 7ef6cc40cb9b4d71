"""Variants: one implementation that is run in two ways and gets the same call.

Two settings of threads or of instruction sets must give the same bits, whatever the text admits. If they do not, the
implementation is *nondeterministic*, since a user's result depends on the machine. There is no finding if both refuse, or if
the usual way ends the process too: that is a finding of the implementation itself, which is judged as it runs by default.

A wrong value of the usual way is a violation. If the other way gives a legal value there, the difference is that same mistake
and no finding of its own.

A denormal mode is meant to change bits. Its documented effect (subnormal numbers become zero, as results or as operands) is an
ambiguity of the text, which does not mention it. Any other difference is nondeterminism as above.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xverify.core.bits import canonical, ulp_distance
from xverify.core.call import Outcome, Tensor
from xverify.core.dtypes import FLOATS, values
from xverify.core.rounding import is_subnormal, smallest_normal
from xverify.core.verdict import Verdict
from xverify.verify import verdicts
from xverify.verify.attribute import Attribution
from xverify.verify.compare import is_zero
from xverify.verify.details import detail_of
from xverify.verify.findings import Discrepancy, Key
from xverify.verify.verdicts import Judged

DENORMALS = "denormals"
"""The dimension whose settings decide what happens to subnormal numbers."""

_ANSWERS = frozenset(["tensor", "rejected", "unsupported"])

_SETTING = re.compile(r"\[(\w+=[^][]+)\]")


def setting_of(name: str) -> str:
    """The setting in the name of a variant: "threads=8" for "onnxruntime[threads=8]"; "" for other names."""
    match = _SETTING.search(name)
    return match[1] if match else ""


def without_setting(name: str) -> str:
    """The name of the implementation in its default setting."""
    return _SETTING.sub("", name, count=1)


def with_setting(name: str, setting: str) -> str:
    """The name of a variant; a version stays at its end: "onnxruntime[threads=8]==1.17.0"."""
    return re.sub("(?===|@|$)", lambda match: f"[{setting}]", name, count=1)


def differences(
    judged: Judged, name: str, usual: Outcome, other: Outcome, is_judged: bool = False
) -> list[Discrepancy]:
    """List the discrepancies between two ways to run one implementation.

    Args:
        judged: the call.
        name: the variant's name.
        usual: the outcome in the default setting.
        other: the variant's outcome.
        is_judged: True if the edition judges the implementation in the default setting. Its wrong values are then violations.
    """
    if other.kind in ("crash", "hang") and usual.kind != other.kind:
        death = verdicts.died(judged, name, other)
        return [] if death is None else [death]
    if not {usual.kind, other.kind} <= _ANSWERS:
        return []
    noted = [
        discrepancy for discrepancy in verdicts.noted(judged, name, other) if discrepancy.key.detail not in usual.notes
    ]
    if usual.refused or other.refused:
        return noted + ([] if usual.refused and other.refused else [_refusal(judged, name, other)])
    assert usual.tensor is not None
    assert other.tensor is not None
    return noted + _of_values(judged, name, usual.tensor, other.tensor, is_judged)


def _refusal(judged: Judged, name: str, other: Outcome) -> Discrepancy:
    setting = setting_of(name)
    how = "refuses" if other.refused else "answers"
    key = _key(judged, name, detail_of(setting, how))
    than = "answers" if other.refused else "refuses"
    summary = f"{without_setting(name)} {how} with {setting} a call that it {than} without it"
    return Discrepancy(key, summary, values=judged.call.values)


def _of_values(judged: Judged, name: str, usual: Tensor, other: Tensor, is_judged: bool) -> list[Discrepancy]:
    setting, plain = setting_of(name), without_setting(name)
    if (usual.dtype, usual.shape) != (other.dtype, other.shape):
        summary = (
            f"{plain} gives {other.dtype} {list(other.shape)} with {setting}, and {usual.dtype} {list(usual.shape)} "
            f"without it"
        )
        return [Discrepancy(_key(judged, name, detail_of(setting, "result")), summary, values=judged.call.values)]
    apart = _apart(judged, usual, other, is_judged)
    effect = (
        apart & _by_denormals(judged, usual, other) if setting.startswith(DENORMALS + "=") else np.zeros_like(apart)
    )
    discrepancies = []
    if effect.any():
        count = int(np.count_nonzero(effect))
        by = Attribution("flush-subnormals", "takes or gives subnormal numbers as zero", count, count)
        key = Key(name, judged.contract.id, Verdict.AMBIGUITY, f"{judged.contract.id}/subnormal", by.reading)
        summary = (
            f"{plain} {by.words} with {setting}, as the setting intends, but not without it; "
            f"no sentence of the text mentions them"
        )
        discrepancies.append(Discrepancy(key, summary, by, count))
    if (rest := apart & ~effect).any():
        count = int(np.count_nonzero(rest))
        summary = (
            f"{plain} gives other bits with {setting} than without it, for the same call (x of "
            f"{judged.call.data.dtype}, to {other.dtype})"
        )
        distances = _distances(usual, other)[rest]
        farthest = -1 if (distances < 0).any() else int(distances.max())
        discrepancies.append(Discrepancy(_key(judged, name, setting), summary, None, count, farthest))
    return discrepancies


def _apart(judged: Judged, usual: Tensor, other: Tensor, is_judged: bool) -> NDArray[np.bool_]:
    """The mask of values that differ, without those that are violations in the default setting only."""
    apart = differing(usual, other)
    wrong, beside = (verdicts.compared(judged, Outcome("tensor", tensor)) for tensor in (usual, other))
    if not is_judged or wrong is None or beside is None:
        return apart
    return apart & ~(wrong.wrong & ~beside.wrong)


def _key(judged: Judged, name: str, detail: str) -> Key:
    contract = judged.contract
    return Key(name, contract.id, Verdict.NONDETERMINISTIC, contract.value_clause(judged.call, None), detail)


def first_difference(judged: Judged, usual: Outcome, other: Outcome, is_judged: bool) -> tuple[int, ...] | None:
    """The index of the first value that differs; None if no single value does. See `differences`."""
    a, b = usual.tensor, other.tensor
    if a is None or b is None or (a.dtype, a.shape) != (b.dtype, b.shape):
        return None
    where = _apart(judged, a, b, is_judged)
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(where)), where.shape)) if where.any() else None


def differing(usual: Tensor, other: Tensor) -> NDArray[np.bool_]:
    """The mask of values of two tensors of one dtype and shape that differ; any NaN equals any NaN."""
    if usual.dtype not in FLOATS:
        return np.asarray(usual.codes != other.codes)
    return np.asarray(canonical(usual.codes, usual.dtype) != canonical(other.codes, other.dtype))


def _distances(usual: Tensor, other: Tensor) -> NDArray[np.int64]:
    if usual.dtype not in FLOATS:
        return np.asarray(np.abs(usual.codes.astype(np.int64) - other.codes.astype(np.int64)))
    return ulp_distance(canonical(usual.codes, usual.dtype), canonical(other.codes, other.dtype), usual.dtype)


def _by_denormals(judged: Judged, usual: Tensor, other: Tensor) -> NDArray[np.bool_]:
    """The mask of values whose difference the treatment of subnormal numbers may explain.

    Either one result is subnormal and the other zero. Or the scale is subnormal, and one result is what a scale of zero gives:
    zero, or NaN where x is infinite.
    """
    if usual.dtype not in FLOATS:
        return np.zeros(usual.shape, np.bool_)
    a, b = (canonical(tensor.codes, tensor.dtype) for tensor in (usual, other))
    zeros = [is_zero(codes, usual.dtype) for codes in (a, b)]
    flushed = (is_subnormal(a, usual.dtype) & zeros[1]) | (is_subnormal(b, usual.dtype) & zeros[0])
    if judged.judgement.verdict == "forbidden" or "scale" not in judged.call.tensors:
        return np.asarray(flushed)
    operands = judged.contract.operands(judged.call)
    scale = np.broadcast_to(_subnormal_scale(operands.codes["scale"], operands.dtypes["scale"]), usual.shape)
    nothing = [zero | _is_nan(codes, usual.dtype) for zero, codes in zip(zeros, (a, b), strict=True)]
    return np.asarray(flushed | (scale & (nothing[0] | nothing[1])))


def _subnormal_scale(codes: NDArray[Any], dtype: str) -> NDArray[np.bool_]:
    """The mask of subnormal scales. For float8_e8m0fnu, it is the scale that is subnormal in float32."""
    if dtype in FLOATS:
        return is_subnormal(codes, dtype)
    return np.asarray(np.abs(values(dtype, codes)) < smallest_normal("float32"))


def _is_nan(codes: NDArray[np.unsignedinteger], dtype: str) -> NDArray[np.bool_]:
    return np.asarray(ulp_distance(codes, np.zeros_like(codes), dtype) < 0)
