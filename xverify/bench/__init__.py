"""The bench: the speed of every implementation in one run, beside the limit that memory sets."""
