"""The ledger's file: a damaged one is refused with the line, and people's text in it is kept."""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_entries import ENTRY, FACTS, ONNX, TODAY, violation
from old_details import OLD
from sample_report import findings

from xverify.core.errors import DamagedFileError
from xverify.gate.ledger import Condition, Entry, Ledger, ObservedFinding, Recipes, covers, entry_from_finding
from xverify.gate.ledger_file import HEADER, MOST_BYTES, accept, entry_to_toml, prune, read
from xverify.gate.scope import FIELDS


def entry_named(name: str) -> Entry:
    return replace(ENTRY, name=name)


def test_every_finding_of_a_report_is_accepted_and_comes_back(tmp_path):
    path = tmp_path / "reports" / "ledger.toml"
    assert read(path) == Ledger()
    entries = []
    for number, finding in enumerate(findings()):
        if finding["verdict"] == "nondeterministic":
            continue  # its witness is in a file, which this report was made without
        made = {**finding, "region": violation()["region"]}
        entries.append(entry_from_finding(made, "why", TODAY, name=f"number-{number}"))
        accept(path, entries[-1])
    assert len(entries) > 8
    assert read(path) == Ledger(tuple(entries))
    assert path.read_text().startswith(HEADER + "\n[[known]]\n")
    assert [file.name for file in path.parent.iterdir()] == ["ledger.toml"]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(max_examples=100, deadline=None)
@given(
    texts=st.fixed_dictionaries(dict.fromkeys(("subject", "detail", "clause", "summary", "owner", "reason"), TEXTS)),
    recipes=st.one_of(st.none(), st.builds(Recipes, TEXTS.filter(bool), TEXTS)),
    expires=st.one_of(st.none(), st.dates(date(2026, 11, 22))),
    scope=st.lists(
        st.one_of(
            st.builds(Condition, st.sampled_from(["variant", "mode"]), st.lists(TEXTS, min_size=1).map(tuple)),
            st.builds(Condition, st.just("rank"), st.lists(st.integers(-9, 9), min_size=1).map(tuple)),
            st.builds(Condition, st.just("values"), least=st.integers(0, 9), most=st.integers(9, 2**62)),
            st.builds(Condition, st.just("axis"), most=st.integers(-9, 2**62)),
        ),
        unique_by=lambda condition: condition.field,
        max_size=4,
    ).map(tuple),
)
def test_any_entry_comes_back(tmp_path_factory, texts, recipes, expires, scope):
    path = tmp_path_factory.mktemp("ledger") / "ledger.toml"
    entry = replace(ENTRY, **texts, recipes=recipes, expires=expires, scope=scope)
    if not entry.reason.strip() or not entry.subject.strip():
        with pytest.raises(ValueError, match="is empty"):
            accept(path, entry)
        assert not path.exists()
        return
    accept(path, entry)
    assert read(path).entries == (entry,)


TOP = """\
# Our ledger. Ask the kernel team.

# -- CPU ------

"""
FIRST = """\
# the oldest one
[[known]]  # a comment here
name    = 'first'        # and here
subject = "k.py:f"
contract = "ai.onnx/*"
verdict = "violation"
reason = '''
[[known]]
# not a comment
'''
accepted = 2026-01-02

  [known.scope]
  x_dtype = [
    "int8",   # for now
    "int16",
  ]
# end of first

"""
MIDDLE = """\
# -- GPU ------

"""
SECOND = """\
# about second
# still about second
[[known]]
name = "second"
subject = "k.py:g"
contract = "*"
verdict = "crash"
reason = "why"
accepted = 2026-01-02
"""
THIRD = """\
# about third
[[ "known" ]]
name = "third"
subject = "k.py:h"
contract = "*"
verdict = "crash"
reason = "why"
accepted = 2026-01-02
"""
END = """\

# the end
"""
BY_HAND = TOP + FIRST + MIDDLE + SECOND + THIRD + END


def test_peoples_text_is_read_and_kept(tmp_path):
    path = tmp_path / "ledger.toml"
    path.write_text(BY_HAND)
    first, second, third = read(path).entries
    assert first.reason == "[[known]]\n# not a comment\n"
    assert first.scope == (Condition("x_dtype", ("int8", "int16")),)
    assert (second.clause, second.detail, second.owner, second.expires) == ("*", "*", "", None)
    accept(path, ENTRY)
    assert path.read_text() == BY_HAND + "\n" + entry_to_toml(ENTRY)
    assert read(path).entries == (first, second, third, ENTRY)
    prune(path, ["wrap"])
    assert path.read_text() == BY_HAND


