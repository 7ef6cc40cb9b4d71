"""Findings are grouped by cause, ranked by severity, and each cause shows its commonest types first."""

from __future__ import annotations

from typing import Any

import pytest

from xverify.core.severity import Severity
from xverify.report.causes import Cause, counts, seen, sentence, types
from xverify.verify.cause_titles import graph_in_words
from xverify.verify.causes import Context, causes
from xverify.verify.messages import abort_of, refusal_of, slug, useful_words
from xverify.verify.region import NOWHERE_SIMPLE

ONNX = "ai.onnx/DequantizeLinear-25"
CLAUSES = {
    f"ai.onnx/DequantizeLinear-{opset}/formula": {
        "text": "y = (x - zero point) * scale", "follow": [], "depart": [{"subject": "a"}, {"subject": "b"}],
    }
    for opset in (24, 25)
}  # fmt: skip
PLAIN = Context({}, {}, frozenset(), {})
IGNORED = {"stage": "subtraction", "is": "ignored", "instead": "exact", "words": "takes the zero point as 0"}
UNSIGNED = {"stage": "zero", "is": "unsigned", "instead": "signed", "words": "gives 0 instead of -0"}
ROUNDED = {"stage": "precision", "is": "float16", "instead": "once", "words": "rounds the product to float16 first"}


def finding(verdict: str, detail: str, x_dtype: str = "int8", recipe: str = "", **more: Any) -> dict[str, Any]:
    """Return the fields of a finding that a cause depends on."""
    cell = {"x_dtype": x_dtype, "granularity": more.pop("granularity", "per_tensor")}
    region, departures = more.pop("region", ""), more.pop("departures", [])
    subject, message = more.pop("subject", "kernel.py:f"), more.pop("message", "")
    made = {
        "id": f"{verdict}-{detail}-{x_dtype}-{subject}-{more.get('contract', ONNX)}",
        "verdict": verdict, "contract": ONNX, "clause": f"{more.get('contract', ONNX)}/formula", "detail": detail,
        "subject": {"name": subject, "role": "kernel", "options": ""},
        "x_dtype": x_dtype, "scale_dtype": "float32", "out_dtype": "float32", "cells": [cell],
        "cases": 2, "values": 10, "max_ulp": 1, "summary": f"{subject} does {detail}", "shrunk": "minimal",
        "attribution": {"reading": recipe, "departures": departures} if recipe else None,
        "region": {"words": region} if region else None,
        "witness": {"call": {}, "got": {"message": message}, "legal": []},
    }  # fmt: skip
    return {**made, **more}


def grouped(findings: list[dict[str, Any]], about: Context = PLAIN) -> list[Cause]:
    by_id = {each["id"]: each for each in findings}
    return [Cause(entry, tuple(by_id[each] for each in entry["findings"])) for entry in causes(findings, about)]


def shapes(findings: list[dict[str, Any]]) -> list[list[str]]:
    """Return the types of x of each cause's findings."""
    return [[entry["x_dtype"] for entry in cause.findings] for cause in grouped(findings)]


def of_types(verdict: str, detail: str, *x_dtypes: str, recipe: str = "", **more: Any) -> list[dict[str, Any]]:
    return [finding(verdict, detail.format(x), x, recipe, **more) for x in x_dtypes]


def of_details(verdict: str, *details: str) -> list[dict[str, Any]]:
    return [finding(verdict, detail) for detail in details]


WRAPS = [finding("violation", "wrap-x", dtype, "wrap-x", region=NOWHERE_SIMPLE) for dtype in ("int2", "uint8", "int4")]
MISREAD = [finding("violation", f"a@{reading}", x, f"a@{reading}") for x, reading in (("int4", "exact"), ("int8", "b"))]
OTHER_EDITION = finding("violation", "wrap-x", "int8", "wrap-x", contract="mine/DQ-1")
IN_PART = [finding("violation", "partly:zeros", recipe="zeros", region=region) for region in ("a", "b")]
ZERO_SCALE = [
    finding(
        "violation", "partly:zero-scale", x, "zero-scale", region=region,
        departures=[{"stage": "result", "is": "zero-scale", "instead": "", "words": "gives a scale of zero itself"}],
    )
    for x, region in (("int8", "a"), ("uint8", "b"))
]  # fmt: skip
FORBIDDEN = of_details("wrongly-accepted", "x-type", "block-size")
REFUSED = [finding("wrongly-rejected", f"{kind}:KeyError", message=f"no {kind} at 0x{kind}f") for kind in ("12", "34")]


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        (WRAPS, [["uint8", "int4", "int2"]]),
        ([*WRAPS, *of_types("mixed", "wrap-x", "int8", recipe="wrap-x")], [["uint8", "int4", "int2", "int8"]]),
        ([*WRAPS, OTHER_EDITION], [["uint8", "int8", "int4", "int2"]]),
        (MISREAD, [["int8", "int4"]]),
        (IN_PART, [["int8"], ["int8"]]),
        (ZERO_SCALE, [["uint8", "int8"]]),
        ([*IN_PART, finding("violation", "zeros", "int4", "zeros")], [["int8", "int8", "int4"]]),
        (of_types("violation", "types:{}:float32", "int2", "int8"), [["int8", "int2"]]),
        (of_details("violation", "result-type:float16:float32", "result-type:float16:bfloat16"), [["int8", "int8"]]),
        (of_details("violation", "result-type:float16:float32", "result-shape"), [["int8"], ["int8"]]),
        (FORBIDDEN, [["int8", "int8"]]),
        (REFUSED, [["int8", "int8"]]),
        ([*REFUSED, finding("wrongly-rejected", "56:KeyError", message="another")], [["int8", "int8"], ["int8"]]),
        ([*of_types("crash", "allowed:values", "int2"), *WRAPS], [["int2"], ["uint8", "int4", "int2"]]),
    ],
)
def test_findings_of_one_mistake_are_one_cause(findings: list[dict[str, Any]], expected: list[list[str]]) -> None:
    assert sorted(shapes(findings)) == sorted(expected)
    assert [cause.entry for cause in grouped(findings)] == [cause.entry for cause in grouped(findings[::-1])]


