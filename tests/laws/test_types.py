"""Law 2 for values and keys of every type: cut anywhere, tables and stores are those of one big increment."""

import datetime as dt
from decimal import Decimal
from typing import Any

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.functions import folds as fold
from kstreams_replay.jobs.history.inspection import parse_key
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    Consumed,
    Materialized,
    Serde,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant, tables_of

VALUE = Serde.json(
    "price decimal(10,2), day date, ts timestamp, ntz timestamp_ntz, data binary, attrs map<string, time>, "
    "ratio float, short short, byte byte, at time, tags array<time>, place struct<at time, on date>"
)
RECORDS = 12


def value(number: int) -> dict[str, Any]:
    return {
        "price": Decimal(number) / 4, "day": dt.date(2026, 1, 1 + number % 3), "ntz": dt.datetime(2026, 1, 1, number),
        "ts": dt.datetime(2026, 1, 1, number, tzinfo=dt.UTC), "data": bytes([number]), "ratio": number / 2,
        "attrs": {"a": dt.time(number), "b": None}, "short": number, "byte": number, "at": dt.time(number % 2),
        "tags": [dt.time(1), None], "place": {"at": dt.time(2), "on": None},
    }  # fmt: skip


def topology() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(Serde.string(), VALUE))
    every = {field.name: fold.last(field.name) for field in VALUE.arrow_type}
    more = {"total": fold.sum("price"), "first": fold.min("at"), "all": fold.collect("attrs")}
    stream.group_by_key().aggregate(**every, **more, materialized=Materialized.as_("last")).to("last")
    by_tags = stream.select_key("tags").group_by_key().windowed_by(TimeWindows.of_size(4))
    by_tags.aggregate(ts=fold.max("ts"), at=fold.min("at")).suppress(Suppressed.until_window_closes()).to("by_tags")
    return builder.build()


def test_increments_of_any_size_leave_the_tables_of_one_big_increment(tmp_path):
    warehouse = Warehouse(tmp_path)
    codes = VALUE.encode(VALUE.from_python([value(number) for number in range(RECORDS)])).to_pylist()
    records = [LandedRecord(0, [b"a", b"b"][number % 2], code, number) for number, code in enumerate(codes)]
    plant(warehouse, "in", records, partitions=1)

    for pipeline, limit in (("whole", None), ("cut", 5)):
        list(replay(warehouse, topology(), pipeline=pipeline, runner=LocalRunner(), max_records=limit, idle="proceed"))

    whole = tables_of(warehouse, "whole", topology())
    assert tables_of(warehouse, "cut", topology()) == whole
    hours = {number: 3_600_000_000 * number for number in range(RECORDS)}  # a time of day is a long in a table
    last = whole["outputs/last"][-1]["value"]
    assert last == value(11) | {
        "attrs": [("a", hours[11]), ("b", None)], "at": hours[1], "tags": [hours[1], None], "total": Decimal("9.00"),
        "place": {"at": hours[2], "on": None}, "first": hours[1],
        "all": [[("a", hours[number]), ("b", None)] for number in range(1, RECORDS, 2)],
    }  # fmt: skip
    assert [(row["key"], row["value"]["ts"].hour, row["value"]["at"]) for row in whole["outputs/by_tags"]] == [
        ([hours[1], None], 3, 0),
        ([hours[1], None], 7, 0),
    ]


def test_a_key_is_written_as_it_is_shown():
    kinds = {kind: Serde.json(kind).arrow_type for kind in ("date", "decimal(5,2)", "timestamp", "array<int>")}

    assert parse_key(kinds["date"], "2026-01-02").as_py() == dt.date(2026, 1, 2)
    assert parse_key(kinds["decimal(5,2)"], "1.50").as_py() == Decimal("1.50")
    time = dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC)
    assert parse_key(kinds["timestamp"], "2026-01-02 03:00:00+00:00").as_py() == time
    assert parse_key(kinds["array<int>"], "[1, null]").as_py() == [1, None]
