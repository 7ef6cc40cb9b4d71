"""The gate, which tests a kernel against an edition, and the ledger of accepted findings."""
