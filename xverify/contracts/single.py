"""The simplest call of an edition in which all values have the same operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from xverify.contracts.model import Contract
from xverify.core.call import Attribute, Call, Tensor, code_dtype

Number = tuple[str, int]
"""A dtype and one of its codes."""

Form = tuple[tuple[int, ...], tuple[int, ...], dict[str, Attribute]]
"""The shape of x, the shape of the parameters, and attributes."""

_BLOCKS = (32, 16, 64, 128, 256, 1, 8, 4, 2)
"""Block sizes to try in turn, as an edition may admit only one."""


def single_call(contract: Contract, operands: Mapping[str, Number], attributes: Mapping[str, Attribute]) -> Call:
    """A call whose values all have these operands, in the first form that the edition allows.

    Args:
        contract: The edition.
        operands: Dtype and code by role (x, scale, zero_point, or input, min_range, max_range).
        attributes: Further attributes of the call.

    Returns:
        The first allowed call, per tensor before other forms. If there is none, the first unspecified one, else the first.
    """
    calls = [_call(contract, operands, attributes, form) for form in _forms(contract)]
    verdicts = [contract.judge(call).verdict for call in calls]
    wanted = next((v for v in ("allowed", "unspecified") if v in verdicts), verdicts[0])
    return calls[verdicts.index(wanted)]


def _call(contract: Contract, operands: Mapping[str, Number], attributes: Mapping[str, Attribute], form: Form) -> Call:
    shape, parameters, extra = form
    tensors = {
        role: Tensor(dtype, np.full(shape if role in ("x", "input") else parameters, code, code_dtype(dtype)))
        for role, (dtype, code) in operands.items()
    }
    return Call(contract.id, tensors, {**attributes, **extra}, "one value")


def _forms(contract: Contract) -> Iterator[Form]:
    """The forms to try, one or several for each granularity."""
    domain = contract.domain
    per_channel: dict[str, Attribute] = {"qtype": "per_channel"} if "qtype" in domain.attributes else {}
    axis: dict[str, Attribute] = {"axis": 1} if "axis" in domain.attributes else {}
    if "per_tensor" in domain.granularities:
        yield (1,), (1,) if per_channel else (), {}
    if "per_axis" in domain.granularities:
        yield (1, 1), (1,), {**axis, **per_channel}
    if "blocked" in domain.granularities:
        for size in _BLOCKS:
            yield (1, size), (1, 1), {**axis, "block_size": size}
