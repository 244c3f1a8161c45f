"""Somebody else commits to our tables: it is harmless, or it is named; never a silent change.

The nightly tier plays two statements of every other seed; `python -m tests.laws.foreign --seeds 60` plays all 300.
"""

import pytest
from deltalake import DeltaTable

from tests.laws.foreign import KINDS, STATEMENTS_A_SEED, ForeignScenario, outcome_of
from tests.sampling import sampled

SEEDS = range(1, 57)
SEEDS_OF_SPARK = range(57, 61)
"""A statement of Spark takes some fifteen CPU seconds of its JVM."""
STATEMENTS = 2
SHARE = 10
"""A statement takes one to eight CPU seconds, so two of each played seed are played."""


@pytest.mark.every_run
@pytest.mark.parametrize("seed", sampled(SEEDS[::2], share=SHARE))
def test_what_delta_rs_does_to_our_tables_is_named_or_changes_nothing(seed):
    outcome = outcome_of(seed, statements=STATEMENTS)

    assert outcome.silent is None, str(outcome)


@pytest.mark.jvm
@pytest.mark.nightly
@pytest.mark.parametrize("seed", SEEDS_OF_SPARK)
def test_what_spark_does_to_our_tables_is_named_or_changes_nothing(spark, seed):
    outcome = outcome_of(seed, Spark(spark), statements=STATEMENTS)

    assert outcome.silent is None, str(outcome)


def test_the_seeds_have_every_kind_of_statement():
    seeds = [*SEEDS, *SEEDS_OF_SPARK]
    kinds = [statement.kind for seed in seeds for statement in ForeignScenario.of(seed).statements]

    assert set(kinds) == set(KINDS)
    assert len(kinds) == 300 == STATEMENTS_A_SEED * len(seeds)


class Spark:
    """Spark SQL with Delta, as an analyst has it."""

    def __init__(self, spark) -> None:
        self.spark = spark

    def do(self, kind: str, path: str, increment: int, version: int) -> bool:
        from pyspark.errors import PySparkException

        try:
            for text in self._statements(kind, f"delta.`{path}`", path, increment, version):
                self.spark.sql(text)
        except PySparkException:  # append-only tables, features that need others
            return False
        return True

    def _statements(self, kind: str, table: str, path: str, increment: int, version: int) -> list[str]:
        where, newest = f"WHERE increment = {increment}", DeltaTable(path).version()
        delete, optimize = f"DELETE FROM {table} {where}", f"OPTIMIZE {table}"
        append = f"INSERT INTO {table} SELECT * FROM {table} LIMIT 2"
        vacuum = [
            "SET spark.databricks.delta.retentionDurationCheck.enabled = false",
            f"VACUUM {table} RETAIN 0 HOURS",
        ]
        return {
            "delete": [delete],
            "update": [f"UPDATE {table} SET increment = increment + 1 {where}"],
            "same update": [f"UPDATE {table} SET increment = increment {where}"],
            "merge": [
                f"MERGE INTO {table} t USING (SELECT {increment}L AS i) s ON t.increment = s.i WHEN MATCHED THEN DELETE"
            ],
            "append": [append],
            "overwrite": [f"INSERT OVERWRITE {table} SELECT * FROM {table} {where}"],
            "restore": [f"RESTORE TABLE {table} TO VERSION AS OF {version}"],
            "there and back": [append, f"RESTORE TABLE {table} TO VERSION AS OF {newest}"],
            "optimize": [optimize],
            "cluster": [f"{optimize} ZORDER BY (increment)"],
            "vacuum": vacuum,
            "optimize and vacuum": [optimize, *vacuum],
            "delete and optimize": [delete, optimize],
            "checkpoint": [f"ANALYZE TABLE {table} COMPUTE DELTA STATISTICS"],
            "column": [f"ALTER TABLE {table} ADD COLUMNS (note STRING)"],
            "property": [f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"],
            "append only": [f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = 'true')"],
            "constraint": [f"ALTER TABLE {table} ADD CONSTRAINT c{newest} CHECK (increment >= 0)"],
            "feature": [f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"],
            "vectors": [f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')", delete],
        }[kind]
