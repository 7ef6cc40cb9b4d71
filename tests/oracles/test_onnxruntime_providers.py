"""ONNX Runtime's plug-in execution providers, and the rewrites that its optimised model shows.

The plug-in provider is ONNX Runtime's CPU provider under another name, so that no test needs a library of a vendor.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import sample_report
from scripts_run import run_file

from xverify.core.call import Call, Outcome, Tensor, encode_call
from xverify.core.dtypes import tensor
from xverify.core.errors import UsageError
from xverify.engine import select
from xverify.oracles import all_oracles, onnxruntime_cpu
from xverify.oracles.onnxruntime_cpu import BY_LIBRARY, NodeOf, ProviderError, option_arguments, rewriting, with_option
from xverify.oracles.protocol import REWRITTEN, Loaded
from xverify.report.script import script_for
from xverify.report.short_script import short_script
from xverify.workers.child import run_call

ORACLE = all_oracles()["onnxruntime"]
OFF, ALL = "graph optimization=off", "graph optimization=all"


def call_of(dtype: str, *around: str) -> Call:
    x = Tensor(dtype, np.arange(6, dtype=np.uint8).reshape(2, 3))
    return Call("ai.onnx/DequantizeLinear-21", {"x": x, "scale": tensor("float32", 0.5)}, around=around)


# -- names ------------------------------------------------------------------------------------------------


def test_a_library_is_named_without_its_folder(tmp_path: Path) -> None:
    library = tmp_path / "a=b: c"
    library.mkdir()
    library /= "my provider.so.1"
    library.touch()
    oracle = with_option(ORACLE, f"EP={library}")
    assert oracle.name == "onnxruntime:EP=my_provider.so.1"
    assert (oracle.arguments, oracle.library) == ((f"library={library}",), str(library))
    assert option_arguments(BY_LIBRARY + "lib.so") == ("library=lib.so",)


@pytest.mark.parametrize("path", ["", "nowhere.so", "/"])
def test_a_library_that_does_not_exist_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"there is no file .*after onnxruntime:EP= comes the path of"):
        with_option(ORACLE, BY_LIBRARY + path)


def test_two_libraries_of_one_name_are_refused(tmp_path: Path) -> None:
    libraries = [tmp_path / folder / "lib.so" for folder in "ab"]
    for library in libraries:
        library.parent.mkdir()
        library.touch()
    with pytest.raises(UsageError, match=r"two files give the name onnxruntime:EP=lib\.so"):
        select.oracles_named([f"onnxruntime:EP={library}" for library in libraries], None)


# -- loading ----------------------------------------------------------------------------------------------


class Device(SimpleNamespace):
    ep_name: str


class PlugIn:
    """Makes ONNX Runtime register a provider that takes some types of x only."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, takes: tuple[str, ...], devices: int = 2) -> None:
        import onnxruntime as ort

        self.takes = {onnx.TensorProto.DataType.Value(name) for name in takes}
        self.registered: list[tuple[str, str]] = []
        self.models: list[onnx.ModelProto] = []
        self.session, listed = ort.InferenceSession, [Device(ep_name="CPUExecutionProvider")]

        def register(name: str, path: str) -> None:
            self.registered.append((name, path))
            listed.extend([Device(ep_name=name)] * devices)

        class Options(ort.SessionOptions):  # type: ignore[misc]
            def add_provider_for_devices(self, chosen: list[Device], options: dict[str, str]) -> None:
                self.added = chosen

        monkeypatch.setattr(ort, "register_execution_provider_library", register)
        monkeypatch.setattr(ort, "get_ep_devices", lambda: list(listed))
        monkeypatch.setattr(ort, "SessionOptions", Options)
        monkeypatch.setattr(ort, "InferenceSession", self.make)

    def make(self, model: bytes, options: Any, providers: Any, **keywords: Any) -> Any:
        assert (providers, keywords) == (None, {"enable_fallback": 0, "disabled_optimizers": ["ConstantFolding"]})
        assert len(options.added) == 1
        self.models.append(onnx.load_model_from_string(model))
        try:
            alone = options.get_session_config_entry("session.disable_cpu_ep_fallback") == "1"
        except RuntimeError:
            alone = False
        graph = self.models[-1].graph
        types = [i.type.tensor_type.elem_type for i in graph.input] + [i.data_type for i in graph.initializer]
        if alone and not self.takes & set(types):
            raise RuntimeError("the node was assigned to the CPU provider")
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "0")
        session = self.session(model, options, providers=["CPUExecutionProvider"])
        session.get_providers = lambda: [options.added[0].ep_name, "CPUExecutionProvider"]
        return session


def load(path: str = "/x/lib y.so") -> Loaded:
    return onnxruntime_cpu.load("library=" + path)


def test_only_the_plug_in_provider_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in = PlugIn(monkeypatch, ("INT8",))
    loaded = load()
    assert plug_in.registered == [("lib y", "/x/lib y.so")]
    outcome = run_call(loaded, encode_call(call_of("int8")), "")
    assert outcome.same(Outcome("tensor", tensor("float32", np.arange(6).reshape(2, 3) / 2)))
    shape = plug_in.models[-1].graph.input[0].type.tensor_type.shape
    assert [extent.dim_value for extent in shape.dim] == [2, 3]
    for call, path in ((call_of("uint8"), ""), (call_of("uint8", "y>transpose:0"), ALL)):
        outcome = run_call(loaded, encode_call(call), path)
        assert (outcome.kind, outcome.message) == ("unsupported", "lib y has no kernel for this call")


