"""The legal set of values that a user's kernel computes differently from the in-house kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xverify import contracts
from xverify.bench.cases import Case
from xverify.bench.data import Value
from xverify.core.call import Call, Tensor, code_dtype
from xverify.core.dtypes import decimal, hexadecimal
from xverify.verify.compare import compare
from xverify.verify.legal import legal_set


def mistake(case: Case, values: Sequence[Value]) -> str | None:
    """A sentence on the first value that ONNX's newest edition does not admit.

    It is "" if the edition admits all values, and None if it has no such call.
    """
    if not values:
        return ""

    def tensor(dtype: str, codes: Sequence[int]) -> Tensor:
        return Tensor(dtype, np.array(codes, code_dtype(dtype)))

    contract = contracts.get(contracts.newest())
    tensors = {
        "x": tensor(case.x_dtype, [v.x for v in values]),
        "scale": tensor(case.out_dtype, [v.scale for v in values]),
    }
    zero_points = [v.zero_point for v in values if v.zero_point is not None]
    if zero_points:
        tensors["zero_point"] = tensor(case.x_dtype, zero_points)
    call = Call(contract.id, tensors, {"axis": 0})  # each value is a channel of its own
    if contract.judge(call).verdict != "allowed":
        return None
    legal = legal_set(contract, call)
    wrong = np.flatnonzero(compare(legal, tensor(case.out_dtype, [v.got for v in values])).wrong)
    if not wrong.size:
        return ""
    value, due = values[wrong[0]], dict.fromkeys(int(codes[wrong[0]]) for codes in legal.distinct)
    offset = "" if value.zero_point is None else f" and zero point {decimal(case.x_dtype, value.zero_point)}"
    got, *right = (f"{decimal(case.out_dtype, c)} ({hexadecimal(case.out_dtype, c)})" for c in (value.got, *due))
    scale = decimal(case.out_dtype, value.scale)
    x = f"{case.x_dtype} {decimal(case.x_dtype, value.x)}"
    return f"{x} with scale {scale}{offset} becomes {got} instead of {' or '.join(right)}"
