"""python -m mutation: make mutants, try to stop each, write reports/mutants.md. Exits 1 when one survives unexplained."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from mutation import explained, table
from mutation.copies import Copy, compile_once
from mutation.mutants import Mutant, mutants_of, unchanged
from mutation.questions import (
    AROUND,
    COMPARATOR,
    COMPILED,
    CUDA,
    KERNELS,
    REFERENCE,
    Question,
    decides,
    questions_for,
    tests_of,
)
from mutation.run import Kept, Result, WrongTreeError, check_copy, check_sound, digest, is_asked, run

ROOT = Path(__file__).resolve().parents[2]
PARTS = {
    "": ((*KERNELS, *CUDA), Path("reports", "runs", "mutants.jsonl")),
    "_compiled": (COMPILED, Path("reports", "mutants_compiled.jsonl")),
    "_reference": ((*COMPARATOR, *REFERENCE), Path("reports", "mutants_reference.jsonl")),
}
"""The files of each page, by how its name ends, and where answers are kept: for the last two in the repository, since they take
more hours than one has, and whoever asks the next ones goes on from there."""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="Seeds 1 to this.")
    parser.add_argument("--jobs", type=int, default=2, help="Mutants at once.")
    parser.add_argument("--sample", type=int, default=0, help="Only so many, always the same ones.")
    parser.add_argument(
        "--only",
        default="",
        help="Only mutants whose file or function holds one of these, or whose name is one, apart by commas.",
    )
    parser.add_argument("--compiled", action="store_true", help="Those of the compiled kernels: minutes for each.")
    parser.add_argument("--reference", action="store_true", help="Those of the comparator and the reference.")
    parser.add_argument("--list", action="store_true", help="Say which there are, and try none.")
    parser.add_argument(
        "--show", default="", metavar="NAME", help="Print the changed file of that mutant, and try none."
    )
    parser.add_argument(
        "--survivors",
        action="store_true",
        help="Only those that no earlier run, of any tree, stopped; not the explained.",
    )
    parser.add_argument("--unexplained", action="store_true", help="Only those that are not explained as equivalent.")
    parser.add_argument("--entries", action="store_true", help="Print what survived unexplained as entries to explain.")
    parser.add_argument("--unchecked", action="store_true", help="Do not ask first whether the tree as it is is sound.")
    parser.add_argument(
        "--quick", action="store_true", help="Only the first question; what it does not stop is still to be asked."
    )
    parser.add_argument("--page", action="store_true", help="Write the page of what was asked before, and try none.")
    parser.add_argument("--output", type=Path, help="The page (default: under reports/).")
    asked = parser.parse_args()
    asked.part = "_compiled" if asked.compiled else "_reference" if asked.reference else ""
    asked.output = asked.output or Path("reports", f"mutants{asked.part}.md")
    return asked


def main() -> int:
    asked = options()
    files = (*KERNELS, *CUDA, *COMPARATOR, *REFERENCE, *COMPILED)
    every = [mutant for file in files for mutant in mutants_of(ROOT, file) if decides(mutant)]
    why, stale = explained.matched(explained.read(), every)
    part, where = PARTS[asked.part]
    made = [mutant for mutant in every if mutant.file in part]
    chosen = chosen_of(made, asked.only, asked.sample)
    if asked.show:
        print(next(mutant.source for mutant in made if mutant.name == asked.show))
        return 0
    if asked.list:
        for m in chosen:
            print(f"{m.name} {m.file}:{m.line} {m.function} [{m.operator}] {m.before}  ->  {m.after}")
        return 0
    seeds = range(1, asked.seeds + 1)
    kept = Kept(ROOT / where, digest(ROOT))
    results = kept.read(asked.survivors, {mutant.name for mutant in why})
    if asked.unexplained:
        chosen = [m for m in chosen if m not in why]

    def left(seed: int) -> list[Mutant]:
        of = results.get
        return [m for m in chosen if (m.name, seed) not in results and is_asked(seed, m in why, of((m.name, 1)))]

    print(f"{len(made)} mutants, {len(chosen)} chosen, {len(why)} explained", flush=True)
    try:
        if not asked.page:
            ask(asked, seeds, left, results, kept)
    except WrongTreeError as error:
        print(error, file=sys.stderr)
        return 2
    page = table.document(chosen, results, why, stale, seeds, asked.jobs, len(made), asked.survivors)
    asked.output.write_text(page, encoding="utf-8")
    standing = [m for m in chosen if m not in why and table.stands(m, results, seeds)]
    if asked.entries:
        print("\n".join(explained.entry(mutant) for mutant in standing))
    wrong = sum(table.is_contradicted(m, results, seeds) for m in chosen if m in why)
    print(
        f"{len(standing)} survive unexplained, {len(stale)} explanations are stale, {wrong} are of mutants that were stopped; "
        f"see {asked.output}"
    )
    return 1 if standing or stale or wrong else 0


def chosen_of(made: Sequence[Mutant], only: str, sample: int) -> list[Mutant]:
    """The mutants that are named, or of them a sample that is always the same, in their order. only: names, apart by commas."""
    names = only.split(",")
    named = [m for m in made if any(name in m.file or name in m.function or name == m.name for name in names)]
    if not sample or sample >= len(named):
        return named
    places = sorted(random.Random(0).sample(range(len(named)), sample))
    return [named[place] for place in places]


def ask(
    asked: argparse.Namespace,
    seeds: Sequence[int],
    left: Callable[[int], list[Mutant]],
    results: dict[tuple[str, int], Result],
    kept: Kept,
) -> None:
    """Try what is left with each seed, in copies that are removed afterwards."""
    soon = list(dict.fromkeys(m for seed in seeds for m in left(seed)))
    if not soon:
        return
    directory = Path(tempfile.mkdtemp(prefix="mutants-"))
    copies: list[Copy] = []
    try:
        copies += [Copy(ROOT, directory / str(i)) for i in range(asked.jobs)]
        anew, others = (
            [m for m in soon if (m.file in set(COMPILED) - set(AROUND)) == loops] for loops in (True, False)
        )
        if not asked.unchecked:
            check(copies, anew)
        if any(m.file in KERNELS or m.file in AROUND for m in others):  # of the loops' own mutants all is compiled anew
            compile_once(copies, tests_of(KERNELS[0]))
        if not asked.unchecked:
            check(copies, others)
        for files in (KERNELS, CUDA, COMPARATOR, REFERENCE, COMPILED):
            some = next((m for m in soon if m.file in files), None)
            if some is not None:
                check_copy(copies[0], some, questions_for(some)[-1])
        for seed in seeds:
            wanted = left(seed)
            print(f"Seed {seed}: {len(wanted)} to try", flush=True)
            to_try = len(wanted)

            def done(result: Result, mutant: Mutant) -> None:
                nonlocal to_try
                to_try -= 1
                if result.stopped or not asked.quick:
                    results[result.mutant, result.seed] = result
                    kept.add(result)
                how = f"{result.outcome} of {result.stopped}: {result.by}" if result.stopped else "SURVIVES"
                print(
                    f"{to_try} {result.seconds:.1f} s {mutant.name} {mutant.file} {mutant.function} {how}", flush=True
                )

            run(copies, wanted, seed, first_question if asked.quick else questions_for, done)
    finally:
        for copy in copies:
            copy.close()
        shutil.rmtree(directory, ignore_errors=True)


def check(copies: Sequence[Copy], soon: Sequence[Mutant]) -> None:
    """That nothing but its change stops one of these mutants. Raises WrongTreeError."""
    files = dict.fromkeys(m.file for m in soon)
    check_sound(copies, [q for m in soon for q in questions_for(m)], 1, [unchanged(ROOT, file) for file in files])


def first_question(mutant: Mutant) -> tuple[Question, ...]:
    return questions_for(mutant)[:1]


if __name__ == "__main__":
    sys.exit(main())
