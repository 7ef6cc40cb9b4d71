"""Kernels with one flaw each, each flaw from a public bug report, and right ones; see `table`."""
