"""Mutants of the in-house kernels and of the comparator, and what stops them: ``make mutants``."""
