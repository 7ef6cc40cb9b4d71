"""Select the questions that must stop a mutant: tests of the changed file, then gates.

The answers of the unchanged tree are known. The rule for tests: those named after the source file run first, then all tests of
the folder that mirrors its folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from flawed_kernels import table

from mutation.mutants import Mutant

GROUPS = {
    "kernels": ("xverify/kernels/*.py", "xverify/kernels/cuda/*.py"),
    "compiled": ("xverify/kernels/compiled/*.py",),
    "reference": (
        "xverify/verify/compare.py", "xverify/verify/legal.py", "xverify/verify/verdicts.py", "xverify/verify/tally.py",
        "xverify/verify/findings.py", "xverify/verify/large.py", "xverify/core/bits.py", "xverify/core/rounding.py",
        "xverify/core/dtypes.py", "xverify/arithmetic/*stages.py", "xverify/arithmetic/*reading*.py",
        "xverify/contracts/*.py",
    ),
}  # fmt: skip
"""The files of each group of `make mutants GROUP=...`. "reference": the comparator and the legal sets."""

MIRRORED = {
    "xverify/kernels/compiled/*.py": ("tests/kernels", "compiled_"),
    "xverify/kernels/cuda/*.py": ("tests/kernels", "cuda_"),
    "xverify/arithmetic/*.py": ("tests/arithmetic", ""),
}
"""Exceptions from the rule for folders: the tests' folder and the beginning of their names."""

FIRST = {
    "xverify/core/bits.py": ("tests/core/test_codes.py",),
    "xverify/core/dtypes.py": ("tests/core/test_codes.py", "tests/core/test_casts.py"),
    "xverify/kernels/casting.py": ("tests/kernels/test_kernels.py",),
    "xverify/kernels/checks.py": ("tests/kernels/test_kernel_refusals.py",),
    "xverify/kernels/editions.py": ("tests/kernels/test_kernel_refusals.py", "tests/kernels/test_kernels.py"),
    "xverify/kernels/formula.py": ("tests/kernels/test_packed.py", "tests/kernels/test_kernels.py"),
    "xverify/kernels/linear.py": ("tests/kernels/test_kernel_refusals.py",),
    "xverify/kernels/ranges.py": ("tests/kernels/test_kernel_ranges.py",),
    "xverify/verify/verdicts.py": ("tests/verify/test_verdict_guards.py", "tests/verify/test_verdicts.py"),
    "xverify/contracts/*.py": ("tests/contracts/test_contracts.py",),
}
"""Exceptions from the rule for names: tests that run first for files after which no test is named."""

BESIDE = {
    "xverify/core/*.py": ("tests/arithmetic",),
    "xverify/contracts/*.py": ("tests/arithmetic/test_readings.py", "tests/kernels/test_kernel_refusals.py"),
    "xverify/arithmetic/*.py": ("tests/contracts", "tests/kernels/test_kernels.py"),
}
"""Tests of other folders that see a mistake of these files too, and run last."""

LEFT_OUT = ("tests/verify/test_compare_mutants.py",)
"""Tests that search the text of a source file, which mutants change."""

NEWEST, RANGES = "ai.onnx/DequantizeLinear-25", "tensorflow/*"
TESTS_SECONDS, COMPILING_SECONDS = 300.0, 600.0
"""Time limits of tests in seconds. The second holds if Numba compiles everything again."""

GATE_SECONDS, SOUND_SECONDS, FLAWED_SECONDS = 23.0, 6.0, 12.0

FLAWED = "tests/flawed_kernels"
NARROW = {
    "int8_difference_wraps": ("int8", "float32", "per_tensor"),
    "negative_axis_refused": ("int8", "float32", "per_tensor,per_axis"),
    "float16_rounded_twice": ("float8_e5m2", "float16", "per_tensor"),
    "always_float32": ("int8", "float16", "per_tensor"),
    "output_buffer_kept": ("int8", "float32", "per_tensor"),
    "zero_point_of_another_type_cast": ("int8", "float32", "per_tensor,per_axis"),
    "several_ranges_abort": ("int8", "float32", ""),
}
"""Flawed kernels, one for each kind of fault, and the part of the domain that shows it soon."""


