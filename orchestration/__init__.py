"""Dagster over replays: assets, checks, schedules, resources, and the command line (``cli``).

In: a topology and settings. Out: runs of ``jobs`` and verdicts of ``expectations``, with their figures as metadata. No
rule of a replay is here. Nothing below imports this package.
"""
