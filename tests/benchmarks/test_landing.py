"""The program that lands tables of a lake: all of its figures come out, of small tables too."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from kstreams_replay.benchmarks import lake_tables
from kstreams_replay.benchmarks.peers.kafka import typed_rows
from kstreams_replay.benchmarks.typed_data import prepare

RECORDS, RUNS = 20_000, 1
TABLES = ("Delta, bronze", "Delta, after OPTIMIZE ZORDER BY (key)", "Iceberg, Redpanda's layout")


@pytest.fixture
def _threads() -> Iterator[None]:
    """The program takes one thread; afterwards there are as many as before."""
    cpus, waiting = pa.cpu_count(), pa.io_thread_count()
    yield
    pa.set_cpu_count(cpus)
    pa.set_io_thread_count(waiting)


@pytest.mark.nightly
@pytest.mark.usefixtures("_threads")
def test_every_figure_of_a_table_of_a_lake_comes_out(tmp_path, monkeypatch):
    """Each work is timed once cold and once more, and fails where it has not all records."""
    from kstreams_replay.benchmarks.landing import lake_text  # here, since it imports Spark

    monkeypatch.setattr(lake_tables, "_FILE_ROWS", 100)
    prepare(tmp_path / "topics", "W1", RECORDS)
    (tmp_path / "scratch").mkdir()

    found = lake_tables.from_lake(typed_rows(tmp_path / "topics", "clicks"), RUNS, tmp_path / "scratch")

    replayed = ["W1 over our landed topic", *(f"W1 in place: {table}" for table in TABLES)]
    assert list(found) == ["reading the bronze files", *TABLES, *replayed, lake_tables.REGISTERING]
    for name, clock in found.items():
        assert [len(clock[of]) for of in ("seconds", "cpu_seconds")] == [1 + RUNS] * 2, name
        assert min(clock["seconds"]) > 0, name
    second = {"seconds": [9.0, 1.0], "cpu_seconds": [9.0, 1.0]}  # small works may take less than a tick of the clock
    speed = "20,000 (20,000 to 20,000)"
    of_ours = "1.00 (1.00 to 1.00) of our landed topic's speed"
    rounds = ["", of_ours, "1.00 (1.00 to 1.00) times the time of bronze", of_ours]
    assert lake_text(RECORDS, dict.fromkeys(found, second)).splitlines()[2:] == [
        *(f"| {name} | {speed} |  |" for name in list(found)[:4]),
        *(f"| {name} | {speed} | {ratio} |" for name, ratio in zip(replayed, rounds, strict=True)),
        f"| {lake_tables.REGISTERING} | 1.00 (1.00 to 1.00) s |  |",
    ]
