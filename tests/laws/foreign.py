"""``python -m tests.laws.foreign``: statements of others on the tables of a warehouse, by seed, and what then.

Rule: after every statement, showing and running give exactly what the undisturbed warehouse gives. Or what needs the
table refuses it, with an error that names the table and the commit, and `fsck` finds it. Once it was taken back, they
give the same. Never a third thing. What nobody refused, `fsck` does not call damaged. A seed says all: the
pipeline, how far it was, and the statements, one after the other on one warehouse.

The engines are delta-rs and, with ``--spark``, Spark for SEEDS_OF_SPARK. Where a statement takes out what no copy is
left of (a vacuum behind it), the scenario ends with the refusal.
"""

import argparse
import random
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from deltalake import DeltaTable, TableFeatures, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.schema import Field, PrimitiveType

from kstreams_replay.jobs.history.fsck import fsck
from kstreams_replay.jobs.history.take_back import take_back
from kstreams_replay.state.errors import ReplayError, TouchedTable
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.damage import DamageScenario, checks, runs, shows
from tests.laws.outcome import failure
from tests.laws.pipelines import NAME, begun, done_of

if TYPE_CHECKING:  # so that delta-rs plays without Spark
    from pyspark.sql import SparkSession

STATEMENTS_A_SEED = 5
SEEDS_OF_SPARK = range(57, 61)
"""A statement of Spark takes some fifteen CPU seconds of its JVM."""
STARTS = (3, 4)
KINDS = (
    "delete", "delete", "update", "update", "same update", "merge", "append", "overwrite", "restore", "there and back",
    "optimize", "optimize", "cluster", "cluster", "vacuum", "optimize and vacuum", "delete and optimize", "checkpoint",
    "column", "property", "append only", "constraint", "feature", "vectors",
)  # fmt: skip
_VACUUMED = {"retention_hours": 0, "enforce_retention_duration": False, "dry_run": False}


class Engine(Protocol):
    """Somebody else who writes to a table."""

    def do(self, kind: str, path: str, increment: int, version: int) -> bool:
        """The statement of the ``kind``, on rows of ``increment``, or back to ``version``; False: it was refused."""
        ...


class DeltaRs:
    """deltalake, as people call it from Python."""

    def do(self, kind: str, path: str, increment: int, version: int) -> bool:
        statement = getattr(self, kind.replace(" ", "_"))
        try:
            statement(DeltaTable(path), f"increment = {increment}", version)
        except (DeltaError, ValueError):  # append-only tables, features that need others
            return False
        return True

    def delete(self, table: DeltaTable, where: str, version: int) -> None:
        table.delete(where)

    def update(self, table: DeltaTable, where: str, version: int) -> None:
        table.update(updates={"increment": "increment + 1"}, predicate=where)

    def same_update(self, table: DeltaTable, where: str, version: int) -> None:
        table.update(updates={"increment": "increment"}, predicate=where)

    def merge(self, table: DeltaTable, where: str, version: int) -> None:
        rows = table.to_pyarrow_table().slice(0, 1)
        merger = table.merge(rows, "t.increment = s.increment", source_alias="s", target_alias="t")
        merger.when_matched_delete().execute()

    def append(self, table: DeltaTable, where: str, version: int) -> None:
        write_deltalake(table, table.to_pyarrow_table().slice(0, 2), mode="append")

    def overwrite(self, table: DeltaTable, where: str, version: int) -> None:
        write_deltalake(table, table.to_pyarrow_table().slice(1), mode="overwrite")

    def restore(self, table: DeltaTable, where: str, version: int) -> None:
        table.restore(version)

    def there_and_back(self, table: DeltaTable, where: str, version: int) -> None:
        newest = table.version()
        write_deltalake(table, table.to_pyarrow_table().slice(0, 2), mode="append")
        table.update_incremental()
        table.restore(newest)

    def optimize(self, table: DeltaTable, where: str, version: int) -> None:
        table.optimize.compact()

    def cluster(self, table: DeltaTable, where: str, version: int) -> None:
        names = [field.name for field in table.schema().fields if str(field.type) == 'PrimitiveType("long")']
        table.optimize.z_order(names[-1:])

    def vacuum(self, table: DeltaTable, where: str, version: int) -> None:
        table.vacuum(**_VACUUMED)

    def optimize_and_vacuum(self, table: DeltaTable, where: str, version: int) -> None:
        table.optimize.compact()
        table.vacuum(**_VACUUMED)

    def delete_and_optimize(self, table: DeltaTable, where: str, version: int) -> None:
        table.delete(where)
        table.optimize.compact()

    def checkpoint(self, table: DeltaTable, where: str, version: int) -> None:
        table.create_checkpoint()

    def column(self, table: DeltaTable, where: str, version: int) -> None:
        table.alter.add_columns([Field("note", PrimitiveType("string"))])

    def property(self, table: DeltaTable, where: str, version: int) -> None:
        table.alter.set_table_properties({"delta.enableChangeDataFeed": "true"})

    def append_only(self, table: DeltaTable, where: str, version: int) -> None:
        is_set = table.metadata().configuration.get("delta.appendOnly") == "true"
        table.alter.set_table_properties({"delta.appendOnly": str(not is_set).lower()})

    def constraint(self, table: DeltaTable, where: str, version: int) -> None:
        table.alter.add_constraint({f"c{table.version()}": "increment >= 0"})

    def feature(self, table: DeltaTable, where: str, version: int) -> None:
        table.alter.add_feature(TableFeatures.DomainMetadata, allow_protocol_versions_increase=True)

    def vectors(self, table: DeltaTable, where: str, version: int) -> None:
        table.alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)


