"""Variants of implementations: each difference is one finding, and there are no other findings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from folders import SUPPORT

from xverify import contracts
from xverify.core.call import Call, Outcome, Tensor
from xverify.core.errors import UnableError, UsageError
from xverify.engine.options import Options
from xverify.engine.replay import asking, finding_from_report, replay_finding
from xverify.engine.sweep import sweep
from xverify.engine.vary import dimensions, named, variant, variants
from xverify.oracles import all_oracles
from xverify.oracles.arrays import from_array, numpy_dtype
from xverify.oracles.protocol import Oracle, Setting
from xverify.verify.variants import differences, setting_of, with_setting, without_setting
from xverify.verify.verdicts import judge

MULTIPLY = "onednn/DynamicDequantize-1@multiply"
ONNX = "ai.onnx/DequantizeLinear-21"
HERE = str(SUPPORT)

OLD = Setting("isa", "old", environment=(("XVERIFY_TEST_ISA", "OLD"),))
FAKE = Oracle(
    "fake", "numpy", (MULTIPLY,), (MULTIPLY,), "varied_oracles", search_path=(HERE,), needs_xverify=True,
    varies=(OLD, *(Setting("threads", n, (f"threads={n}",)) for n in ("3", "8")),
            *(Setting("denormals", how, (f"denormals={how}",)) for how in ("zero", "wrong"))),
)  # fmt: skip


# -- names and variants -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "varied"),
    [
        ("onnxruntime", "onnxruntime[threads=8]"),
        ("onnxruntime==1.17.0", "onnxruntime[threads=8]==1.17.0"),
        ("onnxruntime:CUDAExecutionProvider@/a/b", "onnxruntime:CUDAExecutionProvider[threads=8]@/a/b"),
    ],
)
def test_a_setting_is_in_the_name_before_the_version(name: str, varied: str) -> None:
    assert with_setting(name, "threads=8") == varied
    assert (without_setting(varied), setting_of(varied)) == (name, "threads=8")
    assert (without_setting(name), setting_of(name)) == (name, "")


def test_dimensions_are_listed_and_others_are_refused() -> None:
    assert dimensions(" threads,isa, threads ") == ("threads", "isa")
    assert dimensions("") == ()
    with pytest.raises(
        UsageError, match=r"'thread' cannot be varied \(did you mean threads\?\); there are isa, threads,"
    ):
        dimensions("isa,thread")


def test_a_variant_is_run_otherwise_and_judged_by_nothing() -> None:
    made, sentences = variants((FAKE, all_oracles()["xverify-numpy"]), ("isa", "threads"))
    assert [one.name for one in made] == ["fake[isa=old]", *(f"fake[threads={n}]" for n in (3, 8))]
    assert sentences == ()
    assert made[0].environment == (("XVERIFY_TEST_ISA", "OLD"),)
    assert made[1].arguments == ("threads=3",)
    assert {(one.judged_by, one.variant_of, len(one.paths)) for one in made} == {((), "fake", 1)}


def test_kernels_are_tensorflows_own_or_those_of_onednn() -> None:
    """The environment variable selects the kernels. XLA compiles its own and ignores it."""
    names = "tensorflow", "tensorflow-function", "tensorflow-xla"
    made, sentences = variants([all_oracles()[name] for name in names], ("kernels",))
    assert [(one.name, one.environment) for one in made] == [
        (f"{name}[kernels={whose}]", (("TF_ENABLE_ONEDNN_OPTS", value),))
        for name in names[:2]
        for whose, value in (("own", "0"), ("onednn", "1"))
    ]
    assert sentences == ()


def test_a_dimension_that_nobody_has_is_said() -> None:
    made, (sentence,) = variants((all_oracles()["onnxruntime"],), ("isa", "denormals"))
    assert [one.name for one in made] == ["onnxruntime[denormals=zero]"]
    assert sentence == "isa is not varied: none of onnxruntime has a setting for it"


def test_a_variant_is_found_by_its_name() -> None:
    known = {"fake": FAKE}
    assert named("fake", known.__getitem__) is FAKE
    assert named("fake[threads=8]", known.__getitem__) == variant(FAKE, Setting("threads", "8", ("threads=8",)))
    with pytest.raises(
        UnableError, match="fake is not run with threads=99 here; it has isa=old, threads=3, threads=8,"
    ):
        named("fake[threads=99]", known.__getitem__)


# -- what two answers differ in -----------------------------------------------------------------------------


def tensor(dtype: str, values: Any) -> Tensor:
    return Tensor(dtype, from_array(np.asarray(values).astype(numpy_dtype(dtype))).codes)


def call(scale: float = 0.5, x: Any = (1, -2, 3)) -> Call:
    return Call(ONNX, {"x": tensor("int8", x), "scale": tensor("float32", scale)})


def gives(*values: float) -> Outcome:
    return Outcome("tensor", tensor("float32", values))


def bits(*codes: int) -> Outcome:
    return Outcome("tensor", Tensor("float32", np.array(codes, np.uint32)))


def verdicts_of(
    usual: Outcome, other: Outcome, setting: str = "threads=8", asked: Call | None = None
) -> list[tuple[Any, ...]]:
    judged = judge(contracts.get(ONNX), asked or call())
    return [
        (one.key.verdict, one.key.detail, one.values) for one in differences(judged, f"it[{setting}]", usual, other)
    ]


REFUSED, UNSUPPORTED = Outcome("rejected", error="ValueError"), Outcome("unsupported", error="NotImplementedError")
CRASH, HANG = Outcome("crash", message="killed by SIGSEGV"), Outcome("hang", message="no answer within 10 s")
NAN, OTHER_NAN, SUBNORMAL, ZERO, MINUS_ZERO = 0x7FC00000, 0xFFC00001, 0x00000001, 0, 0x80000000


@pytest.mark.parametrize(
    ("usual", "other", "expected"),
    [
        (gives(1, 2, 3), gives(1, 2, 3), []),
        (bits(NAN, 1, 2), bits(OTHER_NAN, 1, 2), []),
        (gives(1, 2, 3), gives(1, 2, 4), [("nondeterministic", "threads=8", 1)]),
        (bits(ZERO, 1, 2), bits(MINUS_ZERO, 1, 2), [("nondeterministic", "threads=8", 1)]),
        (bits(SUBNORMAL, 1, 2), bits(ZERO, 1, 2), [("nondeterministic", "threads=8", 1)]),
        (gives(1, 2, 3), gives(1, 2), [("nondeterministic", "threads=8:result", 3)]),
        (gives(1, 2, 3), REFUSED, [("nondeterministic", "threads=8:refuses", 3)]),
        (UNSUPPORTED, gives(1, 2, 3), [("nondeterministic", "threads=8:answers", 3)]),
        (REFUSED, UNSUPPORTED, []),
        (gives(1, 2, 3), CRASH, [("crash", "allowed:values", 0)]),
        (gives(1, 2, 3), HANG, [("hang", "allowed:values", 0)]),
        (CRASH, CRASH, []),
        (CRASH, gives(1, 2, 3), []),
        (gives(1, 2, 3), Outcome("spared"), []),
        (gives(1, 2, 3), replace(gives(1, 2, 3), notes=("input-written",)), [("memory", "input-written", 0)]),
        (replace(gives(1, 2, 3), notes=("input-written",)), replace(gives(1, 2, 3), notes=("input-written",)), []),
    ],
)  # fmt: skip
def test_what_is_said_of_two_answers(usual: Outcome, other: Outcome, expected: list[tuple[str, str, int]]) -> None:
    assert verdicts_of(usual, other) == expected


FLUSHED = ("ambiguity", "flush-subnormals")


@pytest.mark.parametrize(
    ("usual", "other", "scale", "expected"),
    [
        (bits(SUBNORMAL, 1 << 23, 1 << 23), bits(ZERO, 1 << 23, 1 << 23), 0.5, [(*FLUSHED, 1)]),
        (bits(ZERO, 1 << 23, 1 << 23), bits(SUBNORMAL, 1 << 23, 1 << 23), 0.5, [(*FLUSHED, 1)]),
        (gives(1, 2, 3), bits(ZERO, MINUS_ZERO, NAN), 1e-40, [(*FLUSHED, 3)]),
        (gives(1, 2, 3), gives(0, 2, 3), 0.5, [("nondeterministic", "denormals=zero", 1)]),
        (gives(1, 2, 3), gives(4, 0, 0), 1e-40, [(*FLUSHED, 2), ("nondeterministic", "denormals=zero", 1)]),
        (gives(1, 2, 3), REFUSED, 1e-40, [("nondeterministic", "denormals=zero:refuses", 3)]),
    ],
)  # fmt: skip
def test_what_a_denormal_mode_is_for_is_no_fault(
    usual: Outcome, other: Outcome, scale: float, expected: list[tuple[str, str, int]]
) -> None:
    assert verdicts_of(usual, other, "denormals=zero", call(scale)) == expected


def test_only_values_whose_own_scale_is_subnormal_may_become_zero() -> None:
    asked = replace(call(x=[[5, 6], [7, 8]]), attributes={"axis": 0})
    asked = replace(asked, tensors={**asked.tensors, "scale": tensor("float32", [1e-40, 0.5])})
    usual, other = (Outcome("tensor", tensor("float32", rows)) for rows in ([[1, 2], [3, 4]], [[0, 2], [3, 0]]))
    assert verdicts_of(usual, other, "denormals=zero", asked) == [
        (*FLUSHED, 1),
        ("nondeterministic", "denormals=zero", 1),
    ]


def test_a_scale_without_subnormal_numbers_may_be_one_as_float32() -> None:
    asked = Call("ai.onnx/DequantizeLinear-25", {"x": tensor("int8", [[5, 6], [7, 8]]), "scale": Tensor(
        "float8_e8m0fnu", np.array([0, 1], np.uint8))}, {"axis": 0, "output_dtype": "float32"})  # fmt: skip
    usual, other = (Outcome("tensor", tensor("float32", rows)) for rows in ([[1, 2], [3, 4]], [[0, 2], [3, 0]]))
    judged = judge(contracts.get(asked.contract), asked)
    found = differences(judged, "it[denormals=zero]", usual, other)
    assert [(one.key.verdict, one.values) for one in found] == [("ambiguity", 1), ("nondeterministic", 1)]


def test_a_legal_value_beside_a_violation_is_that_violation() -> None:
    """0.5, -1 and 1.5 are due."""
    judged = judge(contracts.get(ONNX), call())
    wrong, right = gives(9, -1, 1.5), gives(0.5, -1, 1.5)
    assert differences(judged, "it[threads=8]", wrong, right, is_judged=True) == []
    assert len(differences(judged, "it[threads=8]", wrong, right)) == 1
    assert len(differences(judged, "it[threads=8]", right, wrong, is_judged=True)) == 1
    (both,) = differences(judged, "it[threads=8]", wrong, gives(0.5, 7, 1.5), is_judged=True)
    assert both.values == 1


def test_the_summary_says_between_which_settings() -> None:
    judged = judge(contracts.get(ONNX), call())
    (found,) = differences(judged, "it[threads=8]==1.0", gives(1, 2, 3), gives(1, 2, 4))
    assert found.summary == (
        "it==1.0 gives other bits with threads=8 than without it, for the same call (x of int8, to float32)"
    )
    assert found.max_ulp == 1 << 22  # from 3 to 4


# -- whole sweeps -------------------------------------------------------------------------------------------


def swept(directory: Path, oracle: Oracle, wanted: str, names: tuple[str, ...], cases: int) -> dict[str, Any]:
    more, _ = variants((oracle,), dimensions(wanted))
    loaded = tuple(contracts.get(name) for name in names)
    options = Options(loaded, (oracle, *more), directory, "test", "sweep", 3, 60.0, cases)
    return sweep(options, lambda event: None)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return swept(tmp_path_factory.mktemp("vary"), FAKE, "isa,threads,denormals", (MULTIPLY,), 250)


def said(report: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {(one["subject"]["name"], one["verdict"], one["detail"]) for one in report["findings"]}


def test_each_difference_is_found_once_and_nothing_is_said_of_what_is_the_same(report: dict[str, Any]) -> None:
    """8 threads change nothing. No variant is judged, though some give illegal values."""
    assert {one for one in said(report) if "[" in one[0]} == {
        ("fake[isa=old]", "nondeterministic", "isa=old"),
        ("fake[threads=3]", "nondeterministic", "threads=3:refuses"),
        ("fake[denormals=zero]", *FLUSHED),
        ("fake[denormals=wrong]", *FLUSHED),
        ("fake[denormals=wrong]", "nondeterministic", "denormals=wrong"),
    }


def test_variants_have_no_cells_but_are_among_the_workers(report: dict[str, Any]) -> None:
    assert {cell["subject"] for cell in report["coverage"]["cells"]} == {"fake"}
    calls = {worker["name"]: worker["calls"] for worker in report["run"]["workers"]}
    assert calls["fake[threads=8]"] >= 250


def test_a_difference_is_shrunk_to_one_value_and_compared_with_the_usual_way(report: dict[str, Any]) -> None:
    (found,) = [one for one in report["findings"] if one["subject"]["name"] == "fake[isa=old]"]
    x = found["witness"]["call"]["tensors"]["x"]
    assert (found["shrunk"], found["reference"], x["data"]) == ("minimal", "fake", ["7"])
    assert "fake" in [other["name"] for other in found["others"]]


def test_what_is_unsteady_in_every_way_is_not_put_down_to_a_setting(tmp_path: Path) -> None:
    """The finding is on the implementation itself. A setting's effect on other values remains a finding."""
    settings = (OLD, Setting("threads", "8", ("threads=8",)))
    unsteady = replace(FAKE, name="unsteady", arguments=("unsteady",), varies=settings)
    report = swept(tmp_path, unsteady, "isa,threads", (MULTIPLY,), 100)
    assert {(name, detail) for name, verdict, detail in said(report) if verdict == "nondeterministic"} == {
        ("unsteady", ""), ("unsteady[isa=old]", "isa=old"),
    }  # fmt: skip


