"""The history of runs: which causes each version of an implementation shows, and since when.

`xverify.history.store` keeps runs in an SQLite file. `xverify.history.presence` decides if a cause is present, absent or
unknown, and compares runs.
"""
