"""Refusals of replay and certify: names that only a file contains, and options that do not fit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from folders import SUPPORT

from xverify import cli, contracts
from xverify.certify.certificate import load
from xverify.core.call import Outcome, Tensor
from xverify.core.codec import read_json
from xverify.core.errors import DamagedFileError
from xverify.core.line import call_from_line
from xverify.engine.replay import replay_finding
from xverify.verify import verdicts
from xverify.verify.findings import Finding, Subject
from xverify.verify.verdicts import judge

KERNELS = SUPPORT / "certified_kernels.py"
CALL = "ai.onnx/DequantizeLinear-25 x=uint8[2]:07,08"


def xverify(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(cli.main, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def certify(kernel: str, path: Path, *more: object) -> tuple[int, str]:
    return xverify(
        "certify", "--kernel", f"{KERNELS}:{kernel}", "--domain", "uint2-float16", "-n", 1, "-o", path, *more
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of a sound kernel, ``sound.json``, and of a wrong one, ``wraps.json``."""
    directory = tmp_path_factory.mktemp("certificates")
    assert certify("sound", directory / "sound.json", "--range", "0:256")[0] == 0
    assert certify("wraps", directory / "wraps.json", "--range", "0x3800:0x4800", "-k")[0] == 1
    return directory


def changed(path: Path, to: Path, change: Mapping[str, Any]) -> Path:
    """Write a certificate with changed parts.

    A part of ``subject`` or of the first counterexample is named with a dot.
    """
    found = json.loads(path.read_text())
    for name, value in change.items():
        part, _, inner = name.partition(".")
        where = found["counterexamples"][0] if part == "counterexample" else found[part] if inner else found
        where[inner or part] = value
    to.write_text(json.dumps(found))
    return to


def test_what_a_certificate_names_by_a_path_is_not_run(made: Path, tmp_path: Path) -> None:
    told = tmp_path / "told"
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\ntouch {told}\n")
    program.chmod(0o755)
    edition = tmp_path / "edition.py"
    edition.write_text(f"open({str(told)!r}, 'w')\n")
    for change, words in (
        ({"subject.name": f"onnxruntime@{program}"}, "is run only when you name it"),
        ({"subject.name": f"onednn:{program}"}, "is run only when you name it"),
        ({"subject.name": "xverify-numpy", "contract": str(edition)}, "is read only when it is named"),
    ):
        code, said = xverify("replay", changed(made / "sound.json", tmp_path / "c.json", change))
        assert (code, words in said) == (2, True), said
    assert not told.exists()


