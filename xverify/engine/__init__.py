"""Plan, run and store a sweep; emits events and knows no consumer."""