def test_values_that_nothing_explains_join_the_cause_with_their_region() -> None:
    where = "x is not contiguous"
    ignored = finding("violation", "strides-ignored@exact", "uint8", "strides-ignored@exact", region=where)
    unexplained = [finding("violation", f"types:{x}:float16", x, region=where) for x in ("int2", "int4")]
    elsewhere = finding("violation", "types:int8:float16", region=NOWHERE_SIMPLE)
    assert shapes([*unexplained, elsewhere, ignored]) == [["uint8", "int4", "int2"], ["int8"]]


def test_findings_with_different_ledger_states_are_not_grouped() -> None:
    new, expired = ({"ledger": {"state": state, "entry": "e"}} for state in ("new", "expired"))
    listed = grouped([{**WRAPS[0], **new}, {**WRAPS[1], **expired}])
    assert [len(cause.findings) for cause in listed] == [1, 1]
    assert len({cause.id for cause in listed}) == 2


def test_each_departure_of_a_recipe_is_a_cause_and_front_ends_of_one_kernel_share_it() -> None:
    both = finding("violation", "a+b", recipe="a+b", departures=[UNSIGNED, ROUNDED], subject="eager")
    one = finding("violation", "a", recipe="a", departures=[UNSIGNED], subject="function")
    families = {"eager": "eager", "function": "eager"}
    for each in (both, one):
        each["subject"]["family"] = families[each["subject"]["name"]]
    first, second = sorted(grouped([both, one]), key=lambda cause: -len(cause.findings))
    assert first.implementations == ("eager", "function")
    assert (first.title, second.title) == (UNSIGNED["words"], ROUNDED["words"])


@pytest.mark.parametrize(
    ("lowest", "words"),
    [("graph a", "a"), ("graph optimization=basic", "from optimization=basic"), ("", "seen with a")],
)
def test_a_title_claims_no_level_that_nobody_asked_for(lowest: str, words: str) -> None:
    assert graph_in_words(["y>relu:0"], "graph a", lowest, "").endswith(f", {words}")


def _departure(stage: str, option: str) -> dict[str, str]:
    return {"stage": stage, "is": option, "instead": "", "words": option}


@pytest.mark.parametrize(
    ("departures", "mistakes"),
    [
        ((("index", "next"), ("subtraction", "operands-float32")), ["next"]),
        ((("index", "next"), ("operation", "divide")), ["next"]),
        ((("subtraction", "ignored"), ("precision", "float32")), ["ignored"]),
        ((("subtraction", "wrap-int32"), ("final", "truncated")), ["wrap-int32"]),
        ((("scale_cast", "float16"), ("final", "truncated")), ["float16", "truncated"]),
    ],
)
def test_a_rounding_beside_a_wrong_operand_is_no_cause(departures: Any, mistakes: list[str]) -> None:
    listed = grouped([finding("violation", "r", recipe="r", departures=[_departure(*each) for each in departures])])
    assert sorted(cause.title for cause in listed) == mistakes


@pytest.mark.parametrize(
    ("departures", "title"),
    [
        (
            (("scale_cast", "last-bit"), ("final", "last-bit"), ("subtraction", "cast-last-bit")),
            "never rounds up in casts to bfloat16 where the last kept bit is 0",
        ),
        (
            (("operation", "folded"), ("operation", "fused"), ("operation", "fused-float16")),
            "computes x * scale - zero point * scale",
        ),
    ],
)
def test_one_function_is_one_cause_in_whichever_stage_it_is_seen(departures: Any, title: str) -> None:
    made = [
        finding("violation", option, x, option, departures=[_departure(stage, option)], subject="a")
        for (stage, option), x in zip(departures, ("int8", "uint8", "int4"), strict=True)
    ]
    other = finding("violation", "c", "int2", "c", departures=[_departure("scale_cast", "output")], subject="a")
    assert sorted((cause.title, len(cause.findings)) for cause in grouped([*made, other])) == [
        (title, 3),
        ("output", 1),
    ]


