"""The demo: a year of New York's departures, landed, replayed, checked. ``python -m examples.flights [--folder DIR]``.

Everything goes the way production goes: files → landed Delta tables → increments on Spark → outputs, state, books →
checks.
"""

import argparse
import gc
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import polars as pl
from pyspark.sql import SparkSession

from examples.flights.topics import SOURCES, source, write_topics
from examples.flights.topology import topology
from kstreams_replay import ReplayError, SparkRunner, Warehouse, land_files, replay
from kstreams_replay.expectations.suites.library import load_great_expectations
from kstreams_replay.expectations.verdicts import check_increment, is_in_order
from kstreams_replay.jobs.history.committed_tables import read_changelog
from kstreams_replay.jobs.history.store_reader import read_store
from kstreams_replay.jobs.replay.books import Books
from kstreams_replay.jobs.replay.increment_report import IncrementReport
from kstreams_replay.jobs.replay.progress import Progress
from kstreams_replay.jobs.task.kernel_calls import call_kernels
from kstreams_replay.orchestration.engines import start_spark
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.state.compilation.kernel_tiers import COMPILING, tiers

PIPELINE = "flights"
INCREMENT_RECORDS = 150_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("warehouse"), help="where topics and tables go")
    folder: Path = parser.parse_args().folder
    say = storyteller()
    tiers.start_compiling(lambda: call_kernels(topology))
    say("starting Spark (the first start resolves its packages); kernels are compiled meanwhile (once a machine)")
    try:
        spark = start_spark("local[2]")
        try:
            return run(folder, spark, say)
        finally:
            spark().stop()
            gc.freeze()  # else Python's end looks through all that was imported, for seconds
    except ReplayError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


Say = Callable[[str], None]


def storyteller() -> Say:
    """Prints a line with the seconds since the beginning."""
    started = time.perf_counter()
    return lambda text: print(f"[{time.perf_counter() - started:5.1f} s] {text}", flush=True)


def run(folder: Path, spark: Callable[[], SparkSession], say: Say) -> int:
    """0 when every number and every guarantee holds, else 1."""
    for old in (folder / "incoming", folder / "tables"):
        shutil.rmtree(old, ignore_errors=True)
    records = write_topics(folder / "incoming")
    say(f"wrote the topics' files to {folder / 'incoming'}: " + ", ".join(f"{n:,} {t}" for t, n in records.items()))
    warehouse = Warehouse(str(folder / "tables"))
    for topic in SOURCES:
        landed = land_files(None, warehouse, topic, source(topic, folder / "incoming"))  # here, while Spark starts
        say(f"landed {landed.records:,} records of {topic} in {landed.partitions} partitions")
    Thread(target=load_great_expectations, name="great-expectations", daemon=True).start()  # seconds, while Spark works
    reports = _replay(warehouse, SparkRunner(spark), say)
    _show_results(warehouse)
    books = _show_books(reports)
    is_right = _check_by_hand(warehouse, books, records["departures"])
    is_right &= _show_verdicts(warehouse, reports[-1].increment)
    _show_ways_on(folder)
    say("done" if is_right else "done, and something does not hold: see above")
    return 0 if is_right else 1


def _replay(warehouse: Warehouse, runner: SparkRunner, say: Say) -> list[IncrementReport]:
    reports: list[IncrementReport] = []
    waited: list[str] = []

    def tell(progress: Progress) -> None:
        if progress.step.startswith(COMPILING) and not waited:
            waited.append(progress.step)
            say(f"waiting for the compiler ({progress.step})")

    for report in replay(
        warehouse, topology, pipeline=PIPELINE, runner=runner, max_records=INCREMENT_RECORDS, progress=tell
    ):
        seconds = sum(report.seconds[part] for part in ("plan", "compute", "commit"))
        written = ", ".join(f"{rows:,} {name}" for name, rows in report.outputs.items())
        say(f"increment {report.increment}: {report.books.read:,} records in {seconds:.1f} s -> {written}")
        reports.append(report)
    return reports


