"""Each defect of an implementation is named, and comes before everything else that a sweep says of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path as Folder
from typing import Any

import pytest
from folders import SUPPORT

from xverify import contracts
from xverify.engine.options import Options
from xverify.engine.sweep import sweep
from xverify.oracles import all_oracles
from xverify.oracles.protocol import Oracle, Path

EDITION = "ai.onnx/DequantizeLinear-25"
CASES = 700

DEFECTS = (
    ("two_departures", "takes the zero point as 0", "wrong"),
    ("requantizing", "uint8", "wrong"),
    ("first_zero_point", "the first zero point", "wrong"),
    ("first_scale", "the first scale", "wrong"),
    ("folded", "x * scale - 0 * scale without a zero point", "wrong"),
    ("flushing", "0 instead of -0", "wrong"),
    ("wrapping", "in the type of x with wrap-around", "wrong"),
    ("next_block", "from the next block", "wrong"),
    ("truncating", "truncates the result", "last-places"),
    ("magnitude", "the magnitude of the scale", "wrong"),
    ("nan_as_zero", "NaN", "wrong"),
    ("nan_as_number", "reads NaN as -480", "wrong"),
    ("clamping", "the largest finite number for what overflows and for NaN", "wrong"),
    ("negating", "0 instead of -0 for x - zero point", "last-places"),
    ("flushing_to_plus", "takes subnormal scales and -0 as +0", "wrong"),
    ("tail", "the last n % 8 values", "wrong"),
    ("dying", "ends the process on allowed calls", "ends-process"),
    ("refusing", "tuple index out of range", "refuses"),
)
"""The implementation, words of the first cause's title, and its severity."""

REPRESENTATIVES = (
    "two_departures",
    "requantizing",
    "next_block",
    "truncating",
    "nan_as_zero",
    "first_scale",
    "tail",
    "dying",
    "refusing",
)
"""Defects of each severity, and one that a region names. `make nightly` takes all others."""

Causes = dict[str, list[dict[str, Any]]]


def _seeded(name: str) -> Oracle:
    levels = (Path("graph optimization=off", 0.5), Path("graph optimization=basic", 1.0))
    return Oracle(name, "numpy", (EDITION,), (EDITION,), "seeded_oracles", f"load_{name}", search_path=(str(SUPPORT),),
                  needs_xverify=True, surrounded=levels if name == "requantizing" else ())  # fmt: skip


def _swept(folder: Folder, names: Iterable[str]) -> Causes:
    """The causes of each implementation, in the order of the report.

    One sweep serves all, so that each call is judged once.
    """
    whole = contracts.get(EDITION)
    domain = replace(
        whole.domain, x_dtypes=("uint8", "int8", "float8_e4m3fn"), scale_dtypes=("float32",), output_dtypes=("float32",)
    )
    oracles = (all_oracles()["xverify-numpy"], *map(_seeded, names))
    options = Options((replace(whole, domain=domain),), oracles, folder, "test", "xverify sweep", 1, 60.0, CASES)
    causes = sweep(options, lambda event: None)["causes"]
    return {oracle.name: [cause for cause in causes if oracle.name in cause["implementations"]] for oracle in oracles}


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Causes:
    return _swept(tmp_path_factory.mktemp("seeded"), REPRESENTATIVES)


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Causes:
    return _swept(tmp_path_factory.mktemp("others"), [name for name, *_ in DEFECTS if name not in REPRESENTATIVES])


@pytest.mark.parametrize(("name", "words", "severity"), [defect for defect in DEFECTS if defect[0] in REPRESENTATIVES])
def test_a_defect_is_named_and_ranked_first(name: str, words: str, severity: str, seeded: Causes) -> None:
    first = seeded[name][0]
    assert (words in first["title"], first["severity"]) == (True, severity), first["title"]


def test_representatives_have_every_severity() -> None:
    assert {defect[2] for defect in DEFECTS if defect[0] in REPRESENTATIVES} == {defect[2] for defect in DEFECTS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words", "severity"), [defect for defect in DEFECTS if defect[0] not in REPRESENTATIVES]
)
def test_every_other_defect_is_named_and_ranked_first(name: str, words: str, severity: str, others: Causes) -> None:
    test_a_defect_is_named_and_ranked_first(name, words, severity, others)


def test_two_departures_at_once_are_two_causes(seeded: Causes) -> None:
    titles = [cause["title"] for cause in seeded["two_departures"]]
    assert any("float16" in title for title in titles), titles


def test_an_implementation_without_a_defect_has_no_cause(seeded: Causes) -> None:
    assert seeded["xverify-numpy"] == []
