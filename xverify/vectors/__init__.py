"""A frozen corpus of calls with their legal results, for runtimes in any language."""
