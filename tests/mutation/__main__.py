"""Make mutants, try to stop each, and write reports/mutants.md. Exits with 1 when one survives."""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mutation import table
from mutation.copies import Copy, compile_once
from mutation.mutants import Mutant, mutants_of, unchanged
from mutation.questions import GROUPS, Question, files_of, questions_for
from mutation.run import Kept, Result, WrongTreeError, check_copy, check_sound, digest, run

ROOT = Path(__file__).resolve().parents[2]
KEPT = Path("reports", "runs", "mutants.jsonl")
"""Answers of earlier runs, which the next run of the same tree reads."""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument(
        "--group", choices=sorted(GROUPS), default="kernels", help="Files to change (default: kernels)."
    )
    parser.add_argument("--seed", type=int, default=1, help="Seed of gates and of drawn tests (default: 1).")
    parser.add_argument("--jobs", type=int, default=2, help="Mutants at the same time (default: 2).")
    parser.add_argument("--sample", type=int, default=0, help="Number of mutants, always the same ones (default: all).")
    parser.add_argument("--only", default="", help="Parts of file or function names, or mutants, separated by commas.")
    parser.add_argument("--list", action="store_true", help="List the mutants and try none.")
    parser.add_argument("--show", default="", metavar="NAME", help="Print the changed file of a mutant and try none.")
    parser.add_argument("--quick", action="store_true", help="Ask the first question only; survivors are not kept.")
    parser.add_argument("--unchecked", action="store_true", help="Skip the check that the unchanged tree is sound.")
    parser.add_argument("--page", action="store_true", help="Write the page from kept answers and try none.")
    parser.add_argument("--output", type=Path, default=Path("reports", "mutants.md"), help="The page to write.")
    return parser.parse_args()


def main() -> int:
    asked = options()
    made = [mutant for file in files_of(ROOT, asked.group) for mutant in mutants_of(ROOT, file)]
    chosen = chosen_of(made, asked.only, asked.sample)
    if asked.show:
        print(next(mutant.source for mutant in made if mutant.name == asked.show))
        return 0
    if asked.list:
        for m in chosen:
            mark = f"  # {m.mark}" if m.mark else ""
            print(f"{m.name} {m.file}:{m.line} {m.function} [{m.operator}] {m.before}  ->  {m.after}{mark}")
        return 0
    kept = Kept(ROOT / KEPT, digest(ROOT), asked.seed)
    results = kept.read()
    left = [m for m in chosen if not m.mark and m.name not in results]
    print(f"{len(made)} mutants, {len(chosen)} chosen, {len(left)} to try", flush=True)
    try:
        if not asked.page and left:
            ask(asked, left, results, kept)
    except WrongTreeError as error:
        print(error, file=sys.stderr)
        return 2
    asked.output.write_text(table.document(chosen, results, asked.group, commit(), asked.seed), encoding="utf-8")
    survivors = [m for m in chosen if not m.mark and table.stands(m, results)]
    for m in survivors:
        print(f"SURVIVES {m.name} {m.file}:{m.line} {m.function} [{m.operator}] {m.before}  ->  {m.after}")
    print(f"{len(survivors)} mutants survive; see {asked.output}")
    return 1 if survivors else 0


def commit() -> str:
    """Return the state of the code, as git names it."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def chosen_of(made: Sequence[Mutant], only: str, sample: int) -> list[Mutant]:
    """Return the mutants with one of the names in ``only``, or a fixed sample of them, in their order."""
    names = only.split(",")
    named = [m for m in made if any(name in m.file or name in m.function or name == m.name for name in names)]
    if not sample or sample >= len(named):
        return named
    return [named[place] for place in sorted(random.Random(0).sample(range(len(named)), sample))]


def ask(asked: argparse.Namespace, left: Sequence[Mutant], results: dict[str, Result], kept: Kept) -> None:
    """Try mutants in copies of the tree that are removed afterwards.

    Raises:
        WrongTreeError: A copy or the unchanged tree fails a check.
    """
    directory = Path(tempfile.mkdtemp(prefix="mutants-"))
    copies: list[Copy] = []
    to_try = len(left)

    def questions(mutant: Mutant) -> tuple[Question, ...]:
        every = questions_for(ROOT, mutant)
        return every[:1] if asked.quick else every

    def done(result: Result, mutant: Mutant) -> None:
        nonlocal to_try
        to_try -= 1
        if result.stopped or not asked.quick:
            results[result.mutant] = result
            kept.add(result)
        how = f"{result.outcome} of {result.stopped}: {result.by}" if result.stopped else "SURVIVES"
        print(f"{to_try} {result.seconds:.1f} s {mutant.name} {mutant.file} {mutant.function} {how}", flush=True)

    try:
        copies += [Copy(ROOT, directory / str(i)) for i in range(asked.jobs)]
        asks = [question for mutant in left for question in questions(mutant)]
        if asked.group == "kernels":
            compile_once(copies, next(question for question in asks if question.tests))
        if not asked.unchecked:
            check_sound(copies, asks, asked.seed, [unchanged(ROOT, f) for f in dict.fromkeys(m.file for m in left)])
        check_copy(copies[0], left[0], questions(left[0])[-1])
        run(copies, left, asked.seed, questions, done)
    finally:
        for copy in copies:
            copy.close()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
