"""Documents that are newer than the code: their editions are listed and swept, and a check fails."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from folders import SUPPORT

from xverify import cli, contracts
from xverify.contracts import documents, onnx
from xverify.core.errors import DocumentError

MADE_UP = "ai.onnx/DequantizeLinear-99"


def assumptions() -> list[str]:
    """The sentences on what the editions that can be read here have and the code does not know."""
    sentences: list[str] = []
    for identity in contracts.ids():
        try:
            sentences += contracts.get(identity).assumptions
        except DocumentError:
            continue
    return sentences


def test_no_installed_document_has_a_version_or_a_type_that_the_code_does_not_know() -> None:
    assert assumptions() == [], "read the texts (xverify contracts --diff), write their rules, then raise NEWEST_READ"


def test_every_version_of_the_installed_onnx_is_an_edition() -> None:
    installed = {
        version for domain, name, version in documents.schemas("onnx") if (domain, name) == onnx.key(MADE_UP)[:2]
    }
    assert len(installed) >= 8
    assert {f"ai.onnx/DequantizeLinear-{version}" for version in installed} <= set(contracts.ids())
    assert contracts.newest() == contracts.get("ai.onnx/DequantizeLinear").id == contracts.ids()[len(installed) - 1]


def forget() -> None:
    for cached in (documents.schemas, contracts._family, contracts.get):
        cached.cache_clear()


@pytest.fixture(scope="module")
def newer() -> Iterator[None]:
    """An onnx with a made-up version 99, for this process and its workers."""
    with pytest.MonkeyPatch.context() as patch:
        inherited = os.environ.get("PYTHONPATH")
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(SUPPORT / "newer_onnx"), inherited))))
        forget()
        yield
    forget()


def output_of(*words: str) -> str:
    result = CliRunner().invoke(cli.main, words)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


@pytest.mark.usefixtures("newer")
def test_a_newer_version_is_listed_and_fails_the_check() -> None:
    newest = (
        f"{MADE_UP} is newer than this xverify, which assumes that it keeps the rules of version {onnx.NEWEST_READ}"
    )
    listed = output_of("contracts")
    for sentence in (newest, "does not know the type float3x of x, and", "does not know the attribute mood, and"):
        assert sentence in listed
        assert any(sentence in assumption for assumption in assumptions())
    assert f" {MADE_UP} " in listed
    assert contracts.newest() == MADE_UP
    difference = output_of("contracts", "--diff", str(onnx.NEWEST_READ), "99")
    assert "types of x, types of x_zero_point + float3x" in difference
    assert "multiplication operation. + A sentence of the future." in difference


@pytest.mark.usefixtures("newer")
def test_a_newer_version_keeps_the_clauses_that_its_text_lacks() -> None:
    read, made_up = contracts.get(f"ai.onnx/DequantizeLinear-{onnx.NEWEST_READ}"), contracts.get(MADE_UP)
    assert [name.replace("-99/", f"-{onnx.NEWEST_READ}/") for name in made_up.clauses] == list(read.clauses)
    assert made_up.domain == read.domain, "without the type and the attribute that nobody knows"
    kept = made_up.clauses[f"{MADE_UP}/multiplication-precision"]
    assert kept.text == "The output type also determines the precision of the multiplication operation."
    assert kept.note == f"a sentence of {read.id}, assumed to hold here"


@pytest.mark.usefixtures("newer")
def test_a_newer_version_is_swept_with_a_warning(tmp_path: Path) -> None:
    words = ["--contract", MADE_UP, "--oracle", "onnx-reference", "--cases", "24", "--runs", str(tmp_path)]
    output = output_of("sweep", *words)
    (file,) = tmp_path.glob("*/report.json")
    report = json.loads(file.read_text(encoding="utf-8"))
    for sentence in contracts.get(MADE_UP).assumptions:
        assert sentence in report["run"]["left_out"]
        assert output.count(sentence) >= 1
    kernels = [cell for cell in report["coverage"]["cells"] if cell["subject"] == "xverify-numpy"]
    assert kernels
    assert {
        finding["verdict"] for finding in report["findings"] if finding["subject"]["name"] == "xverify-numpy"
    } == set()
