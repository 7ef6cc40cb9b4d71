"""What must stop a mutant: questions whose answer is known for the tree as it is. Another answer stops the mutant.

A mutant of the in-house kernels is asked as any kernel: it must be found by ``xverify gate``, or, where no call of a gate
holds what it changes, or Numba would compile for minutes, by the kernels' own tests. One of the comparator is stopped by its
tests, or by a gate that lets a flawed kernel pass or stops a sound one. One of the reference is stopped by its tests, which know
what is due from fractions, from tables written by hand, and from the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flawed_kernels import table

from mutation.mutants import Mutant

KERNELS = tuple(
    f"xverify/kernels/{name}.py"
    for name in (
        "backends", "blocks", "casting", "checks", "editions", "formula", "linear", "packed", "plans", "ranges",
    )
)  # fmt: skip
AROUND = tuple(f"xverify/kernels/compiled/{name}.py" for name in ("linear", "pieces", "places", "pool", "ranges"))
"""What calls the loops and is not compiled itself."""

COMPILED = (*AROUND, *(
    f"xverify/kernels/compiled/{name}.py"
    for name in (
        "build", "bytewise", "chunks", "codings", "decoding", "flat", "halves", "kept", "loops", "memory", "nibbles", "numbers",
        "packed", "parts", "range_loops", "results", "rounding", "rows", "scalars", "sharing", "sixteens", "staging",
        "tables", "unpacking", "vectors",
    )
))  # fmt: skip
CUDA = tuple(
    f"xverify/kernels/cuda/{name}.py" for name in ("arrays", "compiling", "geometry", "launch", "linear", "ranges")
)
"""Run without a card; what they launch, which is no Python, is compiled as C++."""

COMPARATOR = (
    "xverify/verify/compare.py", "xverify/verify/legal.py", "xverify/verify/verdicts.py", "xverify/verify/tally.py",
    "xverify/verify/findings.py", "xverify/verify/large.py", "xverify/arithmetic/operand_key.py", "xverify/core/bits.py",
)  # fmt: skip
"""What decides whether a kernel passes. The rest of ``xverify/verify`` names and shortens what was found: which recipe gives
the values, where they are wrong, how small a call shows it."""

REFERENCE = tuple(
    f"xverify/{name}.py"
    for name in (
        "core/rounding", "core/dtypes", "contracts/stages", "contracts/readings", "contracts/linear", "contracts/ranges",
        "contracts/onnx", "contracts/microsoft", "contracts/onednn", "contracts/onednn_dequantize",
        "contracts/onednn_guide", "contracts/tensorflow",
    )
)  # fmt: skip
"""What is allowed, and by which arithmetic a legal set is computed. Readings that no text admits only name what was found."""

OF_SWEEPS = {
    "xverify/verify/verdicts.py": {
        "tested", "_applies", "departs", "disagrees", "_same_values", "_types", "clause_text", "_clause",
    },
    "xverify/verify/tally.py": {
        "Tally.attribution_seconds", "Tally.settle", "Tally.ambiguities", "Tally._remember_departures",
    },
    "xverify/contracts/onnx.py": {"carried", "_check_onnxruntime", "_essence"},
    "xverify/contracts/microsoft.py": {"carried", "_check_examples"},
    "xverify/arithmetic/stages.py": {"in_words", "_type", "_combining"},
    "xverify/verify/findings.py": {"Findings.by_id", "Finding.id", "Findings.sorted", "Subject.label"},
}  # fmt: skip
"""Functions that no kernel's passing depends on: they compare implementations or documents, or name and sort."""

NEWEST = "ai.onnx/DequantizeLinear-25"
RANGES = ("tensorflow/*",)
BY_DIVISION = "onednn/DynamicDequantize-1@divide"
LIKELY = {
    ("xverify/kernels/casting.py", "fractions_to_odd"): ("tensorflow/Dequantize@installed",),
    ("xverify/kernels/formula.py", ""): (NEWEST, "onednn/Dequantize-1@3.0"),
    ("xverify/kernels/formula.py", "arithmetic"): (NEWEST, BY_DIVISION, "com.microsoft/*"),
    ("xverify/kernels/linear.py", "dynamic_dequantize"): ("onednn/*",),
    ("xverify/kernels/checks.py", "dynamic_plan"): ("onednn/*",),
    ("xverify/kernels/checks.py", "_spread"): (NEWEST, "ai.onnx/DequantizeLinear-19"),
    ("xverify/kernels/checks.py", "_optional_axis_spread"): ("com.microsoft/*",),
}
"""The editions that a function serves, if not the newest of ONNX."""

