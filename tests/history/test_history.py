"""A pipeline as it was: by increment, by stream time, by record; as tables and in SQL."""

import re
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.history import History
from kstreams_replay.jobs.history.inspection import (
    all_counters,
    counters_of,
    inspect_store,
    parse_key,
    read_positions,
    task_positions,
)
from kstreams_replay.jobs.operators.joins.stream_join_node import StreamJoinNode
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    Consumed,
    JoinWindows,
    Materialized,
    Serde,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    fold,
)
from kstreams_replay.state.errors import ConfigError, LedgerError
from kstreams_replay.state.serdes import Serde as AnySerde
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

pytestmark = pytest.mark.sampled

STRING = Serde.string()
TAPE = [("a", 3), ("a", 9), ("b", 14), ("c", 15), ("a", 8), ("a", 26)]
"""(key, time): an increment each two records."""


def counts() -> Topology:
    builder = StreamsBuilder()
    windowed = (
        builder.stream("in", Consumed(STRING, STRING)).group_by_key().windowed_by(TimeWindows.of_size(10, grace=5))
    )
    counted = windowed.aggregate(n=fold.count(), materialized=Materialized.as_("open"))
    counted.suppress(Suppressed.until_window_closes(name="final")).to("counts")
    return builder.build()


@pytest.fixture
def history(tmp_path: Path) -> History:
    """Three increments of two records; one more record has landed since."""
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "in", [LandedRecord(0, key.encode(), b"x", time_ms) for key, time_ms in TAPE], partitions=1)
    assert len(list(replay(warehouse, counts(), pipeline="p", runner=LocalRunner(), max_records=2))) == 3
    plant(warehouse, "in", [LandedRecord(0, b"z", b"x", 99)], partitions=1)
    return History(warehouse, "p", counts())


# --- which increment -----------------------------------------------------------------------------------------


def test_the_past_is_asked_by_increment_and_the_present_without(history):
    assert history.at(2).increment == 2
    assert history.at().increment == 3
    assert [row.increment for row in history.increments()] == [1, 2, 3]
    assert [row.increment for row in history.at(2).increments()] == [1, 2]
    with pytest.raises(LedgerError, match="expected a done increment 4, got none"):
        history.at(4)


@pytest.mark.parametrize(("time_ms", "increment"), [(9, 1), (14, 1), (15, 2), (25, 2), (26, 3), (999, 3)])
def test_a_stream_time_means_the_last_increment_that_had_not_gone_past_it(history, time_ms, increment):
    """
    The increments end at stream times 9, 15 and 26.
    """
    assert history.at(stream_time_ms=time_ms).increment == increment


def test_a_stream_time_before_the_first_increment_is_refused_with_its_own(history):
    with pytest.raises(LedgerError, match="an increment up to stream time 8, got increment 1, which went up to 9"):
        history.at(stream_time_ms=8)
    with pytest.raises(ConfigError, match="expected an increment or a stream time, got both"):
        history.at(1, stream_time_ms=9)


def test_a_record_was_read_by_the_increment_whose_cut_has_it(history):
    got = [history.reading("in", 0, offset) for offset in range(7)]

    assert got == [1, 1, 2, 2, 3, 3, None]  # the last has landed, and nobody has read it


# --- tables --------------------------------------------------------------------------------------------------


def test_outputs_and_stores_are_those_of_the_increment(history):
    assert history.at(1).output("counts").num_rows == 0
    assert history.at(2).output("counts").select(["key", "value"]).to_pylist() == [{"key": "a", "value": {"n": 2}}]
    assert [row["key"] for row in history.at(3).changelog("counts").to_pylist()] == ["a", "b", "c"]  # closed by 26
    assert history.at(1).state("open").select(["key", "value"]).to_pylist() == [{"key": "a", "value": {"n": 2}}]
    assert history.at(3).table("dropped")["offset"].to_pylist() == [4]


def test_without_a_topology_a_store_is_its_live_rows(history):
    without = History(history.warehouse, "p").at(1).state("open")

    assert without.select(["key", "aggregate"]).to_pylist() == [{"key": "a", "aggregate": {"n": 2}}]


def test_parts_are_where_other_engines_find_a_table(history):
    (part,) = history.at(2).parts("outputs/counts")

    assert part.path == history.warehouse.pipeline("p").output("counts")
    assert part.version == history.at(2).row.content.versions["outputs/counts"]
    with pytest.raises(ConfigError, match=r"pipeline 'p': expected one of dead_letter, .*, got 'outputs/nope'"):
        history.at(2).parts("outputs/nope")


