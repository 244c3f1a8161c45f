"""Partitions are cuts: a day of a pipeline is the increments that end in each Kafka partition before the next day.

In: a pipeline with ``partitions``, and what Dagster asks for. Out: assets with those partitions, that run in order and
as a backfill in one run. What a cut is belongs to ``jobs/replay``; a pipeline without partitions needs none of this.
"""
