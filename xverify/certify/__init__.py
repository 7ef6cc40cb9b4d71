"""Exhaustive proofs over closed domains, and the certificates that record them."""
