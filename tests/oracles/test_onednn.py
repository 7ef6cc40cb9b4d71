"""oneDNN through its C functions: calls reach the library unchanged, and so do results come back."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import exact
import numpy as np
import pytest
from folders import ROOT
from native_compiler import compiled
from scripts_run import scaled

from xverify import contracts
from xverify.contracts import documents
from xverify.core.call import BEHIND, LAYOUTS, Call, Outcome, Tensor, encode_call
from xverify.core.dtypes import tensor
from xverify.oracles import all_oracles, installed_version, onednn_graph_api, onednn_library
from xverify.oracles.arrays import hand_out
from xverify.oracles.onednn_graph_api import DATA_TYPES, Library, NoLibraryError, UnsupportedError
from xverify.oracles.onednn_graphs import Framed, packed
from xverify.report import script
from xverify.workers.worker import Worker

ORACLE = all_oracles()["onednn"]
DYNAMIC, STATIC = "onednn/DynamicDequantize-1@multiply", "onednn/Dequantize-1@3.0"

pytestmark = pytest.mark.skipif(installed_version(ORACLE) is None, reason="onednn-cpu-gomp is not installed")

Ask = Callable[[Call], Outcome]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Send calls to a worker, which starts a new process after a crash."""
    worker = Worker(ORACLE, tmp_path_factory.mktemp("onednn"))
    worker.start()
    yield lambda call: worker.ask(encode_call(call))
    worker.stop()


def call(contract: str, x: Tensor, scale: Any, zero_point: Tensor | None = None, **attributes: Any) -> Call:
    tensors = {"x": x, "scale": scale if isinstance(scale, Tensor) else tensor("float32", scale)}
    return Call(contract, tensors | ({"zero_point": zero_point} if zero_point else {}), attributes)


def values(outcome: Outcome) -> list[Any]:
    assert outcome.tensor is not None, (outcome.kind, outcome.error, outcome.message)
    assert (outcome.tensor.dtype, outcome.notes) == ("float32", ())
    return outcome.tensor.codes.view(np.float32).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("z_dtype", ["", "int8", "uint8", "int32"])
