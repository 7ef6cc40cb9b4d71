"""ONNX Runtime's paths: each does what its name says, and gives the bits of the plain path."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sample_report
from scripts_run import run_file

from xverify import contracts
from xverify.core.call import Call, Outcome, Tensor, decode_call, encode_call
from xverify.oracles import all_oracles, onnxruntime_cpu
from xverify.oracles.arrays import from_array, numpy_dtype
from xverify.oracles.onnxruntime_cpu import PARALLEL, ROUTES, with_option
from xverify.oracles.protocol import Loaded, Oracle
from xverify.report.script import script_for
from xverify.report.short_script import short_script
from xverify.strategies.large import large_structures
from xverify.strategies.structures import build
from xverify.workers.case import Case
from xverify.workers.pool import WorkerPool
from xverify.workers.worker import Worker

ORACLE = all_oracles()["onnxruntime"]


def tensor(dtype: str, values: Any) -> Tensor:
    return Tensor(dtype, from_array(np.asarray(values).astype(numpy_dtype(dtype))).codes)


def linear(contract: str, x: Tensor, scale: Tensor, zero_point: Tensor | None = None, **attributes: Any) -> Call:
    tensors = {"x": x, "scale": scale} | ({} if zero_point is None else {"zero_point": zero_point})
    return Call(contract, tensors, attributes)


def per_tensor(values: int = 5, zero_point: int = 3) -> Call:
    return linear(
        "ai.onnx/DequantizeLinear-21",
        tensor("uint8", np.arange(values) % 251),
        tensor("float32", 0.1),
        tensor("uint8", zero_point),
    )


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    started = Worker(ORACLE, tmp_path_factory.mktemp("workers"))
    started.start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    return onnxruntime_cpu.load()


def test_every_way_is_a_path_and_the_plain_one_takes_every_call() -> None:
    assert [path.options for path in ORACLE.paths] == list(ROUTES)
    assert (ORACLE.paths[0].options, ORACLE.paths[0].share) == ("", 1.0)
    assert {path.options for path in ORACLE.paths if path.large} == {"threads=4"}


CALLS = {
    "2-bit codes, packed": linear(
        "ai.onnx/DequantizeLinear-25", tensor("int2", [1, -2, 0, -1, 1]), tensor("float32", 0.3), tensor("int2", -1)
    ),
    "float8 to float16": linear(
        "ai.onnx/DequantizeLinear-23", tensor("float8_e4m3fn", [1, -448, 0.25]), tensor("float16", 0.3)
    ),
    "blocked 4-bit codes": linear(
        "ai.onnx/DequantizeLinear-21", tensor("int4", np.arange(30).reshape(3, 10) % 15 - 7),
        tensor("float32", np.arange(1, 10).reshape(3, 3) / 3), tensor("int4", np.arange(9).reshape(3, 3) - 4),
        axis=-1, block_size=4,
    ),
    "com.microsoft per axis": linear(
        "com.microsoft/DequantizeLinear-1@installed", tensor("int16", np.arange(12).reshape(3, 4) * 2000),
        tensor("float32", [0.1, 0.2, 0.3]), tensor("int16", [7, 8, 9]), axis=0,
    ),
    "no dimensions": per_tensor(),
    "no values": linear("ai.onnx/DequantizeLinear-13", tensor("int8", np.zeros((2, 0))), tensor("float32", 0.5)),
    "seventy-four thousand values": per_tensor(PARALLEL + 1000),
}  # fmt: skip


@pytest.mark.parametrize("path", [name for name in ROUTES if name])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_path_gives_the_plain_bits(call: Call, path: str, worker: Worker) -> None:
    plain, other = (worker.ask(encode_call(call), options) for options in ("", path))
    assert plain.kind == "tensor", plain
    assert plain.same(other), other
    assert other.notes == ()


@pytest.mark.parametrize("path", [name for name in ROUTES if name])
def test_a_refusal_is_one_on_every_path(path: str, worker: Worker) -> None:
    call = linear("ai.onnx/DequantizeLinear-21", tensor("int8", [1, 2]), tensor("float32", [1, 2, 3]), axis=0)
    assert [worker.ask(encode_call(call), options).kind for options in ("", path)] == ["rejected", "rejected"]


def nodes_left(call: Call, path: str, monkeypatch: pytest.MonkeyPatch, directory: Path) -> list[str]:
    """The operators in the optimised model that ONNX Runtime writes for a call on a path."""
    import onnx
    import onnxruntime as ort

    written = directory / "optimized.onnx"
    plain = ort.InferenceSession

    def writing(model: bytes, options: Any, **keywords: Any) -> Any:
        options.optimized_model_filepath = str(written)
        return plain(model, options, **keywords)

    monkeypatch.setattr(ort, "InferenceSession", writing)
    onnxruntime_cpu.load().answer(decode_call(encode_call(call)), path)
    return [node.op_type for node in onnx.load(str(written)).graph.node]


@pytest.mark.parametrize(
    ("path", "left"), [("all initializers", []), ("initializers", ["DequantizeLinear"]), ("", ["DequantizeLinear"])]
)
def test_a_call_of_constants_is_folded_by_the_optimiser(
    path: str, left: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert nodes_left(per_tensor(), path, monkeypatch, tmp_path) == left


@pytest.mark.parametrize(("path", "threads"), [("", 1), ("threads=4", 4)])
def test_threads_are_those_of_the_path(path: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime as ort

    plain, seen = ort.InferenceSession, []

    def watching(model: bytes, options: Any, **keywords: Any) -> Any:
        seen.append(options.intra_op_num_threads)
        return plain(model, options, **keywords)

    monkeypatch.setattr(ort, "InferenceSession", watching)
    onnxruntime_cpu.load().answer(per_tensor(), path)
    assert seen == [threads]


def test_a_bound_output_is_written_where_it_was(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    """The returned output is the array that was bound, which held other bytes."""
    import onnxruntime as ort

    bound = []
    plain = ort.IOBinding.bind_output

    def watching(self: Any, name: str, *others: Any) -> None:
        bound.append(others[-1])
        plain(self, name, *others)

    monkeypatch.setattr(ort.IOBinding, "bind_output", watching)
    outcome = loaded.answer(per_tensor(), "io binding")
    assert isinstance(outcome, Outcome)
    assert outcome.tensor is not None
    assert bound == [outcome.tensor.codes.ctypes.data]


def test_the_walk_has_calls_that_a_parallel_kernel_splits() -> None:
    """Calls of every type of x are large enough, and some have rows that are each large enough."""
    contract = contracts.get("ai.onnx/DequantizeLinear-25")
    missing, has_long_rows = set(contract.domain.x_dtypes), False
    for structure in large_structures(contract):
        if math.prod(structure.shape) >= PARALLEL:
            missing.discard(build(contract, structure).data.dtype)
            has_long_rows |= structure.shape[-1] >= PARALLEL and len(structure.shape) > 1
    assert has_long_rows
    assert not missing


def test_large_calls_take_the_path_of_several_threads_whatever_its_share(tmp_path: Path) -> None:
    contract = contracts.get("ai.onnx/DequantizeLinear-21")
    asked: list[tuple[int, str]] = []

    class Listening:
        """A worker that records its requests."""

        failed = None

        def submit(self, requests: Sequence[tuple[bytes, str]]) -> None:
            asked.extend((decode_call(blob).values, path) for blob, path in requests)

    pool = WorkerPool((ORACLE,), (contract,), tmp_path, lambda event: None, repeat_each=1000)
    pool.workers[ORACLE.name] = Listening()  # type: ignore[assignment]
    pool.send(contract, [Case(per_tensor(values), 1, "walk") for values in (PARALLEL - 1, PARALLEL)])
    assert [values for values, path in asked if path == "threads=4"] == [PARALLEL]


# -- execution providers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["", "cuda", "CUDA ExecutionProvider", "gpu,ExecutionProvider"])
def test_what_is_no_provider_is_said_at_once(option: str) -> None:
    with pytest.raises(ValueError, match="takes the name of an execution provider after the colon"):
        with_option(ORACLE, option)


def test_a_provider_is_an_oracle_of_its_own_with_the_distribution_that_has_it() -> None:
    oracle = with_option(ORACLE, "CUDAExecutionProvider")
    assert (oracle.name, oracle.distribution) == ("onnxruntime:CUDAExecutionProvider", "onnxruntime-gpu")
    assert with_option(ORACLE, "XnnpackExecutionProvider").distribution == "onnxruntime"
    assert oracle.judged_by == ORACLE.judged_by


def refused(oracle: Oracle, directory: Path) -> str:
    worker = Worker(oracle, directory)
    worker.start()
    while not worker.failed and not worker.ready:
        pass
    worker.stop()
    return str(worker.failed)


def test_a_provider_that_the_build_lacks_is_named_with_those_that_it_has(tmp_path: Path) -> None:
    sentence = refused(with_option(ORACLE, "NoSuchExecutionProvider"), tmp_path)
    assert "has no NoSuchExecutionProvider here; it has " in sentence
    assert "CPUExecutionProvider" in sentence


def test_a_provider_that_does_not_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is there, the device is not. ONNX Runtime then silently makes a session on the CPU."""
    import onnxruntime as ort

    known = [*ort.get_available_providers(), "CUDAExecutionProvider"]
    monkeypatch.setattr(ort, "get_available_providers", lambda: known)
    with (
        pytest.warns(UserWarning, match="not in available"),
        pytest.raises(RuntimeError, match="CUDAExecutionProvider does not start here"),
    ):
        onnxruntime_cpu.load("provider=CUDAExecutionProvider")