class Spark:
    """Spark SQL with Delta, as an analyst has it."""

    def __init__(self, spark: "SparkSession") -> None:
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


@dataclass(frozen=True)
class Statement:
    """``kind`` of KINDS; ``at`` and ``place`` in [0, 1): on which table, and on which rows or back to which version."""

    kind: str
    at: float
    place: float


@dataclass(frozen=True)
class ForeignScenario:
    """A pipeline after ``done`` increments, and what others do. ``is_old``: landed tables do not say that they are only
    appended to, as those of earlier versions do not.
    """

    seed: int
    pipeline: str
    done: int
    is_old: bool
    statements: tuple[Statement, ...]

    @classmethod
    def of(cls, seed: int) -> "ForeignScenario":
        dice = random.Random(seed)
        pipeline = dice.choice((*["brief"] * 6, "everything", "joined"))
        done, is_old = dice.choice(STARTS), dice.random() < 0.7
        statements = tuple(
            Statement(dice.choice(KINDS), dice.random(), dice.random()) for _ in range(STATEMENTS_A_SEED)
        )
        return cls(seed, pipeline, done, is_old, statements)


@dataclass
class ForeignOutcome:
    """``said``: each statement, and what came of it; ``silent``: what must not be, in words, or None."""

    scenario: ForeignScenario
    said: list[tuple[str, str]] = field(default_factory=list)
    silent: str | None = None

    def __str__(self) -> str:
        s = self.scenario
        played = f"{s.pipeline}, {s.done} increments done{', old' * s.is_old}"
        return failure("foreign", "seeds", s.seed, played, [*self.said, self.silent])


def outcome_of(seed: int, engine: Engine | None = None, statements: int = STATEMENTS_A_SEED) -> ForeignOutcome:
    """Play one seed. ``engine``: delta-rs where none is given; ``statements``: the first ones, at least one."""
    s = ForeignScenario.of(seed)
    outcome, engine = ForeignOutcome(s), engine or DeltaRs()
    with begun(s.pipeline, 1, s.done) as warehouse:
        if s.is_old:
            for topic in warehouse.topics():
                DeltaTable(warehouse.landed(topic)).alter.set_table_properties({"delta.appendOnly": "false"})
        for statement in s.statements[:statements]:
            try:
                goes_on = _play(outcome, warehouse, engine, statement)
            except Exception:
                outcome.silent, goes_on = traceback.format_exc(), False
            if outcome.silent is not None or not goes_on:
                break
        else:
            outcome.silent = _uses(s, warehouse)["check"]()
            damaged = [finding.place for finding in fsck(warehouse).findings]
            # What a vacuum took out leaves earlier increments without their files.
            is_vacuumed = any("vacuum" in statement.kind for statement in s.statements[:statements])
            if damaged and not is_vacuumed:
                outcome.silent = f"fsck calls {damaged} damaged"
    return outcome


