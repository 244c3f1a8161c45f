"""Landing, topologies and their replay: from records in a topic to rows of output tables.

One folder a stage. Data goes landing -> tape -> task (operators, kernels) -> execution -> replay; ``explain``,
``branches`` and ``history`` ask or change what was committed. Nothing here knows Dagster or the command line.
Imports between the rooms point down only; the order of the rooms is in pyproject.toml (import-linter).
"""