def test_the_cpu_does_not_stand_in_for_a_provider(tmp_path: Path) -> None:
    """This provider has no kernel for the operator, so any answer would be the CPU's."""
    import onnxruntime as ort

    name = "AzureExecutionProvider"
    if name not in ort.get_available_providers():
        pytest.skip(f"this build of onnxruntime has no {name}, the one in the plain wheel without the operator")
    worker = Worker(with_option(ORACLE, name), tmp_path)
    worker.start()
    try:
        outcomes = [worker.ask(encode_call(per_tensor()), path) for path in ROUTES if path != "all initializers"]
        wrong = linear("ai.onnx/DequantizeLinear-21", tensor("int8", [1]), tensor("int8", [1]))
        assert worker.ask(encode_call(wrong)).kind == "rejected"
    finally:
        worker.stop()
    assert {outcome.kind for outcome in outcomes} == {"unsupported"}


def test_the_cpu_provider_by_name_answers_as_the_plain_oracle_does(worker: Worker, tmp_path: Path) -> None:
    named = Worker(with_option(ORACLE, "CPUExecutionProvider"), tmp_path)
    named.start()
    try:
        assert named.ask(encode_call(per_tensor())).same(worker.ask(encode_call(per_tensor())))
    finally:
        named.stop()


# -- scripts ------------------------------------------------------------------------------------------------