STEP, WHOLE = ("scale_cast", "float16"), ("operation", "folded")


@pytest.mark.parametrize(
    ("beside", "alone", "titles"),
    [
        ({}, {}, ["computes x * scale - zero point * scale"]),
        ({"max_ulp": -1}, {"max_ulp": -1}, ["computes x * scale - zero point * scale"]),
        ({"max_ulp": -1}, {}, ["computes x * scale - zero point * scale", "float16"]),
        ({}, {"subject": "b"}, ["computes x * scale - zero point * scale", "float16"]),
        ({}, None, ["computes x * scale - zero point * scale", "float16"]),
    ],
)
def test_a_rounding_seen_only_beside_another_computation_is_a_step_of_it(
    beside: dict[str, Any], alone: dict[str, Any] | None, titles: list[str]
) -> None:
    """Not so if the computation alone is less severe, in another front end, or always rounded in this way."""
    departures = [_departure(*STEP), _departure(*WHOLE)]
    made = [finding("violation", "a+b", "int8", "a+b", departures=departures, **{"subject": "a", **beside})]
    if alone is not None:
        more = {"subject": "a", **alone}
        made.append(finding("violation", "b", "int4", "b", departures=departures[1:], **more))
    for each in made:
        each["subject"]["family"] = "a"
    listed = grouped(made)
    assert sorted(cause.title.partition(" when")[0] for cause in listed) == titles
    assert max(len(cause.findings) for cause in listed) == len(made)


def test_a_zero_without_its_sign_is_a_step_of_an_expansion() -> None:
    """Beside a wrong cast, the sign is a mistake of its own."""
    zero = _departure("zero", "unsigned")
    for whole, count in ((_departure(*WHOLE), 1), (_departure("precision", "float32"), 2)):
        made = [
            finding("violation", "a", "int8", "a", departures=[zero, whole], subject="a"),
            finding("violation", "b", "int4", "b", departures=[whole], subject="a"),
        ]
        assert len(grouped(made)) == count


def test_a_title_names_a_graph_only_if_every_finding_needs_one() -> None:
    witness = {"call": {"around": ["y>relu:0"]}, "got": {"message": ""}, "legal": []}
    within, alone = finding("violation", "a", "int8", "a", witness=witness), finding("mixed", "a", "int4", "a")
    for each in (within, alone):
        each["attribution"]["words"] = "a"
    assert [cause.title for cause in grouped([within])] == ["a, in a graph (Relu after the result)"]
    assert [cause.title for cause in grouped([within, alone])] == ["a"]


@pytest.mark.parametrize(("pair", "adding"), [("uint8", 2), ("own", 1)])
def test_an_added_pair_that_rounds_in_a_wrong_way_joins_the_causes_of_its_mistakes(pair: str, adding: int) -> None:
    """A pair with the call's own parameters keeps every value, so that only its rounding is a mistake."""
    names = (
        f"graph:quantizes-again:{pair}:quantize-truncates",
        "graph:quantize-truncates",
        "graph:quantizes-again:uint8",
    )
    made = [
        finding("violation", name, dtype, name) for name, dtype in zip(names, ("int8", "uint8", "int4"), strict=True)
    ]
    for each, words in zip(
        made, ("adds a pair and truncates", "truncates in QuantizeLinear", "adds a pair"), strict=True
    ):
        each["attribution"]["words"] = words
    assert {cause.title: len(cause.findings) for cause in grouped(made)} == {
        "truncates in QuantizeLinear": 2,
        "adds a pair": adding,
    }


@pytest.mark.parametrize(
    ("zero_point", "of_one", "shown"),
    [
        ("", "next-scale", ["next-scale"]),
        ("int8", "next-scale", ["next", "next-scale"]),
        ("int8", "next-zero-point", ["next", "next-zero-point"]),
        ("", "next-zero-point", ["next", "next-zero-point"]),
    ],
)
def test_a_mistake_with_all_parameters_is_that_with_the_scale_where_there_is_no_other(
    zero_point: str, of_one: str, shown: list[str]
) -> None:
    def misread(name: str, x_dtype: str, zero_point: str) -> dict[str, Any]:
        departures = [{"stage": "index", "is": name, "instead": "", "words": name}]
        made = finding("violation", name, x_dtype, name, departures=departures)
        return {**made, "cells": [{**cell, "zero_point_dtype": zero_point} for cell in made["cells"]]}

    listed = grouped([misread("next", "int8", zero_point), misread(of_one, "uint8", "uint8")])
    assert sorted(cause.title for cause in listed) == shown
    assert sum(len(cause.findings) for cause in listed) == 2


