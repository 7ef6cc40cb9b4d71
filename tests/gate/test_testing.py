"""The gate inside a test suite: verify_kernel, verify_call, and their errors for wrong arguments."""

from __future__ import annotations

import os
import time
from datetime import date

import numpy as np
import pytest
from folders import ROOT, SUPPORT
from suite_kernels import EDITION, NARROW, TO_128, profile, sound, wrong_at

from xverify.core.errors import UsageError
from xverify.core.line import call_from_line
from xverify.gate import ledger_file
from xverify.gate.ledger import entry_from_finding
from xverify.testing import KernelError, NotVerifiedError, verify_call, verify_kernel


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
        "import os\nfrom suite_kernels import wrong_at\n"
        f"assert os.getpid() != {os.getpid()}\nkernel = wrong_at(128)\n"
        "def crashing(*operands, **attributes):\n    os.abort()\n",
        encoding="utf-8",
    )
    file.write_text(f"import sys\nsys.path.insert(0, {str(SUPPORT)!r})\n" + file.read_text(encoding="utf-8"))
    target = f"{file}:kernel"
    with pytest.raises(KernelError) as caught:
        verify_call(target, TO_128)
    assert f"xverify replay '{TO_128}' --kernel {target} --was violation" in str(caught.value)
    with pytest.raises(KernelError, match="crash: "):
        verify_call(f"{file}:crashing", TO_128)


def test_an_unverified_kernel_does_not_pass():
    def unfinished(x, scale, zero_point=None, **attributes):
        raise NotImplementedError

    def slow(*operands, **attributes):
        time.sleep(0.02)
        return sound(*operands, **attributes)

    with pytest.raises(NotVerifiedError, match="answered none of"):
        verify_kernel(unfinished, EDITION, settings=profile(), **NARROW)
    with pytest.raises(NotVerifiedError, match="raise budget"):
        verify_kernel(slow, EDITION, budget=1.5, settings=profile(), **NARROW)
    with pytest.raises(NotVerifiedError, match="does not implement"):
        verify_call(unfinished, TO_128)
    with pytest.raises(KernelError, match="wrongly-rejected"):
        verify_call(unfinished, TO_128, strict=True)
    with pytest.raises(NotVerifiedError, match="no_such_module"):
        verify_call("no_such_module:kernel", TO_128)


def test_a_forbidden_call_must_be_refused():
    line = f"{EDITION} x=uint8[2]:00,01 scale=float32[2]:3f800000*2 axis=5"

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
    normal = f"{EDITION} x=uint8[]:7f scale=float32[]:00200000"
    with pytest.raises(KernelError, match="denormals='flush'"):
        verify_call(lambda x, scale, **attributes: np.zeros((), np.float32), normal, denormals="flush")
    verify_call(lambda x, scale, **attributes: np.zeros((), np.float32), normal, denormals="flush-inputs")
    with pytest.raises(KernelError, match="like='onnxruntime'"):
        verify_call(wrong_at(128), TO_128, like="onnxruntime")
    verify_call(sound, TO_128, like="onnxruntime")


def test_known_findings_pass_and_others_fail(tmp_path):
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
        ((sound,), {"budget": "soon"}, "a time is a number"),
        ((sound,), {"x_dtypes": ["int7"]}, "'int7' is not a type of x"),
        ((sound,), {"denormals": "no"}, "'keep', 'flush' or 'flush-inputs'"),
        ((sound,), {"ledger": "none.toml"}, "there is no ledger none.toml"),
    ],
)
def test_a_mistake_in_the_arguments_is_one_sentence(arguments, options, sentence):
    with pytest.raises(UsageError, match=sentence):
        verify_kernel(*arguments, **options)


def test_a_line_that_is_none_is_one_sentence():
    with pytest.raises(UsageError, match="expected an edition"):
        verify_call(sound, "{}")