@pytest.mark.parametrize(
    ("names", "left"),
    [
        (["first"], TOP + MIDDLE + SECOND + THIRD + END),
        (["second"], TOP + FIRST + MIDDLE + THIRD + END),
        (["third"], TOP + FIRST + MIDDLE + SECOND + END),
        (["first", "third"], TOP + MIDDLE + SECOND + END),
        (["third", "second", "first"], TOP + MIDDLE + END),
        ([], BY_HAND),
    ],
)
def test_pruning_takes_an_entry_with_its_comments_and_nothing_else(tmp_path, names, left):
    path = tmp_path / "ledger.toml"
    path.write_text(BY_HAND)
    before = read(path).entries
    prune(path, names)
    assert path.read_text() == left
    assert read(path).entries == tuple(entry for entry in before if entry.name not in names)


def test_the_comment_at_the_top_stays_with_the_file(tmp_path):
    path = tmp_path / "ledger.toml"
    path.write_text("# of all entries\n" + SECOND.partition("second\n# still about second\n")[2])
    prune(path, ["second"])
    assert path.read_text() == "# of all entries\n"


def test_lines_that_end_in_carriage_returns_go_on_doing_so(tmp_path):
    path = tmp_path / "ledger.toml"
    path.write_bytes(BY_HAND.replace("\n", "\r\n").encode())
    accept(path, ENTRY)
    raw = path.read_bytes()
    assert raw == (BY_HAND + "\n" + entry_to_toml(ENTRY)).replace("\n", "\r\n").encode()
    line = BY_HAND.split("\n").index('verdict = "crash"') + 1
    path.write_bytes(raw.replace(b'verdict = "crash"\r\n', b'verdict = "crush"\r\n', 1))
    with pytest.raises(DamagedFileError, match=f"line {line}: expected one of"):
        read(path)


def test_a_file_without_a_last_line_end_is_added_to(tmp_path):
    path = tmp_path / "ledger.toml"
    path.write_text(entry_to_toml(ENTRY).rstrip("\n"))
    accept(path, entry_named("other"))
    assert [entry.name for entry in read(path).entries] == ["wrap", "other"]


def test_names_are_unique(tmp_path):
    path = tmp_path / "ledger.toml"
    accept(path, ENTRY)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="has an entry 'wrap' already"):
        accept(path, ENTRY)
    with pytest.raises(ValueError, match="has no entry 'a', 'b'; `xverify ledger list`"):
        prune(path, ["wrap", "b", "a"])
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reason": " "}, "reason is empty"),
        ({"name": "a b"}, "expected letters, digits"),
        ({"verdict": "wrong"}, "expected one of crash, hang"),
        ({"expires": TODAY}, "it expires on 2026-11-21, but was accepted on 2026-11-21"),
        ({"witness": "a x=3"}, "the witness is not a call"),
        ({"region": "nowhere"}, "'nowhere' is no term of a region"),
        ({"scope": (Condition("x_dtype", ("int7",)),)}, "'int7' is no x_dtype"),
        ({"summary": "\ud800"}, "reading it back gives another entry"),
    ],
)
def test_what_a_ledger_may_not_hold_is_not_written(tmp_path, changes, message):
    path = tmp_path / "ledger.toml"
    accept(path, entry_named("good"))
    before = path.read_bytes()
    with pytest.raises(ValueError, match=message):
        accept(path, replace(ENTRY, **changes))
    assert path.read_bytes() == before


def test_the_file_is_the_old_one_until_it_is_the_whole_new_one(tmp_path, monkeypatch):
    path = tmp_path / "ledger.toml"
    accept(path, ENTRY)
    before = path.read_bytes()
    written = {}

    def dies(source: Path, target: Path) -> None:
        written[target] = Path(source).read_text()
        raise OSError("the power went")

    monkeypatch.setattr(os, "replace", dies)
    with pytest.raises(OSError, match="the power went"):
        accept(path, entry_named("other"))
    with pytest.raises(OSError, match="the power went"):
        prune(path, ["wrap"])
    assert path.read_bytes() == before
    assert list(written) == [path.resolve()]
    monkeypatch.undo()
    accept(path, entry_named("other"))
    assert [entry.name for entry in read(path).entries] == ["wrap", "other"]