def test_a_flush_beside_another_mistake_is_no_witness_of_a_flush_that_is_seen_alone() -> None:
    flushed = {"stage": "subnormals", "is": "flush-results", "instead": "", "words": "flushes"}
    misread = {"stage": "index", "is": "next", "instead": "", "words": "next"}
    both = finding("violation", "next@flush", recipe="next@flush", departures=[misread, flushed])
    alone = finding("ambiguity", "flush-subnormals", recipe="flush-subnormals")
    (other, flush) = grouped([both, alone])
    assert [each.findings[0]["id"] for each in (other, flush)] == [both["id"], alone["id"]]
    assert len(flush.findings) == 1
    assert len(grouped([both])) == 2, "without the other, this one shows the flush"


def test_a_sentence_that_no_implementation_follows_is_one_cause_in_the_text() -> None:
    about = Context(CLAUSES, {"a": "a", "b": "b"}, frozenset({"own"}), {})
    editions = [contract.rpartition("/")[0] for contract in CLAUSES]
    findings = [
        finding("violation", "r", recipe="r", departures=[ROUNDED], subject=name, contract=edition)
        for name in ("a", "b")
        for edition in editions
    ]
    (cause,) = grouped(findings, about)
    assert (cause.kind, cause.severity, len(cause.findings)) == ("text", Severity.OPEN, 4)
    sentence = "no implementation follows the sentence 'formula' of ai.onnx/DequantizeLinear"
    assert cause.title == f"{sentence}: each rounds the product to float16 first"
    clamped = [{**ROUNDED, "clause": findings[0]["clause"]}, _departure("final", "clamped")]
    several = finding("violation", "s", recipe="s", departures=clamped, subject="b", contract=editions[0])
    several["clause"] = f"{editions[0]}/another"
    assert {c.kind: len(c.findings) for c in grouped([*findings, several], about)} == {"text": 5, "values": 1}
    followed = {name: {**clause, "follow": ["c"]} for name, clause in CLAUSES.items()}
    assert [c.kind for c in grouped(findings, Context(followed, {}, frozenset(), {}))] == ["values", "values"]


@pytest.mark.parametrize(
    ("made", "severity"),
    [
        (finding("crash", "allowed:values"), Severity.ENDS_PROCESS),
        (finding("crash", "forbidden:axis-range:values", survives_without_breach=True), Severity.OPEN),
        (finding("crash", "forbidden:axis-range:values", survives_without_breach=False), Severity.ENDS_PROCESS),
        (finding("memory", "written-after-output"), Severity.ENDS_PROCESS),
        (finding("violation", "a", recipe="a", max_ulp=(1 << 23) - 1), Severity.LAST_PLACES),
        (finding("violation", "a", recipe="a", max_ulp=1 << 23), Severity.WRONG),
        (finding("violation", "a", recipe="a", max_ulp=-1), Severity.WRONG),
        (finding("violation", "a", recipe="a", max_ulp=1 << 23, range_places=3), Severity.LAST_PLACES),
        (finding("violation", "a", recipe="a", max_ulp=1 << 23, range_places=1 << 20), Severity.WRONG),
        # 16 last places of bfloat16 are an eighth of the range.
        (
            finding("violation", "a", recipe="a", max_ulp=1 << 7, range_places=2, out_dtype="bfloat16"),
            Severity.LAST_PLACES,
        ),
        (finding("violation", "a", recipe="a", max_ulp=1 << 7, range_places=16, out_dtype="bfloat16"), Severity.WRONG),
        (finding("mixed", "a", recipe="a"), Severity.OPEN),
        (finding("wrongly-rejected", "integer:ValueError"), Severity.REFUSES),
        (finding("nondeterministic", "threads=8"), Severity.WRONG),
        (finding("nondeterministic", "kernels=own:answers"), Severity.REFUSES),
        (finding("wrongly-accepted", "axis-range"), Severity.NO_VALIDATION),
    ],
)
def test_the_severity_is_the_effect(made: dict[str, Any], severity: Severity) -> None:
    (cause,) = grouped([made])
    assert cause.severity is severity


@pytest.mark.parametrize(("got", "severity"), [("9", Severity.WRONG), ("101", Severity.LAST_PLACES)])
def test_codes_that_end_a_graph_have_no_ulp(got: str, severity: Severity) -> None:
    """The values of the witness decide."""
    entry = {
        "index": [0],
        "got": "0x00",
        "got_decimal": got,
        "legal": [{"hex": "0x64", "decimal": "100", "readings": ["given"]}],
    }
    witness = {"call": {}, "got": {"message": "", "tensor": {"dtype": "uint8"}}, "legal": [entry], "in_graph": True}
    (cause,) = grouped([finding("violation", "graph:Relu", max_ulp=200, witness=witness)])
    assert cause.severity is severity


