"""Results of other frameworks as arrays."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from python_calls import a_call, notes_of, plain

from xverify.oracles.arrays import UnreadableResultError
from xverify.oracles.dlpack import TYPE_CODES, DLTensor
from xverify.oracles.python_kernel import answerer
from xverify.oracles.results import _Versioned, as_array

BF16, CUDA = TYPE_CODES["bfloat"], 2


class Foreign:
    """A tensor of another framework over the memory of an array, which only DLPack can read."""

    def __init__(self, array: Any, code: int | None = None, versions: bool = True, device: int = 1) -> None:
        self.array, self.code, self.versions, self.device = array, code, versions, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __dlpack__(self, **keywords: Any) -> Any:
        if keywords and not self.versions:
            raise TypeError("unexpected keyword max_version")
        capsule = self.array.__dlpack__(**keywords)
        if self.code is not None:
            name = b"dltensor_versioned" if keywords else b"dltensor"
            pointer = ctypes.pythonapi.PyCapsule_GetPointer
            pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            address = pointer(capsule, name)
            tensor = _Versioned.from_address(address).tensor if keywords else DLTensor.from_address(address)
            tensor.dtype.code = self.code
        return capsule


def test_types_that_numpy_lacks_come_through_dlpack() -> None:
    """They share the memory of the tensor; without a version, it counts as read-only."""
    codes = np.arange(12, dtype=np.uint16).reshape(3, 4)
    for versions in (True, False):
        for array in (codes, codes.T, codes[1:, ::2], codes[:, 0], codes[0, 0, ...]):
            read = as_array(Foreign(array, BF16, versions))
            assert (read.dtype, read.shape, read.strides) == (np.dtype(ml_dtypes.bfloat16), array.shape, array.strides)
            assert np.shares_memory(read.view(np.uint16), codes)
            assert (read.view(np.uint16) == array).all()
            assert read.flags.writeable == versions
    assert not as_array(Foreign(np.frombuffer(bytes(4), np.float32))).flags.writeable
    eight = as_array(Foreign(np.arange(3, dtype=np.uint8), TYPE_CODES["float8_e5m2"]))
    assert eight.dtype == ml_dtypes.float8_e5m2
    assert as_array(Foreign(np.zeros((2, 0), np.float32))).shape == (2, 0)


def test_an_array_keeps_the_memory_of_its_tensor() -> None:
    read = as_array(Foreign(np.full(100_000, 3, np.float32)))
    gc.collect()
    np.full(100_000, 5, np.float32)
    assert (read == 3).all()


def test_a_tensor_is_detached_first() -> None:
    class Graded(Foreign):
        def detach(self) -> Any:
            return Foreign(self.array)

        def __dlpack__(self, **keywords: Any) -> Any:
            raise BufferError("use detach()")

    assert as_array(Graded(np.ones(2, np.float32))).tolist() == [1, 1]


def test_a_tensor_that_dlpack_cannot_read_is_read_through_array() -> None:
    class Both(Foreign):
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return self.array.copy()

    assert as_array(Both(np.ones(2, np.float32), device=CUDA)).tolist() == [1, 1]
    assert as_array(Both(np.ones(2, np.uint32), code=99)).dtype == np.uint32


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (Foreign(np.ones(2, np.float32), device=CUDA), r"Foreign \(its memory is on a device: CUDA\); return a NumPy"),
        (Foreign, "of type type; "),
        (SimpleNamespace(__array__=lambda: np.array([None])), "SimpleNamespace .*; return"),
        (Foreign(np.ones(2, np.float32), code=99), "Foreign; return"),
    ],
)
def test_the_message_names_the_type_and_what_to_return(result: Any, words: str) -> None:
    with pytest.raises(UnreadableResultError, match=words):
        as_array(result)


@pytest.mark.parametrize(
    ("kernel", "notes"),
    [
        (lambda *operands: Foreign(plain(*operands)), ()),
        (lambda x, scale, zero_point: Foreign(x), ("output-aliases-input",)),
    ],
)
def test_memory_is_watched_through_dlpack(kernel: Callable[..., Any], notes: tuple[str, ...]) -> None:
    assert notes_of(kernel) == [notes]


def test_a_buffer_of_its_own_is_seen_through_dlpack() -> None:
    buffer = np.zeros(5, np.float32)
    filled = []

    def kernel(*operands: Any) -> Any:
        if not filled:
            buffer[:] = plain(*operands)
            filled.append(True)
        return Foreign(buffer)

    assert notes_of(kernel) == [("internal-buffer",)]


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_a_bfloat16_tensor_of_a_framework_is_read(name: str) -> None:
    framework = pytest.importorskip(name)
    arrays = {
        "torch": lambda: framework.arange(4, dtype=framework.float32, requires_grad=True).to(framework.bfloat16),
        "jax": lambda: framework.numpy.arange(4, dtype=framework.numpy.bfloat16),
    }
    made = arrays[name]()
    read = as_array(made)
    assert read.dtype == ml_dtypes.bfloat16
    assert read.astype(int).tolist() == [0, 1, 2, 3]
    assert read.flags.writeable == (name == "torch")
    answered: Any = answerer(lambda *operands: made)(a_call(), "")
    assert answered.tensor.dtype == "bfloat16"