def test_a_report_does_not_say_which_python_stands_for_an_implementation(tmp_path: Path) -> None:
    from xverify.core.errors import UsageError
    from xverify.engine.select import require_plain_name

    for name in ("onnxruntime", "onnxruntime==1.17.0", "onnxruntime:CUDAExecutionProvider"):
        require_plain_name(name, "--like", "report.json")
    for name in (f"onnxruntime@{tmp_path}", f"onednn:{tmp_path}/lib.so", "onnxruntime:EP=lib.so", ""):
        with pytest.raises(UsageError, match="is run only when you name it: add --like"):
            require_plain_name(name, "--like", "report.json")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"counterexample.range": [9, 3]}, "a counterexample is outside the domain"),
        ({"counterexample.range": [70000, 70010]}, "a counterexample is outside the domain"),
        ({"counterexample.slice": 7}, "a counterexample is outside the domain"),
        ({"counterexample.range": [3]}, "range"),
        ({"counterexample.range": []}, "range"),
    ],
)
def test_a_counterexample_lies_in_the_domain_and_not_in_what_is_proven(
    made: Path, tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(DamagedFileError, match=words):
        load(changed(made / "wraps.json", tmp_path / "c.json", change))


def test_a_counterexample_in_what_is_proven_is_damage(made: Path, tmp_path: Path) -> None:
    # The wrong kernel wraps at every scale; one that is right up to a scale has both.
    found = load(made / "sound.json")
    wrong = load(made / "wraps.json")["counterexamples"]
    found |= {"status": "refuted", "counterexamples": [{**wrong[0], "range": [10, 20]}]}
    (tmp_path / "c.json").write_text(json.dumps(found))
    with pytest.raises(DamagedFileError, match="a counterexample is in what is proven"):
        load(tmp_path / "c.json")


def test_readings_of_another_edition_are_told(made: Path, tmp_path: Path) -> None:
    foreign = {"readings": {"admitted": ["exact-quotient"], "explain": ["exact-quotient"]}}
    path = changed(made / "sound.json", tmp_path / "c.json", foreign)
    code, said = xverify("replay", path, "--kernel", f"{KERNELS}:sound")
    assert (code, "the certificate is of an edition that admits exact-quotient" in said) == (2, True), said


def test_a_counterexample_is_still_there_only_as_the_same_triple(made: Path, tmp_path: Path) -> None:
    path, kernel = made / "wraps.json", f"{KERNELS}:wraps"
    code, said = xverify("replay", path, "--kernel", kernel)
    assert (code, "STILL" in said) == (1, True), said
    other = changed(path, tmp_path / "c.json", {"counterexample.got": {"decimal": "1.0", "hex": "0x3c00"}})
    code, said = xverify("replay", other, "--kernel", kernel)
    assert (code, "CHANGED" in said) == (1, True), said


def test_where_nothing_is_proven_there_is_nothing_to_ask_again(made: Path, tmp_path: Path) -> None:
    nothing = {"proven": [], "status": "partial", "counts": {"triples": 4 * 4 * 65536, "proven": 0}}
    path = changed(made / "sound.json", tmp_path / "c.json", nothing)
    code, said = xverify("replay", path, "--kernel", f"{KERNELS}:sound")
    assert (code, "there is nothing to ask again" in said) == (3, True), said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["replay", CALL], "the call lacks scale"),
        (["replay", "tensorflow/Dequantize@installed input=uint8[]:07"], "the call lacks min_range"),
        (["replay", f"{CALL} scale=float32[]:3f800000 zero_pont=uint8[]:07"], "did you mean zero_point?"),
        (["replay", f"{CALL} scale=float32[2]:3f800000*2 axis=abc"], "axis is 'abc'; expected a whole number"),
        (["replay", f"{CALL} scale=float32[]:3f800000", "--was", "foo"], "--was takes a verdict"),
        (["gate", "--kernel", "", "--walk-only"], "''"),
        (["certify", "--kernel", "", "--domain", "int4-float16"], "''"),
        (["certify", "--kernel", "xverify-numpy", "--domain", "int4-float16", "-o", ""], "-o is empty"),
    ],
)
def test_what_does_not_fit_together_is_one_sentence(words: list[str], sentence: str) -> None:
    code, said = xverify(*words)
    assert (code, sentence in said) == (2, True), said


def test_options_that_a_certificate_has_no_use_for(made: Path) -> None:
    code, said = xverify("replay", made / "sound.json", "--was", "violation", "--oracle", "onnxruntime")
    assert (code, "without --oracle and --was" in said) == (2, True), said


@pytest.mark.parametrize("text", ["9" * 5000, "NaN", "[Infinity]", "-Infinity", "{"])
def test_json_that_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(DamagedFileError, match="is not JSON"):
        read_json(path)


@pytest.mark.parametrize(
    ("dies", "state", "words"),
    [
        ({0}, "STILL", "killed by SIGABRT"),
        ({2, 5, 19}, "STILL", "it dies; seen in 3 of 20 tries"),
        (set(), "UNSEEN", "it dies; not seen in 20 tries"),
    ],
)
def test_a_crash_is_tried_in_many_processes(dies: set[int], state: str, words: str) -> None:
    call = call_from_line(CALL + " scale=float32[]:3f000000 zero_point=uint8[]:00")
    contract = contracts.get(call.contract)
    died = Outcome("crash", message="killed by SIGABRT")
    subject = Subject("onnxruntime", "1", "oracle", "")
    death = verdicts.died(judge(contract, call), subject.name, died)
    assert death is not None
    right = Outcome("tensor", Tensor("float32", np.array([0x40600000, 0x40800000], np.uint32)))
    number = iter(range(100))
    again = replay_finding(
        Finding(death.key, subject, "it dies", call, None), lambda *_: died if next(number) in dies else right
    )
    assert (again.state, words in again.summary) == (state, True), again