@pytest.mark.parametrize("x_dtype", ["int8", "uint8"])
def test_every_code_per_tensor(ask: Ask, x_dtype: str, z_dtype: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    scale, number = np.float32(0.1), 3 if z_dtype else 0
    zero_point = tensor(z_dtype, [number]) if z_dtype else None
    got = values(ask(call(DYNAMIC, Tensor(x_dtype, codes), [scale], zero_point)))
    for code, value in enumerate(got):
        due = (exact.decode(x_dtype, code) - number) * Fraction(float(scale))  # type: ignore[operator]
        assert np.float32(value).view(np.uint32) == exact.round_to("float32", due), code


@pytest.mark.parametrize("x_dtype", ["int8", "uint8"])
def test_every_code_of_the_static_operation(ask: Ask, x_dtype: str) -> None:
    scale = np.float32(0.1)
    got = values(ask(call(STATIC, Tensor(x_dtype, np.arange(256, dtype=np.uint8)), [scale], tensor("int32", [-7]))))
    for code, value in enumerate(got):
        due = (exact.decode(x_dtype, code) + 7) * Fraction(float(scale))  # type: ignore[operator]
        assert np.float32(value).view(np.uint32) == exact.round_to("float32", due), code


X = tensor("int8", [[-3, -2, 5], [0, 4, 127]])


def test_per_channel_along_every_axis(ask: Ask) -> None:
    """Parameters differ along the axis. An absent axis means 1."""
    columns = [[-1.5, -2.0, 20.0], [0.0, 4.0, 508.0]]
    rows = [[-1.5, -1.0, 2.5], [0.0, 8.0, 254.0]]
    assert values(ask(call(DYNAMIC, X, [0.5, 1, 4], qtype="per_channel"))) == columns
    assert values(ask(call(DYNAMIC, X, [0.5, 1, 4], qtype="per_channel", axis=1))) == columns
    assert values(ask(call(DYNAMIC, X, [0.5, 2], qtype="per_channel", axis=0))) == rows
    zps = tensor("int32", [1, 1, 1])
    shifted = [[-2.0, -3.0, 16.0], [-0.5, 3.0, 504.0]]
    assert values(ask(call(STATIC, X, [0.5, 1, 4], zps, qtype="per_channel", axis=1))) == shifted


def test_elements_that_keep_two_patterns_were_never_written() -> None:
    runs: list[int] = []

    def run(written: int, address: int) -> None:
        runs.append(address)
        out = np.ctypeslib.as_array((ctypes.c_uint8 * 8).from_address(address))
        out[:written] = 0xB7  # equal to the first pattern

    for written, notes in ((8, ()), (4, ("never-written",))):
        framed = Framed(packed("float32", (2,)))
        framed.written_by(partial(run, written))
        assert framed.notes() == notes
    assert len(runs) == 4
    plain = Framed(packed("float32", (2,)))
    plain.written_by(lambda address: runs.append(ctypes.memset(address, 0, 8)))
    assert (len(runs), plain.notes()) == (5, ()), "a second run costs time, and only follows a pattern that was kept"


@pytest.mark.parametrize("shape", [(), (1,), (2, 0, 3), (5, 1, 7), (1, 2, 1, 2, 1, 3)])
@pytest.mark.parametrize("contract", [DYNAMIC, STATIC])
def test_shapes(ask: Ask, contract: str, shape: tuple[int, ...]) -> None:
    x = tensor("int8", np.arange(np.prod(shape, dtype=int)).reshape(shape) - 9)
    outcome = ask(call(contract, x, [0.5], tensor("int32", [0])))
    assert outcome.tensor is not None
    assert outcome.tensor.shape == shape
    assert values(outcome) == ((x.codes.view(np.int8) * 0.5).tolist())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_x(ask: Ask, layout: str) -> None:
    codes = (
        np.array([[250] * 4, [3] * 4], np.uint8)
        if layout == "broadcast"
        else np.arange(8, dtype=np.uint8).reshape(2, 4)
    )
    expected = (codes.view(np.int8) * 0.5).tolist()
    for contract in (DYNAMIC, STATIC):
        assert values(ask(call(contract, Tensor("int8", codes, layout), [0.5], tensor("int32", [0])))) == expected


def test_what_the_library_is_given() -> None:
    """Strides that a logical tensor can express, otherwise a copy. The static operation gets lists."""

    def given(layout: str, dtype: str = "int32") -> tuple[bool, tuple[int, ...]]:
        zero_point = tensor(dtype, [5, 6, 7], layout)
        one = call(DYNAMIC, X, [1, 2, 3], zero_point, qtype="per_channel")
        handed = hand_out(one)
        operands, operation = onednn_library.question(one, handed)
        assert operands[2].tolist() == [5, 6, 7]
        return operands[2] is handed["zero_point"], operation.inputs[2].strides

    assert given("C") == given("offset") == given("read-only") == (True, (1,))
    assert given("strided") == (True, (2,))
    assert given("reversed") == (False, (1,))
    assert given("misaligned") == (False, (1,))
    assert given("misaligned", "int8") == (True, (1,))
    matrix = call(DYNAMIC, Tensor("int8", X.codes, "F"), [1])
    assert onednn_library.question(matrix, hand_out(matrix))[1].inputs[0].strides == (1, 2)
    static = call(STATIC, X, [0.5, 2], tensor("int64", [2**40, -1]), qtype="per_channel", axis=-2)
    operands, operation = onednn_library.question(static, hand_out(static))
    assert len(operands) == 1
    assert (operation.scales, operation.zps, operation.axis) == ((0.5, 2.0), (2**40, -1), -2)


REFUSED = [
    ("RefusedError", call(DYNAMIC, X, tensor("float16", [1]))),
    ("RefusedError", call(DYNAMIC, X, [1], tensor("float32", [1]))),
    ("RefusedError", call(DYNAMIC, tensor("int32", [1]), [1])),
    ("RefusedError", call(DYNAMIC, X, [1, 2])),
    ("RefusedError", call(DYNAMIC, X, tensor("float32", 1))),
    ("RefusedError", call(DYNAMIC, X, [1], qtype="")),
    ("RefusedError", call(STATIC, X, [1], tensor("int32", [1, 2]))),
    ("TypeError", call(STATIC, X, [1], tensor("int8", [1]))),
    ("TypeError", call(STATIC, X, tensor("float16", [1]))),
    ("ValueError", call(STATIC, X, tensor("float32", 1))),
    ("ValueError", call(STATIC, X, [1], tensor("int32", 1))),
    ("TypeError", call(DYNAMIC, X, [1], block_size=2)),
]


@pytest.mark.parametrize(("error", "refused"), REFUSED)
def test_refusals(ask: Ask, error: str, refused: Call) -> None:
    outcome = ask(refused)
    assert (outcome.kind, outcome.error) == ("rejected", error), outcome.message
    assert outcome.message


def test_what_the_release_has_not_is_unsupported(ask: Ask) -> None:
    for x, scale in ((tensor("int4", [1]), [1]), (X, tensor("float8_e8m0fnu", [1.0]))):
        outcome = ask(call(DYNAMIC, x, scale))
        assert outcome.kind == "unsupported"
        assert "has no data type" in outcome.message
    assert ask(call(DYNAMIC, Tensor("int8", np.zeros((1,) * 13, np.uint8)), [1])).kind == "unsupported"


def test_an_exception_that_leaves_the_library_costs_one_call(ask: Ask) -> None:
    """oneDNN 3.2 throws through its C interface for a negative axis with one scale for each index."""
    one = tensor("int8", [1])
    outcome = ask(call(STATIC, one, [1], tensor("int32", [0]), qtype="per_channel", axis=-1))
    assert outcome.kind == "crash" or values(outcome) == [1.0]
    assert values(ask(call(STATIC, one, [1], tensor("int32", [0])))) == [1.0]


def test_compiled_partitions_are_kept_by_structure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scales distinguish partitions only of the static operation, where they are attributes."""
    made: list[onednn_graph_api.Operation] = []
    closed: list[Any] = []
    compile_one, close = Library.compile, onednn_graph_api.Compiled.close
    monkeypatch.setattr(Library, "compile", lambda self, one: made.append(one) or compile_one(self, one))
    monkeypatch.setattr(onednn_graph_api.Compiled, "close", lambda self: closed.append(self) or close(self))
    monkeypatch.setattr(onednn_library, "COMPILED", 3)
    answer = onednn_library.load().answer
    zero = tensor("int32", [0])
    for scale, count in ((1.0, 1), (2.0, 1), (3.0, 1)):
        assert values(_outcome(answer(call(DYNAMIC, X, [scale]), "")))[0][0] == -3 * scale
        assert len(made) == count
    for scale, count in ((1.0, 2), (2.0, 3), (2.0, 3)):
        assert values(_outcome(answer(call(STATIC, X, [scale], zero), "")))[0][0] == -3 * scale
        assert len(made) == count
    answer(call(DYNAMIC, X, [1], zero), "")
    assert (len(made), len(closed)) == (4, 1)
    answer(call(DYNAMIC, X, [1]), "")
    assert (len(made), len(closed)) == (5, 2)


def test_every_operand_of_a_graph_has_the_same_bytes_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scale comes from another operation. The library may read past its end."""
    behind: list[bytes] = []
    execute = Library.execute

    def recorded(self: Library, handle: Any, logical: Any, addresses: Any) -> None:
        if len(addresses) == 3:  # x, scale, output
            behind.append(ctypes.string_at(addresses[1] + 4, 16))
        execute(self, handle, logical, addresses)

    monkeypatch.setattr(Library, "execute", recorded)
    asked = replace(call(DYNAMIC, X, [2.0]), around=("scale<unsqueeze:0", "scale<squeeze:0"))
    for path in (onednn_library.APART, onednn_library.FUSED):
        assert values(_outcome(onednn_library.load().answer(asked, path)))[0][0] == -6.0
    assert behind == [bytes([BEHIND] * 16)] * 2


@pytest.mark.parametrize(("zero_point", "kind"), [(300, "unsupported"), (0, "tensor")])
def test_a_clamp_with_bounds_that_cross_is_not_asked_for(zero_point: int, kind: str) -> None:
    """The bounds are 0 and the highest result.

    The library ends the process, and its guide says nothing about them.
    """
    zero = tensor("int32", [zero_point])
    asked = replace(call(DYNAMIC, X, [0.5], zero), around=("y>clip:6",))
    outcome = _outcome(onednn_library.load().answer(asked, onednn_library.APART))
    assert (outcome.kind, "lower bound above the upper" in outcome.message) == (kind, kind == "unsupported")


def _outcome(answered: Tensor | Outcome) -> Outcome:
    assert isinstance(answered, Outcome)
    return answered


def test_the_version_is_that_of_the_library() -> None:
    found = Library(onednn_library.installed())
    assert found.version.split(".")[:2] == [str(part) for part in found.release]
    assert ORACLE.version == ""
    optional = onednn_library.with_option(ORACLE, onednn_library.installed())
    assert optional.version == found.version
    assert found.release == documents.onednn_release(), "the files of a wheel are called after the library's release"
    assert optional.judged_by == contracts.of_onednn(found.release) != ORACLE.judged_by
    assert optional.name == "onednn:" + onednn_library.installed()
    assert onednn_library.load(*optional.arguments).answer(call(DYNAMIC, X, [1]), "").tensor is not None


def test_a_path_that_is_no_onednn(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no file .*nowhere\.so"):
        onednn_library.with_option(ORACLE, str(tmp_path / "nowhere.so"))
    text = tmp_path / "libdnnl.so.3"
    text.write_text("no library")
    with pytest.raises(ValueError, match=r"can't be loaded"):
        onednn_library.with_option(ORACLE, str(text))
    source = tmp_path / "other.c"
    source.write_text("int nothing(void);\nint nothing(void) { return 0; }\n")
    other = compiled(source, tmp_path)
    with pytest.raises(ValueError, match="is no oneDNN: it has no symbol dnnl_version"):
        onednn_library.with_option(ORACLE, str(other))


VERSION_ONLY = """
struct version { int major, minor, patch; const char *hash; unsigned cpu, gpu; };
const struct version *dnnl_version(void);
const struct version *dnnl_version(void) { static struct version v = {MAJOR, MINOR, 0, 0, 2, 0}; return &v; }
"""


def test_releases_that_were_not_checked_are_refused(tmp_path: Path) -> None:
    for major, minor, said in ((2, 7, "2.7.0; the numbers"), (3, 99, "3.99.0; the numbers"), (3, 2, "built without")):
        source = tmp_path / f"release_{major}_{minor}.c"
        source.write_text(VERSION_ONLY.replace("MAJOR", str(major)).replace("MINOR", str(minor)))
        with pytest.raises(NoLibraryError, match=said):
            Library(str(compiled(source, tmp_path)))


def test_types_come_with_the_release_that_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(onednn_library.installed())
    logical = onednn_graph_api.LogicalTensor("float8_e5m2", (2,), (1,))
    if library.release >= (3, 4):
        assert library.logical(0, logical).data_type == 9
    monkeypatch.setattr(library, "release", (3, 3))
    with pytest.raises(UnsupportedError):
        library.logical(0, logical)
    numbers = [number for number, _ in DATA_TYPES.values()]
    assert len(set(numbers)) == len(numbers)


def test_no_wheel_is_a_sentence() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onednn_library, "DISTRIBUTIONS", ("no-such-distribution",))
        with pytest.raises(NoLibraryError, match="pip install no-such-distribution"):
            onednn_library.load()


def test_the_module_says_the_version() -> None:
    command = [sys.executable, "-m", "xverify.oracles.onednn_graph_api", onednn_library.installed()]
    root = str(ROOT)
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=root, env={**os.environ, "PYTHONPATH": ""}
    )
    assert done.stdout.count(".") == 2


def test_a_script_loads_the_library_that_a_finding_names() -> None:
    for name, arguments in (
        ("onednn", []),
        ("onednn:/no/libdnnl.so.3", ["/no/libdnnl.so.3"]),
        ("onednn==2026.1.0", []),
    ):
        subject = {"name": name, "version": "1", "role": "oracle", "options": ""}
        assert f"'arguments': {arguments}" in script.script_for(scaled("onednn", "2.0", subject=subject))
