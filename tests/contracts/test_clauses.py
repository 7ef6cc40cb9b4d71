"""Clauses against the documents that they quote, and texts that contradict themselves."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from folders import ROOT
from quoted_text import folded, quoted_but_absent
from walked_calls import EDITIONS, every_nth
from written_calls import DNN, MS, ONNX, TF, call_of, changed_calls, random_call

from xverify import contracts
from xverify.contracts import documents, microsoft, onnx, tensorflow
from xverify.core.errors import DocumentError

SEEDS = ROOT.parent / "shared" / "seeds"


@pytest.mark.parametrize("identity", EDITIONS)
def test_every_clause_is_there(identity: str) -> None:
    contract = contracts.get(identity)
    rng = np.random.default_rng(3)
    changed = changed_calls(contract)
    if identity.startswith(ONNX):
        changed += [random_call(int(identity.removeprefix(ONNX)), rng) for _ in range(200)]
    named = {clause for call in changed for clause in contract.judge(call).clauses}
    assert len(named) >= 5
    for call in [*every_nth(identity, 31), *changed]:
        named |= {contract.value_clause(call, name) for name in (None, "exact", "float32", "output")}
    assert named <= set(contract.clauses), f"named but not listed: {named - set(contract.clauses)}"
    assert f"{identity}/subnormal" in contract.clauses
    for name, clause in contract.clauses.items():
        assert clause.id == name
        assert clause.text or clause.note, f"{name} has neither a sentence nor a note"
        assert clause.document == contract.document
    texts = [check.clause for check in contract.text_checks()]
    assert set(texts) <= set(contract.clauses)


def columns(text: str) -> str:
    """The cells of reStructuredText grid tables, with the lines of each column joined."""
    cells = []
    for table in re.findall(r"(?:^[+|].*\n)+", text, re.MULTILINE):
        lines = table.splitlines()
        cuts = [m.start() for m in re.finditer(r"\+", lines[0])]
        rows: list[list[str]] = [[]]
        for line in lines[1:]:
            if line.startswith("+"):
                rows.append([])
            else:
                rows[-1].append(line)
        for row in rows:
            cells += [" ".join(line[a + 1 : b] for line in row) for a, b in pairwise(cuts)]
    return " ; ".join(cells)


def schema_document(schema: documents.Schema) -> str:
    """The text of a schema, with the lines that `Schema.type_text` makes of its types."""
    names = [*(name for name, *_ in schema.inputs), *(name for name, *_ in schema.outputs)]
    lines = [schema.type_text(name) for name in names] + ["Attributes: " + (", ".join(schema.attributes) or "none")]
    return "\n".join([schema.text(), *lines])


@pytest.mark.parametrize("identity", [i for i in contracts.ids() if i.startswith(ONNX) or i.endswith("@installed")])
def test_installed_sentences_are_quoted_from_what_is_installed(identity: str) -> None:
    contract = contracts.get(identity)
    if identity.startswith(TF):
        text = re.sub(r"```(c\+\+)?", "", documents.tensorflow_docstring())
        text += "\nArgs: " + ", ".join(contract.domain.attributes)
    elif identity.startswith(ONNX):
        version = int(identity.removeprefix(ONNX))
        text = schema_document(documents.schemas("onnx")["", "DequantizeLinear", version])
    else:
        text = schema_document(documents.schemas("onnxruntime")["com.microsoft", "DequantizeLinear", 1])
    assert quoted_but_absent(contract, text) == []
    assert quoted_but_absent(contract, text.replace("formula", "recipe").replace("out[i]", "out")) != []


SEED_OF = {MS + "seed": "003_*", DNN + "multiply": "001_*", DNN + "divide": "002_*", TF + "seed": "004_*"}


def seed(pattern: str) -> str:
    # The seed documents are not ours to commit: they lie beside the checkout where the project is built, not with its users.
    if not SEEDS.is_dir():
        pytest.skip(f"the seed documents are not in {SEEDS}")
    (path,) = SEEDS.glob(pattern)
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize(("identity", "pattern"), SEED_OF.items())
def test_seed_sentences_are_quoted_from_the_seeds(identity: str, pattern: str) -> None:
    text = seed(pattern)
    without_tables = re.sub(r"^[=| ]*===[=| ]*$", "", text, flags=re.MULTILINE)
    document = " ; ".join([without_tables, columns(text), without_tables])
    assert quoted_but_absent(contracts.get(identity), document) == []


def test_clauses_from_attributes_and_from_quantizelinear(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attributes are listed. The shape of blocked scales comes from QuantizeLinear if there is one."""
    assert contracts.get(ONNX + "10").clauses[f"{ONNX}10/attributes"].text == "Attributes: none"
    assert contracts.get(ONNX + "13").clauses[f"{ONNX}13/attributes"].text == "Attributes: axis"
    block_shape = f"{ONNX}21/block-shape"
    note = contracts.get(ONNX + "21").clauses[block_shape].note
    assert note.startswith("QuantizeLinear, to which the text refers")
    assert "ceil(Di/B)" in note
    schemas = {key: schema for key, schema in documents.schemas("onnx").items() if key[1] != "QuantizeLinear"}
    monkeypatch.setattr(onnx, "schemas", lambda package: schemas)
    assert onnx.contract(21).clauses[block_shape].note == ""