# --- SQL -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("increment", "query", "want"),
    [
        (3, "SELECT key, value.n AS n FROM counts WHERE window_end_ms = 20 ORDER BY key", [("b", 1), ("c", 1)]),
        (2, "SELECT count(*) FROM counts", [(1,)]),
        (1, "SELECT key, value.n FROM open", [("a", 2)]),
        (3, "SELECT count(*) FROM \"state/open\" WHERE key = 'a'", [(2,)]),  # every row that was written
        (3, 'SELECT max("offset") FROM "outputs/counts"', [(2,)]),
        (3, "SELECT reason, record_time_ms FROM dropped", [("expired-window", 8)]),
        (2, 'SELECT o.key FROM open AS o JOIN "final-store" AS f ON o.key = f.key ORDER BY o.key', [("b",), ("c",)]),
    ],
)
def test_sql_asks_outputs_and_stores_by_their_names(history, increment, query, want):
    assert history.at(increment).sql(query).rows() == want


def test_a_name_that_an_output_and_a_store_have_means_the_output(tmp_path):
    builder = StreamsBuilder()
    counted = builder.stream("in", Consumed(STRING, STRING)).group_by_key().count(Materialized.as_("counts"))
    counted.filter("value > 1").to("counts")
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "in", [LandedRecord(0, b"a", b"x", 1)], partitions=1)
    assert list(replay(warehouse, builder.build(), pipeline="p", runner=LocalRunner()))

    as_of = History(warehouse, "p").at()

    assert as_of.sql("SELECT count(*) FROM counts").rows() == [(0,)]
    assert as_of.sql('SELECT count(*) FROM "state/counts"').rows() == [(1,)]


def test_sql_reads_only_the_tables_that_a_query_names(history, monkeypatch):
    read: list[str] = []
    as_of = history.at(3)
    monkeypatch.setattr(pl.SQLContext, "register", lambda self, name, frame: read.append(name))
    with pytest.raises(ConfigError):
        as_of.sql("SELECT * FROM counts")

    assert read == ["counts"]


@pytest.mark.parametrize("query", ["SELECT * FROM nope", "SELEC"])
def test_what_sql_refuses_names_the_tables_that_are_there(history, query):
    a_query = r"a query over the pipeline's tables \(SELECT …, or WITH … SELECT …\)"
    wanted = rf"expected {a_query}, got .*; tables are counts, dead_letter, dropped, "
    with pytest.raises(ConfigError, match=wanted + re.escape('"final-store", "landed/in", open, "outputs/counts"')):
        history.at(3).sql(query)


def test_a_wrong_column_is_answered_with_the_columns(history):
    with pytest.raises(ConfigError, match=r"column \"nope\"; columns are partition, .*, value, value\.n, "):
        history.at(3).sql("SELECT nope FROM counts")


@pytest.mark.jvm
def test_spark_views_have_the_names_and_rows_of_sql(history, spark):
    as_of = history.at(2)

    names = as_of.register(spark)

    assert sorted(names) == sorted(as_of.names())
    assert [tuple(row) for row in spark.sql("SELECT key, value.n FROM counts").collect()] == [("a", 2)]
    assert spark.sql("SELECT count(*) FROM `outputs/counts`").first()[0] == 1
    assert spark.sql("SELECT count(*) FROM `final-store`").first()[0] == 2


# --- stores --------------------------------------------------------------------------------------------------


def test_a_key_of_a_store_shows_its_windows(history):
    got = inspect_store(history.at(3), "open", "a").select(["key", "window_start_ms", "value"]).to_pylist()

    assert got == [
        {"key": "a", "window_start_ms": start, "value": {"n": n}} for start, n in ((20, 1),)
    ]  # retention of 15 has passed [0, 10)


def test_what_waits_in_a_suppress_buffer_says_until_when(history):
    got = inspect_store(history.at(2), "final-store").select(["key", "window_end_ms", "waits_until_ms"]).to_pylist()

    assert got == [{"key": key, "window_end_ms": 20, "waits_until_ms": 25} for key in ("b", "c")]


def test_a_store_is_inspected_with_its_topology_and_by_its_name(history):
    with pytest.raises(ConfigError, match="expected the topology, whose operator shows it, got none"):
        inspect_store(History(history.warehouse, "p").at(), "open")
    with pytest.raises(ConfigError, match="expected one of open, final-store, got 'nope'"):
        inspect_store(history.at(), "nope")