def test_causes_are_ranked_by_severity_and_then_by_types() -> None:
    listed = [
        finding("wrongly-accepted", "axis"), finding("wrongly-rejected", "integer:E"), *MISREAD[:1],
        finding("violation", "b", "int4", "b", max_ulp=1), finding("violation", "c", "uint8", "c", max_ulp=1),
        finding("crash", "allowed:values"), finding("violation", "d", "int4", "d", max_ulp=-1),
    ]  # fmt: skip
    titles = [cause.first["detail"] for cause in grouped(listed)]
    assert (titles[:2], titles[-2:]) == (["allowed:values", "d"], ["integer:E", "axis"])
    assert titles.index("c") < titles.index("b")


def test_values_that_were_never_written_are_no_cause_of_their_own() -> None:
    noted = {"call": {}, "got": {"message": "", "notes": ["never-written"]}, "legal": []}
    found = [
        finding("violation", "types:int8:float32", witness=noted),
        finding("memory", "never-written", witness=noted),
    ]
    (cause,) = grouped(found)
    assert (cause.kind, cause.first["detail"], len(cause.findings)) == ("memory", "never-written", 2)


def test_a_death_that_is_not_seen_again_comes_after_wrong_values() -> None:
    unconfirmed = finding("crash", "allowed:values", message="killed by SIGSEGV", unconfirmed=True, cases=1)
    wrong, refused = finding("violation", "b", recipe="b", max_ulp=1), finding("wrongly-rejected", "integer:E")
    listed = grouped([unconfirmed, refused, wrong])
    assert [cause.kind for cause in listed] == ["values", "crash", "refusal"]
    assert listed[1].title == (
        "ends the process once on allowed calls (SIGSEGV), but not when the call is repeated alone"
    )
    again = finding("crash", "allowed:values", "int4", message="killed by SIGSEGV")
    for ending in ("the process ended with status 7", "killed by SIGXFSZ: it wrote more than 256 MiB of output"):
        (cause,) = grouped([finding("crash", "allowed:values", message=ending)])
        assert cause.title == f"ends the process on allowed calls ({ending})"
    (cause,) = grouped([unconfirmed, again])
    assert (cause.first, cause.title) == (again, "ends the process on allowed calls (SIGSEGV)")


def test_messages_are_compared_without_numbers_names_and_addresses() -> None:
    assert refusal_of(
        "[ONNXRuntimeError] : 1 : FAIL : no kernel for 'y_1' at /a/b.cc:81"
    ) == "FAIL : no kernel for at" or (
        refusal_of("[ONNXRuntimeError] : 1 : FAIL : no kernel for 'y_1'") == "no kernel for"
    )
    abort = (
        "killed by SIGABRT\nterminate called after throwing\n  what():  could not run {}\nFatal Python error: Aborted"
    )
    assert abort_of(abort.format("")) == "SIGABRT: could not run"
    check = (
        "killed by SIGABRT\nF a.cc:7] Must be non NULL\n*** Check failure stack trace: ***\n    @     0x7f1 (unknown)\n"
    )
    assert abort_of(check) == abort_of(f"{check}Extension modules: numpy, b\n") == "SIGABRT: F a.cc:] Must be non NULL"
    heap = ("free(): invalid size", "munmap_chunk(): invalid pointer", "malloc(): memory corruption (fast)")
    deaths = {abort_of(f"killed by SIGABRT\n{noticed}\nFatal Python error: Aborted\n") for noticed in heap}
    assert deaths == {"SIGABRT: heap corruption"}
    place = 'killed by SIGFPE\nStack (most recent call first):\n  File "a.py", line 1 in call\n  File "b.py", line 2 in execute'
    assert abort_of(place) == "SIGFPE: call, execute"
    own = '\n  File ".../oracles/litert_cpu.py", line 114 in answer'
    assert abort_of(place + own) == "SIGFPE: call, execute"
    assert abort_of(f"killed by SIGFPE\nStack (most recent call first):{own}") == "SIGFPE"


def test_the_telling_line_of_a_message_is_the_first_one_that_does_not_only_name_a_place() -> None:
    where = "Exception from src/core.cpp:105:\nCheck 'false' failed at src/a.cpp:151:\n{} 7 of block 3\n"
    assert refusal_of(where.format("no")) == refusal_of(where.format("no").replace("7", "8")) == "no of block"
    assert refusal_of("no kernel\nits inputs: 3") == "no kernel"
    assert refusal_of(where.format("no") + "\nSummary:\n-- Conversion is failed for: Clip\n\n") == "no of block"


ORT = "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : "


