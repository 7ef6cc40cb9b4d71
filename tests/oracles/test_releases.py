"""Releases have upstream's names and an age in whole years."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from xverify.oracles import all_oracles
from xverify.oracles.releases import age_in_years, release_of, remark_on_age

TODAY = date(2026, 11, 27)


@pytest.mark.parametrize(
    ("name", "version", "release"),
    [
        ("onednn", "2023.2.0", "oneDNN v3.2, 2023-07"),
        ("onnxruntime", "1.17.3", "ONNX Runtime 1.17, 2024-01"),
        ("openvino", "2025.2.0", "OpenVINO 2025.2.0, 2025"),
        ("torch", "2.1.0+cpu", "PyTorch 2.1, 2023-10"),
        ("iree", "3.13.0", "IREE 3.13, 2026-10"),
        ("torchao", "0.18.0", "torchao 0.18, 2026-08"),
        ("torch", "1.9.0", ""),
        ("xverify-numpy", "0.1.0", ""),
    ],
)
def test_a_release_has_the_name_that_upstream_gives_it(name: str, version: str, release: str) -> None:
    assert release_of(all_oracles()[name], version) == release


def test_every_release_has_a_date() -> None:
    for oracle in all_oracles().values():
        assert all(age_in_years(release, TODAY) is not None for _, release in oracle.releases), oracle.name


@pytest.mark.parametrize(
    ("release", "years"),
    [
        ("a, 2023-07", 3),
        ("a, 2024-11", 2),
        ("a, 2024-12", 1),
        ("a, 2023", 2),
        ("a, 2027-01", 0),
        ("a", None),
        ("", None),
    ],
)
def test_the_age_is_in_whole_years(release: str, years: int | None) -> None:
    assert age_in_years(release, TODAY) == years


def test_an_old_release_gets_a_sentence() -> None:
    onednn = replace(all_oracles()["onednn"], name="here", distribution="older", distributions=("newest",))
    assert remark_on_age(onednn, "2023.2.0", TODAY) == (
        "here is oneDNN v3.2 of 2023-07, 3 years old; newer releases may differ: pip install --upgrade newest"
    )
    assert remark_on_age(onednn, "2026.1.0", TODAY) == remark_on_age(onednn, "3.2", TODAY) == ""
