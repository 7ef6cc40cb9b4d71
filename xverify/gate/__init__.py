"""The gate: is this kernel still right? And the ledger of what is known to be wrong and accepted for a while."""