def test_a_refused_type_keeps_its_operator_and_parameter_but_no_name_of_the_graph() -> None:
    message = ORT + (
        "This is an invalid model. Type Error: "
        "Type 'tensor({})' of input parameter ({}) of operator ({}) in node ({}) is invalid."
    )
    slices = {refusal_of(message.format(x, y, "Slice", "")) for x, y in (("uint4", "y_1_q_to_dq"), ("int8", "y_2_q"))}
    assert slices == {"Type of input parameter of operator Slice in node is invalid"}
    listed = [
        ("y_1", "Slice"), ("y_1", "MaxPool"), ("zero_point", "QuantizeLinear"), ("zero_point", "DequantizeLinear"),
        ("scale", "QuantizeLinear"), ("scale", "QLinearConcat"), ("scale", "QLinearMatMul"),
    ]  # fmt: skip
    messages = [message.format("int32", parameter, operator, "y_1") for parameter, operator in listed]
    assert len(set(map(refusal_of, messages))) == len(set(map(slug, messages))) == len(listed)
    assert len(grouped([finding("wrongly-rejected", str(i), message=each) for i, each in enumerate(messages)])) == 7


def test_a_node_that_an_optimiser_names_tells_its_refusal_from_others() -> None:
    message = (
        ORT + "Type Error: Type (tensor(float)) of output arg (y_1) of node ({}) does not match expected type ({})."
    )
    nodes = ("y_1_dq", "y_2_dq", "DequantizeLinear", "QuantizeLinear")
    refusals = [refusal_of(message.format(node, node)) for node in nodes]
    assert refusals[0] == refusals[1]
    assert len(set(refusals)) == 3


def test_a_rounding_left_out_without_an_optimiser_is_no_rewrite() -> None:
    levels = ("graph optimization=off", "graph optimization=extended", "graph optimization=basic", "")
    made = [
        finding("violation", "graph:unrounded", x, "graph:unrounded", lowest=level)
        for level, x in zip(levels, ("int2", "uint8", "int4", "int8"), strict=True)
    ]
    assert sorted(shapes(made), key=len) == [["int2"], ["uint8", "int8", "int4"]]


def test_a_kernel_refuses_alike_when_the_optimiser_computes_its_node() -> None:
    place = (
        "/a/b.cc:{} ort::Status ort::{}<T>::Compute(ort::Context*) const [with T = ort::Float8] zp == 0 was false. no"
    )
    at_run = ORT + "Non-zero status code returned while running {} node. Name:'y_1' Status Message: "
    at_start = "[ONNXRuntimeError] : 1 : FAIL : Exception during initialization: "
    one = refusal_of(at_run.format("Dequantize") + place.format(7, "Dequantize"))
    assert one == refusal_of(at_start + place.format(8, "Dequantize"))
    assert one != refusal_of(at_start + place.format(8, "Quantize"))
    other = at_start + "/a/b.cc:8 bool ort::Fold(ort::Node&) no"
    assert refusal_of(other).startswith("Exception during initialization")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "Exception during initialization: /a/g.cc:5 bool o::utils::Remove(o::Graph&, o::Node&) No use.",
            "Remove: No use.",
        ),
        (
            "Exception during initialization: /a/g.cc:5 T* o::Tensor<T>::Data() const [with T = float] no (1)",
            "Data: no (1)",
        ),
        ("Exception during initialization: /a/g.cc:5 void o::Set(std::function<void(int)>) no", "Set: no"),
        ("Running y. Name:'' Status Message: /a/g.cc:5 T o::F() a == b was false. no", "no"),
        ("Running y. Name:'' Status Message: /a/g.cc:5 T o::F() a == b was false.", "a == b was false."),
        ("Invalid model. Node input 'x' is no input.", "Node input 'x' is no input."),
        ("This is an invalid model. Type Error: Type 'a' is invalid.", "Type 'a' is invalid."),
        ("Node (y_1) Op (Clip) [TypeInferenceError] no", "Op (Clip) [TypeInferenceError] no"),
        (
            "{{function_node __wrapped__D_device_/job:l/replica:0/device:CPU:0}} Input dims must be",
            "Input dims must be",
        ),
        (
            "Detected unsupported operations when trying to compile graph __f[_c=1,e=2] on XLA_CPU: _Arg (No kernel)",
            "_Arg (No kernel)",
        ),
        ("Invalid model. ", "Invalid model. "),
        ("/a/g.cc:5: no", "/a/g.cc:5: no"),
        ("no kernel (1) for 2", "no kernel (1) for 2"),
    ],
)
def test_a_title_begins_with_the_useful_words_of_a_message(line: str, words: str) -> None:
    assert useful_words(line) == words == useful_words(ORT + line if line.startswith("E") else line)