def _play(outcome: ForeignOutcome, warehouse: Warehouse, engine: Engine, statement: Statement) -> bool:
    """False where the scenario ends, since what was taken out is nowhere any more."""
    table = _of(_tables(warehouse), statement.at)
    path = f"{warehouse.root}/{table}"
    version = int(statement.place * (DeltaTable(path).version() + 1))
    is_done = engine.do(statement.kind, path, _increment_in(path, statement.place), version)
    told = f"{statement.kind} on {table}{'' if is_done else ', refused by its engine'}"
    uses = _uses(outcome.scenario, warehouse)
    refused = {name: error for name in ("show", "run") if (error := _used(outcome, name, uses[name])) is not None}
    if outcome.silent is not None:
        outcome.said.append((told, "silent"))
        return False
    if not refused:
        outcome.said.append((told, "harmless"))
        return True
    outcome.said.append((told, f"refused by {', '.join(refused)}"))
    outcome.silent = _badly_refused(warehouse, table, refused)
    if outcome.silent is not None:
        return False
    try:
        take_back(warehouse, table)
    except TouchedTable:
        return False
    for name in ("show", "run"):
        error = _used(outcome, name, uses[name])
        if error is not None:
            outcome.silent = f"{name} after it was taken back: {error}"
    return outcome.silent is None


def _badly_refused(warehouse: Warehouse, table: str, refused: dict[str, ReplayError]) -> str | None:
    for name, error in refused.items():
        if table not in str(error) or "of version " not in str(error):
            return f"{name}: an error that does not name {table} and the commit: {error}"
    if "run" not in refused:
        return "a run takes what a reader refuses"
    found = [finding.place for finding in fsck(warehouse).findings]
    return None if any(place.endswith(table) for place in found) else f"fsck found {found}"


def _used(outcome: ForeignOutcome, name: str, use: Callable[[], str | None]) -> ReplayError | None:
    try:
        difference = use()
    except ReplayError as error:
        return error
    if difference is not None:
        outcome.silent = f"{name}: {difference}"
    return None


def _uses(s: ForeignScenario, warehouse: Warehouse) -> dict[str, Callable[[], str | None]]:
    """What each gives that the undisturbed warehouse does not."""
    done = done_of(warehouse)
    at = DamageScenario(s.seed, s.pipeline, 1, done, is_warm=False, damage=None)
    return {
        "show": lambda: shows(warehouse, at, done),
        "run": lambda: runs(warehouse, at, done + 1),
        "check": lambda: checks(warehouse, at, done),
    }


def _tables(warehouse: Warehouse) -> list[str]:
    """Landed topics, and the tables of the pipeline, by their paths in the warehouse; no ledger."""
    logs = Path(warehouse.root).rglob("_delta_log")
    tables = (str(log.parent.relative_to(warehouse.root)) for log in logs)
    return sorted(table for table in tables if table.startswith((f"{NAME}/", "landed/")) and "ledger" not in table)


def _increment_in(path: str, place: float) -> int:
    """One of those that rows have; 1 where there are none."""
    rows = DeltaTable(path).to_pyarrow_table(columns=["increment"])["increment"]
    found = sorted(set(rows.to_pylist())) or [1]
    return found[int(place * len(found))]


def _of(choices: list[str], at: float) -> str:
    return choices[int(at * len(choices))]


def _spark() -> Spark:
    """On the session of this process, which the first call opens."""
    from kstreams_replay.jobs.execution.spark_session import open_spark

    return Spark(open_spark("local[2]", app_name="foreign"))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.laws.foreign", description=__doc__)
    parser.add_argument("--seeds", type=int, default=60, metavar="N", help="so many (default 60)")
    parser.add_argument("--from", type=int, default=1, metavar="SEED", dest="first", help="the first (default 1)")
    first, last = SEEDS_OF_SPARK[0], SEEDS_OF_SPARK[-1]
    parser.add_argument("--spark", action="store_true", help=f"Spark plays the seeds {first} to {last}, not delta-rs")
    chosen = parser.parse_args(arguments)
    failed, counts = 0, Counter[str]()
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        outcome = outcome_of(seed, _spark() if chosen.spark and seed in SEEDS_OF_SPARK else None)
        counts.update(f"{told.partition(' on ')[0]}: {came.partition(' by ')[0]}" for told, came in outcome.said)
        if outcome.silent is not None:
            failed += 1
            print(outcome, flush=True)
    for name, count in sorted(counts.items()):
        print(f"{count:6} {name}")
    print(f"{chosen.seeds - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