def _show_results(warehouse: Warehouse) -> None:
    for output, title, order in (
        ("departures_per_hour", "Busiest hours (final results only)", "departures"),
        ("aircraft_sessions", "Longest duty sessions", "legs"),
    ):
        rows = pl.from_arrow(read_changelog(warehouse, PIPELINE, output))
        assert isinstance(rows, pl.DataFrame)
        start, end = (pl.from_epoch(f"window_{bound}_ms", time_unit="ms").alias(bound) for bound in ("start", "end"))
        shown = (
            rows.select("key", start, end, "value")
            .unnest("value")
            .sort(order, "key", "start", descending=[True, False, False])
        )
        print(f"\n{title}: {len(rows):,} rows in {output}")
        with pl.Config(
            tbl_rows=5, tbl_hide_column_data_types=True, tbl_hide_dataframe_shape=True, tbl_cols=10, tbl_width_chars=120
        ):
            print(shown.head(5))


def _show_books(reports: list[IncrementReport]) -> dict[str, Books]:
    print("\nBooks: read = applied + left out + dropped + undecodable")
    total: dict[str, Books] = {}
    for sub in topology.sub_topologies:
        (source,) = sub.sources
        books = [report.books_by_sub_topology[str(sub.id)] for report in reports]
        reasons = {r for book in books for r in book.dropped_by_reason}
        numbers = (sum(getattr(b, name) for b in books) for name in ("read", "applied", "dropped", "undecodable"))
        left_out = sum(book.left_out for book in books)
        by_reason = {r: sum(b.dropped_by_reason.get(r, 0) for b in books) for r in reasons}
        total[source.topic] = book = Books(*numbers, dropped_by_reason=by_reason, left_out=left_out)
        mark = "=" if book.balance else "IS NOT"
        parts = f"{book.applied:>8,} + {book.left_out:,} + {book.dropped:>6,} + {book.undecodable}"
        print(f"  {source.topic:<11} {book.read:>8,} {mark} {parts}   dropped: {by_reason or 'none'}")
    return total


def _check_by_hand(warehouse: Warehouse, books: dict[str, Books], flown: int) -> bool:
    """Every flight is in a final hour, in an hour still open, or a late drop."""
    changelog = read_changelog(warehouse, PIPELINE, "departures_per_hour")
    buffer = read_store(warehouse, PIPELINE, topology, "open-hours-store")
    final, still_open = (pl.from_arrow(rows)["value"].struct["departures"].sum() for rows in (changelog, buffer))
    late = books["departures"].dropped
    is_right = final + still_open + late == flown
    print(f"\nBy hand: {final:,} in final hours + {still_open:,} in hours still open + {late:,} late drops", end=" ")
    print(f"{'=' if is_right else 'IS NOT'} {flown:,} flights with a departure time")
    return bool(is_right)


_WORD = {True: "is a warning, or not checked", False: "DOES NOT HOLD"}


def _show_verdicts(warehouse: Warehouse, increment: int) -> bool:
    print("\nGuarantees")
    verdicts = [
        v
        for n in range(1, increment + 1)
        for v in check_increment(
            warehouse, PIPELINE, replay_facts(topology), n, engine="gx" if n == increment else "plain"
        )
    ]
    for guarantee, table in dict.fromkeys((v.guarantee, v.table) for v in verdicts):
        mine = [v for v in verdicts if (v.guarantee, v.table) == (guarantee, table)]
        answer = "holds" if all(v.holds for v in mine) else _WORD[all(is_in_order(v) for v in mine)]
        print(f"  {guarantee} {answer:<7} {table:<28} {mine[0].sentence}")
        for witness in [row for v in mine for row in v.witnesses][:3]:
            print(f"       witness: {witness}")
    return all(is_in_order(v) for v in verdicts)


def _show_ways_on(folder: Path) -> None:
    tables = folder / "tables"
    print(
        f"""
Tables  {tables}/landed/<topic>
        {tables}/{PIPELINE}/outputs/<name>, state/<store>, dropped, dead_letter, ledger
Dagster .venv/bin/dagster dev -m examples.flights.definitions    then open the address it prints
Books   .venv/bin/replay books --warehouse {tables} --pipeline {PIPELINE}
"""
    )


if __name__ == "__main__":
    sys.exit(main())
