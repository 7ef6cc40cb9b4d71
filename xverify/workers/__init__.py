"""Processes in which implementations answer calls."""
