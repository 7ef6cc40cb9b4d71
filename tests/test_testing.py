"""The gate inside a test suite: what verify_kernel says, what it remembers, and pytest's options."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import tomllib
import warnings
from datetime import date
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis.database import InMemoryExampleDatabase

import xverify
from xverify.core import fenv
from xverify.core.call import encode_call
from xverify.core.line import call_from_line
from xverify.engine.inline import Inline
from xverify.engine.select import UsageError
from xverify.gate import ledger_file
from xverify.gate.ledger import entry_from_finding
from xverify.testing import KernelError, NotVerifiedError, verify_call, verify_kernel

EDITION = "ai.onnx/DequantizeLinear-13"
NARROW = {"x_dtypes": ["uint8"], "granularity": ["per_tensor"]}
"""A domain whose walk takes seconds."""

TO_128 = f"{EDITION} x=uint8[]:80 scale=float32[]:3f800000"
ROOT = Path(__file__).parents[1]


def sound(x, scale, zero_point=None, **attributes):
    return xverify.dequantize_linear(x, scale, zero_point, contract=EDITION, backend="numpy", **attributes)


def wrong_at(code: int, counted: list | None = None):
    """A sound kernel but for one code of uint8, which gives 77."""

    def kernel(x, scale, zero_point=None, **attributes):
        if counted is not None:
            counted.append(x.shape)
        result = np.array(sound(x, scale, zero_point, **attributes))
        if x.dtype == np.uint8:
            result[x == code] = 77
        return result

    return kernel


def profile(**changes) -> settings:
    return settings(**{"max_examples": 25, "database": None, "derandomize": True, **changes})


def remembering(**changes) -> settings:
    return profile(derandomize=False, **{"database": InMemoryExampleDatabase(), **changes})


def kept(profile: settings) -> set[str]:
    return {line.decode() for lines in profile.database.data.values() for line in lines}


# -- what it says ------------------------------------------------------------------------------------------------


def test_a_sound_function_passes_and_is_asked_for_much():
    counted = []
    verify_kernel(wrong_at(-1, counted), EDITION, settings=profile(), **NARROW)
    assert len(counted) > 400


def test_a_wrong_function_is_shown_with_its_smallest_call_its_bits_its_clause_and_how_to_ask_again(capsys):
    before = {path.name for path in ROOT.joinpath("reports").glob("runs/*")}
    kernel = wrong_at(128)
    with pytest.raises(KernelError) as caught:
        verify_kernel(kernel, EDITION, settings=profile(), budget="20s", **NARROW)
    text = str(caught.value)
    assert "violation: " in text
    assert f"({EDITION}/formula)" in text
    assert "128 (0x80)" in text
    assert "legal: " in text
    assert "(0x" in text
    (again,) = {finding["line"] for finding in caught.value.findings if finding["verdict"] == "violation"}
    assert f"verify_call(kernel, {again!r})" in text
    assert call_from_line(again).values == 1
    with pytest.raises(KernelError, match="violation: "):
        verify_call(kernel, again)
    verify_call(sound, again)
    assert capsys.readouterr() == ("", "")
    assert {path.name for path in ROOT.joinpath("reports").glob("runs/*")} == before


def test_a_target_answers_in_a_process_of_its_own(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import os\nfrom test_testing import wrong_at\n"
        f"assert os.getpid() != {os.getpid()}\nkernel = wrong_at(128)\n"
        "def crashing(*operands, **attributes):\n    os.abort()\n",
        encoding="utf-8",
    )
    file.write_text(
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n" + file.read_text(encoding="utf-8")
    )
    target = f"{file}:kernel"
    with pytest.raises(KernelError) as caught:
        verify_call(target, TO_128)
    assert f"xverify replay '{TO_128}' --kernel {target} --was violation" in str(caught.value)
    with pytest.raises(KernelError, match="crash: "):
        verify_call(f"{file}:crashing", TO_128)


def test_what_is_not_verified_does_not_pass():
    def unfinished(x, scale, zero_point=None, **attributes):
        raise NotImplementedError

    def slow(*operands, **attributes):
        time.sleep(0.02)
        return sound(*operands, **attributes)

    with pytest.raises(NotVerifiedError, match="answered no call"):
        verify_kernel(unfinished, EDITION, settings=profile(), **NARROW)
    with pytest.raises(NotVerifiedError, match=r"give more time \(budget\)"):
        verify_kernel(slow, EDITION, budget=1.5, settings=profile(), **NARROW)
    with pytest.raises(NotVerifiedError, match="does not implement"):
        verify_call(unfinished, TO_128)
    with pytest.raises(KernelError, match="wrongly-rejected"):
        verify_call(unfinished, TO_128, strict=True)
    with pytest.raises(NotVerifiedError, match="no_such_module"):
        verify_call("no_such_module:kernel", TO_128)


def test_a_forbidden_call_must_be_refused():
    line = f"{EDITION} x=uint8[2]:00,01 scale=float32[3]:3f800000*3 axis=0"

    def obliging(x, scale, zero_point=None, **attributes):
        return np.zeros(x.shape, np.float32)

    verify_call(sound, line)
    with pytest.raises(KernelError, match="wrongly-accepted"):
        verify_call(obliging, line)


def test_options_say_what_is_right():
    def flushing(x, scale, zero_point=None, **attributes):
        result = np.array(sound(x, scale, zero_point, **attributes))
        result[np.abs(result) < np.finfo(np.float32).tiny] = 0
        return result

    line = f"{EDITION} x=uint8[]:01 scale=float32[]:00000001"
    with pytest.raises(KernelError):
        verify_call(flushing, line)
    verify_call(flushing, line, denormals="flush")
    with pytest.raises(KernelError, match="like='onnxruntime'"):
        verify_call(wrong_at(128), TO_128, like="onnxruntime")
    verify_call(sound, TO_128, like="onnxruntime")


def test_what_the_ledger_knows_passes_and_what_it_does_not_fails(tmp_path):
    ledger, counted = tmp_path / "ledger.toml", []
    with pytest.raises(KernelError) as caught:
        verify_kernel(wrong_at(128), EDITION, settings=profile(), **NARROW)
    for finding in caught.value.findings:
        ledger_file.accept(ledger, entry_from_finding(finding, "it is being mended", date.today()))
    verify_kernel(wrong_at(128, counted), EDITION, ledger=ledger, settings=profile(), **NARROW)
    assert len(counted) > 400

    def refusing(x, scale, zero_point=None, **attributes):
        if x.ndim == 5:
            raise ValueError("five are too many")
        return wrong_at(128)(x, scale, zero_point, **attributes)

    refusing.__qualname__ = wrong_at(128).__qualname__
    with pytest.raises(KernelError, match="wrongly-rejected"):
        verify_kernel(refusing, EDITION, ledger=ledger, settings=profile(), **NARROW)


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        ((3,), {}, "a TARGET or a function, not int"),
        ((sound, "ai.onnx/Nothing"), {}, "no contract matches"),
        ((sound,), {"budget": "soon"}, "a budget is a time"),
        ((sound,), {"x_dtypes": ["int7"]}, "'int7' is no type of x"),
        ((sound,), {"denormals": "no"}, "'keep' or 'flush'"),
        ((sound,), {"ledger": "none.toml"}, "there is no ledger none.toml"),
    ],
)
def test_a_mistake_in_the_arguments_is_one_sentence(arguments, options, sentence):
    with pytest.raises(UsageError, match=sentence):
        verify_kernel(*arguments, **options)


def test_a_line_that_is_none_is_one_sentence():
    with pytest.raises(UsageError, match="expected an edition"):
        verify_call(sound, "{}")


# -- Hypothesis ---------------------------------------------------------------------------------------------------


def test_what_the_walk_does_not_meet_hypothesis_draws():
    met: set[tuple[int, ...]] = set()

    def recording(x, scale, zero_point=None, **attributes):
        met.add(x.shape)
        return sound(x, scale, zero_point, **attributes)

    def wrong_elsewhere(x, scale, zero_point=None, **attributes):
        result = np.array(sound(x, scale, zero_point, **attributes))
        return result if x.shape in met else result + 77

    verify_kernel(recording, EDITION, settings=profile(phases=[Phase.explicit, Phase.reuse]), **NARROW)
    verify_kernel(wrong_elsewhere, EDITION, settings=profile(phases=[Phase.explicit, Phase.reuse]), **NARROW)
    with pytest.raises(KernelError) as caught:
        verify_kernel(wrong_elsewhere, EDITION, settings=profile(max_examples=100), **NARROW)
    assert {call_from_line(finding["line"]).data.shape in met for finding in caught.value.findings} == {False}


def test_a_kernel_that_is_right_when_asked_again_does_not_pass():
    met, wrong = set(), []

    def kernel(x, scale, zero_point=None, **attributes):
        result = np.array(sound(x, scale, zero_point, **attributes))
        if wrong and x.shape not in met and result.size and len(wrong) < 3:  # a call that is computed is made twice
            wrong.append(x.shape)
            return result + 77
        met.add(x.shape)
        return result

    verify_kernel(kernel, EDITION, settings=profile(phases=[Phase.reuse]), **NARROW)
    wrong.append(())
    with pytest.raises(KernelError, match="not deterministic"):
        verify_kernel(kernel, EDITION, settings=profile(max_examples=100), **NARROW)


def test_the_number_of_examples_is_that_of_the_suite():
    numbers = []
    for most in (1, 150):
        counted = []
        verify_kernel(wrong_at(-1, counted), EDITION, settings=profile(max_examples=most), **NARROW)
        numbers.append(len(counted))
    assert 150 <= numbers[1] - numbers[0] <= 320  # a call that is computed is made twice


def test_a_second_run_fails_at_once_on_what_was_saved():
    suite, counted = remembering(), []
    kernel = wrong_at(128, counted)
    with pytest.raises(KernelError):
        verify_kernel(kernel, EDITION, settings=suite, **NARROW)
    (line,) = kept(suite)
    asked = len(counted)
    counted.clear()
    start = time.monotonic()
    with pytest.raises(KernelError) as caught:
        verify_kernel(kernel, EDITION, settings=suite, **NARROW)
    assert time.monotonic() - start < 5
    assert call_from_line(line).data.shape == counted[0]
    assert {finding["line"] for finding in caught.value.findings} == {line}
    assert len(counted) < asked / 2


def test_what_no_longer_fails_is_forgotten():
    suite, broken = remembering(), [True]

    def kernel(x, scale, zero_point=None, **attributes):
        return (wrong_at(128) if broken else sound)(x, scale, zero_point, **attributes)

    with pytest.raises(KernelError):
        verify_kernel(kernel, EDITION, settings=suite, **NARROW)
    assert kept(suite)
    broken.clear()
    verify_kernel(kernel, EDITION, settings=suite, **NARROW)
    assert not kept(suite)


def test_no_test_takes_the_calls_of_another():
    suite = remembering()
    with pytest.raises(KernelError):
        verify_kernel(wrong_at(128), EDITION, settings=suite, **NARROW)
    saved = kept(suite)
    verify_kernel(sound, EDITION, settings=suite, **NARROW)
    now_right = wrong_at(-1)  # of the same name
    verify_kernel(now_right, EDITION.replace("13", "10"), settings=suite, **NARROW)
    verify_kernel(now_right, EDITION, settings=suite, denormals="flush", **NARROW)
    assert kept(suite) == saved
    verify_kernel(now_right, EDITION, settings=suite, **NARROW)
    assert not kept(suite)


def test_damaged_examples_are_dropped():
    suite = remembering()
    with pytest.raises(KernelError):
        verify_kernel(wrong_at(128), EDITION, settings=suite, **NARROW)
    (key,) = suite.database.data
    suite.database.save(key, b"\xff")
    suite.database.save(key, b"ai.onnx/DequantizeLinear-13 x=uint8[]:zz")
    with pytest.raises(KernelError):
        verify_kernel(wrong_at(128), EDITION, settings=suite, **NARROW)
    assert len(kept(suite)) == 1


def test_the_phases_of_the_suite_are_respected():
    suite = remembering()
    with pytest.raises(KernelError):
        verify_kernel(wrong_at(128), EDITION, settings=suite, **NARROW)
    counted = []
    with pytest.raises(KernelError):
        verify_kernel(wrong_at(128, counted), EDITION, settings=settings(suite, phases=[Phase.generate]), **NARROW)
    assert len(counted) > 200  # what was saved did not come first


# -- in this process ----------------------------------------------------------------------------------------------


def encoded(line: str = TO_128) -> bytes:
    return encode_call(call_from_line(line))


def flushes() -> bool:
    return bool(np.float32(2**-126) * np.float32(0.5) == 0)


@pytest.fixture
def flushing_environment(tmp_path):
    """An environment in which subnormals are flushed, made by a library that was compiled with -ffast-math."""
    import ctypes

    from native_compiler import compiled
    from test_fenv import SOURCE

    source = tmp_path / "flush.c"
    source.write_text(SOURCE, encoding="utf-8")
    library = ctypes.CDLL(str(compiled(source, tmp_path)))
    with fenv.preserved():
        library.flush_subnormals()
        yield fenv.current()


def test_a_kernel_that_flushes_falsifies_nothing_here(flushing_environment):
    def kernel(x, scale, zero_point=None, **attributes):
        fenv.enter(flushing_environment)
        return x.astype(np.float32) * scale

    line = f"{EDITION} x=uint8[]:01 scale=float32[]:00000001"
    with fenv.standard():
        with pytest.raises(KernelError, match="legal: 1e-45"):
            verify_call(kernel, line)
        assert not flushes()
        verify_call(kernel, line, denormals="flush")


def test_the_function_runs_in_the_environment_that_its_process_has(flushing_environment):
    seen = []

    def kernel(*operands, **attributes):
        seen.append(flushes())
        return sound(*operands, **attributes)

    assert flushes()
    with pytest.raises(KernelError, match="legal: 1e-45"):
        verify_call(kernel, f"{EDITION} x=uint8[]:01 scale=float32[]:00000001")
    assert flushes()
    assert all(seen)


def test_a_function_answers_as_a_worker_does():
    worker = Inline(sound, fenv.current())
    worker.start()
    assert (worker.ready, worker.pending, worker.failed) == (True, 0, None)
    worker.submit([(encoded(), ""), (encoded(f"{EDITION} x=uint8[]:80 scale=int8[]:01"), "")])
    assert worker.pending == 1
    assert worker.done()
    answered, refused = worker.collect()
    assert answered.tensor.codes == 0x43000000
    assert (refused.kind, refused.error) in {("rejected", "TypeError"), ("rejected", "ValueError")}
    assert worker.ask(encoded(), "threads").kind == "tensor"
    assert worker.calls == 3
    with pytest.raises(ValueError, match="nothing is pending"):
        worker.collect()
    worker.stop()
    assert worker.failed


def test_between_calls_the_caller_has_its_turn_and_may_give_up():
    def slow(*operands, **attributes):
        time.sleep(0.1)
        return sound(*operands, **attributes)

    bell = threading.Event()
    worker = Inline(slow, fenv.current(), bell=bell)
    worker.submit([(encoded(), "")] * 9)
    assert bell.is_set()
    assert not worker.done()
    worker.abandon()
    kinds = [outcome.kind for outcome in worker.collect()]
    assert (kinds[0], kinds[-1], len(kinds)) == ("tensor", "unasked", 9)


def test_an_interrupt_passes_and_a_warning_is_no_refusal():
    def interrupted(*operands, **attributes):
        raise KeyboardInterrupt

    def warning(*operands, **attributes):
        warnings.warn("it is old", DeprecationWarning, stacklevel=1)
        return sound(*operands, **attributes)

    with pytest.raises(KeyboardInterrupt):
        Inline(interrupted, fenv.current()).ask(encoded())
    with pytest.raises(KeyboardInterrupt):
        verify_kernel(interrupted, EDITION, settings=profile(), **NARROW)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Inline(warning, fenv.current()).ask(encoded()).kind == "tensor"


# -- pytest -------------------------------------------------------------------------------------------------------


@pytest.fixture
def suite(tmp_path):
    """A directory with a test that uses the fixture, and a function that runs pytest in it in a new process, with the plug-in as
    the entry point gives it."""
    information = tmp_path / "installed" / "probe-1.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: probe\nVersion: 1\n", encoding="utf-8")
    points = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]["pytest11"]
    listed = "".join(f"{name} = {module}\n" for name, module in points.items())
    (information / "entry_points.txt").write_text(f"[pytest11]\n{listed}", encoding="utf-8")
    (tmp_path / "test_it.py").write_text(
        "def test_it(xverify_kernel):\n"
        f"    assert xverify_kernel.budget == '40s'\n    xverify_kernel.verify({EDITION!r}, **{NARROW!r})\n",
        encoding="utf-8",
    )
    (tmp_path / "kernels.py").write_text(
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_testing import sound, wrong_at\nwrong = wrong_at(128)\n",
        encoding="utf-8",
    )

    def run(*options: str, ini: str = "") -> tuple[dict[str, int], str]:
        (tmp_path / "pytest.ini").write_text(f"[pytest]\n{ini}\n", encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
        command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", *options]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)
        words = ("passed", "failed", "skipped")
        return {word: f"1 {word}" in done.stdout.splitlines()[-1] for word in words}, done.stdout + done.stderr

    return run


def test_without_a_kernel_the_test_is_skipped_with_a_sentence(suite):
    came, text = suite()
    assert came == {"passed": False, "failed": False, "skipped": True}, text
    assert "no kernel is named: give --xverify-kernel TARGET" in text


def test_the_option_names_the_kernel(suite):
    came, text = suite("--xverify-kernel", "kernels.py:wrong", "--xverify-budget", "40s")
    assert came["failed"], text
    assert "KernelError: kernels.py:wrong: 1 new finding" in text
    assert "xverify replay" in text
    assert "xverify/gate" not in text  # no frame of ours is shown


def test_so_does_the_ini_file(suite):
    came, text = suite(ini="xverify_kernel = kernels.py:sound\nxverify_budget = 40s")
    assert came["passed"], text


def test_the_entry_point_is_the_plugin_and_costs_nothing():
    points = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]["pytest11"]
    assert callable(import_module(points["xverify"]).pytest_addoption)
    script = (
        "import sys, pytest; before = set(sys.modules); import xverify.pytest_plugin\n"
        "new = set(sys.modules) - before\nassert new <= {'xverify', 'xverify.pytest_plugin'}, new\n"
    )
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 0
