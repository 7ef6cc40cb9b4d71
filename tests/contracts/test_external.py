"""A user's own edition: the example is loaded, swept, explained and replayed."""

from __future__ import annotations

import importlib
import json
from fractions import Fraction
from pathlib import Path

import exact
import pytest
from click.testing import CliRunner
from folders import ROOT

from xverify import cli, contracts
from xverify.contracts.single import single_call
from xverify.core.call import Call
from xverify.core.dtypes import tensor
from xverify.core.errors import ContractFileError, UsageError
from xverify.engine.select import contracts_named
from xverify.report import load

EXAMPLE = ROOT / "examples" / "vendor_edition.py"
ID = "acme/DequantizeLinear-1"


def xverify(*words: object, code: int = 0) -> str:
    """Run a command and return its output, with white space folded. Check its exit code."""
    result = CliRunner(env={"COLUMNS": "200"}).invoke(cli.main, [str(word) for word in words])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return " ".join(result.output.split())


def altered(directory: Path, old: str, new: str) -> Path:
    """The example with one piece replaced."""
    text = EXAMPLE.read_text()
    assert old in text, old
    path = directory / "mine.py"
    path.write_text(text.replace(old, new))
    return path


# -- the names that an edition imports -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("linear", "along_axis ceil_div has_nonzero linear_operands normal_axis repeated spread"),
        ("readings", "EXACT EXACT_QUOTIENT FLOAT32 FLOAT32_QUOTIENT OUTPUT Stepwise by_name evaluate_all"),
        ("ranges", "MIN_COMBINED MIN_FIRST SCALED_FLOAT SCALED_SYMMETRIC"),
        ("model", "ALLOWED Cell Clause Codes Contract Domain Judgement Operands Reading TextCheck judged"),
    ],
)
def test_the_public_names_of_an_edition_stay_where_they_are(module, names):
    public = importlib.import_module(f"xverify.contracts.{module}")
    assert set(names.split()) <= set(public.__all__)
    assert all(hasattr(public, name) for name in public.__all__)


# -- the example --------------------------------------------------------------------------------------


def test_the_example_is_an_edition():
    (edition,) = contracts.from_file(EXAMPLE)
    assert edition.id == ID
    assert edition.asked_as == "ai.onnx/DequantizeLinear-21"
    assert ID not in contracts.ids(), "nothing is registered"
    call = single_call(edition, {"x": ("int8", 0x85), "scale": ("bfloat16", 0x3F80)}, {})
    assert edition.judge(call).verdict == "allowed"


@pytest.mark.parametrize(
    ("block_size", "clause"),
    [(32, None), (16, "block-size"), (0, "block-size"), (None, "block-size"), (33, "block-size")],
)
def test_the_example_allows_blocks_of_32_only(block_size, clause):
    (edition,) = contracts.from_file(EXAMPLE)
    attributes = {} if block_size is None else {"block_size": block_size}
    tensors = {"x": tensor("int8", [[1] * 40] * 2), "scale": tensor("bfloat16", [[1.0, 2.0]] * 2)}
    call = Call(ID, tensors, {"axis": 1, **attributes})
    judgement = edition.judge(call)
    assert judgement.clauses == ((f"{ID}/{clause}",) if clause else ())
    if not clause:
        (reading,) = edition.readings(call)
        given = reading.evaluate(edition.operands(call))
        assert [exact.decode("bfloat16", int(c)) for c in given[0]] == [Fraction(1)] * 32 + [Fraction(2)] * 8


def test_a_sweep_of_the_example_judges_the_kernel_and_shows_the_others_beside_it(tmp_path):
    words = ["--oracle", "onnx-reference", "--cases", "200", "--seed", "3", "--runs", tmp_path]
    xverify("sweep", "--contract", EXAMPLE, *words, "--json", tmp_path / "out.json")
    report = load(tmp_path / "out.json")
    cells = report["coverage"]["cells"]
    assert {cell["contract"] for cell in cells} == {ID}
    status = {(cell["subject"], cell["status"]) for cell in cells}
    assert ("xverify-numpy", "agrees") in status
    assert ("onnx-reference", "not-judged-agrees") in status
    assert {"per_tensor", "blocked"} <= {cell["granularity"] for cell in cells}
    assert {subject.partition("[")[0] for subject, _ in status} == {"xverify-numpy", "onnx-reference"}
    assert report["findings"] == [], "what only Acme forbids is not asked of a kernel that is asked as ONNX"
    broken = {c["id"] for c in report["editions"][0]["clauses"] if c["tested"]}
    assert f"{ID}/block-size" in broken