def test_a_cause_is_described_by_types_counts_and_a_sentence() -> None:
    many = ("uint8", "int8", "int4", "int32", "int2")
    granularity = dict(zip(many, ("blocked", "per_axis", "per_tensor", "blocked", "blocked"), strict=True))
    (cause,) = grouped([finding("violation", "wrap-x", x, "wrap-x", granularity=granularity[x]) for x in many])
    assert types(cause) == "uint8, int8, int4 and 2 more types; per tensor, per axis and blocked"
    assert sentence(cause) == "kernel.py:f wrap-x"
    assert counts(cause.findings) == "10 calls, 50 values, 5 cells, up to 1 ULP"
    (accepted,) = grouped(
        [finding("wrongly-accepted", c, clause=f"{ONNX}/{c}") for c in ("axis", "rank", "x-type", "y-type")]
    )
    expected = "kernel.py:f does not validate: it computes calls that 4 clauses forbid (axis, rank, x-type and 1 more)"
    assert sentence(accepted) == expected
    axis, again, rank = (
        finding("wrongly-accepted", detail, clause=f"{ONNX}/{detail.partition(':')[0]}")
        for detail in ("axis", "axis:never-written", "rank:never-written")
    )
    (both,) = grouped([rank, again, axis])
    assert both.first is axis
    expected = "it computes calls that 1 clause forbids (axis); it accepts calls that 1 clause forbids (rank), and writes nothing"
    assert both.title == f"does not validate: {expected}"
    (nothing,) = grouped([again, rank])
    assert (
        nothing.title == "does not validate: it accepts calls that 2 clauses forbid (axis and rank), and writes nothing"
    )
    (refused,) = grouped([finding("wrongly-rejected", f"{kind}:zero-point:KeyError") for kind in ("float8", "integer")])
    assert sentence(refused) == "kernel.py:f refuses allowed calls: KeyError"


def test_the_effect_is_a_wrong_value_in_plain_numbers() -> None:
    tensors = {
        "x": {"dtype": "int8", "shape": [2], "data": ["1", "-5"], "hex": []},
        "scale": {"dtype": "float32", "shape": [2], "data": ["1.0", "0.5"], "hex": []},
    }
    legal = [{"index": [1], "got": "0x0", "got_decimal": "0.0", "legal": [{"hex": "0xc0200000", "decimal": "-2.5"}]}]
    witness = {"call": {"tensors": tensors, "attributes": {"axis": 0}}, "got": {"message": ""}, "legal": legal}
    (cause,) = grouped([finding("violation", "a", recipe="a", witness=witness)])
    assert cause.effect == "int8 -5 with scale 0.5 becomes 0 instead of -2.5"
    assert sentence(cause).endswith(f": {cause.effect}")


@pytest.mark.parametrize(
    ("block_size", "axis", "index", "words"),
    [
        (2, 1, [0, 2], " with scale 0.5"),
        (2, -1, [0, 2], " with scale 0.5"),
        (3, 1, [0, 2], " with scale 1"),
        (1, 1, [0, 2], ""),  # the third block has no scale
        (0, 1, [0, 2], ""),
    ],
)
def test_the_effect_of_a_blocked_call_has_the_scale_of_its_block(
    block_size: int, axis: int, index: list[int], words: str
) -> None:
    tensors = {
        "x": {"dtype": "int8", "shape": [1, 3], "data": ["1", "2", "-5"], "hex": []},
        "scale": {"dtype": "float32", "shape": [1, 2], "data": ["1.0", "0.5"], "hex": []},
    }
    legal = [{"index": index, "got": "0x0", "got_decimal": "0.0", "legal": [{"hex": "0xc0200000", "decimal": "-2.5"}]}]
    attributes = {"axis": axis, "block_size": block_size}
    witness = {"call": {"tensors": tensors, "attributes": attributes}, "got": {"message": ""}, "legal": legal}
    (cause,) = grouped([finding("violation", "a", recipe="a", witness=witness)])
    assert cause.effect == f"int8 -5{words} becomes 0 instead of -2.5"


def test_the_effect_is_a_value_inside_the_region() -> None:
    """The greater error at 1 has another reason, such as a flushed subnormal number."""
    x = {"dtype": "int32", "shape": [2], "data": ["1", "2147483647"], "hex": []}
    errors = ((0, "0.0", "1e-38"), (1, "2.0", "1.0"))
    legal = [
        {"index": [i], "got": got, "got_decimal": got, "legal": [{"hex": due, "decimal": due}]}
        for i, got, due in errors
    ]
    witness = {
        "call": {"tensors": {"input": x}, "attributes": {"mode": "SCALED"}},
        "got": {"message": ""},
        "legal": legal,
    }
    region = {"name": "x >= 2147400000.0", "words": "x >= 2147400000"}
    (cause,) = grouped([{**finding("violation", "a", recipe="a", witness=witness), "region": region}])
    assert cause.effect == "int32 2147483647 with mode SCALED becomes 2 instead of 1"


