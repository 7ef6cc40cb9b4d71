"""The HTML report: complete, harmless, and with the content of each part."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any
from urllib.parse import unquote

import pytest
from html_pages import Page, section
from sample_report import DIVIDE, HOSTILE, ONNX, hostile_report, sample_report

from xverify.report import render, summary
from xverify.report.causes import causes, sentence
from xverify.report.schema import upgraded


@pytest.mark.parametrize("make", [sample_report, hostile_report])
def test_the_html_is_whole_and_needs_nothing_else(make: Any) -> None:
    page = Page(render(make(), "html"))
    assert (page.open, page.stray) == ([], [])
    for tag, attributes in page.tags:
        assert tag not in ("img", "iframe", "object", "embed", "base", "form")
        assert not any(name.startswith("on") or name == "style" for name in attributes), (tag, attributes)
        for name in ("src", "href", "action"):
            assert (attributes.get(name) or "#").startswith("#")
    identities = Counter(attributes["id"] for _, attributes in page.tags if "id" in attributes)
    assert set(identities.values()) == {1}
    targets = {attributes["href"] for tag, attributes in page.tags if tag == "a"}
    if make is sample_report:
        assert {unquote(str(target)[1:]) for target in targets if "=" not in str(target)} <= set(identities)
        assert {entry["id"] for entry in make()["causes"]} <= set(identities)


def test_the_html_escapes_all_text_of_the_report() -> None:
    report = hostile_report()
    # A script is shown of implementations that are known by name: its comments hold text of the report.
    report["findings"][0]["subject"]["name"] = "onnxruntime"
    report["findings"][0]["witness"] = sample_report()["findings"][0]["witness"]
    report["findings"][0]["witness"]["legal"][0]["legal"][0]["decimal"] = "</pre></script><script>alert(4)"
    page = Page(render(report, "html"))
    assert Counter(tag for tag, _ in page.tags)["script"] == 1
    assert "alert" not in "".join(page.scripts)
    shown = "".join(page.text)
    assert HOSTILE in shown
    assert "</pre></script><script>alert(4)" in shown
    assert "{{7*7}}" in shown


def test_the_html_allows_its_own_style_and_script_only() -> None:
    page = Page(render(sample_report(), "html"))
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy") or ""
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    from xverify.report.formats.html import _csp_digest

    assert _csp_digest(page.scripts[0]) in policy


def test_the_html_shows_the_facts_of_a_finding() -> None:
    text = "".join(Page(render(sample_report(), "html")).text)
    text = " ".join(text.split())
    for part in (
        "The dequantization formula is `y = (x - x_zero_point) * x_scale`.",
        "DequantizeLinear-21 in onnx.defs of onnx 1.23.2",
        "-2147483648",
        "0x80000000",
        "2147483648.0",
        "0xcf000000",
        "explains 88 204 of 88 204 wrong values",
        "not attributed to a known recipe",
        "where: |x - zero point| >= 2^31",
        "Everywhere else it rounds the exact value of (x - zero point) * scale once",
        "where: no simple region",
        "the text declares max_scale_factor twice",
        "untested",
        "extents past 65 536",
        "No module named 'openvino'",
        "walk 412: every code, permuted",
    ):
        assert part in text, part


def test_the_section_of_each_clause_names_its_followers() -> None:
    report = sample_report()
    page = render(report, "html")
    for clause in summary.clauses(report).values():
        text = section(page, clause["id"])
        assert " ".join((clause["text"] or f"The text is silent: {clause['note']}").split()) in text
        assert ("untested" in text) == (not clause["tested"])
    formula = section(page, f"{ONNX}/formula")
    assert "tested by 21 400 calls" in formula.replace("\N{NO-BREAK SPACE}", " ")
    assert "followed by xverify-numpy not followed by onnxruntime unknown onnx-reference (not told apart)" in formula
    start = page.index(f'id="c-{ONNX}/formula"')
    assert f'href="#f-{report["findings"][0]["id"]}"' in page[start : page.index("</section>", start)]
    assert f'<a href="#c-{ONNX}/formula">' in page


def test_a_conflict_quotes_both_texts() -> None:
    page = render(sample_report(), "html")
    start = page.index('data-verdict="conflict"')
    card = page[start : page.index("</details>\n<details", start)]
    assert "dst = (src - zps) * scales" in card
    assert "output_{i} = (input_{i} - zp) / scale" in card
    assert f"onednn-formula-divide follows {DIVIDE} on 1 204 of 1 204 values" in card


def test_a_histogram_is_drawn_to_scale() -> None:
    page = Page(render(sample_report(), "html"))
    widths = [float(attributes["width"] or 0) for tag, attributes in page.tags if tag == "rect"]
    assert widths == [100.0, 10.3, 0.0]
    assert "2 to 3 8 203 NaN 1 " in " ".join(" ".join(page.text).split())


def test_cells_are_gathered_by_recipe() -> None:
    text = " ".join("".join(Page(render(sample_report(), "html")).text).split()).replace("\N{NO-BREAK SPACE}", " ")
    assert "It rounds the exact value of (x - zero point) * scale once agrees 1 872 000 values in 18 cells" in text
    assert "indistinguishable here: 12 equal recipes" in text
    assert "wraps-int32, which the text does not admit" in text
    assert "not distinguished by 104 000 values: " + ", ".join(f"wraps-{n}" for n in range(6)) + " and 5 more" in text


def test_the_html_holds_short_scripts_and_not_the_long_ones() -> None:
    page = render(sample_report(), "html")
    assert "DequantizeLinear&#34;, [&#34;x&#34;" in page
    assert "def introduce" not in page
    assert len(page) < 200_000


def shown(page: str) -> str:
    """Return the text of a page on one line."""
    return " ".join("".join(Page(page).text).replace("\N{NO-BREAK SPACE}", " ").split())


def tags(page: str, name: str, marked: str) -> list[dict[str, str | None]]:
    """Return the attributes of all tags of a class."""
    return [attributes for tag, attributes in Page(page).tags if tag == name and attributes.get("class") == marked]


def test_the_grid_counts_the_causes_of_each_implementation_by_effect() -> None:
    report = sample_report()
    report["run"]["workers"][0]["release"] = "ONNX Runtime 1.27.0, 2023-08"
    page = render(report, "html")
    effects = {
        "process": ["ends-process"], "values": ["wrong", "last-places"], "refusals": ["refuses"], "texts": ["open"],
        "forbidden": ["no-validation"],
    }  # fmt: skip
    for key, severities in effects.items():
        listed = [c for c in report["causes"] if c["severity"] in severities and c["kind"] != "change"]
        counts = Counter(name for cause in listed for name in cause["implementations"] or ["the documents"])
        pattern = rf'href="#implementation=([^"]*)&amp;effect={key}">(\d+)<'
        assert {unquote(name): int(count) for name, count in re.findall(pattern, page)} == counts, key
    assert "onnxruntime ONNX Runtime 1.27.0, 2023-08, 3 years old" in shown(page).replace(
        "onnxruntimeONNX", "onnxruntime ONNX"
    )


def test_the_first_screen_has_the_five_worst_causes_in_sentences() -> None:
    report = sample_report()
    page = render(report, "html")
    listed = page[page.index('<ol class="worst">') : page.index("</ol>", page.index('<ol class="worst">'))]
    assert re.findall(r'href="#([^"]*)"', listed) == [entry["id"] for entry in report["causes"][:5]]
    assert all(sentence(cause) in shown(listed) for cause in causes(report)[:5])


def test_filters_find_each_cause_by_its_attributes() -> None:
    report = sample_report()
    page = render(report, "html")
    cards = {attributes["id"]: attributes for attributes in tags(page, "details", "cause")}
    assert list(cards) == [entry["id"] for entry in report["causes"]]
    choices = {str(attributes["value"]) for tag, attributes in Page(page).tags if tag == "option"}
    for entry in report["causes"]:
        attributes = {name: str(value).split("\n") for name, value in cards[entry["id"]].items()}
        assert attributes["data-implementation"] == (entry["implementations"] or ["the documents"])
        assert attributes["data-edition"] == entry["documents"]
        assert [name for name in attributes["data-type"] if name] == entry["x_dtypes"]
        assert {*attributes["data-implementation"], *entry["documents"], *attributes["data-effect"]} <= choices
    assert 'id="filter-empty" hidden>No cause matches these filters.' in page


def test_a_report_without_causes_says_so() -> None:
    report = sample_report()
    report["findings"], report["schema"] = [], "xverify.report/1"
    text = shown(render(upgraded(report), "html"))
    assert "No cause in 6 204 311 values" in text
    assert "No cause: every answer is legal." in text


def test_printing_leaves_summary_and_causes() -> None:
    page = render(sample_report(), "html")
    assert "nav, .filters, button, .unprinted, .evidence { display: none; }" in page
    rest = page[page.index('<div class="unprinted">') :]
    for part in ("heat", "sentences", "cells", "clauses", "coverage", "run"):
        assert f'<h2 id="{part}">' in rest, part
    assert 'class="cause"' not in rest
    assert page.count('<div class="evidence">') == len(sample_report()["causes"])


def test_a_field_of_the_heat_map_counts_causes_and_opens_its_types() -> None:
    page = render(sample_report(), "html")
    heat = page[page.index('<h2 id="heat">') : page.index('<h2 id="sentences">')]
    text = shown(heat)
    assert "violation int32" in text
    assert "agrees uint8, int8, uint4, int32, float8_e4m3fn, int16" in text
    assert '<a href="#implementation=tensorflow&amp;edition=tensorflow/Dequantize%40installed">' in heat


def test_a_variant_is_counted_for_its_implementation() -> None:
    report = sample_report()
    one = next(finding for finding in report["findings"] if finding["verdict"] == "violation")
    subject = {**one["subject"], "name": "onnxruntime[threads=8]"}
    report["findings"].append({**one, "id": "nondeterministic-1", "verdict": "nondeterministic", "subject": subject})
    report["schema"] = "xverify.report/1"
    page = render(upgraded(report), "html")
    (identity,) = [c["id"] for c in upgraded(report)["causes"] if c["implementations"] == ["onnxruntime[threads=8]"]]
    card = page[page.index(f'<details class="cause" id="{identity}"') :]
    assert 'data-implementation="onnxruntime"' in card[: card.index("<summary>")]
    assert "onnxruntime[threads=8]" in shown(card[: card.index('<div class="evidence">')])
