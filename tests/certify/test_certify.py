"""xverify certify: proofs, counterexamples, and certificates that outlive their run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from folders import SUPPORT

from xverify import cli
from xverify.certify import bulk, witness
from xverify.certify import certificate as certificates
from xverify.certify.certificate import held, load, schema
from xverify.contracts import newest
from xverify.core.errors import DamagedFileError
from xverify.core.line import call_from_line

KERNELS = SUPPORT / "certified_kernels.py"


def xverify(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(cli.main, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def certify(kernel: str, domain: str, path: Path, *more: object) -> tuple[int, str]:
    target = f"{KERNELS}:{kernel}" if kernel in KERNELS.read_text() else kernel
    return xverify("certify", "--kernel", target, "--domain", domain, "-o", path, "-n", 1, *more)


def without_runs(path: Path) -> dict:
    return {name: part for name, part in load(path).items() if name != "runs"}


@pytest.fixture(scope="module")
def proven(tmp_path_factory) -> Path:
    """The path of a certificate of a right kernel."""
    path = tmp_path_factory.mktemp("proven") / "proven.json"
    code, said = certify("sound", "uint2-float16", path)
    assert code == 0, said
    assert "proven by the reading exact: 1 048 576 of 1 048 576 triples" in said
    return path


def test_a_whole_domain_is_proven_and_the_certificate_says_how(proven):
    found = load(proven)
    jsonschema.validate(found, schema())
    assert found["status"] == "proven"
    assert found["counts"] == {"triples": 4 * 4 * 65536, "proven": 4 * 4 * 65536}
    assert found["proven"] == [{"slice": 0, "ranges": [[0, 65536]]}]
    assert found["subject"]["name"] == "certified_kernels.py:sound"
    assert list(found["subject"]["sources"]) == ["certified_kernels.py"]
    assert found["contract"] == newest()
    assert found["through"]["granularity"] == "per_axis"
    assert found["readings"]["explain"][0] == "exact"
    assert found["counterexamples"] == []


def test_a_sample_holds_again_and_a_kernel_that_has_become_wrong_is_caught(proven, tmp_path):
    code, said = xverify("replay", proven, "--kernel", f"{KERNELS}:sound")
    assert code == 0, said
    assert said.startswith("HOLDS   certified_kernels.py:sound: 1 048 576 triples again, all of 1 048 576 proven")
    assert "since" not in said
    code, said = xverify("replay", proven, "--kernel", f"{KERNELS}:wraps")
    assert code == 1
    assert said.startswith(
        "CHANGED certified_kernels.py:wraps: violation: x 0 (0x0), zero point 3 (0x3), scale 3.0 (0x4200)"
    )


def test_a_users_kernel_is_replayed_only_when_it_is_named(proven):
    code, said = xverify("replay", proven)
    assert code == 2
    assert "add --kernel TARGET" in said


def test_what_is_whole_is_not_proven_again(proven):
    before = proven.read_bytes()
    code, said = certify("sound", "uint2-float16", proven)
    assert code == 0
    assert "to prove" not in said
    assert proven.read_bytes() == before


def test_a_wrong_kernel_is_refuted_with_the_smallest_triple_and_a_line_that_shows_it(tmp_path):
    path = tmp_path / "c.json"
    code, said = certify("wraps", "uint2-float16", path, "--range", "0x3800:0x4800")
    assert code == 1
    (entry,) = load(path)["counterexamples"]
    assert entry["kind"] == "violation"
    assert {role: one["hex"] for role, one in entry["triple"].items()} == {
        "x": "0x0", "zero_point": "0x3", "scale": "0x4200"
    }  # fmt: skip
    assert entry["got"] == {"decimal": "9.0", "hex": "0x4880"}
    assert entry["expected"][0]["hex"] == "0xc880"
    assert "x 0 (0x0), zero point 3 (0x3), scale 3.0 (0x4200) gives 9.0 (0x4880); expected -9.0 (0xc880" in said
    call = call_from_line(entry["call"])
    assert call.values <= 2
    assert entry["call"] in said
    again = xverify("replay", path, "--kernel", f"{KERNELS}:wraps")
    assert again[0] == 1
    assert "STILL   violation" in again[1]
    again = xverify("replay", path, "--kernel", f"{KERNELS}:sound")
    assert again[0] == 0
    assert "FIXED   violation" in again[1]


def test_what_only_a_longer_call_shows_is_shown_by_the_shortest_that_does(tmp_path):
    path = tmp_path / "c.json"
    assert certify("drops_the_tail", "uint2-float16", path, "--range", "0:64")[0] == 1
    (entry,) = load(path)["counterexamples"]
    call = call_from_line(entry["call"])
    assert 64 < call.data.shape[0] <= 128
    assert entry["got"]["decimal"] == "7.0"


def test_subnormals_are_kept(tmp_path):
    code, said = certify("flushes", "uint2-float16", tmp_path / "c.json", "--range", "0:0x500")
    assert code == 1
    assert "scale 6e-08 (0x0001) gives 0.0 (0x0000); expected 6e-08 (0x0001" in said


def test_values_that_follow_two_readings_by_turns_are_mixed(tmp_path):
    """float16 does not hold all differences of uint16 codes; opset 25 admits two roundings."""
    path = tmp_path / "c.json"
    assert certify("by_turns", "uint16-float16", path, "--scale", "0.001", "--range", "0:4")[0] == 1
    (entry,) = load(path)["counterexamples"]
    assert entry["kind"] == "mixed"
    assert len(entry["expected"]) > 1
    assert entry["got"]["hex"] in [one["hex"] for one in entry["expected"]]


@pytest.mark.parametrize(
    ("kernel", "kind", "words"),
    [
        ("dies", "crash", "killed by SIGABRT"),
        ("hangs", "hang", "no answer within"),
        ("refuses_some", "rejected", "not that one"),
    ],
)
def test_a_call_that_is_not_answered_is_a_counterexample_and_the_rest_is_proven(
    tmp_path, monkeypatch, kernel, kind, words
):
    monkeypatch.setattr(bulk, "REQUEST_VALUES", 4)  # a request has one scale
    monkeypatch.setattr(witness, "MOST_HANGING", 1)
    path = tmp_path / "c.json"
    asked = ("--zero-point", "absent", "--range", "0x431c:0x4328", "--timeout", "0.3s", "--keep-going")
    code, said = certify(kernel, "uint2-float16", path, *asked)
    assert code == 1
    (entry,) = load(path)["counterexamples"]
    assert (entry["kind"], entry["range"]) == (kind, [0x4321, 0x4322])
    assert load(path)["proven"] == [{"slice": 0, "ranges": [[0x431C, 0x4321], [0x4322, 0x4328]]}]
    assert words in said
    if kind != "hang":  # making this call would take a while
        call = call_from_line(entry["call"])
        assert call.values == 1
        assert call.tensors["scale"].codes.tolist() == [0x4321]


@pytest.mark.parametrize(
    ("kernel", "words"), [("refuses", "NotImplementedError: not today"), ("of_another_type", "expected float16[")]
)
def test_a_kernel_that_refuses_the_domain_is_not_certified(tmp_path, kernel, words):
    code, said = certify(kernel, "uint2-float16", tmp_path / "c.json", "--range", "0:1")
    assert code == 3
    assert words in said
    assert not (tmp_path / "c.json").exists()


def test_a_kernel_that_refuses_the_first_triples_only_has_a_counterexample(tmp_path):
    """Its first scale is 0x4321. A kernel that refuses the whole domain would not be certified."""
    code, said = certify(
        "refuses_some",
        "uint2-float16",
        tmp_path / "c.json",
        "--range",
        "0x4321:0x4330",
        "-k",
        "--granularity",
        "per_tensor",
    )
    assert code == 1, said
    (entry,) = load(tmp_path / "c.json")["counterexamples"]
    assert entry["kind"] == "rejected"
    assert "xverify replay" in said
    assert "--strict" in said


# -- going on ---------------------------------------------------------------------------------------------


BY_PARTS = ("uint2-float16", "--granularity", "per_tensor", "--range")
"""A domain for a slow kernel. A request has 64 scales and takes a while."""


def broken_off(path: Path, units: str, by: signal.Signals) -> tuple[int, str]:
    """Send a signal to a process once it has proven something. Return its exit status and output."""
    words = ["certify", "--kernel", f"{KERNELS}:slow", "--domain", *BY_PARTS, units, "-o", str(path), "-n", "1"]
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a parent may have ignored it
    # pytest removes this directory, with all that a killed process leaves there.
    environment = {**os.environ, "TMPDIR": str(path.parent)}
    command = [sys.executable, "-m", "xverify", *words]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed, env=environment)
    until = time.monotonic() + 60
    while time.monotonic() < until and not (path.exists() and load(path)["counts"]["proven"]):
        time.sleep(0.01)
    run.send_signal(by)
    said = run.communicate(timeout=60)[1]
    return run.returncode, said


def test_a_run_that_was_killed_goes_on_to_the_same_certificate(tmp_path):
    whole, path = tmp_path / "whole.json", tmp_path / "broken.json"
    assert broken_off(path, "0:256", signal.SIGKILL)[0] == -signal.SIGKILL
    left = load(path)["counts"]["proven"]
    assert 0 < left < 256 * 16
    code, said = certify("slow", BY_PARTS[0], path, *BY_PARTS[1:], "0:256")
    assert code == 0
    assert " are proven; " in said
    assert certify("slow", BY_PARTS[0], whole, *BY_PARTS[1:], "0:256")[0] == 0
    assert without_runs(path) == without_runs(whole)
    assert load(path)["proven"] == [{"slice": 0, "ranges": [[0, 256]]}]
    assert [run["proven"] for run in load(path)["runs"]] == [left, 256 * 16 - left]


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
    path = tmp_path / "c.json"
    code, said = broken_off(path, "0:512", signal.SIGINT)
    assert code == 3
    assert "interrupted; " in said
    assert "Repeat the command to continue" in said
    assert 0 < load(path)["counts"]["proven"] < 512 * 16


def test_two_runs_do_not_write_one_certificate(proven):
    with held(proven):
        code, said = certify("sound", "uint2-float16", proven)
    assert code == 2
    assert "another run is writing" in said
    assert [path.name for path in proven.parent.iterdir()] == [proven.name]


def test_ranges_are_proven_one_after_the_other_and_a_budget_that_ends_is_told(tmp_path):
    path = tmp_path / "c.json"
    kernel = ("sound", "int2-float32", path, "--difference", "-2")
    assert certify(*kernel, "--range", "0x40000000:0x40000800")[0] == 0
    assert certify(*kernel, "--range", "0x40001000:0x40001800", "--difference", "1")[0] == 0
    found = load(path)
    assert found["status"] == "partial"
    assert found["proven"] == [
        {"slice": -2, "ranges": [[0x40000000, 0x40000800]]},
        {"slice": 1, "ranges": [[0x40001000, 0x40001800]]},
    ]
    code, said = certify(*kernel, "--budget", "0.01s")
    assert code == 3
    assert "Repeat the command to continue" in said


def test_another_kernel_or_another_way_does_not_go_on_with_a_certificate(proven, tmp_path):
    kernel, path = tmp_path / KERNELS.name, tmp_path / "c.json"
    kernel.write_text(KERNELS.read_text() + "\n# another line\n")
    shutil.copy(proven, path)
    asked = (f"{kernel}:sound", "uint2-float16", path, "--range", "0:256", "--granularity", "blocked")
    code, said = certify(*asked)
    assert code == 2
    assert "the code of the subject (certified_kernels.py)" in said
    assert "granularity was per_axis, is blocked" in said
    assert "--anew" in said
    assert path.read_bytes() == proven.read_bytes()
    assert certify(*asked, "--anew")[0] == 0
    assert load(path)["subject"]["digest"] != load(proven)["subject"]["digest"]
    assert load(path)["counts"]["proven"] == 256 * 16


@pytest.mark.parametrize(
    ("part", "value", "words"),
    [
        ("proven", [{"slice": 0, "ranges": [[0, 99999]]}], "outside the domain"),
        ("proven", [{"slice": 0, "ranges": [[5, 9], [0, 3]]}], "not in order"),
        ("proven", [{"slice": 0, "ranges": [[0, 7]]}], "its counts are not those of its ranges"),
        ("counts", {"triples": 16, "proven": 16}, "its counts"),
        ("status", "partial", "it is not partial"),
        ("status", 7, "none of"),
        ("schema", "xverify.certificate/3", "no certificate that this version reads"),
        ("readings", {"admitted": [], "explain": []}, "readings"),
    ],
)
def test_a_damaged_certificate_is_refused(proven, tmp_path, part, value, words):
    path = tmp_path / "c.json"
    path.write_text(json.dumps({**json.loads(proven.read_text()), part: value}))
    with pytest.raises(DamagedFileError, match=words):
        load(path)
    code, said = certify("sound", "uint2-float16", path)
    assert code == 2
    assert words in said


def test_a_file_that_is_no_certificate_is_refused(proven, tmp_path, monkeypatch):
    path = tmp_path / "c.json"
    path.write_text(proven.read_text()[:500])
    assert certify("sound", "uint2-float16", path)[0] == 2
    path.write_text("[1]")
    assert certify("sound", "uint2-float16", path)[0] == 2
    monkeypatch.setattr(certificates, "MOST_BYTES", 100)
    with pytest.raises(DamagedFileError, match="refused"):
        load(proven)


# -- what is asked ----------------------------------------------------------------------------------------


def test_an_in_house_kernel_is_proven_by_blocks_too(tmp_path):
    path = tmp_path / "c.json"
    code, said = certify(
        "xverify-numpy", "int2-float8_e8m0fnu", path, "--granularity", "blocked", "--out-dtype", "bfloat16"
    )
    assert code == 0, said
    found = load(path)
    assert found["through"]["granularity"] == "blocked"
    assert found["domain"]["out_dtype"] == "bfloat16"
    assert "xverify/kernels/linear.py" in found["subject"]["sources"]
    assert "xverify/kernels/cuda/dequantize.cu" in found["subject"]["sources"]


def test_an_oracle_is_proven_by_its_name_and_version(tmp_path):
    path = tmp_path / "c.json"
    code, said = certify("onnxruntime", "int16-float16", path, "--scale", "0x1.8p-3", "--range", "0x7ffe:0x8002")
    assert code == 0, said
    found = load(path)
    assert found["subject"]["digest"] == ""
    assert found["subject"]["role"] == "oracle"
    assert found["domain"]["slices"] == [0x3200]
    assert found["counts"]["proven"] == 4 * 65536


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--domain", "int8-float61"], "did you mean int8-float16"),
        ([], "--domain is missing"),
        (["--domain", "int16-float32"], "add --scale"),
        (["--domain", "int8-float16", "--scale", "3"], "already contains its scales"),
        (["--domain", "int8-float16", "--range", "9:3"], "--range takes A:B"),
        (["--domain", "int8-float16", "--difference", "3"], "is not divided by differences"),
        (["--domain", "int8-float32", "--difference", "256"], "--difference takes A:B"),
        (["--domain", "int8-float32", "--zero-point", "absent"], "--zero-point absent does not apply"),
        (["--domain", "int4-float16", "--contract", "ai.onnx/DequantizeLinear-13"], "does not allow int4 for x"),
        (["--domain", "int8-float32", "--contract", "tensorflow/Dequantize@seed"], "linear editions only"),
        (
            ["--domain", "int8-float32", "--contract", "ai.onnx/DequantizeLinear-10"],
            "does not allow such calls (attributes)",
        ),
        (["--domain", "int8-float16", "--kernel", "nothing.py:here"], "there is no file nothing.py"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(words, sentence):
    code, said = xverify("certify", *words)
    assert code == 2
    assert sentence in said
    assert said.count("\n") == 1


def test_the_domains_are_listed_with_their_sizes():
    code, said = xverify("certify", "--list")
    assert code == 0
    assert "int8-float16" in said
    assert "4.29e+09" in said
