"""The flawed native kernels compile, and have the fault that the table states."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from flawed_kernels.table import FLAWED, ONNX, SOUND
from folders import FLAWED_KERNELS
from native_compiler import compiled

from xverify.core.call import Call, Tensor
from xverify.oracles.native_kernel import load
from xverify.oracles.xverify_numpy import load as load_in_house

TARGETS = {
    target.partition(":")[2]: target.partition(":")[0] for target in (kernel.target for kernel in [*SOUND, *FLAWED])
}
NATIVE = {name for name, file in TARGETS.items() if file.startswith("native/")}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """Return the shared library of each C file, compiled with warnings as errors."""
    folder = tmp_path_factory.mktemp("flawed")
    return {f"native/{path.name}": compiled(path, folder) for path in (FLAWED_KERNELS / "native").glob("*.c")}


def call(
    shape, *, dtype="int8", scale=0.1, scale_shape=(), zero_point=None, layout="C", layouts=("C", "C"), **attributes
):
    """Return a call with distinct codes, and with one scale or with scales that double (up to 2**8).

    Args:
        layouts: Of the scale and the zero point.
    """
    codes = (np.arange(np.prod(shape, dtype=int)) * 37 % (16 if dtype.endswith("4") else 256)).astype(np.uint8)
    scales = np.asarray(np.float32(scale) * 2.0 ** (np.arange(np.prod(scale_shape, dtype=int)) % 9), np.float32)
    tensors = {
        "x": Tensor(dtype, codes.reshape(shape), layout),
        "scale": Tensor("float32", scales.reshape(scale_shape).view(np.uint32), layouts[0]),
    }
    if zero_point is not None:
        zero_points = zero_point + np.arange(np.prod(scale_shape, dtype=int)) % 5
        tensors["zero_point"] = Tensor(dtype, zero_points.astype(np.uint8).reshape(scale_shape), layouts[1])
    return Call(ONNX, tensors, attributes)


DIFFERS = "other bits"
SHOWN = {
    "tail_never_written": (call((37,)), "never-written"),
    "tail_written_past_end": (call((3,)), "written-after-output"),
    "short_vector_before_start": (call((3,)), "written-before-output"),
    "seams_never_written": (call((4004,)), "never-written"),
    "never_written_from_65535": (call((65536,)), "never-written"),
    "vectors_fused": (call((256,), zero_point=77), DIFFERS),
    "scale_written": (call((3,)), "input-written"),
    "strides_ignored": (call((2, 3), layout="F"), DIFFERS),
    "byte_offset_ignored": (call((3,), layout="offset"), DIFFERS),
    "strides_taken_as_bytes": (call((2, 3), scale_shape=(3,)), DIFFERS),
    "address_aligned_down": (call((3,), layout="misaligned"), DIFFERS),
    "upper_nibble_first": (call((4,), dtype="int4"), DIFFERS),
    "rows_in_16_bits": (call((65537, 1)), "never-written"),
    "blocks_in_8_bits": (call((1, 514), scale_shape=(1, 257), block_size=2), DIFFERS),
    "pitch_ignored": (call((2, 3), layout="row-slice"), DIFFERS),
    "strides_of_scale_ignored": (call((2, 4), scale_shape=(2, 2), block_size=2, layouts=("F", "C")), DIFFERS),
    "zero_point_strided_like_scale": (
        call((2, 4), scale_shape=(2, 2), zero_point=1, block_size=2, layouts=("C", "F")),
        DIFFERS,
    ),
    "permutation_taken_as_transposed": (call((2, 3, 4), layout="permuted"), DIFFERS),
}
ENDS = {
    "tail_read_past_end": ((3,), None),
    "absent_zero_point_read": ((3,), None),
    "axis_used_on_scalars": ((), 0),
    "division_by_empty_extent": ((2, 0), 0),
}
SHOWN_APART = {"odd_rest_never_ends", "subnormals_flushed"}
SHOWN_BY_THE_GATE_ONLY = {"table_shared_by_threads"}
"""A kernel whose fault shows by chance only."""

IN_A_PROCESS_OF_ITS_OWN = """
import sys
import numpy as np
from xverify.oracles.native_kernel import load
from xverify.core.call import Call, Tensor
library, symbol, shape, scale, zero_point = sys.argv[1], sys.argv[2], *map(eval, sys.argv[3:])
tensors = {
    "x": Tensor("int8", np.full(shape, 3, np.uint8)),
    "scale": Tensor("float32", np.array(scale, np.float32).view(np.uint32)),
}
if zero_point is not None:
    tensors["zero_point"] = Tensor("int8", np.array(zero_point, np.uint8))
print(load(library, symbol).answer(Call("ai.onnx/DequantizeLinear-25", tensors), "").tensor.codes.tolist())
"""


def apart(library, name, shape, scale=0.5, zero_point=None):
    """Make one call in a process of its own. Return the process after its end.

    Raises:
        TimeoutExpired: It does not end within 3 s.
    """
    command = [sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN, str(library), name, repr(shape), repr(scale)]
    return subprocess.run(
        [*command, repr(zero_point)],
        cwd=FLAWED_KERNELS.parents[1],
        capture_output=True,
        text=True,
        timeout=3,
        check=False,
    )


def test_every_native_kernel_is_here():
    flawed = SHOWN.keys() | ENDS.keys() | SHOWN_APART | SHOWN_BY_THE_GATE_ONLY
    assert flawed == NATIVE - {"plain", "packed"}


def test_each_symbol_is_in_the_library_of_its_file(libraries):
    assert libraries.keys() == {TARGETS[name] for name in NATIVE}
    for name in NATIVE:
        load(str(libraries[TARGETS[name]]), name)


@pytest.mark.parametrize("name", SHOWN)
def test_a_flawed_kernel_differs_from_the_sound_one(name, libraries):
    asked, expected = SHOWN[name]
    sound_name = "packed" if TARGETS[name] == "native/packed.c" else "plain"
    sound = load(str(libraries[TARGETS[sound_name]]), sound_name)
    right = load_in_house().answer(asked, "").tensor
    outcome = sound.answer(asked, "")
    assert outcome.tensor.same_bits(right)
    assert outcome.notes == ()
    flawed = load(str(libraries[TARGETS[name]]), name).answer(asked, "")
    if expected == DIFFERS:
        assert not flawed.tensor.same_bits(right)
    else:
        assert expected in flawed.notes


@pytest.mark.parametrize("name", ENDS)
def test_a_call_ends_the_process(name, libraries):
    shape, zero_point = ENDS[name]
    ended = apart(libraries[TARGETS[name]], name, shape, zero_point=zero_point)
    assert ended.returncode < 0, ended.stderr
    ended = apart(libraries[TARGETS[name]], name, (8,), zero_point=1)
    assert ended.returncode == 0, ended.stderr


def test_a_call_never_ends(libraries):
    library = libraries["native/tails.c"]
    assert apart(library, "odd_rest_never_ends", (10,)).returncode == 0
    with pytest.raises(subprocess.TimeoutExpired):
        apart(library, "odd_rest_never_ends", (11,))


def test_subnormal_results_are_flushed(libraries):
    assert apart(libraries["native/plain.c"], "plain", (1,), scale=1e-40).stdout == "[214086]\n"
    assert apart(libraries["native/states.c"], "subnormals_flushed", (1,), scale=1e-40).stdout == "[0]\n"
