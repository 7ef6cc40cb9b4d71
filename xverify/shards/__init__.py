"""Runners of shards: child processes of this machine, and tasks of a Dask cluster.

A shard is a process of the command that a user typed, with ``--shard K/N``. Both runners take the same description of it.
"""
