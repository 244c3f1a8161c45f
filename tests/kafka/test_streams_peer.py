"""The benchmark's Kafka Streams, on rows whose sessions are known by hand."""

from pathlib import Path

import polars as pl
import pytest

from kstreams_replay.benchmarks.peers.kafka import measured
from kstreams_replay.benchmarks.typed_data import typed_path

pytestmark = pytest.mark.jvm

DAY_MS = 86_400_000


def write_sessions(folder: Path) -> None:
    """2,000 records in two partitions, each of 5 keys with 10 sessions of 20 records of value 3, 30 s apart, and behind
    them the record that closes all.
    """
    for partition in (0, 1):
        records = [
            (f"key-{partition}-{key}", 1_000_000 * (session + 1) + 30_000 * place + key)
            for session in range(10)
            for place in range(20)
            for key in range(5)
        ]
        rows = pl.DataFrame([*records, (f"closing-{partition}", DAY_MS)], schema=["key", "ms"], orient="row")
        path = typed_path(folder, "clicks") / f"partition={partition}"
        path.mkdir(parents=True)
        rows.with_columns(value=pl.lit(3, pl.Int64), offset=pl.int_range(len(rows))).write_parquet(
            path / "rows.parquet"
        )


@pytest.mark.nightly
def test_kafka_streams_counts_the_sessions_that_there_are(tmp_path):
    write_sessions(tmp_path)

    (result,) = measured("W1", tmp_path, ["memory-nocache"], runs=1)

    assert (result["records"], result["rows_out"]) == (2_000, 2 * 5 * 10)
    assert result["checks"] == {"first": 2_000, "second": 2_000 * 3, "present": 100}
    assert result["configuration"] == "memory, cache off"
    assert result["notes"] == ""
