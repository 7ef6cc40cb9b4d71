"""Kernels with one flaw each, every flaw from a public bug report, and sound ones beside them; `table` lists them all."""
