"""How fast every implementation is, in one run, beside the limit that memory sets."""
