"""Committed tables as readers see them, as of an increment: outputs, stores, changes and differences.

In: a pipeline's done rows, which name table versions. Out: Arrow tables. Nothing is written here, and nothing is read
as "latest". Not here: why a record has its result (``explain``), changing what is there (``branches``).
"""