def test_the_example_is_explained():
    data = json.loads(
        CliRunner()
        .invoke(
            cli.main,
            ["explain", "--contract", str(EXAMPLE), "--x", "218", "--zero-point", "3", "--scale", "0.1",
             "--oracle", "xverify-numpy", "--oracle", "onednn-formula-divide", "--format", "json"],
        )
        .output
    )  # fmt: skip
    scale = exact.decode("bfloat16", exact.round_to("bfloat16", Fraction(1, 10)))
    expected = exact.round_to("bfloat16", 215 * scale)
    assert data["contract"] == ID
    assert [int(r["hex"], 16) for r in data["results"] if r["legal"]] == [expected]
    assert data["clauses"][0]["document"].startswith("Acme NPU operator manual")
    (answer,) = data["implementations"]
    assert (answer["name"], int(answer["hex"], 16), answer["legal"]) == ("xverify-numpy", expected, True)
    assert data["not_asked"] == ["onednn-formula-divide does not take calls of ai.onnx/DequantizeLinear-21"]


def test_the_example_is_listed_and_explained_with_its_clauses():
    shown = xverify("contracts", EXAMPLE)
    assert "implementations run it as calls of ai.onnx/DequantizeLinear-21" in shown
    assert "A block has 32 elements along axis" in shown
    said = xverify("explain", "--contract", EXAMPLE, "--x", 3, "--scale", 1, "--no-oracles")
    assert 'formula, Acme NPU operator manual, revision C, section 4.2: "y = (x - x_zero_point) * x_scale' in said


def test_a_vendor_that_divides_gets_a_violation_which_is_replayed_with_the_file_only(tmp_path):
    path = altered(tmp_path, "EXACT", "EXACT_QUOTIENT")
    words = ["--oracle", "xverify-numpy", "--cases", "60", "--runs", tmp_path / "runs", "--json", tmp_path / "out.json"]
    xverify("sweep", "--contract", path, *words)
    report = load(tmp_path / "out.json")
    violations = [finding for finding in report["findings"] if finding["verdict"] == "violation"]
    assert {finding["clause"] for finding in violations} == {f"{ID}/formula"}
    (run,) = (tmp_path / "runs").iterdir()
    alone = xverify("replay", violations[0]["id"], "--run", run, code=3)
    assert f"no edition is called '{ID}' here" in alone
    assert "--contract path.py" in alone
    assert xverify("replay", violations[0]["id"], "--run", run, "--contract", path, code=1).startswith("STILL")
    right = xverify("replay", violations[0]["id"], "--run", run, "--contract", EXAMPLE, code=0)
    assert right.startswith("FIXED"), "the kernel multiplies, as the example's own text says"


def test_editions_of_a_file_stand_beside_built_in_ones(tmp_path):
    named, _ = contracts_named(["ai.onnx/DequantizeLinear-13", str(EXAMPLE), str(EXAMPLE)])
    assert [edition.id for edition in named] == ["ai.onnx/DequantizeLinear-13", ID]
    with pytest.raises(UsageError, match="is defined by a file that was named before"):
        contracts_named([str(EXAMPLE), str(altered(tmp_path, "Acme NPU operator", "Acme operator"))])
    several = altered(
        tmp_path,
        "def contract() ->",
        "from dataclasses import dataclass, replace\n\n\n@dataclass\nclass Aside:\n    field: int = 0\n\n\ndef contract() ->",
    )
    several.write_text(several.read_text() + "\n\nCONTRACTS = (contract(),)\n")
    assert [edition.id for edition in contracts.from_file(several)] == [ID]


def line_of(text: str) -> int:
    """The number of the first line of the example that contains a text."""
    lines = EXAMPLE.read_text().splitlines()
    return 1 + next(index for index, line in enumerate(lines) if text in line)