FIRST, ALL = 6.0, 23.0
"""Seconds of gates: on the likely editions, then on all."""

FIRST_AROUND, FIRST_COMPILED = 4.0, 20.0
"""Those of the compiled kernels, on the likely editions: where the loops are as they were, and where Numba compiles them anew."""

BATTERY = "tests/verify/test_compare_mutants.py::test_the_battery_passes_what_is_not_mutated"
"""Of that file no other test: they look for texts of the source, which a mutant need not have."""

TESTS = (*(f"tests/test_{name}.py" for name in (
    "compare", "verdict_guards", "legal", "verdict_refusals", "folding", "asked", "large", "verdicts",
)), BATTERY, "tests/verify/test_editions.py")  # fmt: skip
"""Of the comparator, those that take the least time first."""

TESTS_OF_CELLS = (
    "tests/verify/test_findings.py", "tests/verify/test_tally.py", "tests/engine/test_characterize.py", "tests/verify/test_tally_readings.py", *TESTS,
)  # fmt: skip
TESTS_OF_KERNELS = (
    "tests/kernels/test_blocks.py", "tests/kernels/test_kernel_refusals.py", "tests/kernels/test_packed.py", "tests/kernels/test_backends.py",
    "tests/kernels/test_kernels.py", "tests/kernels/test_kernel_ranges.py", "tests/kernels/test_compiled.py", "tests/kernels/test_compiled_places.py",
    "tests/kernels/test_compiled_linear.py", "tests/kernels/test_compiled_ranges.py", "tests/kernels/test_compiled_memory.py",
    "tests/kernels/test_compiled_threads.py", "tests/kernels/test_compiled_sharing.py", "tests/kernels/test_compiled_kinds.py",
    "tests/kernels/test_compiled_build.py", "tests/kernels/test_compiled_tables.py", "tests/kernels/test_compiled_loops.py",
    "tests/kernels/test_compiled_instructions.py",
    "tests/kernels/test_compiled_types.py", "tests/kernels/test_compiled_flat.py", "tests/kernels/test_compiled_packed.py",
)  # fmt: skip
TESTS_OF_REFERENCE = tuple(f"tests/test_{name}.py" for name in (
    "casts", "codes", "stages", "rounding", "range_ties", "spread", "scaled", "affine", "kernel_refusals",
    "onednn", "onednn_contract", "tensorflow_contract", "microsoft_contract", "contracts", "kernel_ranges", "clauses", "readings",
    "lattice", "recipe_names", "kernels", "strategies",
))  # fmt: skip
TESTS_OF_CUDA = (
    "tests/kernels/test_cuda_ranges.py", "tests/kernels/test_cuda.py", "tests/kernels/test_cuda_calls.py", "tests/kernels/test_cuda_compiling.py",
)  # fmt: skip