@pytest.mark.parametrize(
    ("serde", "text", "key"),
    [
        (Serde.string(), "7", "7"),
        (Serde.long(), "-7", -7),
        (Serde.int(), "7", 7),
        (Serde.double(), "1.5", 1.5),
        (Serde.boolean(), "true", True),
        (Serde.bytes(), "ab", b"ab"),
        (Serde.json("a string, b long"), '{"a": "x", "b": 1}', {"a": "x", "b": 1}),
        (AnySerde.of_type(pa.decimal128(5, 2)), "1.50", Decimal("1.50")),
        (AnySerde.of_type(pa.timestamp("us")), "2024-01-02 03:04:05", datetime(2024, 1, 2, 3, 4, 5)),
        (Serde.json("d decimal(5,2)"), '{"d": "1.50"}', {"d": Decimal("1.50")}),
        (Serde.json("d date"), '{"d": "2024-01-02"}', {"d": date(2024, 1, 2)}),
        (
            AnySerde.of_type(pa.struct([("t", pa.timestamp("us"))])),
            '{"t": "2024-01-02 03:04:05"}',
            {"t": datetime(2024, 1, 2, 3, 4, 5)},
        ),
        (Serde.json("s struct<b: binary>"), '{"s": {"b": "ab"}}', {"s": {"b": b"ab"}}),
        (Serde.json("l array<decimal(5,2)>"), '{"l": ["1.50"]}', {"l": [Decimal("1.50")]}),
    ],
)
def test_a_key_is_text_that_its_serde_reads(serde: AnySerde, text, key):
    assert parse_key(serde.arrow_type, text).as_py() == key


def test_a_text_that_is_no_key_is_refused():
    with pytest.raises(ConfigError, match="key: expected a key of type int64, got 'ann'"):
        parse_key(Serde.long().arrow_type, "ann")
    with pytest.raises(ConfigError, match="key: expected a key of type bool, got 'yes'"):
        parse_key(Serde.boolean().arrow_type, "yes")
    for text in ("5", '{"a": "x"}', '{"b": 1}', '{"a": 1'):
        with pytest.raises(ConfigError, match="key: expected a key of type struct<a: int64>, got "):
            parse_key(Serde.json("a long").arrow_type, text)


def waiting() -> Topology:
    builder = StreamsBuilder()
    left, right = (builder.stream(topic, Consumed(STRING, STRING)) for topic in ("left", "right"))
    windows = JoinWindows.of_time_difference_and_grace(5, 10).after(7)
    left.outer_join(right, lambda a, b: f"{a}+{b}", windows, returns=STRING, name="met").to("met")
    left.reorder_within(20, name="ordered").to("ordered")
    prices = builder.table("prices", Consumed(STRING, STRING), materialized=Materialized.versioned("prices", 1000))
    left.join(prices, lambda a, b: a, grace=30, returns=STRING, name="priced").to("priced")
    return builder.build()


def test_what_waits_in_rooms_and_joins_says_until_when_and_versions_are_rows(tmp_path):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "left", [LandedRecord(0, b"a", b"x", 10)], partitions=1)
    plant(warehouse, "right", [LandedRecord(0, b"b", b"y", 11)], partitions=1)
    plant(warehouse, "prices", [LandedRecord(0, b"a", b"1", 2), LandedRecord(0, b"a", b"2", 4)], partitions=1)
    assert list(replay(warehouse, waiting(), pipeline="p", runner=LocalRunner(), idle="proceed"))
    as_of = History(warehouse, "p", waiting()).at()

    met = next(name for name, node in waiting().stores().items() if isinstance(node, StreamJoinNode))
    assert {(row["kind"], row["waits_until_ms"]) for row in inspect_store(as_of, met).to_pylist()} == {
        ("left", None),
        ("right", None),
        ("unmatched-left", 28),  # open up to 10 + after 7 + grace 10
        ("unmatched-right", 27),  # 11 + before 5 + grace 10
    }
    assert inspect_store(as_of, "ordered-store")["waits_until_ms"].to_pylist() == [30]
    assert inspect_store(as_of, "priced-Buffer")["waits_until_ms"].to_pylist() == [40]
    versions = inspect_store(as_of, "prices", "a").select(["valid_from_ms", "valid_to_ms", "value"]).to_pylist()
    assert [tuple(row.values()) for row in versions] == [(2, 4, "1"), (4, None, "2")]


# --- positions -----------------------------------------------------------------------------------------------


def test_positions_are_how_far_everything_has_come(history):
    as_of = history.at(2)

    assert read_positions(as_of) == [{"topic": "in", "partition": 0, "read": 4, "landed": 7, "waiting": 3}]
    assert task_positions(as_of) == [{"task": "0_0", "stream_time_ms": 15, "outputs/counts": 1}]
    assert [row for row in all_counters(as_of) if row["clock"].endswith("time_ms")] == [
        {"task": "0_0", "store": "final-store", "clock": "stream_time_ms", "value": 15},
        {"task": "0_0", "store": "open", "clock": "store_time_ms", "value": 10},  # start of the newest window
        {"task": "0_0", "store": "open", "clock": "stream_time_ms", "value": 15},
    ]
    assert [(row["task"], row["stream_time_ms"]) for row in counters_of(as_of, "final-store")] == [("0_0", 15)]
