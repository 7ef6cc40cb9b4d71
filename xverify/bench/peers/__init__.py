"""One module for each implementation that is timed, and for the limit; each is imported in a process of its own only."""