def test_an_effect_in_float16_has_the_exact_numbers() -> None:
    """The shortest decimals of float16 are up to four digits: "-2.978e+04" is -29776."""
    tensors = {
        "x": {"dtype": "int32", "shape": [], "data": ["-376923895"], "hex": []},
        "scale": {"dtype": "float16", "shape": [], "data": ["7.9e-05"], "hex": []},
    }
    due = [{"hex": "0xf744", "decimal": "-2.976e+04"}]
    legal = [{"index": [], "got": "0xf745", "got_decimal": "-2.978e+04", "legal": due}]
    witness = {"call": {"tensors": tensors, "attributes": {}}, "got": {"message": ""}, "legal": legal}
    (cause,) = grouped([finding("violation", "a", recipe="a", out_dtype="float16", witness=witness)])
    assert cause.effect == "int32 -376923895 with scale 7.89761543e-05 becomes -29776 instead of -29760 in float16"


def test_the_text_that_a_package_ships_is_shown_before_that_of_a_seed() -> None:
    contract = "tensorflow/Dequantize@{}"
    crashes = [
        finding("crash", "allowed:empty", x, contract=contract.format(text), message="killed by SIGFPE")
        for x, text in (("uint8", "seed"), ("int8", "installed"))
    ]
    (cause,) = grouped(crashes)
    assert cause.first["contract"] == contract.format("installed")


def test_a_title_has_the_first_sentence_of_a_long_message() -> None:
    what = "could not create a primitive descriptor for the reorder primitive. Run workload with ONEDNN_VERBOSE=all to get more"
    message = f"killed by SIGABRT\nterminate called after throwing\n  what():  {what}"
    (cause,) = grouped([finding("crash", "allowed:values", message=message)])
    assert cause.title == f"ends the process on allowed calls ({what.partition('. ')[0]}; SIGABRT)"


def test_a_title_names_what_all_findings_on_allowed_calls_need() -> None:
    died = {"message": "killed by SIGABRT", "needs": "a negative axis"}
    forbidden = finding("crash", "forbidden:axis-range:values", "int4", message="killed by SIGABRT")
    (cause,) = grouped([finding("crash", "allowed:values", **died), forbidden])
    assert cause.title == "ends the process on allowed calls with a negative axis (SIGABRT)"
    (cause,) = grouped(
        [finding("crash", "allowed:values", **died), finding("crash", "allowed:a", "int4", message="killed by SIGABRT")]
    )
    assert cause.title == "ends the process on allowed calls (SIGABRT)"
    (cause,) = grouped([finding("violation", "wrap-x", recipe="wrap-x", needs="a negative axis")])
    assert cause.title == "wrap-x with a negative axis"
    (cause,) = grouped([finding("wrongly-rejected", "integer:E", needs="a negative axis")])
    assert cause.title == "refuses allowed calls with a negative axis: E"


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        ("mixed", "10 values in 2 calls, each allowed, but not all by the same rule of rounding"),
        ("ambiguity", "10 values in 2 calls that the text leaves open"),
    ],
)
def test_values_that_no_text_forbids_are_counted_apart_from_wrong_ones(inside: str, words: str) -> None:
    recipe = "flush-subnormals" if inside == "ambiguity" else "wrap-x"
    departures = [{"stage": "subnormals", "is": "flush"}] if inside == "ambiguity" else []
    made = [finding(verdict, recipe, "int8", recipe, departures=departures) for verdict in ("violation", inside)]
    made[1].update(max_ulp=0, cells=[{"x_dtype": "int4", "granularity": "per_axis"}])
    (cause,) = grouped(made)
    assert cause.entry["values"] == 10
    assert cause.entry["cases"] == 4
    assert types(cause) == ""
    assert seen(cause) == f"2 calls, 10 values, 1 cell, up to 1 ULP; also {words}"
    (alone,) = grouped(made[1:])
    assert alone.entry["values"] == 10
    assert seen(alone) == "2 calls, 10 values, 1 cell"


def test_calls_that_the_text_forbids_are_counted_apart_and_give_no_types() -> None:
    made = [
        finding("crash", detail, x, message="killed by SIGABRT")
        for x, detail in (
            ("uint8", "allowed:values"),
            ("int4", "forbidden:axis-range:values"),
            ("int2", "unspecified:axis:values"),
        )
    ]
    (cause,) = grouped(made)
    assert types(cause) == ""
    beside = "also 2 calls that the text forbids and 2 calls that the text leaves open"
    assert seen(cause) == f"2 calls, 10 values, 1 cell, up to 1 ULP; {beside}"
    (cause,) = grouped([finding("wrongly-accepted", "axis-range", x) for x in ("uint8", "int8")])
    assert seen(cause) == "4 calls, 20 values, 2 cells, up to 1 ULP"