TESTS_OF_FILE = {
    f"xverify/kernels/{name}.py": tuple(f"tests/test_{test}.py" for test in tests)
    for name, *tests in (
        ("backends", "backends"), ("blocks", "blocks"), ("casting", "kernels"), ("checks", "kernel_refusals"),
        ("editions", "kernel_refusals", "kernels", "compiled"),
        ("formula", "packed", "backends", "kernel_refusals", "kernels", "compiled"),
        ("linear", "kernel_refusals"), ("packed", "packed"),
        ("plans", "compiled"), ("ranges", "kernel_ranges", "compiled"), ("compiled/packed", "packed"),
        ("compiled/unpacking", "compiled_packed", "packed"),
        ("compiled/tables", "compiled_tables", "compiled"), ("compiled/bytewise", "compiled_tables", "compiled"),
        ("compiled/nibbles", "compiled_tables", "compiled_packed", "compiled_kinds"),
        ("compiled/sixteens", "compiled_tables", "compiled_kinds"),
        ("compiled/numbers", "compiled_tables", "compiled_loops", "compiled_kinds", "compiled"),
        ("compiled/flat", "compiled_flat", "compiled"), ("compiled/build", "compiled_build", "backends", "compiled"),
        ("compiled/parts", "compiled_loops", "compiled_threads", "compiled_sharing", "compiled"),
        ("compiled/range_loops", "kernel_ranges"),
        ("compiled/ranges", "compiled_ranges", "kernel_ranges"),
        ("compiled/pieces", "compiled_threads", "compiled_memory", "compiled_packed", "compiled"),
        ("compiled/pool", "compiled_sharing", "compiled_threads", "compiled"),
        ("compiled/sharing", "compiled_sharing", "compiled_threads", "compiled_loops", "compiled"),
        ("compiled/places", "compiled_places", "compiled"),
        ("compiled/linear", "compiled_linear", "compiled_memory", "compiled_packed", "compiled"), ("cuda/arrays", "cuda_calls"),
        ("cuda/compiling", "cuda_compiling"),
        ("cuda/geometry", "cuda"), ("cuda/launch", "cuda"), ("cuda/linear", "cuda"), ("cuda/ranges", "cuda_ranges"),
    )
} | {
    f"xverify/{name}.py": tuple(f"tests/test_{test}.py" for test in tests)
    for name, *tests in (
        ("verify/compare", "compare"), ("verify/legal", "legal"), ("verify/large", "large"), ("verify/findings", "findings"),
        ("verify/verdicts", "verdict_guards", "tally"), ("verify/tally", "tally", "tally_readings"), ("core/bits", "codes"),
        ("core/rounding", "casts", "rounding", "codes", "readings"), ("core/dtypes", "codes", "casts", "strategies"),
        ("contracts/stages", "stages", "readings"), ("contracts/readings", "lattice", "recipe_names", "readings", "stages"),
        ("contracts/linear", "spread", "readings", "kernels"), ("contracts/ranges", "range_ties", "readings"),
        ("contracts/onnx", "contracts", "clauses", "readings"),
        ("contracts/microsoft", "microsoft_contract", "contracts", "clauses"),
        ("contracts/onednn", "onednn_contract", "contracts", "clauses"),
        ("contracts/onednn_dequantize", "onednn_contract", "clauses"),
        ("contracts/onednn_guide", "onednn_contract", "contracts"),
        ("contracts/tensorflow", "tensorflow_contract", "contracts", "clauses", "readings"),
    )
}  # fmt: skip
"""The tests of a file, asked before the others. Of the compiled kernels that are not named: test_compiled.py."""

TESTS_FIRST = {
    "xverify/kernels/blocks.py": ("tests/kernels/test_blocks.py",),
    "xverify/kernels/checks.py": ("tests/kernels/test_kernel_refusals.py",),
    "xverify/kernels/editions.py": (
        "tests/kernels/test_kernel_refusals.py", "tests/kernels/test_kernels.py",
        "tests/kernels/test_compiled.py::test_checks_hold_for_calls_like_the_last",
    ),
}  # fmt: skip
"""Asked before any gate, of what mostly shows in calls that no gate makes: types of attributes, arrays to write to, blocks."""

