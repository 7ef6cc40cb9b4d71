"""Copies run what they hold, questions are of what exists, and so is every explanation."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from folders import ROOT
from mutation import __main__ as command
from mutation import copies, explained, questions, table
from mutation.mutants import Mutant, mutants_of, unchanged
from mutation.questions import COMPARATOR, COMPILED, CUDA, KERNELS, REFERENCE, Question, decides, questions_for
from mutation.run import (
    Kept,
    Result,
    WrongTreeError,
    check_copy,
    check_sound,
    digest,
    distinct,
    is_asked,
    run,
    try_mutant,
)  # fmt: skip


@pytest.fixture(scope="module")
def made():
    return [
        mutant for file in (*KERNELS, *CUDA, *COMPARATOR, *REFERENCE, *COMPILED) for mutant in mutants_of(ROOT, file)
    ]


def test_there_are_mutants_of_every_file_and_questions_for_them(made):
    for file in (*KERNELS, *CUDA, *COMPARATOR, *REFERENCE, *COMPILED):
        found = [mutant for mutant in made if mutant.file == file and decides(mutant)]
        assert len(found) >= 10, file
        assert all(questions_for(mutant) for mutant in found)
    for folder, files in (("kernels", KERNELS), ("kernels/compiled", COMPILED), ("kernels/cuda", CUDA)):
        there = {path.name for path in ROOT.glob(f"xverify/{folder}/*.py")} - {"__init__.py"}
        assert there == {Path(file).name for file in files}


def test_tests_that_are_asked_exist(made):
    """One that does not would stop every mutant."""
    some = {(mutant.file, mutant.function): mutant for mutant in made}.values()
    asked = {test for mutant in some for question in questions_for(mutant) for test in question.tests}
    assert len(asked) > 50
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n0", "-p", "no:cacheprovider", *sorted(asked)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, "\n".join(line for line in done.stdout.splitlines() if line.startswith("ERROR"))


def test_functions_that_are_left_out_exist(made):
    for file, functions in questions.OF_SWEEPS.items():
        assert functions <= {mutant.function for mutant in made if mutant.file == file}


def test_a_kernels_mutant_is_asked_by_gates_of_half_a_minute(made):
    for mutant in [m for m in made if m.file in KERNELS and m.file not in questions.NO_GATES]:
        gates = [question for question in questions_for(mutant) if question.kernel]
        assert {(q.kernel, q.expected) for q in gates} == {("xverify-numpy", "nothing")}
        assert sum(q.budget for q in gates) <= 30


@pytest.mark.parametrize("text", ["return a == 'b'", 'return "it\'s"', "return a", r"return a == 'b\n'"])
def test_a_mutant_is_found_again_by_the_entry_that_is_printed_for_it(tmp_path, text):
    (tmp_path / "module.py").write_text(f"def f(a):\n    {text}\n    a = {text[7:]}\n    {text}\n")
    found = mutants_of(tmp_path, "module.py")
    (tmp_path / "entries.toml").write_text("\n".join(explained.entry(mutant, "It is only slower.") for mutant in found))
    of, stale = explained.matched(explained.read(tmp_path / "entries.toml"), found)
    assert set(of) == set(found) != set()
    assert not stale


def test_an_entry_may_explain_several_changes_of_one_line(tmp_path):
    common = "file = 'a.py'\nfunction = ''\noperator = 'constant'\nbefore = 'x = 1'\nreason = 'It is only slower.'\n"
    (tmp_path / "entries.toml").write_text(f"[[equivalent]]\n{common}after = ['x = 0', 'x = 2']\n")
    assert [entry.after for entry in explained.read(tmp_path / "entries.toml")] == ["x = 0", "x = 2"]
    (tmp_path / "entries.toml").write_text(f"[[equivalent]]\n{common}")
    with pytest.raises(TypeError, match="after"):
        explained.read(tmp_path / "entries.toml")


def test_every_explanation_is_of_a_mutant_that_exists(made):
    entries = explained.read()
    found, stale = explained.matched(entries, made)
    assert not stale
    assert len(found) == len(entries)
    assert all(entry.reason.endswith(".") and len(entry.reason) > 20 for entry in entries)


MUTANT = Mutant("package.py", "f", "constant", "return 1", "return 2", source="def f():\n    return 2\n")


class Pretended:
    """A copy that answers with what its file holds."""

    def __init__(self, found="nothing"):
        self.found, self.file, self.asked = found, "sound", []

    def put(self, mutant):
        self.file = mutant.source

    def restore(self, mutant):
        self.file = "sound"

    def ask(self, question, seed):
        self.asked.append((question.kernel, seed, self.file))
        outcome = self.found if self.file == "sound" or question.kernel == "blind" else "findings"
        return copies.Answer(outcome, 1.5, "by")


def test_what_another_question_asks_too_is_not_asked_of_the_sound_tree():
    gates = [Question("a"), Question("b"), Question("a", ("c",))]
    tests = [Question("", tests=("1", "2")), Question("", tests=("2",)), Question("", tests=("2", "1", "3"))]
    hasty = Question("", tests=("1",), is_optimised=False)
    assert distinct([*gates, *tests, hasty, *gates]) == [tests[2], hasty, *gates]


def test_questions_are_asked_until_one_stops_the_mutant():
    copy = Pretended()
    asked = [Question("blind"), Question("seeing"), Question("never asked")]
    result = try_mutant(copy, MUTANT, 7, asked)
    assert [kernel for kernel, _, _ in copy.asked] == ["blind", "seeing"]
    assert (result.stopped, result.outcome, result.seconds) == (asked[1].words, "findings", 3.0)
    assert copy.file == "sound"
    assert try_mutant(copy, MUTANT, 7, asked[:1]).stopped == ""


def test_a_copy_that_runs_other_files_is_noticed():
    check_copy(Pretended(), MUTANT, Question("seeing"))
    with pytest.raises(WrongTreeError, match="cannot be imported"):
        check_copy(Pretended(), MUTANT, Question("blind"))


def test_a_tree_that_is_not_sound_is_noticed():
    check_sound([Pretended()], [Question("a")], 1)
    with pytest.raises(WrongTreeError, match="expected nothing"):
        check_sound([Pretended("findings")], [Question("a")], 1)


def test_what_is_stopped_by_how_mutants_are_written_is_noticed():
    copy = Pretended()
    check_sound([copy], [Question("a")], 1, [replace(MUTANT, source="sound")])
    with pytest.raises(WrongTreeError, match="expected nothing"):
        check_sound([copy], [Question("a")], 1, [MUTANT])
    assert copy.file == "sound"


@pytest.mark.parametrize("file", [COMPARATOR[0], KERNELS[0]])
def test_what_is_written_as_mutants_are_means_the_same(file):
    one = unchanged(ROOT, file)
    assert ast.dump(ast.parse(one.source)) == ast.dump(ast.parse((ROOT / file).read_text(encoding="utf-8")))
    assert one.source not in {mutant.source for mutant in mutants_of(ROOT, file)}


def test_several_copies_share_the_mutants_and_each_is_done_once():
    done = []
    run(
        [Pretended(), Pretended()],
        [replace(MUTANT, number=nth) for nth in range(9)],
        3,
        lambda mutant: (Question("seeing"),),
        lambda result, mutant: done.append((result.seed, mutant.number)),
    )
    assert sorted(done) == [(3, nth) for nth in range(9)]


@pytest.mark.parametrize(
    ("by", "expected"),
    [("FAILED tests/verify/test_legal.py::test_it", False), ("FAILED tests/kernels/test_kernels.py::test_it", True),
     ("they ended by signal 11", True), ("violation, onednn/Dequantize-1@3.0, walk", True)],
)  # fmt: skip
def test_what_does_not_depend_on_the_seed_is_asked_once(by, expected):
    first = Result(MUTANT.name, 1, "any", "findings", by, 1.0)
    assert is_asked(1, False, None)
    assert not is_asked(2, False, None)
    assert is_asked(2, False, first) is expected
    assert not is_asked(2, True, first)
    results = {(MUTANT.name, 1): first}
    assert table.is_left(MUTANT, results, [1, 2]) is expected
    assert not table.is_left(MUTANT, results, [1])
    assert table.is_left(MUTANT, {}, [1])


def test_tests_that_draw_are_known():
    texts = {file: (ROOT / file).read_text() for file in questions.ASKED_TESTS}
    drawing = {
        file for file in texts if re.search(r"@given|random\.random\(\)|(?:Random|default_rng)\(\)", texts[file])
    }
    assert drawing == set(questions.DRAWING)


@pytest.fixture(scope="module")
def small_copy(tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    for part in copies.PARTS:
        (root / part).mkdir()
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (root / "xverify" / "value.py").write_text("VALUE = 1\n")
    (root / "tests" / "test_value.py").write_text(
        "from xverify.value import VALUE\n\ndef test_it():\n    assert VALUE == 1\n"
    )
    (root / "tests" / "mutation").mkdir()
    (root / "tests" / "mutation" / "ask.py").write_text(
        "import json, sys, time, xverify.value\n"
        "asked = json.loads(sys.argv[1])\n"
        "if asked['kernel'] == 'endless': time.sleep(60)\n"
        "if asked['kernel'] == 'broken': raise SystemExit('a mistake')\n"
        "print('chatter')\n"
        "print(json.dumps({'outcome': str(xverify.value.VALUE), 'seconds': 1.0, 'by': str(asked['seed'])}))\n"
    )
    copy = copies.Copy(root, tmp_path_factory.mktemp("copies"))
    yield copy
    copy.close()


def test_a_copy_runs_its_own_file_at_once(small_copy):
    changed = Mutant("xverify/value.py", "", "constant", "", "", source="VALUE = 2\n")
    assert small_copy.ask(Question("any"), 5) == copies.Answer("1", 1.0, "5")
    assert small_copy.ask(Question("", tests=("tests/test_value.py",)), 1).outcome == "nothing"
    small_copy.put(changed)
    assert small_copy.ask(Question("any"), 5).outcome == "2"
    found = small_copy.ask(Question("", tests=("tests/test_value.py",)), 1)
    assert found.outcome == "findings"
    assert "test_value.py" in found.by
    small_copy.restore(changed)
    assert small_copy.ask(Question("any"), 5).outcome == "1"


def test_what_breaks_or_never_ends_is_said(small_copy, monkeypatch):
    monkeypatch.setattr(copies, "GRACE", 0.5)
    assert small_copy.ask(Question("broken"), 1).outcome == "broken"
    assert "a mistake" in small_copy.ask(Question("broken"), 1).by
    assert small_copy.ask(Question("endless", budget=0.1), 1).outcome == "endless"


def test_a_process_of_tests_that_dies_is_said_without_a_path(small_copy):
    (small_copy.tree / "tests" / "test_dying.py").write_text("import os\n\ndef test_it():\n    os.abort()\n")
    found = small_copy.ask(Question("", tests=("tests/test_dying.py",)), 1)
    assert (found.outcome, found.by) == ("findings", "they ended by signal 6")
    assert small_copy.ask(Question("", tests=("tests/test_none.py",)), 1).by.startswith("ERROR")


def test_examples_that_one_mutant_failed_with_are_not_kept_for_the_next(small_copy):
    kept = small_copy.tree / ".hypothesis" / "examples"
    kept.mkdir(parents=True)
    assert small_copy.ask(Question("", tests=("tests/test_value.py",)), 1).outcome == "nothing"
    assert not kept.exists()


def test_a_process_of_tests_whose_threads_do_not_end_is_noticed(small_copy):
    (small_copy.tree / "tests" / "test_thread.py").write_text(
        "import threading, time\n\ndef test_it():\n    threading.Thread(target=time.sleep, args=(60,)).start()\n"
    )
    assert small_copy.ask(Question("", tests=("tests/test_thread.py",), budget=2), 1).outcome == "endless"
    assert small_copy.ask(Question("", tests=("tests/test_value.py",)), 1).outcome == "nothing"


def test_what_one_copy_compiles_all_have(tmp_path):
    root = tmp_path / "root"
    for part in copies.PARTS:
        (root / part).mkdir(parents=True)
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (root / "tests" / "test_value.py").write_text(
        "from pathlib import Path\n\ndef test_it():\n"
        f"    kept = Path({copies.COMPILED.as_posix()!r})\n"
        "    kept.mkdir(parents=True, exist_ok=True)\n"
        "    (kept / 'loop.nbc').write_text('compiled')\n"
    )
    some = [copies.Copy(root, tmp_path / str(i)) for i in range(3)]
    copies.compile_once(some, Question("", tests=("tests/test_value.py",)))
    assert [(copy.tree / copies.COMPILED / "loop.nbc").read_text() for copy in some] == ["compiled"] * 3
    some[0].close()


def test_results_are_kept_for_the_tree_that_gave_them(tmp_path):
    stopped, standing = Result("a", 1, "gate", "findings", "by", 1.0), Result("b", 1, "", "nothing", "", 30.0)
    for result in (stopped, standing):
        Kept(tmp_path / "kept", "one").add(result)
    assert set(Kept(tmp_path / "kept", "one").read(False).values()) == {stopped, standing}
    assert Kept(tmp_path / "kept", "other").read(False) == {}
    assert set(Kept(tmp_path / "kept", "other").read(True).values()) == {stopped}
    assert set(Kept(tmp_path / "kept", "other").read(True, {standing.mutant}).values()) == {stopped, standing}


def test_the_digest_is_that_of_the_sources(tmp_path):
    for part in copies.PARTS:
        (tmp_path / part).mkdir()
    before = digest(tmp_path)
    (tmp_path / "oracles" / "new.py").write_text("1")
    assert digest(tmp_path) != before


def test_the_page_names_survivors_and_contradicted_explanations():
    first, second, third = mutants_of(ROOT, KERNELS[0])[:3]
    why = explained.Explanation(*third.identity[:5], reason="It is only slower.")
    results = {
        (first.name, 1): Result(first.name, 1, "gate", "findings", "violation", 1.0),
        (second.name, 1): Result(second.name, 1, "", "nothing", "", 30.0),
        (third.name, 1): Result(third.name, 1, "gate", "findings", "memory", 2.0),
    }
    page = table.document([first, second, third], results, {third: why}, [], [1], 2, 9)
    survivors = page.partition("## Survivors")[2].partition("## Explained")[0]
    assert second.before.partition("|")[0] in survivors
    assert survivors.count("\n| `kernels") == 1
    assert "Yet it was stopped: memory." in page
    assert [table.is_contradicted(m, results, [1]) for m in (first, second, third)] == [True, False, True]
    assert "--survivors" not in page
    assert "--survivors" in table.document([first], results, {}, [], [1], 2, 9, other_trees=True)
    assert "A sample: 3 of 9 mutants" in page
    assert f"| `{KERNELS[0]}` | 3 | 1 | 1 | 1 | 0 | 1.0 |" in page
    assert "Not whole" not in page
    half = table.document([first, second], {key: results[key] for key in [(first.name, 1)]}, {}, [], [1], 2, 2)
    assert f"| `{KERNELS[0]}` | 2 | 1 | 0 | 0 | 1 | 1.0 |" in half
    assert "Not whole: 1 of them" in half


def test_a_sample_is_always_the_same():
    made = mutants_of(ROOT, KERNELS[1])
    some = command.chosen_of(made, "", 5)
    assert len(some) == 5
    assert command.chosen_of(made, "", 5) == some
    assert command.chosen_of(made, some[2].name, 0) == [some[2]]
    assert command.chosen_of(made, f"{some[2].name},{some[0].name}", 0) == [some[0], some[2]]


def test_a_mutant_that_stands_is_a_failure(made, tmp_path, monkeypatch, capsys):
    def standing(asked, seeds, left, results, kept):
        for mutant in left(seeds[0]):
            results[mutant.name, 1] = Result(mutant.name, 1, "", "nothing", "", 1.0)

    monkeypatch.setattr(command, "ask", standing)
    kept = {part: (files, tmp_path / f"kept{part}") for part, (files, _) in command.PARTS.items()}
    monkeypatch.setattr(command, "PARTS", kept)
    monkeypatch.setattr(command, "mutants_of", lambda root, file: [mutant for mutant in made if mutant.file == file])
    monkeypatch.setattr(
        sys, "argv", ["mutation", "--sample", "2", "--seeds", "1", "--output", str(tmp_path / "page.md")]
    )
    assert command.main() == 1
    assert "survive unexplained" in capsys.readouterr().out


def test_an_explained_mutant_that_was_stopped_is_a_failure(made, tmp_path, monkeypatch, capsys):
    mutant = next(m for m in explained.matched(explained.read(), made)[0] if m.file in COMPILED)
    monkeypatch.setitem(command.PARTS, "_compiled", (COMPILED, tmp_path / "kept"))
    monkeypatch.setattr(command, "mutants_of", lambda root, file: [mutant for mutant in made if mutant.file == file])
    words = f"mutation --compiled --only {mutant.name} --survivors --page --output {tmp_path / 'page.md'}"
    monkeypatch.setattr(sys, "argv", words.split())
    assert command.main() == 0
    Kept(tmp_path / "kept", "a tree").add(Result(mutant.name, 1, "tests", "findings", "by", 1.0))
    assert command.main() == 1
    assert "1 are of mutants that were stopped" in capsys.readouterr().out