def test_a_provider_without_the_operator_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    PlugIn(monkeypatch, ())
    with pytest.raises(
        ProviderError, match=r"^lib y takes no DequantizeLinear: only the CPU provider would compute it$"
    ):
        load()


def test_a_provider_without_a_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    PlugIn(monkeypatch, ("INT8",), devices=0)
    with pytest.raises(ProviderError, match=r"registered lib y.so, but the provider offers no device"):
        load()


def test_a_release_that_registers_no_libraries_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime as ort

    monkeypatch.delattr(ort, "register_execution_provider_library")
    with pytest.raises(ProviderError, match=rf"onnxruntime {ort.__version__} cannot register .*release 1\.23 can"):
        load()


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("not a library")
    with pytest.raises(ProviderError, match=r"cannot register text\.so: Failed to load library"):
        load(str(tmp_path / "text.so"))


# -- scripts ----------------------------------------------------------------------------------------------


def shown(name: str) -> dict[str, Any]:
    x = sample_report.tensor("int8", [1], ["3"], ["0x03"])
    scale = sample_report.tensor("float32", [], ["0.5"], ["0x3f000000"])
    witness = {
        "call": sample_report.call("ai.onnx/DequantizeLinear-25", {"x": x, "scale": scale}),
        "got": sample_report.gave("float32", [1], ["1.5"], ["0x3fc00000"]),
        "legal": [sample_report.wrong([0], ("1.5", "0x3fc00000"), ("2.0", "0x40000000", ["exact"]))],
    }
    subject = {"name": name, "version": "1", "role": "oracle", "options": ""}
    edition = "ai.onnx/DequantizeLinear-25"
    return sample_report.finding("violation", name, edition, "formula", "a summary", witness, subject=subject)


@pytest.mark.parametrize("name", ["onnxruntime:EP=lib.so", "onnxruntime:EP=lib.so[threads=2]==1.24.1"])
def test_a_script_uses_the_library_beside_it(name: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(script_for(shown(name)))
    status, stdout, _ = run_file(script)
    assert (status, "there is no file lib.so here; give its path as the argument" in stdout) == (3, True), stdout
    (tmp_path / "lib.so").write_text("not a library")
    status, stdout, _ = run_file(script)
    assert (status, f"Failed to load library {tmp_path}/lib.so" in stdout) == (3, True), stdout
    short = str(short_script(shown(name)))
    assert 'register_execution_provider_library("lib", library)' in short
    assert "providers=" not in short


# -- rewrites ---------------------------------------------------------------------------------------------


def nodes(*described: str) -> list[NodeOf]:
    """Nodes such as "x Relu y"."""
    return [
        NodeOf(operator, (source, target), tuple(axis)) for source, operator, target, *axis in map(str.split, described)
    ]


BEFORE = nodes("x DequantizeLinear a", "a MaxPool b", "b QuantizeLinear y")


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (BEFORE, ""),
        (nodes("x MaxPool y"), "rewrites DequantizeLinear, MaxPool, QuantizeLinear to MaxPool"),
        (BEFORE[:2], "removes QuantizeLinear"),
        ([*BEFORE, *nodes("y Cast z")], "adds Cast"),
        ([*nodes("x DequantizeLinear q", "q Cast a"), *BEFORE[1:]], "adds Cast"),
        ([*nodes("x DequantizeLinear q", "q MaxPool b"), *BEFORE[2:]], ""),
        ([*nodes("x DequantizeLinear a 1"), *BEFORE[1:]], "changes the attributes of DequantizeLinear"),
        (nodes(*(f"{i} Relu {i}" for i in range(7))),
         "rewrites DequantizeLinear, MaxPool, QuantizeLinear to Relu, Relu, Relu, Relu, Relu, ..."),
    ],
)  # fmt: skip
def test_a_rewrite_names_the_nodes_that_changed(after: list[NodeOf], words: str) -> None:
    assert rewriting(BEFORE, after) == words


def test_the_optimised_model_names_the_rewrite(tmp_path: Path) -> None:
    """The same scale and zero point quantize and dequantize, so ONNX Runtime leaves one DequantizeLinear."""
    loaded = onnxruntime_cpu.load()
    x, scale = Tensor("uint8", np.arange(6, dtype=np.uint8).reshape(2, 3)), tensor("float32", 0.5)
    tensors = {"x": x, "scale": scale, "zero_point": tensor("uint8", 2)}
    around = ("y>requantize:0", "constant:scale", "constant:zero_point")
    blob = encode_call(Call("ai.onnx/DequantizeLinear-21", tensors, around=around))
    for path, words in ((OFF, ""), (ALL, "removes QuantizeLinear, DequantizeLinear"), ("no such path", "")):
        outcome = run_call(loaded, blob, REWRITTEN + path, str(tmp_path))
        assert (outcome.kind, outcome.message) == ("rewrite", words)
    assert list(tmp_path.iterdir()) == []
    assert run_call(Loaded(loaded.answer), blob, REWRITTEN + ALL, str(tmp_path)).message == ""
