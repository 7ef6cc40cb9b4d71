"""Peers that are no oracles: plain NumPy, and the limit. Each is imported in a process of its own only."""