# -- mistakes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("def contract()", "def contrakt()", "it defines neither a function contract() nor CONTRACTS"),
        ("def contract() ->", "contract = 3\n\n\ndef other() ->", "neither a function contract() nor CONTRACTS"),
        ("    return Contract(", "    return dict(", "an edition is an xverify.contracts.Contract, not a dict"),
        ("def contract() ->", "CONTRACTS = ()\n\n\ndef contract() ->", "CONTRACTS is a tuple of one or more Contracts"),
        ("def judge(call: Call)", "def judge(call: Call", f"line {line_of('def judge(call: Call)')}: "),
        ("from xverify.core.call import Call", "import acme", ": running it raised ModuleNotFoundError: No module"),
        ("    clauses = [", "    raise KeyError('x')\n    clauses = [", "contract() raised KeyError: 'x'"),
        ('ID = "acme/DequantizeLinear-1"', 'ID = "acme"', 'an id looks like "vendor/Operator-1"'),
        (
            'ID = "acme/DequantizeLinear-1"',
            'ID = "ai.onnx/DequantizeLinear-21"',
            "the id is that of a built-in edition",
        ),
        ('ID = "acme/', 'ID = "ai.onnx/', "begin yours with the vendor's own name"),
        ('Clause(f"{ID}/{name}", text', 'Clause(f"acme/{name}", text', "does not begin with the edition's"),
        ('clauses={clause.id: clause for clause in clauses}', "clauses={}", "there is none"),
        ("{clause.id: clause for", "{clause.id[:-1]: clause for", "is listed as"),
        ('    "formula": "y', '    "recipe": "y', "no clause gives the formula"),
        ('"y = (x - x_zero_point) * x_scale; the difference is taken in int16, the product is rounded once."', '""',
         "has no text; where the document is silent, a note says on what"),
        ('x_dtypes=("int8", "uint8")', "x_dtypes=()", "the domain is empty: x_dtypes"),
        ('x_dtypes=("int8", "uint8")', 'x_dtypes=("int8", "uint7")', "x_dtypes has 'uint7'"),
        ('attributes=("axis", "block_size"),', 'zero_point_dtypes=("float64",),', "zero_point_dtypes has 'float64'"),
        ('attributes=("axis", "block_size"),', 'zero_point_dtypes=("int32", 7),', "zero_point_dtypes has 7, which is none of"),
        ('attributes=("axis", "block_size"),', 'zero_point_dtypes="float32",', "zero_point_dtypes is a tuple of types, or None"),
        ('attributes=("axis", "block_size"),', 'zero_point_dtypes=(), zero_point_required=True,',
         "zero_point_required is set, and zero_point_dtypes is empty"),
        ('("per_tensor", "blocked")', '("per_tensor", "per_block")', "granularities has 'per_block'"),
        ('family="linear"', 'family="affine"', "the family is linear or range, not 'affine'"),
        ('        like="ai.onnx/DequantizeLinear-21",\n', "", "like is empty"),
        ('like="ai.onnx/DequantizeLinear-21"', 'like="ai.onnx/DequantizeLinear"', "which is no built-in edition"),
        ('like="ai.onnx/DequantizeLinear-21"', 'like="tensorflow/Dequantize@seed"', "is not"),
        ("return judged(ID, broken, [])", "return broken", "judge gives a list, not a Judgement"),
        ("return judged(ID, broken, [])", 'return judged(ID, ["nonsense"], [])', "judge names the clause"),
        ("return judged(ID, broken, [])", 'return judged(ID, ["x-type"], [])', "it allows none of its simplest calls"),
        ('axis = normal_axis(int(call.attributes.get("axis", 1))', 'axis = normal_axis(int(call.attributes["axis"])',
         "judge of the simplest call (x int8, scale bfloat16, zero_point int8) raised KeyError"),
        ("return Cell(ID,", 'return Cell("acme/Other-1",', "cell gives one of the edition 'acme/Other-1'"),
        ('linear_operands(call, "bfloat16"', 'linear_operands(call, "float32"', "operands gives the output type 'float32'"),
        ("return (EXACT,)", "return ()", "readings gives no reading"),
        ("return (EXACT,)", "return (EXACT, EXACT)", "two readings have the same name"),
        ("return (EXACT,)", "return (call.data,)", "readings of the simplest call"),
        ('return f"{ID}/formula"', 'return "formula"', "value_clause gives 'formula'"),
    ],
)  # fmt: skip
def test_each_mistake_in_a_file_is_one_sentence(tmp_path, old, new, complaint):
    path = altered(tmp_path, old, new)
    with pytest.raises(ContractFileError) as error:
        contracts.from_file(path)
    assert str(error.value).startswith(f"{path}: ")
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


def test_a_reading_that_gives_codes_of_another_width_is_refused(tmp_path):
    path = altered(
        tmp_path,
        "def readings(",
        "class Wide:\n    name = words = 'wide'\n\n    def evaluate(self, given):\n"
        "        return EXACT.evaluate(given).astype('uint32')\n\n    def simplified(self, given):\n        return self\n\n\n"
        "def readings(",
    )
    path.write_text(path.read_text().replace("return (EXACT,)", "return (Wide(),)"))
    with pytest.raises(ContractFileError, match="the reading 'wide' gives uint32"):
        contracts.from_file(path)


@pytest.mark.parametrize(
    "command", [["sweep", "--contract"], ["explain", "--x", "1", "--scale", "1", "--contract"], ["contracts"]]
)
def test_a_file_that_is_not_there_is_a_usage_error(tmp_path, command):
    path = tmp_path / "nowhere.py"
    assert f"{path}: the file cannot be read: No such file" in xverify(*command, path, code=2)


def test_a_file_that_is_not_text_or_not_python_is_a_usage_error(tmp_path):
    (tmp_path / "binary.py").write_bytes(bytes(range(256)))
    (tmp_path / "exits.py").write_text("raise SystemExit(0)\n")
    (tmp_path / "edition.txt").write_text("formula: (x - zp) * s\n")
    lost = altered(tmp_path, "from xverify.core.call import Call", "import acme")
    line = line_of("from xverify.core.call import Call")
    assert f"line {line}: running it raised ModuleNotFoundError" in xverify("contracts", lost, code=2)
    assert "binary.py: " in xverify("contracts", tmp_path / "binary.py", code=2)
    assert "line 1: running it raised SystemExit" in xverify("contracts", tmp_path / "exits.py", code=2)
    assert "edition.txt: line 1: running it raised NameError" in xverify("contracts", tmp_path / "edition.txt", code=2)
    assert "Is a directory" in xverify("contracts", directory(tmp_path / "folder.py"), code=2)


def directory(path: Path) -> Path:
    path.mkdir()
    return path