def test_a_link_to_a_ledger_stays_one(tmp_path):
    real = tmp_path / "real.toml"
    accept(real, ENTRY)
    link = tmp_path / "ledger.toml"
    link.symlink_to(real)
    accept(link, entry_named("other"))
    assert link.is_symlink()
    assert len(read(real).entries) == 2


GOOD = (
    "# header\n\n"
    + entry_to_toml(entry_named("one"))
    + "\n"
    + entry_to_toml(replace(ENTRY, name="two", recipes=Recipes("r", "e"), region="y is subnormal"))
)


def line_of(piece: str, occurrence: int = 1) -> int:
    """Return the number of GOOD's line that begins with this text."""
    lines = [number for number, line in enumerate(GOOD.split("\n"), 1) if line.startswith(piece)]
    return lines[occurrence - 1]


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ('name = "two"', 'name = "one"', line_of('name = "two"'), "an entry above has the name 'one' too"),
        ('name = "two"', "name = 2", line_of('name = "two"'), "expected a string for 'name', got 2"),
        ('name = "two"', 'nam = "two"', line_of('name = "two"'), "unknown field 'nam'; did you mean 'name'?"),
        ('name = "two"', "", line_of("[[known]]", 2), 'the entry has no name; write name = ...'),
        ('name = "two"', "name =", line_of('name = "two"'), "not TOML: Invalid value"),
        ('name = "two"', 'name = "two', line_of('name = "two"'), "not TOML: "),
        ('name = "two"', 'name = """two', line_of('name = "two"'), "not TOML: Unterminated string"),
        ('name = "two"', 'name = ["two",', line_of('name = "two"') + 1, "not TOML: "),
        ('name = "two"', "name = " + "[" * 5000, line_of('name = "two"'), "not TOML: brackets are nested too deep"),
        ('name = "two"', "name = " + "9" * 5000, line_of('name = "two"'), "not TOML: Exceeds the limit"),
        ('name = "two"', 'name = "two"\nname = "two"', line_of('name = "two"') + 1, "not TOML: Cannot overwrite"),
        ('name = "two"', 'name = "two"\n[stray]\na = 1', line_of('name = "two"') + 1, ""),
        ("# header", "version = 1", 1, "unknown field 'version'; expected one of format, known"),
        ("# header\n", "# header\n[stray]\na = 1\n", 2, "unknown field 'stray'"),
        ('verdict = "violation"', 'verdict = "violatoin"', line_of("verdict"), "expected one of crash, hang, .*'violatoin'"),
        ('reason = "fixed in the next release"', 'reason = ""', line_of("reason"), "reason is empty"),
        ("accepted = 2026-11-21", 'accepted = "2026-11-21"', line_of("accepted"), "expected a day without quotes.*'2026-11-21'"),
        ("accepted = 2026-11-21", "accepted = 2026-11-21T10:00:00", line_of("accepted"), "expected a day"),
        ("accepted = 2026-11-21", "accepted = 2026-13-21", line_of("accepted"), "not TOML"),
        ("accepted = 2026-11-21", "accepted = 2028-01-01", line_of("expires"), "it expires on 2027-02-21, but was accepted on"),
        ("expires = 2027-02-21", "expires = 3", line_of("expires"), "expected a day without quotes"),
        ("x=int32[1,3]@F", "x=int32[1,2]@F", line_of("witness"), "the witness is not a call: word 2, .*expected 2 codes"),
        ("witness = ", "# a comment\n\nwitness = 3 #", line_of("witness") + 2, "expected a string for 'witness', got 3"),
        ("witness = ", 'witness = """\n\n\na x=3""" #', line_of("witness"), "the witness is not a call"),
        ('reading = "wraps-int32"', "", line_of("[known.attribution]"), "the attribution has no reading"),
        ('reading = "wraps-int32"', 'reading = ""', line_of("reading"), "reading is empty"),
        ('elsewhere = "e"', 'elswhere = "e"', line_of("elsewhere"), "unknown field 'elswhere'; did you mean 'elsewhere'"),
        ('elsewhere = "e"', "elsewhere = 1", line_of("elsewhere"), "expected a string for 'elsewhere', got 1"),
        ('[known.attribution]\nreading = "wraps-int32"', 'attribution = "wraps"', line_of("[known.attribution]"),
         r"expected a table \[known.attribution\], got 'wraps'"),
        ('x_dtype = ["int32"]', 'x_dtpe = ["int32"]', line_of("x_dtype"), "unknown field 'x_dtpe'; did you mean 'x_dtype'"),
        ('x_dtype = ["int32"]', 'x_dtype = "int32"', line_of("x_dtype"), "expected a list of words, .* got 'int32'"),
        ('x_dtype = ["int32"]', 'x_dtype = ["int8", "flaot16"]', line_of("x_dtype"), "'flaot16' is no x_dtype; expected"),
        ('x_dtype = ["int32"]', "x_dtype = []", line_of("x_dtype"), "an empty list holds of no call"),
        ("rank = {min = 2}", "rank = {mim = 2}", line_of("rank"), "unknown field 'mim'; did you mean 'min'"),
        ("rank = {min = 2}", "rank = {min = 2.5}", line_of("rank"), "expected whole numbers"),
        ("rank = {min = 2}", "rank = {min = true}", line_of("rank"), "expected whole numbers"),
        ("rank = {min = 2}", "rank = {}", line_of("rank"), "expected whole numbers"),
        ("rank = {min = 2}", "rank = {min = 3, max = 2}", line_of("rank"), "no number is at least 3 and at most 2"),
        ("rank = {min = 2}", "rank = 2", line_of("rank"), "expected a list of whole numbers, or"),
        ("rank = {min = 2}", 'rank = ["2"]', line_of("rank"), "expected a list of whole numbers, or"),
        ("rank = {min = 2}", "rank = [true]", line_of("rank"), "expected a list of whole numbers, or"),
        ("rank = {min = 2}", "rank = [\n  1,\n  2.5,\n]", line_of("rank"), "expected a list of whole numbers, or"),
        ('region = "y is subnormal"', 'region = "y is odd"', line_of("region"), "'y is odd' is no term of a region"),
        ('region = "y is subnormal"', "region = 1", line_of("region"), "expected a string for 'region', got 1"),
    ],
)  # fmt: skip
def test_a_damaged_ledger_is_refused_with_the_line(tmp_path, old, new, line, message):
    path = tmp_path / "ledger.toml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    for act in (read, lambda path: accept(path, entry_named("new")), lambda path: prune(path, ["one"])):
        with pytest.raises(DamagedFileError, match=rf"^{re.escape(str(path))}, line {line}: {message}"):
            act(path)
    assert path.read_text() == GOOD.replace(old, new, 1)


