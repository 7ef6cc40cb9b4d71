"""The arithmetic of dequantization: stages, readings, the lattice of recipes and its search."""