OF_LINEAR = tuple(f"tests/kernels/test_compiled_linear.py::test_{test}" for test in (
    "floats_with_zero_points_of_another_type", "quotients_by_one_scale_may_be_subnormals_where_products_are_not",
    "both_ways_give_the_bits_of_numpy[one value]",
))  # fmt: skip
KINDS = ("tests/kernels/test_compiled_kinds.py", *OF_LINEAR)
WAYS = tuple(
    f"tests/kernels/test_compiled.py::test_{test}"
    for test in ("tails_and_starts", "runs_of_whole_chunks", "rows_of_whole_chunks")
)
OF_CALLS = tuple(
    f"tests/kernels/test_compiled.py::test_{test}"
    for test in (
        "broadcast_x_and_strided_out", "one_value_in_foreign_bytes_to_where_it_is_not_aligned",
        "checks_hold_for_calls_like_the_last", "loops_are_given_what_they_are_compiled_for", "a_zero_point_that_is_far_off",
        "onednn_division_and_wide_zero_points",
    )
)  # fmt: skip
OF_TABLES = ("tests/kernels/test_compiled_tables.py",)
OF_LOOPS = "tests/kernels/test_compiled_loops.py", *OF_TABLES
OF_ROOMS = ("tests/kernels/test_compiled_loops.py::test_what_is_kept_of_the_scales_of_runs",)
OF_ROWS = ("tests/kernels/test_compiled_rows.py",)
OF_HALVES = ("tests/kernels/test_compiled_halves.py",)
OF_PACKED = ("tests/kernels/test_compiled_packed.py",)
IN_RUNS = tuple(
    f"tests/kernels/test_compiled_kinds.py::test_codes_of_a_byte_in_runs[{run}]"
    for run in ("float8_e5m2fnuz-32", "float8_e4m3fn-192")
)
OF_FLOATS = tuple(
    f"tests/kernels/test_compiled_kinds.py::test_long_runs_of_float_codes[{name}]"
    for name in ("float8_e4m3fn-float16", "float8_e5m2-float16", "float8_e5m2fnuz-float16", "float8_e4m3fnuz-bfloat16")
)
OF_BUILD = ("tests/kernels/test_compiled_build.py",)
PAST_THE_CACHES = ("tests/kernels/test_compiled_build.py::test_stores_past_the_caches_are_what_they_are_called",)
OF_THREADS = "tests/kernels/test_compiled_sharing.py", "tests/kernels/test_compiled_threads.py"
OF_RANGES = ("tests/kernels/test_compiled_ranges.py",)
OF_TYPES = ("tests/kernels/test_compiled_types.py",)
QUICK = (*KINDS, *WAYS, *OF_RANGES)


def alone(*tests: str) -> tuple[str, ...]:
    """Tests that compile a few instructions and no loop."""
    return tuple(f"tests/kernels/test_compiled_instructions.py::test_{test}" for test in tests)


OF_NUMBERS = alone("scales_become_numbers", "codes_become_numbers", "which_codes_are_narrow")
OF_ELEMENTS = alone(
    "single_numbers_become_elements", "products_to_odd", "double_numbers_become_elements", "products_to_odd_in_float64",
    "what_is_combined", "from_which_scale_on_products_are_normal", "the_bits_of_a_nan_do_not_carry",
    "products_that_are_split", "where_products_are_split",
    "numbers_that_are_known_to_be_no_subnormals", "one_subnormal_among_others", "no_float16_where_the_processor_has_none",
    "no_float16_from_float64_where_the_processor_has_none",
)  # fmt: skip
OF_VECTORS = alone("vectors_of_results")
QUICK_OF_FILE = {
    f"xverify/kernels/compiled/{file}.py": tests
    for file, tests in (
        ("build", (*OF_BUILD, "tests/kernels/test_backends.py")), ("packed", ("tests/kernels/test_packed.py",)),
        ("unpacking", (*OF_PACKED, "tests/kernels/test_packed.py")),
        ("flat", ("tests/kernels/test_compiled_flat.py", *OF_PACKED, *OF_LOOPS, *OF_CALLS)),
        ("codings", (*OF_NUMBERS, *OF_BUILD, *QUICK)), ("decoding", (*OF_NUMBERS, *QUICK)),
        ("rounding", (*OF_ELEMENTS, *OF_VECTORS, *QUICK)), ("vectors", (*OF_ELEMENTS, *OF_NUMBERS, *WAYS, *OF_BUILD, *KINDS)),
        ("scalars", (*alone("what_types_say"), *OF_RANGES, *PAST_THE_CACHES, *OF_LOOPS, *OF_PACKED, *KINDS, *WAYS)),
        ("range_loops", (*OF_RANGES, "tests/kernels/test_kernel_ranges.py")),
        ("tables", (*OF_TABLES, *OF_LOOPS, *WAYS, *KINDS)), ("bytewise", (*OF_TABLES, *IN_RUNS, *OF_LOOPS, *KINDS)),
        ("nibbles", (*OF_TABLES, *OF_PACKED)), ("sixteens", (*OF_TABLES, *OF_FLOATS)),
        ("numbers", (*OF_TABLES, *IN_RUNS, *OF_LOOPS, *KINDS)),
        ("results", (*OF_VECTORS, *OF_ROWS, *OF_PACKED, *IN_RUNS, *OF_LOOPS, *OF_LINEAR, *WAYS, *KINDS)),
        ("loops", (*OF_LOOPS, *OF_ROWS, *PAST_THE_CACHES, *OF_LINEAR, *WAYS, KINDS[0])),
        ("parts", (*OF_LOOPS, *PAST_THE_CACHES, *OF_THREADS)), ("staging", (*OF_LOOPS, *PAST_THE_CACHES)),
        ("memory", (*OF_LOOPS, *OF_PACKED, *PAST_THE_CACHES, *QUICK)),
        ("chunks", (*OF_ROOMS, *WAYS, *OF_PACKED, *OF_LINEAR, KINDS[0], *OF_RANGES)),
        ("kept", (*OF_ROOMS, *OF_ROWS, *IN_RUNS, *WAYS)), ("rows", (*OF_ROWS, *OF_LOOPS, *OF_PACKED, *WAYS)),
        ("halves", (*OF_HALVES, *OF_ROWS)),
        ("places", ("tests/kernels/test_compiled_places.py",)),
        ("linear", (*OF_TYPES, "tests/kernels/test_compiled_linear.py", *OF_CALLS, *OF_PACKED, "tests/kernels/test_compiled_memory.py")),
        ("pieces", (*OF_THREADS, *OF_CALLS, *OF_PACKED, *(
            f"tests/test_compiled_{test}.py" for test in ("linear", "memory")
        ))),
        ("sharing", OF_THREADS), ("ranges", (*OF_TYPES, "tests/kernels/test_compiled_ranges.py", "tests/kernels/test_kernel_ranges.py")),
    )
}  # fmt: skip
"""Asked first: of few loops, where Numba compiles every loop anew."""

