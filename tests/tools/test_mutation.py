"""The mutation tool: copies run their own files, questions exist, marks are read, results are counted."""

from __future__ import annotations

import ast
import sys
from dataclasses import replace

import pytest
from folders import ROOT
from mutation import __main__ as command
from mutation import copies, operators, questions, table
from mutation.mutants import Mutant, marks_of, mutants_of, unchanged
from mutation.questions import GROUPS, Question, files_of, mirrored_tests, questions_for
from mutation.run import Kept, Result, WrongTreeError, check_copy, check_sound, digest, distinct, run, try_mutant

FILES = {group: files_of(ROOT, group) for group in GROUPS}
EVERY = [file for files in FILES.values() for file in files]
COMPARATOR, KERNELS = "xverify/verify/compare.py", "xverify/kernels/blocks.py"


@pytest.fixture(scope="module")
def made():
    return mutants_of(ROOT, KERNELS)


def test_every_pattern_names_files():
    for pattern in (pattern for patterns in GROUPS.values() for pattern in patterns):
        assert list(ROOT.glob(pattern)), pattern
    for pattern in (*questions.MIRRORED, *questions.FIRST, *questions.BESIDE):
        assert list(ROOT.glob(pattern)), pattern


def test_tests_of_a_file_exist():
    for file in EVERY:
        first, others = mirrored_tests(ROOT, file)
        assert others, file
        assert not set(first) & set(others), file
        for test in (*first, *others, *questions.LEFT_OUT):
            assert (ROOT / test).exists(), (file, test)


def test_tests_of_a_file_are_those_named_after_it_and_those_of_its_folder():
    first, others = mirrored_tests(ROOT, KERNELS)
    assert first == ("tests/kernels/test_blocks.py",)
    assert "tests/kernels/test_kernels.py" in others
    first, others = mirrored_tests(ROOT, "xverify/kernels/compiled/linear.py")
    assert first == ("tests/kernels/test_compiled_linear.py",)
    assert "tests/kernels/test_compiled.py" in others


def test_a_file_after_which_no_test_is_named_has_tests_or_a_gate_first():
    for file in EVERY:
        assert questions_for(ROOT, Mutant(file, "", "", "", ""))


def test_a_kernels_mutant_is_asked_by_gates_of_half_a_minute():
    gates = [question for question in questions_for(ROOT, Mutant(KERNELS, "", "", "", "")) if question.kernel]
    assert {(q.kernel, q.expected) for q in gates} == {("xverify-numpy", "nothing")}
    assert sum(q.budget for q in gates) <= 30


def test_sizes_of_work_exist():
    text = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("xverify/**/*.py"))
    assert [name for name in operators.COSTS if f"\n{name} = " not in text] == []
    assert [name for name in operators.COSTING if f"\ndef {name}(" not in text] == []


def test_marks_beside_the_code_are_read(tmp_path):
    text = (
        "def f(a):\n    if a < 1:  # mutant: comparison equal, because a is never 1\n        a = a + 2\n"
        "    return a  # mutant: equal, because nobody asks\n"
    )
    assert marks_of(text)[2] == (frozenset({"comparison"}), "a is never 1")
    (tmp_path / "module.py").write_text(text)
    by_mark = {(m.line, m.operator): m.mark for m in mutants_of(tmp_path, "module.py")}
    assert by_mark == {
        (2, "comparison"): "a is never 1", (2, "constant"): "", (3, "statement"): "", (3, "arithmetic"): "",
        (3, "constant"): "", (4, "return"): "nobody asks",
    }  # fmt: skip


MUTANT = Mutant("package.py", "f", "constant", "return 1", "return 2", source="def f():\n    return 2\n")


class Pretended:
    """A copy whose answers are the text of its file."""

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


@pytest.mark.parametrize("file", [COMPARATOR, KERNELS])
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


def test_broken_and_endless_runs_are_reported(small_copy, monkeypatch):
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


def test_results_are_kept_for_the_tree_and_seed_that_gave_them(tmp_path):
    stopped, standing = Result("a", 1, "gate", "findings", "by", 1.0), Result("b", 1, "", "nothing", "", 30.0)
    for result in (stopped, standing):
        Kept(tmp_path / "kept", "tree", 1).add(result)
    assert Kept(tmp_path / "kept", "tree", 1).read() == {"a": stopped, "b": standing}
    assert Kept(tmp_path / "kept", "other", 1).read() == {}
    assert Kept(tmp_path / "kept", "tree", 2).read() == {}


def test_the_digest_is_that_of_the_sources(tmp_path):
    for part in copies.PARTS:
        (tmp_path / part).mkdir()
    before = digest(tmp_path)
    (tmp_path / "oracles" / "new.py").write_text("1")
    assert digest(tmp_path) != before


def test_the_page_counts_what_became_of_mutants(made):
    first, second, third, fourth = made[:4]
    marked = replace(third, mark="it is only slower")
    results = {
        first.name: Result(first.name, 1, "gate", "findings", "violation", 1.0),
        second.name: Result(second.name, 1, "", "nothing", "", 30.0),
    }
    page = table.document([first, second, marked, fourth], results, "kernels", "0123abc", 1)
    assert f"| `{KERNELS}` | 4 | 1 | 1 | 1 | 1 | 1.0 | 1.0 |" in page
    assert "GROUP=kernels" in page
    assert "0123abc" in page
    assert [table.stands(m, results) for m in (first, second, fourth)] == [False, True, False]


def test_a_sample_is_always_the_same(made):
    some = command.chosen_of(made, "", 5)
    assert len(some) == 5
    assert command.chosen_of(made, "", 5) == some
    assert command.chosen_of(made, some[2].name, 0) == [some[2]]
    assert command.chosen_of(made, f"{some[2].name},{some[0].name}", 0) == [some[0], some[2]]


@pytest.mark.parametrize(("stopped", "status"), [("", 1), ("gate", 0)])
def test_a_mutant_that_stands_is_a_failure(made, tmp_path, monkeypatch, capsys, stopped, status):
    def ask(asked, left, results, kept):
        for mutant in left:
            results[mutant.name] = Result(mutant.name, 1, stopped, "nothing", "", 1.0)

    monkeypatch.setattr(command, "ask", ask)
    monkeypatch.setattr(command, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(command, "files_of", lambda root, group: [KERNELS])
    monkeypatch.setattr(sys, "argv", ["mutation", "--sample", "2", "--output", str(tmp_path / "page.md")])
    assert command.main() == status
    assert f"{2 * status} mutants survive" in capsys.readouterr().out


def test_the_command_lists_mutants(monkeypatch, capsys):
    monkeypatch.setattr(command, "files_of", lambda root, group: [KERNELS])
    monkeypatch.setattr(sys, "argv", ["mutation", "--list", "--only", "blocks.py", "--sample", "3"])
    assert not command.main()
    assert capsys.readouterr().out.count(f" {KERNELS}:") == 3
