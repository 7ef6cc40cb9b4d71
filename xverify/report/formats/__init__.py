"""Report formats: each module is one, with a function ``render(report) -> str``."""
