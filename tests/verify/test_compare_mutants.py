"""Mutants of the comparator, each of which the battery must kill."""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from comparator_battery import battery

import xverify

FOLDER = Path(xverify.__file__).parent
MODULES = {
    "bits": "core/bits.py",
    "rounding": "core/rounding.py",
    "large": "verify/large.py",
    "legal": "verify/legal.py",
    "compare": "verify/compare.py",
}
"""The modules of the comparison, each after the modules that it imports."""

WIRING = {
    "large": {"bits": ("canonical", "kinds"), "rounding": ("is_subnormal",)},
    "legal": {
        "bits": ("canonical", "subnormals_work"),
        "rounding": ("is_subnormal",),
        "large": ("by_code", "in_blocks"),
    },
    "compare": {"bits": ("canonical", "ulp_distance")},
}
"""The names that a module takes from each other module, so that a mutant of `bits` reaches `compare`."""

LATEST = itertools.count()


@contextmanager
def loaded(mutated: str = "", old: str = "", new: str = "") -> Iterator[SimpleNamespace]:
    """Compile the modules from their sources, with one text in one of them replaced."""
    made: dict[str, ModuleType] = {}
    names = []
    try:
        for name, path in MODULES.items():
            source = (FOLDER / path).read_text(encoding="utf-8")
            if name == mutated:
                assert source.count(old) == 1, (
                    f"{old!r} is {source.count(old)} times in {path}: the mutant is out of date"
                )
                source = source.replace(old, new)
            module = ModuleType(f"xverify_mutant_{next(LATEST)}_{name}")
            names.append(module.__name__)
            sys.modules[module.__name__] = module  # Dataclasses look their module up.
            exec(compile(source, path, "exec"), module.__dict__)
            for other, taken in WIRING.get(name, {}).items():
                for one in taken:
                    assert one in module.__dict__, f"{path} no longer imports {one}"
                    setattr(module, one, getattr(made[other], one))
            made[name] = module
        yield SimpleNamespace(**made)
    finally:
        for name in names:
            del sys.modules[name]


