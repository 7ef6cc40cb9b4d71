"""Calls, outcomes, dtypes, bits: what every floor above speaks in."""