ASKED_TESTS = frozenset(
    test.partition("::")[0]
    for tests in (TESTS_OF_CELLS, TESTS_OF_KERNELS, TESTS_OF_REFERENCE, TESTS_OF_CUDA, *TESTS_OF_FILE.values())
    for test in tests
)

DRAWING = tuple(
    f"tests/test_{name}.py"
    for name in ("blocks", "casts", "kernel_ranges", "kernels", "readings", "rounding", "strategies")
)
"""Of these, those that draw: what the others find does not depend on the seed."""

TESTS_SECONDS, COMPILING_SECONDS = 120.0, 600.0
"""In which tests must end, and those for which Numba compiles everything anew."""

REFERENCE_SECONDS = 300.0
"""In which those of the reference must end, a minute on two cores."""

NO_GATES = tuple(f"xverify/kernels/{name}.py" for name in ("backends", "packed", "plans", "compiled/pool"))
"""What looks after calls before their arithmetic, or after arrays that no gate hands out: only tests are asked, as of CUDA."""

THREADS_SECONDS = 20.0
"""In which tests must end that compile nothing, and the threads that they start."""

SOUND_SECONDS, FLAWED_SECONDS = 6.0, 12.0

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
"""Flawed kernels of every kind of fault, and the part of the domain that shows it soon."""


@dataclass(frozen=True)
class Question:
    """A gate to run, or where ``kernel`` is "" tests, by their files.

    budget: seconds of the gate, or in which the tests must end. expected: the outcome for the tree as it is, "nothing" or
    "findings". narrow: types of x, types of scale, granularities, as the command takes them. is_optimised: what Numba compiles
    for tests.
    """

    kernel: str
    contracts: tuple[str, ...] = ()
    budget: float = 60.0
    expected: str = "nothing"
    narrow: tuple[str, str, str] = ("", "", "")
    tests: tuple[str, ...] = ()
    is_optimised: bool = True

    @property
    def words(self) -> str:
        if not self.kernel:
            return "tests"
        return f"{self.kernel.rpartition('/')[2]} on {' '.join(self.contracts)}"

    def asked(self, seed: int) -> dict[str, Any]:
        """As ask.py takes it."""
        return {
            "kernel": self.kernel, "contracts": list(self.contracts), "budget": self.budget, "seed": seed,
            "narrow": list(self.narrow),
        }  # fmt: skip


def decides(mutant: Mutant) -> bool:
    """Whether a kernel's passing may depend on the function that is changed."""
    return mutant.function not in OF_SWEEPS.get(mutant.file, ())


