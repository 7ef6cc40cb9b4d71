"""The gate with an edition whose zero points are float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import ml_dtypes
import numpy as np
import pytest
from folders import SUPPORT

from xverify.testing import KernelError, verify_kernel

EDITION = str(SUPPORT / "float_zero_point_edition.py")
FEW = hypothesis.settings(max_examples=1, database=None, derandomize=True)
Kernel = Callable[..., np.ndarray]


def kernel(compute: Kernel) -> Kernel:
    """A kernel that refuses forbidden calls, and computes the others by a function of x, z and s."""

    def checked(x: Any, scale: Any, zero_point: Any = None, **attributes: Any) -> np.ndarray:
        types = x.dtype == np.uint8 and scale.dtype == np.float32
        if (
            not types
            or zero_point is None
            or zero_point.dtype != np.float32
            or attributes.keys() - {"axis", "out_dtype"}
        ):
            raise ValueError("the types")
        if scale.shape or zero_point.shape or attributes.get("axis") is not None:
            raise ValueError("the shapes")
        with np.errstate(all="ignore"):
            return np.asarray(compute(x.astype(np.float32), zero_point, scale), np.float32).reshape(x.shape)

    return checked


def verify(compute: Kernel) -> None:
    verify_kernel(kernel(compute), EDITION, settings=FEW)


def test_a_kernel_that_computes_in_float32_passes():
    verify(lambda x, z, s: (x - z) * s)


@pytest.mark.parametrize(
    ("compute", "recipe"),
    [
        (lambda x, z, s: (x - np.rint(z)) * s, "subtracts the zero point rounded to a whole number"),
        (
            lambda x, z, s: (x - z.astype(np.int32).astype(np.float32)) * s,
            "subtracts the zero point truncated to int32",
        ),
        (lambda x, z, s: (x - z.astype(np.float16).astype(np.float32)) * s, "casts x and the zero point to float16"),
        (lambda x, z, s: (x - z.astype(ml_dtypes.bfloat16).astype(np.float32)) * s, "the zero point to bfloat16"),
        (lambda x, z, s: x * s - z * s, "computes x * scale - zero point * scale, each step rounded to float32"),
        (lambda x, z, s: x * s, "ignores the zero point"),
    ],
)
def test_the_recipe_of_a_wrong_kernel_is_named(compute, recipe):
    with pytest.raises(KernelError, match=recipe.replace("*", r"\*")):
        verify(compute)
