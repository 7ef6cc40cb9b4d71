"""Peers that are no oracles: plain NumPy, and the limit. Each is imported only in its own process."""