def questions_for(mutant: Mutant) -> tuple[Question, ...]:
    """In the order in which they are asked: what is likely to stop it first."""
    if mutant.file in COMPARATOR:
        plain = mutant.file.endswith(("compare.py", "legal.py", "bits.py"))
        own = TESTS_OF_FILE.get(mutant.file, ())
        tests = (*own, *(test for test in (TESTS if plain else TESTS_OF_CELLS) if test not in own))
        return comparator_questions(tests)
    if mutant.file in REFERENCE:
        own = TESTS_OF_FILE[mutant.file]
        others = tuple(test for test in TESTS_OF_REFERENCE if test not in own)
        return tuple(Question("", budget=REFERENCE_SECONDS, tests=tests) for tests in (own, others))
    if mutant.file in COMPILED and mutant.file not in NO_GATES:
        ranges = mutant.file.endswith(("/ranges.py", "/range_loops.py"))
        contracts = RANGES if ranges else (NEWEST,)
        if mutant.file in AROUND:
            first = Question("", budget=TESTS_SECONDS, tests=QUICK_OF_FILE[mutant.file])
            return (first, Question("xverify-numba", contracts, FIRST_AROUND), tests_of(mutant.file))
        return (*quick_questions(mutant), Question("xverify-numba", contracts, FIRST_COMPILED), tests_of(mutant.file))
    tests = tests_of(mutant.file)
    if mutant.file.endswith("/pool.py"):
        return (Question("", budget=THREADS_SECONDS, tests=OF_THREADS), tests)
    if mutant.file in (*NO_GATES, *CUDA):
        return (tests,)
    # The tests too: they look after what no call of a gate holds (the array to write to, how arrays lie in memory and how large
    # the parts are that are worked on at once, what compiled loops are told, differences beyond int32, types of attributes that
    # no file has), and after which of the readings that a text admits is computed.
    likely = LIKELY.get((mutant.file, mutant.function.partition(".")[0]), (NEWEST,))
    ranges, first = mutant.file == "xverify/kernels/ranges.py", TESTS_FIRST.get(mutant.file, ())
    return (
        *((Question("", budget=TESTS_SECONDS, tests=first),) if first else ()),
        Question("xverify-numpy", RANGES if ranges else likely, FIRST),
        tests,
        Question("xverify-numpy", RANGES if ranges else ("*",), ALL),
    )


def quick_questions(mutant: Mutant) -> tuple[Question, ...]:
    """What is asked first where Numba compiles every loop anew. It is optimised, which takes longer, only where tests look at
    how much is done at once, or for instructions that are left out with what is never reached."""
    if mutant.file.endswith("/loops.py"):  # which decide which stores there are
        asked = [((*OF_LOOPS, *OF_ROWS), False), (PAST_THE_CACHES, True), ((*OF_LINEAR, *WAYS, KINDS[0]), False)]
    else:
        asked = [(QUICK_OF_FILE[mutant.file], mutant.file.endswith("/packed.py"))]
    return tuple(
        Question("", budget=COMPILING_SECONDS, tests=tests, is_optimised=optimised) for tests, optimised in asked
    )


def tests_of(file: str) -> Question:
    """All tests of the kernels, those of this file first."""
    anew = file in COMPILED and file not in AROUND
    own = TESTS_OF_FILE.get(file, ("tests/kernels/test_compiled.py",))
    others = TESTS_OF_CUDA if file in CUDA else TESTS_OF_KERNELS[::-1] if anew else TESTS_OF_KERNELS
    tests = (*own, *(other for other in others if other not in own))
    return Question("", budget=COMPILING_SECONDS if anew else TESTS_SECONDS, tests=tests)


def comparator_questions(tests: tuple[str, ...]) -> tuple[Question, ...]:
    """The tests, a sound kernel, and flawed ones of every kind of fault."""
    return (
        Question("", budget=TESTS_SECONDS, tests=tests),
        Question(
            f"{FLAWED}/sound.py:onnx", (NEWEST,), SOUND_SECONDS, narrow=("int8", "float16", "per_tensor,per_axis")
        ),
        *(
            Question(f"{FLAWED}/{kernel.target}", (kernel.contract,), FLAWED_SECONDS, "findings", NARROW[kernel.name])
            for kernel in table.FLAWED
            if kernel.name in NARROW
        ),
    )