@dataclass(frozen=True)
class Question:
    """A gate of a kernel, or where ``kernel`` is "" a run of tests."""

    kernel: str
    contracts: tuple[str, ...] = ()
    budget: float = 60.0
    """Seconds of the gate, or in which the tests must end."""
    expected: str = "nothing"
    """The outcome for the sound tree: "nothing" or "findings"."""
    narrow: tuple[str, str, str] = ("", "", "")
    """Types of x, types of the scale and granularities, as the command takes them."""
    tests: tuple[str, ...] = ()
    is_optimised: bool = True
    """False if Numba need not optimise what the tests compile."""

    @property
    def words(self) -> str:
        if not self.kernel:
            return "tests"
        return f"{self.kernel.rpartition('/')[2]} on {' '.join(self.contracts)}"

    def asked(self, seed: int) -> dict[str, Any]:
        """Return the argument of ask.py."""
        return {
            "kernel": self.kernel, "contracts": list(self.contracts), "budget": self.budget, "seed": seed,
            "narrow": list(self.narrow),
        }  # fmt: skip


def files_of(root: Path, group: str) -> tuple[str, ...]:
    """List the source files of a group."""
    paths = [path for pattern in GROUPS[group] for path in sorted(root.glob(pattern)) if path.name != "__init__.py"]
    return tuple(path.relative_to(root).as_posix() for path in paths)


def mirrored_tests(root: Path, file: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the test files that run first, and all others."""
    source = Path(file)
    folder, prefix = _matching(MIRRORED, file) or (Path("tests", *source.parts[1:-1]).as_posix(), "")
    mirrored = [path.relative_to(root).as_posix() for path in sorted(root.glob(f"{folder}/test_*.py"))]
    stem = prefix + source.stem
    own = [test for test in mirrored if Path(test).stem in (f"test_{stem}", f"test_{source.stem}")]
    begun = [test for test in mirrored if Path(test).stem.startswith(f"test_{stem}")]
    same = [test for test in mirrored if prefix and Path(test).stem.startswith(f"test_{prefix.rstrip('_')}")]
    first = [*own, *begun, *(_matching(FIRST, file) or ())] or same
    every = [*same, *mirrored, *(_matching(BESIDE, file) or ())]
    left_out = {*first, *LEFT_OUT}
    return tuple(dict.fromkeys(first)), tuple(dict.fromkeys(test for test in every if test not in left_out))


def _matching(entries: dict[str, Any], file: str) -> Any:
    return next((entry for pattern, entry in entries.items() if fnmatch(file, pattern)), None)


def questions_for(root: Path, mutant: Mutant) -> tuple[Question, ...]:
    """Return the questions for a mutant, the cheapest first."""
    file = mutant.file
    anew = fnmatch(file, "xverify/kernels/compiled/*")
    limit = COMPILING_SECONDS if anew else TESTS_SECONDS
    first, others = mirrored_tests(root, file)
    tests = (
        [Question("", budget=limit, tests=first, is_optimised=not anew or file.endswith("/packed.py"))] if first else []
    )
    rest = [Question("", budget=limit, tests=others)] if others else []
    return (*tests, *gates_for(file), *rest)


def gates_for(file: str) -> tuple[Question, ...]:
    """Return gates that see a mistake of the file. Without a GPU, the CUDA kernels have none."""
    contracts = (RANGES,) if "range" in Path(file).stem else (NEWEST,)
    if fnmatch(file, "xverify/kernels/compiled/*"):
        return (Question("xverify-numba", contracts, GATE_SECONDS),)
    if fnmatch(file, "xverify/kernels/cuda/*"):
        return ()
    if fnmatch(file, "xverify/kernels/*"):
        return (Question("xverify-numpy", contracts if contracts == (RANGES,) else ("*",), GATE_SECONDS),)
    if not fnmatch(file, "xverify/verify/*"):
        return ()
    sound = ("int8", "float16", "per_tensor,per_axis")
    flawed = [kernel for kernel in table.FLAWED if kernel.name in NARROW]
    return (
        Question(f"{FLAWED}/sound.py:onnx", (NEWEST,), SOUND_SECONDS, narrow=sound),
        *(
            Question(f"{FLAWED}/{kernel.target}", (kernel.contract,), FLAWED_SECONDS, "findings", NARROW[kernel.name])
            for kernel in flawed
        ),
    )
