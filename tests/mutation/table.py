"""reports/mutants.md: how many mutants there are, what stops them and how soon, and which survive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from mutation.explained import Explanation
from mutation.mutants import Mutant
from mutation.questions import COMPARATOR, COMPILED, CUDA, KERNELS, REFERENCE
from mutation.run import Result, is_asked

SLOWEST = 30

HEAD = """# Mutants of the in-house kernels, of the comparator and of the reference

Made by `make mutants`, of the compiled kernels by `make mutants COMPILED=1`, of the comparator and the reference by `make mutants
REFERENCE=1`. Each mutant is the project with one small change.
One of an in-house kernel is stopped when `xverify gate -x` of that kernel does not pass, or where a gate cannot see it the
kernels' tests do not; where much of a file shows in no call of a gate, and of the compiled kernels, tests of the changed file are
asked first. Those of the CUDA kernels, without a card: what they launch is compiled as C++. One of the comparator is stopped when
its tests fail, or when a gate lets a flawed kernel pass or stops a sound one. One of the reference, which says what is allowed
and legal, is stopped when its tests fail. All these questions are first asked of the files written as mutants are, unchanged.
Seconds are counted to the first fault, {jobs} mutants at once, earlier questions included: of a gate from the start of its
process, of tests from that of a fork of a process that has imported Numba, NumPy and pytest, and nothing of the project. Where
Numba compiles anew what the tests call, it does not optimise at first.
"""


def document(
    mutants: Sequence[Mutant],
    results: Mapping[tuple[str, int], Result],
    explained: Mapping[Mutant, Explanation],
    stale: Sequence[Explanation],
    seeds: Sequence[int],
    jobs: int,
    made: int,
    other_trees: bool = False,
) -> str:
    """The page. mutants: those that were tried; made: how many there are in all; other_trees: whether results count that are of
    earlier states of the project."""
    lines = [HEAD.format(jobs=jobs)]
    if made > len(mutants):
        lines += [f"**A sample: {len(mutants)} of {made} mutants.**", ""]
    lines += [
        f"Seeds: {', '.join(map(str, seeds))}. A mutant counts as stopped when it is with every seed. What a test stops that "
        "draws nothing, and what is explained, is asked with the first only.",
        "",
    ]
    if other_trees:
        lines += [
            "Made with `--survivors`: what an earlier state of the project stopped was not asked again.",
            "",
        ]
    unasked = sum(m not in explained and is_left(m, results, seeds) for m in mutants)
    if unasked:
        lines += [f"**Not whole: {unasked} of them were not asked yet.**", ""]
    lines += ["| file | mutants | stopped | explained | survive | not asked | median | 90 % | slowest |"]
    lines += ["|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    groups = [
        ("in-house kernels", KERNELS), ("CUDA kernels", CUDA), ("comparator", COMPARATOR), ("reference", REFERENCE),
        ("compiled kernels", COMPILED),
    ]  # fmt: skip
    for title, files in groups:
        if not any(m.file in files for m in mutants):
            continue
        for file in files:
            lines.append(_row(f"`{file}`", [m for m in mutants if m.file == file], results, explained, seeds))
        lines.append(_row(f"**{title}**", [m for m in mutants if m.file in files], results, explained, seeds))
    for title, files in groups:
        expected = [m for m in mutants if m.file in files and m not in explained]
        times = [r.seconds for m in expected for r in _of(m, results, seeds) if r.stopped]
        if times:
            within = [(limit, sum(t <= limit for t in times)) for limit in (2, 5, 10, 30)]
            parts = [f"{count} ({100 * count / len(times):.1f} %) within {limit} s" for limit, count in within]
            lines += ["", f"Of {len(times)} times that a mutant of the {title} was stopped: {', '.join(parts)}."]
    lines += ["", "## Survivors", ""]
    lines += _survivors([m for m in mutants if m not in explained], results, seeds) or ["None."]
    lines += ["", "## Explained", ""]
    lines += [line for m in mutants if m in explained for line in _explained(m, explained[m], results, seeds)] or [
        "None."
    ]
    if stale:
        lines += ["", "Explanations of mutants that are no more (remove them):", ""]
        lines += [f"- `{e.file}`, {e.function}: `{e.before}` → `{e.after}`" for e in stale]
    lines += ["", f"## The {SLOWEST} that took longest", ""]
    lines += ["| seconds | seed | where | change | stopped by |", "|--:|--:|---|---|---|"]
    slow = sorted(
        ((r, m) for m in mutants for r in _of(m, results, seeds) if r.stopped and m not in explained),
        key=lambda p: -p[0].seconds,
    )
    lines += [f"| {r.seconds:.1f} | {r.seed} | {_where(m)} | {_change(m)} | {_cell(r.by)} |" for r, m in slow[:SLOWEST]]
    return "\n".join(lines) + "\n"


def stands(mutant: Mutant, results: Mapping[tuple[str, int], Result], seeds: Sequence[int]) -> bool:
    """Whether some seed did not stop the mutant."""
    return any(not r.stopped for r in _of(mutant, results, seeds))


def is_contradicted(mutant: Mutant, results: Mapping[tuple[str, int], Result], seeds: Sequence[int]) -> bool:
    """Whether some seed stopped a mutant, which one that is explained as equivalent cannot be."""
    return any(r.stopped for r in _of(mutant, results, seeds))


def is_left(mutant: Mutant, results: Mapping[tuple[str, int], Result], seeds: Sequence[int]) -> bool:
    """Whether some seed was not asked that is to be."""
    first = results.get((mutant.name, 1))
    return any((mutant.name, seed) not in results and is_asked(seed, False, first) for seed in seeds)


def _of(mutant: Mutant, results: Mapping[tuple[str, int], Result], seeds: Sequence[int]) -> list[Result]:
    return [results[mutant.name, seed] for seed in seeds if (mutant.name, seed) in results]


def _row(
    title: str,
    mutants: Sequence[Mutant],
    results: Mapping[tuple[str, int], Result],
    explained: Mapping[Mutant, Explanation],
    seeds: Sequence[int],
) -> str:
    others = [m for m in mutants if m not in explained]
    survive = sum(stands(m, results, seeds) for m in others)
    unasked = sum(is_left(m, results, seeds) and not stands(m, results, seeds) for m in others)
    times = sorted(r.seconds for m in others for r in _of(m, results, seeds) if r.stopped)
    seconds = "- | - | -" if not times else f"{median(times):.1f} | {times[len(times) * 9 // 10]:.1f} | {times[-1]:.1f}"
    counts = (
        f"{len(mutants)} | {len(others) - survive - unasked} | {len(mutants) - len(others)} | {survive} | {unasked}"
    )
    return f"| {title} | {counts} | {seconds} |"


def _survivors(mutants: Sequence[Mutant], results: Mapping[tuple[str, int], Result], seeds: Sequence[int]) -> list[str]:
    rows = []
    for mutant in mutants:
        of = _of(mutant, results, seeds)
        survived = [str(r.seed) for r in of if not r.stopped]
        if survived:
            rows.append(f"| {_where(mutant)} | {mutant.operator} | {_change(mutant)} | {', '.join(survived)} |")
    return ["| where | operator | change | seeds |", "|---|---|---|---|", *rows] if rows else []


def _explained(
    mutant: Mutant, why: Explanation, results: Mapping[tuple[str, int], Result], seeds: Sequence[int]
) -> Iterator[str]:
    stopped = [r for r in _of(mutant, results, seeds) if r.stopped]
    contradiction = f" **Yet it was stopped: {stopped[0].by}.**" if stopped else ""
    yield f"- {_where(mutant)}: {_change(mutant)}. {why.reason}{contradiction}"


def _where(mutant: Mutant) -> str:
    return f"`{mutant.file.removeprefix('xverify/')}` {mutant.function}"


def _change(mutant: Mutant) -> str:
    return _cell(f"`{mutant.before}` → `{mutant.after}`")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
