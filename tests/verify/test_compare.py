"""The comparator passes the battery, and the battery's cases test what their names say."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from comparator_battery import (
    CASES,
    Case,
    check_case,
    check_every_code,
    check_given,
    check_kept_subnormals,
    check_layouts,
    check_shared_arrays,
    check_wrong_kind,
    shapes_of,
)

from xverify.core.call import BITS


@pytest.fixture(scope="module")
def real() -> SimpleNamespace:
    """Return the installed modules."""
    from xverify.core import bits, rounding
    from xverify.verify import compare, legal

    return SimpleNamespace(bits=bits, rounding=rounding, legal=legal, compare=compare)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_cases(case: Case, real: SimpleNamespace) -> None:
    for shape in shapes_of(case):
        check_case(real, case, shape)


@pytest.mark.parametrize(
    "check",
    [check_wrong_kind, check_layouts, check_every_code, check_shared_arrays, check_kept_subnormals, check_given],
)
def test_checks(check: Callable[[SimpleNamespace], None], real: SimpleNamespace) -> None:
    check(real)


def test_expectations_of_the_cases_follow_from_the_definition() -> None:
    """Each case's expectation follows from the definition, code by code, as a third author states it."""
    for case in CASES:
        sign = 1 << (BITS[case.dtype] - 1)
        mantissa = {"float32": 23, "float16": 10, "bfloat16": 7}[case.dtype]
        infinity = (sign - 1) >> mantissa << mantissa
        for place, code in enumerate(case.got):
            legal = {reading[place] for reading in case.readings}
            nan = code % sign > infinity
            inside = code in legal or (nan and any(c % sign > infinity for c in legal))
            subnormal = any(0 < c % sign < 1 << mantissa for c in legal)
            flushed = not inside and subnormal and code % sign == 0 and any(c // sign == code // sign for c in legal)
            got = place in case.wrong, place in case.flushed
            assert got == (not inside and not flushed, flushed), f"{case.name} at {place}"