def test_long_entries_and_long_comments_are_read(tmp_path):
    path = tmp_path / "ledger.toml"
    long = entry_to_toml(ENTRY).replace('owner = "kernels"', 'owner = """' + "\n[[known]]\n" * 40 + "\n" * 200 + '"""')
    path.write_text("# a line\n" * 300 + entry_to_toml(entry_named("one")) + "# a line\n" * 300 + long)
    assert [entry.name for entry in read(path).entries] == ["one", "wrap"]
    prune(path, ["wrap"])
    assert read(path).entries == (entry_named("one"),)
    path.write_text(GOOD + long.replace('"violation"', '"wrong"').replace("wrap", "long"))
    with pytest.raises(DamagedFileError, match=rf"line {GOOD.count(chr(10)) + 5}: expected one of"):
        read(path)


def test_a_string_that_does_not_end_is_found_quickly(tmp_path):
    path = tmp_path / "ledger.toml"
    entries = [entry_to_toml(entry_named(f"number-{number}")) for number in range(600)]
    entries[20] = entries[20].replace('owner = "kernels"', 'owner = """kernels')
    path.write_text("".join(entries))
    line = 20 * entries[0].count("\n") + entries[20].split("\n").index('owner = """kernels') + 1
    start = time.perf_counter()
    with pytest.raises(DamagedFileError, match=f"line {line}: not TOML: "):
        read(path)
    assert time.perf_counter() - start < 2