def shown(name: str, path: str, dtype: str = "int8") -> dict[str, Any]:
    """A finding: 3 times 0.5 is 1.5 where 2 is expected."""
    x = sample_report.tensor(dtype, [1], ["3"], ["0x3" if dtype == "int4" else "0x03"])
    scale = sample_report.tensor("float32", [], ["0.5"], ["0x3f000000"])
    witness = {
        "call": sample_report.call("ai.onnx/DequantizeLinear-25", {"x": x, "scale": scale}),
        "got": sample_report.gave("float32", [1], ["1.5"], ["0x3fc00000"]),
        "legal": [sample_report.wrong([0], ("1.5", "0x3fc00000"), ("2.0", "0x40000000", ["exact"]))],
    }
    subject = {"name": name, "version": "1", "role": "oracle", "options": path}
    contract = "ai.onnx/DequantizeLinear-25"
    return sample_report.finding("violation", name, contract, "formula", "a summary", witness, subject=subject)


def ran(script: str | None, directory: Path) -> tuple[int, str]:
    path = directory / "script.py"
    path.write_text(str(script))
    status, stdout, stderr = run_file(path)
    return status, stdout + stderr


@pytest.mark.parametrize(
    ("name", "path", "dtype"),
    [
        ("onnxruntime", "io binding", "int4"),
        ("onnxruntime:CPUExecutionProvider[threads=2]", "all initializers", "int8"),
    ],
)
def test_scripts_take_the_path(name: str, path: str, dtype: str, tmp_path: Path) -> None:
    status, text = ran(script_for(shown(name, path, dtype)), tmp_path)
    assert (status, "got       1.5 (0x3fc00000)" in text) == (1, True), text


def test_a_short_script_binds_its_output(tmp_path: Path) -> None:
    script = short_script(shown("onnxruntime", "io binding", "int4"))
    assert "bind_output" in str(script)
    assert ran(script, tmp_path) == (0, "float32 (1,)\n1.5 0x3fc00000\n")


@pytest.mark.parametrize(
    ("name", "path", "sign"),
    [
        ("onnxruntime", "all initializers", 'disable_quant_qdq", "1"'),
        ("onnxruntime", "threads=4", "intra_op_num_threads = 4"),
        ("onnxruntime[threads=8]==1.17.0", "", "intra_op_num_threads = 8"),
        ("onnxruntime[denormals=zero]", "", 'set_denormal_as_zero", "1"'),
        ("onnxruntime:CUDAExecutionProvider", "", 'providers=["CUDAExecutionProvider"], enable_fallback=0'),
    ],
)
def test_short_scripts_ask_for_what_the_path_and_the_name_say(name: str, path: str, sign: str) -> None:
    script = str(short_script(shown(name, path)))
    assert sign in script
    assert sign not in str(short_script(shown("onnxruntime", "")))
    ast.parse(script)
