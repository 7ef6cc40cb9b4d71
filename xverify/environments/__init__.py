"""Environments of other versions of implementations: names, installers, cache."""