def test_entries_under_no_header_are_refused(tmp_path):
    path = tmp_path / "ledger.toml"
    path.write_text("# first\n\nknown = [{name = 'a'}]\n")
    with pytest.raises(DamagedFileError, match=r"line 3: write each entry as a table under a header \[\[known\]\]"):
        read(path)
    path.write_text("known = 3\n")
    with pytest.raises(DamagedFileError, match="line 1: write each entry"):
        read(path)


def test_files_that_are_no_text_or_too_large_are_refused(tmp_path):
    path = tmp_path / "ledger.toml"
    path.write_bytes(b"# a\n# b \xff\n")
    with pytest.raises(DamagedFileError, match="line 2: a byte 0xff that is not UTF-8"):
        read(path)
    path.write_bytes(b"#" * (MOST_BYTES + 1))
    with pytest.raises(DamagedFileError, match=f"has {MOST_BYTES + 1} bytes"):
        read(path)
    path.write_bytes(b"#" * MOST_BYTES)
    assert read(path) == Ledger()
    with pytest.raises(ValueError, match="would have"):
        accept(path, ENTRY)
    with pytest.raises(DamagedFileError, match="cannot be read"):
        read(tmp_path)


def test_a_scope_may_name_every_fact(tmp_path):
    path = tmp_path / "ledger.toml"
    scope = tuple(
        Condition(name, (2, 3)) if field.is_number else Condition(name, ("*",)) for name, field in FIELDS.items()
    )
    accept(path, replace(ENTRY, scope=scope))
    assert read(path).entries[0].scope == scope
    single = (Condition("rank", least=2, most=2),)
    accept(path, replace(ENTRY, name="single", scope=single))
    assert read(path).entries[1].scope == single


def ledger_of_format_1() -> str:
    """Return a ledger as versions before format 2 wrote it, with an entry for every kind of detail."""
    tables = [
        f'[[known]]\nname = "number-{number}"\nsubject = "kernels.py:dequantize"\ncontract = "*"\nverdict = "{verdict}"\n'
        f"detail = {json.dumps(old)}\nreason = 'why'\naccepted = 2026-01-02\n"
        for number, (verdict, old, _) in enumerate(OLD)
    ]
    return "# Findings that are known.\n\n" + "\n".join(tables)


def test_entries_with_the_prose_of_earlier_versions_still_match(tmp_path):
    path = tmp_path / "ledger.toml"
    path.write_text(ledger_of_format_1())
    ledger = read(path)
    assert [entry.detail for entry in ledger.entries] == [new for _, _, new in OLD]
    for entry, (verdict, _, new) in zip(ledger.entries, OLD, strict=True):
        finding = ObservedFinding("kernels.py:dequantize", ONNX, verdict, f"{ONNX}/formula", new)
        assert covers(entry, finding, FACTS, TODAY) == "known"
        assert (
            verdict in ("violation", "mixed")
            or covers(entry, replace(finding, detail=f"{new}-else"), FACTS, TODAY) == "outside"
        )


def test_a_ledger_of_format_1_is_changed_without_rewriting_it(tmp_path):
    path = tmp_path / "ledger.toml"
    path.write_text(ledger_of_format_1())
    accept(path, ENTRY)
    assert path.read_text() == ledger_of_format_1() + "\n" + entry_to_toml(ENTRY)
    assert read(path).entries[-1] == ENTRY
    prune(path, [ENTRY.name])
    assert path.read_text() == ledger_of_format_1()


def test_details_of_the_newest_format_are_taken_literally(tmp_path):
    path = tmp_path / "ledger.toml"
    path.write_text("format = 2\n\n" + ledger_of_format_1())
    assert [entry.detail for entry in read(path).entries] == [old for _, old, _ in OLD]


@pytest.mark.parametrize("version", ["3", "0", "true", '"2"'])
def test_an_unknown_format_is_refused_with_the_line(tmp_path, version):
    path = tmp_path / "ledger.toml"
    path.write_text(f"# ours\nformat = {version}\n")
    with pytest.raises(
        DamagedFileError, match=r"ledger.toml, line 2: expected a format from 1 to 2, got .*newer xverify"
    ):
        read(path)
