"""The page reports/mutants.md: the number of mutants of each file, and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from mutation.mutants import Mutant
from mutation.run import Result

HEAD = """# Mutants

Made by `make mutants GROUP={group}`, at commit {commit}, with seed {seed}. `tests/mutation/` is the tool.
A mutant is the project with one small change of one statement. It is stopped when a test or a gate fails.
Marked: the source says beside the statement why the change is equivalent. Mutants that only cost time are not made.
Seconds count from the start of the first question to the first fault.
"""


def document(mutants: Sequence[Mutant], results: Mapping[str, Result], group: str, commit: str, seed: int) -> str:
    """Write the page."""
    lines = [HEAD.format(group=group, commit=commit, seed=seed)]
    lines += ["| file | mutants | stopped | marked | survive | not tried | median s | slowest s |"]
    lines += ["|---|--:|--:|--:|--:|--:|--:|--:|"]
    for file in dict.fromkeys(mutant.file for mutant in mutants):
        lines.append(_row(f"`{file}`", [m for m in mutants if m.file == file], results))
    lines.append(_row("**all**", mutants, results))
    return "\n".join(lines) + "\n"


def stands(mutant: Mutant, results: Mapping[str, Result]) -> bool:
    """True if every question was asked and none stopped the mutant."""
    return mutant.name in results and not results[mutant.name].stopped


def _row(title: str, mutants: Sequence[Mutant], results: Mapping[str, Result]) -> str:
    open_mutants = [m for m in mutants if not m.mark]
    survive = sum(stands(m, results) for m in open_mutants)
    times = [results[m.name].seconds for m in open_mutants if m.name in results and results[m.name].stopped]
    missing = len(open_mutants) - survive - len(times)
    seconds = f"{median(times):.1f} | {max(times):.1f}" if times else "- | -"
    counts = f"{len(mutants)} | {len(times)} | {len(mutants) - len(open_mutants)} | {survive} | {missing}"
    return f"| {title} | {counts} | {seconds} |"
