"""Calls, outcomes, dtypes, bits and errors, which every other floor uses."""
