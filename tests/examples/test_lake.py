"""The demo of tables of a lake, whole: a broker, Spark, a Delta table and Iceberg tables that their owner clusters."""

import polars as pl
import pytest

from examples.broker import running_broker
from examples.flights.topics import flights
from examples.lake.__main__ import PIPELINE, run
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.state.tables.warehouse import Warehouse

pytestmark = [pytest.mark.jvm, pytest.mark.nightly]

MONTHS = 3


def test_history_in_place_gives_the_rows_of_topics_that_were_landed_from_kafka(spark, tmp_path, capsys):
    lines: list[str] = []
    (tmp_path / "broker").mkdir()
    with running_broker(tmp_path / "broker") as broker:
        code = run(tmp_path, spark, broker, MONTHS, lines.append)

    assert code == 0
    assert lines[-1] == "done"
    assert capsys.readouterr().out.count("rows, the same") == 2
    flown = flights().filter(pl.col("month") <= MONTHS)
    folders = [folder for folder in tmp_path.iterdir() if (folder / PIPELINE).exists()]
    assert len(folders) == 3
    for folder in folders:
        output, store, dropped = (
            read_table(Warehouse(str(folder)), PIPELINE, table).to_pylist()
            for table in ("outputs/departures_per_hour", "state/open-hours-store", "dropped")
        )
        final, waiting = (sum(row["value"]["departures"] for row in rows) for rows in (output, store))
        late = sum(row["topic"] == "departures" and row["is_record"] for row in dropped)
        assert final + waiting + late == len(flown)