@pytest.mark.parametrize(("judged_by", "differ"), [((MULTIPLY,), set()), ((), {"threads=8"})])
def test_a_setting_without_the_mistake_of_the_usual_one_is_no_second_finding(
    tmp_path: Path, judged_by: tuple[str, ...], differ: set[str]
) -> None:
    """Without an edition that judges the usual setting, only the difference tells."""
    settings = (Setting("threads", "8", ("threads=8",)),)
    mistaken = replace(FAKE, name="mistaken", arguments=("mistaken",), varies=settings, judged_by=judged_by)
    report = swept(tmp_path, mistaken, "threads", (MULTIPLY,), 100)
    assert {detail for _, verdict, detail in said(report) if verdict == "nondeterministic"} == differ
    assert any(one[:2] == ("mistaken", "violation") for one in said(report)) == bool(judged_by)


def test_onnxruntime_gives_the_same_bits_with_any_threads_and_flushes_when_told_to(tmp_path: Path) -> None:
    """A replay says STILL, and FIXED for a setting without the effect."""
    report = swept(tmp_path, all_oracles()["onnxruntime"], "threads,denormals", (ONNX,), 60)
    (found,) = [one for one in report["findings"] if "[" in one["subject"]["name"]]
    assert (found["subject"]["name"], found["verdict"], found["detail"]) == ("onnxruntime[denormals=zero]", *FLUSHED)
    assert (found["shrunk"], found["witness"]["call"]["tensors"]["x"]["shape"]) == ("minimal", [1])
    finding = finding_from_report(found, tmp_path)
    harmless = replace(finding.subject, name="onnxruntime[threads=8]")
    other = replace(finding.key, subject=harmless.name)
    with asking(tmp_path / "workers") as ask:
        assert replay_finding(finding, ask).state == "STILL"
        finding.subject, finding.key = harmless, other
        assert replay_finding(finding, ask).state == "FIXED"