@pytest.mark.parametrize("version", [10, 13])
def test_onnx_agrees_with_its_seed(version: int) -> None:
    section = seed("000_*").split(f"\nDequantizeLinear - {version}\n")[1].split(".. toctree::")[0]
    schema = documents.schemas("onnx")["", "DequantizeLinear", version]

    def plain(text: str) -> str:
        return folded(re.sub(r"['\"*]", "", text)).replace("- ", "-")

    summary = section.split("**Summary**")[1].split("\n\n**")[0]
    assert plain(summary) == plain(schema.doc)
    for description in [*schema.attributes.values(), *(i[2] for i in schema.inputs), *(o[2] for o in schema.outputs)]:
        assert plain(description).replace("per-tensor/ layer", "per-tensor/layer") in plain(section), description
    for name, listed in schema.types.items():
        match = re.search(rf"\*\*{name}\*\* in \((.*?)\):", section, re.DOTALL)
        assert match, name
        assert set(re.findall(r"tensor\((\w+)\)", match.group(1))) == set(listed)


# -- texts that contradict themselves, and types from schemas ---------------------------------------------


def test_the_examples_that_contradict_their_page(monkeypatch: pytest.MonkeyPatch) -> None:
    contract = contracts.get(MS + "seed")
    by_example = {check.call.origin: check.clause for check in contract.text_checks() if check.call is not None}
    assert by_example == {"example _e4m3fn": MS + "seed/x-type", "example _e5m2": MS + "seed/x-type"}
    examples = microsoft._EXAMPLES
    monkeypatch.setattr(microsoft, "_EXAMPLES", examples[:2])
    assert contract.text_checks() == ()
    name, dtype, x, scale, zero_point, axis, printed = examples[0]
    misprint = (name, dtype, x, scale, zero_point, axis, [*printed[:-1], printed[-1] + 1])
    monkeypatch.setattr(microsoft, "_EXAMPLES", (misprint,))
    assert [check.clause for check in contract.text_checks()] == [MS + "seed/formula"]


def test_the_seed_examples_are_the_pages() -> None:
    text = folded(seed("003_*"))
    for name, dtype, x, *_, printed in microsoft._EXAMPLES:
        section = text.split(f" {name} import numpy")[1].split("expect(")[0]
        assert folded(str(x)).replace(" ", "") in section.replace(" ", "").replace(",]", "]"), name
        assert printed is None or folded(str(printed)).replace(" ", "") in section.replace(" ", ""), name
        assert dtype.replace("_", "").replace("e4m3", "E4M3").upper() in section.upper(), name


def test_a_bound_that_contradicts_its_prose(monkeypatch: pytest.MonkeyPatch) -> None:
    (check,) = contracts.get(TF + "seed").text_checks()
    assert check.clause == TF + "seed/formula-scaled"
    assert "-64" in check.summary
    assert "-127" in check.summary
    monkeypatch.setattr(tensorflow, "_SEED_LOWEST", "-((1 << (num_bits - 1)) - 1)")
    assert tensorflow._seed_check() == ()


def test_a_name_declared_twice() -> None:
    text = documents.tensorflow_docstring()
    (check,) = contracts.get(TF + "installed").text_checks()
    assert "max_expected_T" in check.summary
    corrected = text.replace("const float max_expected_T = std::numeric_limits<float>::max();", "")
    assert corrected != text
    assert tensorflow._redeclared(corrected) == ()


def test_types_come_from_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    by_version = dict(documents.schemas("onnx"))
    key = ("", "DequantizeLinear", 21)
    by_version[key] = replace(by_version[key], types={"T1": ("int2", "float32"), "T2": ("float16",)})
    monkeypatch.setattr(onnx, "schemas", lambda package: by_version)
    contract = onnx.contract(21)
    domain = contract.domain
    assert (domain.x_dtypes, domain.scale_dtypes, domain.output_dtypes) == (
        ("int2", "float32"),
        ("float16",),
        ("float16",),
    )
    for text, expected in (
        ("x=int2[3] scale=float16[]", "allowed"),
        ("x=int8[3] scale=float16[]", "forbidden"),
        ("x=int2[3] scale=float32[]", "forbidden"),
    ):
        assert contract.judge(call_of(contract.id, text)).verdict == expected, text
    del by_version[key]
    with pytest.raises(DocumentError, match="has no DequantizeLinear-21"):
        onnx.contract(21)


def test_microsoft_types_come_from_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    key = ("com.microsoft", "DequantizeLinear", 1)
    old = documents.schemas("onnxruntime")[key]
    changed = replace(
        old, inputs=tuple((*i[:3], False) for i in old.inputs), types={"T1": ("int8",), "T2": ("bfloat16",)}
    )
    monkeypatch.setattr(microsoft, "schemas", lambda package: {key: changed})
    contract = microsoft.installed_contract()
    assert (contract.domain.x_dtypes, contract.domain.scale_dtypes) == (("int8",), ("bfloat16",))
    assert contract.judge(call_of(contract.id, "x=int8[3] scale=bfloat16[] zp=int8[]")).verdict == "allowed"
    (clause,) = contract.judge(call_of(contract.id, "x=int8[3] scale=bfloat16[]")).clauses
    assert clause in contract.clauses


def test_a_schema_of_onnxruntime_that_differs_is_a_finding_on_the_text(monkeypatch) -> None:
    """Another sentence, or another type, in onnxruntime's own schema would be a finding on the text."""
    from xverify.contracts import documents, onnx

    key = ("", "DequantizeLinear", 21)
    usual = onnx.contract(21).text_checks()
    theirs = documents.schemas("onnxruntime")[key]
    fewer = replace(theirs, types={**theirs.types, "T2": ("float32",)})
    for other in (replace(theirs, doc=theirs.doc + " Rounds."), fewer):
        by_version = {"onnx": documents.schemas("onnx"), "onnxruntime": {key: other}}
        monkeypatch.setattr(onnx, "schemas", by_version.__getitem__)
        (check,) = (check for check in onnx.contract(21).text_checks() if check.name not in {c.name for c in usual})
        assert "is not that of onnx" in check.summary