MUTANTS = [
    ("compare", "(codes == candidate) for", "(codes <= candidate) for"),
    ("compare", "(codes == candidate) for", "(codes >= candidate) for"),
    ("compare", "(codes == candidate) for", "(abs(codes.astype(np.int64) - candidate.astype(np.int64)) <= 1) for"),
    ("compare", "(codes == candidate) for", "((codes << 1) == (candidate << 1)) for"),
    ("compare", "(codes == candidate) for", "(np.isclose(*(c.view('f%d' % c.itemsize) for c in (codes, candidate)))) for"),
    ("compare", "(codes == candidate) for", "(codes == legal.distinct[0]) for"),
    ("compare", "(codes == candidate) for", "(codes == legal.distinct[-1]) for"),
    ("compare", "np.logical_or.reduce(equal)", "np.logical_and.reduce(equal)"),
    ("compare", "np.logical_or.reduce(equal)", "equal[0]"),
    ("compare", "for result in every]", "for result in every[:1]]"),
    ("compare", "every = [candidate.", "every = [legal.distinct[0]."),
    ("compare", "every = [candidate.", "every = [legal.distinct[-1]."),
    ("compare", "[all(np.array_equal", "[any(np.array_equal"),
    ("compare", "flat[i : i + BLOCK], result[i : i + BLOCK]", "flat[i : i + BLOCK - 1], result[i : i + BLOCK - 1]"),
    ("compare", "flat[i : i + BLOCK], result[i : i + BLOCK]", "flat[i + 1 : i + BLOCK], result[i + 1 : i + BLOCK]"),
    ("compare", "flat[i : i + BLOCK], result[i : i + BLOCK]", "flat[:BLOCK], result[:BLOCK]"),
    ("compare", "np.array_equal(flat", "np.allclose(flat"),
    ("compare", "range(0, codes.size, BLOCK)", "range(1, codes.size, BLOCK)"),
    ("compare", "range(0, codes.size, BLOCK)", "range(0, codes.size - 1, BLOCK)"),
    ("compare", "range(0, codes.size, BLOCK)", "range(0, codes.size, BLOCK + 1)"),
    ("compare", "flat, starts = codes.reshape(-1)", "flat, starts = codes.ravel('K')"),
    ("compare", "codes = canonical(codes, legal.dtype)", "pass"),
    ("compare", "codes = got.codes", "codes = got.codes.ravel('K').reshape(got.shape)"),
    ("compare", "got.dtype != legal.dtype or got.shape != legal.shape", "got.dtype != legal.dtype and got.shape != legal.shape"),
    ("compare", "got.dtype != legal.dtype or got.shape != legal.shape", "got.dtype != legal.dtype"),
    ("compare", "got.dtype != legal.dtype or got.shape != legal.shape", "got.shape != legal.shape"),
    ("compare", "got.dtype != legal.dtype or got.shape != legal.shape", "got.size != legal.distinct[0].size"),
    ("compare", "    if any(explains):", "    if True:"),
    ("compare", "bool((same | flushed).all()) for same in equal]", "True for same in equal]"),
    ("compare", "tuple(explains[i] for i in legal.index), 0)", "tuple(explains), 0)"),
    ("compare", "tuple(explains[i] for i in legal.index), max", "tuple(explains), max"),
    ("compare", "~inside & legal.subnormal & is_zero", "~inside & (legal.subnormal | is_zero(codes, legal.dtype)) & is_zero"),
    ("compare", "~inside & legal.subnormal & is_zero", "legal.subnormal & is_zero"),
    ("compare", "~inside & legal.subnormal & is_zero(codes, legal.dtype)", "~inside & legal.subnormal"),
    ("compare", "~inside & legal.subnormal & is_zero(codes, legal.dtype)", "~inside & is_zero(codes, legal.dtype)"),
    ("compare", "~inside & legal.subnormal & is_zero(codes, legal.dtype)", "np.zeros_like(inside)"),
    ("compare", "is_zero(codes, legal.dtype) & legal.may_flush", "is_zero(codes, legal.dtype)"),
    ("compare", "& legal.may_flush)", "& (not legal.may_flush))"),
    ("compare", ">> shift == 0 for", ">> shift <= 1 for"),
    ("compare", ">> shift == 0 for", ">> shift == 1 for"),
    ("compare", "shift = BITS[legal.dtype] - 1", "shift = 31"),
    ("legal", "may_flush = denormals != \"keep\"", "may_flush = denormals == \"keep\""),
    ("legal", "may_flush=False", "may_flush=True"),
    ("legal", "canonical(result.codes, result.dtype)", "result.codes"),
    ("compare", "np.asarray(~inside & ~flushed)", "np.asarray(~inside)"),
    ("compare", "np.asarray(~inside & ~flushed)", "np.asarray(~inside & ~legal.subnormal)"),
    ("compare", "(same | flushed).all()", "same.all()"),
    ("compare", "(same | flushed).all()", "(same | flushed).any()"),
    ("compare", "(same | flushed).all()", "(same & ~flushed).all()"),
    ("compare", "(1 << (BITS[dtype] - 1)) - 1)) == 0", "(1 << BITS[dtype]) - 1)) == 0"),
    ("compare", "(1 << (BITS[dtype] - 1)) - 1)) == 0", "(1 << (BITS[dtype] - 1)) - 1)) <= 1"),
    ("compare", "(1 << (BITS[dtype] - 1)) - 1)) == 0", "(1 << 31) - 1) if BITS[dtype] == 32 else codes) == 0"),
    ("compare", "distances < 0, np.iinfo(np.int64).max", "distances < 0, 0"),
    ("compare", "distances < 0,", "distances < -1,"),
    ("compare", ".min(axis=0)", ".max(axis=0)"),
    ("compare", "int(nearest.max())", "int(nearest.min())"),
    ("compare", "return -1 if largest", "return 0 if largest"),
    ("large", "canonical(codes, dtype) if has_nan", "codes if has_nan"),
    ("large", "canonical(codes, dtype) if has_nan", "canonical(codes, dtype) if has_subnormal"),
    ("large", "is_subnormal(codes, dtype) if has_subnormal", "None if has_subnormal"),
    ("large", "is_subnormal(codes, dtype) if has_subnormal", "is_subnormal(codes, dtype) if has_nan"),
    ("large", "None else small\n", "None else ~small\n"),
    ("legal", "reduce(np.logical_or, [mask", "reduce(np.logical_and, [mask"),
    ("legal", "mask for _, mask in (*results, *others)]", "mask for _, mask in results[:1]]"),
    ("legal", "first_by_bits.setdefault(codes.tobytes(), position)", "first_by_bits.setdefault(b'', position)"),
    ("legal", "first_by_bits.setdefault(codes.tobytes(), position)", "first_by_bits.setdefault(codes.tobytes()[:4], position)"),
    ("legal", "kept.index(first[position]) for position in index", "kept.index(first[0]) for position in index"),
    ("legal", "[proven.index(reading) for reading in simple]", "[0 for reading in simple]"),
    ("legal", "    if len(results) == 1:", "    if results:"),
    ("rounding", "magnitude < code((1 << MANTISSA_BITS[dtype]) - 1)", "magnitude <= code((1 << MANTISSA_BITS[dtype]) - 1)"),
    ("rounding", "magnitude < code((1 << MANTISSA_BITS[dtype]) - 1)", "magnitude < code((1 << MANTISSA_BITS[dtype]) - 2)"),
    ("rounding", "    magnitude -= code(1)", "    magnitude -= code(0)"),
    ("rounding", "    magnitude -= code(1)", "    magnitude -= code(2)"),
    ("rounding", "magnitude = np.asarray(codes & code((1 << (8 * codes.dtype.itemsize - 1)) - 1))", "magnitude = codes.copy()"),
    ("bits", " > codes.dtype.type(_infinity(dtype))", " >= codes.dtype.type(_infinity(dtype))"),
    ("bits", " > codes.dtype.type(_infinity(dtype))", " == codes.dtype.type(_infinity(dtype) + 1)"),
    ("bits", "_magnitude(codes, dtype) > codes.dtype.type(_inf", "codes > codes.dtype.type(_inf"),
    ("bits", "np.asarray(_magnitude(codes, dtype) > codes.dtype.type(_infinity(dtype)))", "np.zeros(codes.shape, bool)"),
    ("bits", "np.asarray(codes & codes.dtype.type((1 << (BITS[dtype] - 1)) - 1))", "codes.copy()"),
    ("bits", ".max(initial=0) > _infinity", ".min(initial=0) > _infinity"),
    ("bits", "has_nan, bool(magnitude.min", "False, bool(magnitude.min"),
    ("bits", ".min(initial=_infinity(dtype)) <", ".max(initial=_infinity(dtype)) <"),
    ("bits", ") < (1 << MANTISSA_BITS[dtype]) - 1)", ") < (1 << MANTISSA_BITS[dtype]) - 2)"),
    ("bits", "    magnitude -= codes.dtype.type(1)", "    magnitude -= codes.dtype.type(2)"),
    ("bits", "np.where(nan, codes.dtype.type(only", "np.where(~nan, codes.dtype.type(only"),
    ("bits", "bits, mantissa = BITS[dtype], MANTISSA_BITS[dtype]", "bits, mantissa = BITS[dtype], MANTISSA_BITS[dtype] + 1"),
    ("bits", "wide >= sign, sign - 1 - wide, wide", "wide >= sign, sign - wide, wide"),
    ("bits", "wide >= sign, sign - 1 - wide, wide", "wide >= sign, wide, wide"),
    ("bits", "np.where(nan_a | nan_b, -1, distance)", "np.where(nan_a & nan_b, -1, distance)"),
    ("bits", "np.abs(ordered(a) - ordered(b))", "ordered(a) - ordered(b)"),
]  # fmt: skip


@pytest.mark.parametrize(("module", "old", "new"), MUTANTS)
def test_mutants_are_killed(module: str, old: str, new: str) -> None:
    """Each mutant changes one text, which must exist, and the battery must fail."""
    with loaded(module, old, new) as mutant, np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        try:
            battery(mutant)
        except (Exception, pytest.fail.Exception):
            return
    pytest.fail(f"survived in {MODULES[module]}: {old!r} -> {new!r}")


def test_the_battery_passes_unmutated_modules() -> None:
    """The modules are compiled in the same way as mutants."""
    with loaded() as suite:
        battery(suite)


def test_a_mutation_out_of_date_is_noticed() -> None:
    with pytest.raises(AssertionError, match="out of date"), loaded("compare", "no such text", ""):
        pass
