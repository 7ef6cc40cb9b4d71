"""Stages, readings, the lattice of recipes and its search: the arithmetic that contracts speak of."""
