"""The rule of changed code: which differences leave state meaningful, and what is said of those that do not."""

from typing import Any

import polars as pl
import pytest

from kstreams_replay.jobs.code_changes.code_snapshot import code_snapshot
from kstreams_replay.jobs.code_changes.compatibility import StateRequests, compare
from kstreams_replay.jobs.functions.processor_api import KeyValues
from kstreams_replay.jobs.functions.state_stores import Stores
from kstreams_replay.jobs.topology import (
    Consumed,
    JoinWindows,
    Materialized,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    UnlimitedWindows,
    fold,
)
from tests.code_changes.changes import (
    GOES_ON,
    LONG,
    NAMED,
    PAGES,
    SIZE,
    STRING,
    Build,
    clicks,
    folded,
    joined,
    processed,
    said,
    suppressed,
    taken_back,
    verdict,
    window_store,
    windowed,
)
from tests.every_store import every_store


def test_the_same_code_has_no_differences():
    assert verdict(every_store(), every_store()).changes == ()


@pytest.mark.parametrize("change", GOES_ON)
def test_what_acts_from_now_on_goes_on_and_is_named(change):
    before, now, settings = GOES_ON[change]

    found = verdict(clicks(before), clicks(now))

    assert found.goes_on
    assert {one.what for one in found.changes} == settings


def by_key(serde: Serde) -> Build:
    return lambda stream: (
        stream.map(lambda key, value: (value["page"], value), returns_key=serde, returns=PAGES)
        .group_by_key()
        .count(NAMED)
    )


def avro(*names: str) -> Serde:
    fields = [{"name": name, "type": "long"} for name in names]
    return Serde.avro({"type": "record", "name": "numbers", "fields": fields})


AVRO, MORE_AVRO = avro("n"), avro("n", "m")
REFUSED = {
    "another size": (windowed(SIZE), windowed(TimeWindows.of_size(20)), {"size_ms", "advance_ms"}),
    "windows of another size above a buffer": (
        suppressed(Suppressed.until_window_closes(name="held")),
        suppressed(Suppressed.until_window_closes(name="held"), 20),
        {"size_ms", "advance_ms", "key_windows"},
    ),
    "another advance": (windowed(SIZE), windowed(TimeWindows.of_size(10).advance_by(5)), {"advance_ms"}),
    "another gap": (
        windowed(SessionWindows.with_inactivity_gap(5)), windowed(SessionWindows.with_inactivity_gap(6)), {"gap_ms"},
    ),
    "another difference": (
        windowed(SlidingWindows.of_time_difference(5)), windowed(SlidingWindows.of_time_difference(6)),
        {"difference_ms"},
    ),
    "another start": (windowed(UnlimitedWindows.of(5)), windowed(UnlimitedWindows.of(6)), {"start_ms"}),
    "windows of another kind": (
        windowed(SIZE), windowed(SessionWindows.with_inactivity_gap(5)), {"advance_ms", "size_ms", "gap_ms", "windows"},
    ),
    "no windows any more": (
        windowed(SIZE), folded(n=fold.count()), {"row_key"},
    ),
    "another fold of the same name": (folded(n=fold.min("ms")), folded(n=fold.max("ms")), {"fold 'n'"}),
    "another step of a fold of one's own": (
        folded(n=fold.of(0, "aggregate + ms")), folded(n=fold.of(0, "aggregate - ms")), {"fold 'n'"},
    ),
    "a fold of something else": (folded(n=fold.sum("ms")), folded(n=fold.sum("ms * 2")), {"fold 'n'"}),
    "a fold more of a grouped table": (
        taken_back(n=fold.count()), taken_back(n=fold.count(), ms=fold.sum("ms")), {"fold 'ms'"},
    ),
    "another value type": (folded(n=fold.last("ms")), folded(n=fold.last("page")), {"column aggregate", "fold 'n'"}),
    "another key": (
        lambda stream: stream.group_by("page").count(NAMED), lambda stream: stream.group_by("page || 'x'").count(NAMED),
        {"keys"},
    ),
    "another key type": (
        lambda stream: stream.group_by("page").count(NAMED), lambda stream: stream.group_by("ms").count(NAMED),
        {"keys", "key_serdes", "column key"},
    ),
    "a repartition before it": (
        lambda stream: stream.group_by_key().count(NAMED), lambda stream: stream.group_by("page").count(NAMED),
        {"keys", "spread"},
    ),
    "another argument within the grouping key": (
        lambda stream: stream.group_by(pl.col("page").str.head(2)).count(NAMED),
        lambda stream: stream.group_by(pl.col("page").str.head(3)).count(NAMED),
        {"keys"},
    ),
    "another value in the grouping key's list": (
        lambda stream: stream.group_by("page IN ('a', 'b')").count(NAMED),
        lambda stream: stream.group_by("page IN ('a', 'c')").count(NAMED),
        {"keys"},
    ),
    "another join window": (
        joined(JoinWindows.of_time_difference_and_grace(5, 1)), joined(JoinWindows.of_time_difference_and_grace(6, 1)),
        {"after_ms", "before_ms"},
    ),
    "another kind of join": (
        joined(JoinWindows.of_time_difference_and_grace(5, 1), "join"),
        joined(JoinWindows.of_time_difference_and_grace(5, 1), "left_join"),
        {"kind"},
    ),
    "another identity": (
        lambda stream: stream.deduplicate_by_key(5, name="once"),
        lambda stream: stream.deduplicate_by_key_value("page", 5, name="once"),
        {"row_key"},
    ),
    "another operator": (
        lambda stream: stream.group_by_key().count(NAMED), lambda stream: stream.to_table(materialized=NAMED),
        {"operator"},
    ),
    "a history": (
        lambda stream: stream.to_table(materialized=NAMED),
        lambda stream: stream.to_table(materialized=Materialized.versioned("store", 50)),
        {"row_key"},
    ),
    "another form of the keys of a repartition": (
        by_key(STRING), by_key(Serde.uuid()), {"key_serdes"},
    ),
    "another form of the keys of a processor's store": (
        processed(KeyValues("a", STRING, LONG)), processed(KeyValues("a", Serde.uuid(), LONG)),
        {"store 'a' serde of the key"},
    ),
    "another form of the values of a processor's store": (
        processed(KeyValues("a", STRING, Serde.json("n long"))), processed(KeyValues("a", STRING, AVRO)),
        {"store 'a' serde of the value"},
    ),
    "a field more of values that do not name their fields": (
        processed(KeyValues("a", STRING, AVRO)), processed(KeyValues("a", STRING, MORE_AVRO)),
        {"store 'a' serde of the value"},
    ),
    "another key of a processor's store": (
        processed(KeyValues("a", STRING, LONG)), processed(KeyValues("a", LONG, LONG)), {"store 'a' key"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", REFUSED)
def test_what_makes_rows_mean_something_else_is_refused_by_name(change):
    before, now, settings = REFUSED[change]

    found = verdict(clicks(before), clicks(now))

    assert {one.what for one in found.refused} == settings


TENTHS, HUNDREDTHS = pl.col("ms").round(1), pl.col("ms").round(2)
FOLDS = {
    "sum": lambda of: fold.sum(of), "sum where": lambda of: fold.sum("ms", where=of > 1),
    "mean": lambda of: fold.mean(of),
    "mean where": lambda of: fold.mean("ms", where=of > 1), "collect": lambda of: fold.collect(of),
    "max_by": lambda of: fold.max_by("page", of), "last": lambda of: fold.last(of), "any": lambda of: fold.any(of > 1),
    "count_distinct": lambda of: fold.count_distinct(of), "top": lambda of: fold.top(3, of, "page"),
    "var_pop": lambda of: fold.var_pop(of, where=of > 1), "of": lambda of: fold.of(0, pl.col("aggregate") + of),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDS)
def test_folds_are_known_by_the_arguments_within_their_expressions(name):
    """
    Polars shows both as col("ms").round().
    """
    before, same, now = (code_snapshot(clicks(folded(n=FOLDS[name](of)))) for of in (TENTHS, TENTHS, HUNDREDTHS))

    assert before == same != now


def timed(extractor: object) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("clicks", Consumed(STRING, PAGES, timestamp_extractor=extractor))
    stream.group_by_key().windowed_by(SIZE).count(NAMED)
    return builder.build()


def test_rows_at_times_of_another_meaning_are_refused():
    changes = verdict(timed(None), timed("ms")).refused + verdict(timed("ms"), timed("record_time_ms")).refused

    assert [change.sentence() for change in changes] == [
        """store 'store': times was none, is [col("ms")]: its rows have times of another meaning""",
        """store 'store': times was [col("ms")], is [col("record_time_ms")]: its rows have times of another meaning""",
    ]
    assert verdict(timed("ms"), timed("ms")).changes == ()
    assert timed("ms").fingerprint != timed(None).fingerprint


def test_another_function_for_the_time_goes_on_and_is_named():
    found = verdict(timed(lambda record: record.value["ms"]), timed(lambda record: record.value["ms"] + 1))

    assert said(found) == [("store 'store'", "steps", True)]


def test_a_refusal_says_types_in_the_words_of_schemas():
    def kept(schema: str) -> Topology:
        return clicks(lambda stream: stream.to_table(materialized=NAMED), value=Serde.json(schema))

    before = kept("a decimal(10,2), b date, c time, d timestamp, e map<string, timestamp_ntz>")
    now = kept("a decimal(12,2), b date, c time, d timestamp, e map<string, timestamp_ntz>")

    assert [change.sentence() for change in verdict(before, now).refused] == [
        "store 'store': column value was "
        "struct<a decimal(10, 2), b date, c time, d timestamp, e map<string, timestamp_ntz>>, is "
        "struct<a decimal(12, 2), b date, c time, d timestamp, e map<string, timestamp_ntz>>: "
        "its rows have the other type"
    ]


def test_a_refusal_says_store_setting_before_and_now():
    found = verdict(clicks(windowed(SIZE)), clicks(windowed(TimeWindows.of_size(20, grace=0).advance_by(10))))

    assert [change.sentence() for change in found.refused] == [
        "store 'store': size_ms was 10, is 20: its rows were made under the other setting"
    ]


def test_steps_of_a_table_whose_changes_take_something_back_must_stay():
    """
    With another filter the group would lose what it never got.
    """

    def groups(condition: str) -> Topology:
        builder = StreamsBuilder()
        items = builder.table("items", Consumed(STRING, PAGES), materialized=Materialized.as_("items"))
        items.filter(condition).group_by("page", "ms", name="by").count(NAMED)
        return builder.build()

    found = verdict(groups("ms > 3"), groups("ms > 4"))

    assert [(change.store, change.what) for change in found.refused] == [("store", "values")]


def test_a_foreign_key_joins_left_values_cannot_gain_fields_since_their_bytes_are_compared():
    def joining(schema: str) -> Topology:
        builder = StreamsBuilder()
        left = builder.table("left", Consumed(STRING, Serde.json(schema)), materialized=Materialized.as_("left"))
        right = builder.table("right", Consumed(STRING, STRING), materialized=Materialized.as_("right"))
        left.join(right, lambda one, other: "", foreign_key="item", returns=STRING, name="fk")
        return builder.build()

    found = verdict(joining("item string"), joining("item string, amount long"))

    assert [(change.store, change.what) for change in found.refused] == [("fk-subscription-store", "left_value")]


def test_keys_that_go_to_other_partitions_without_a_store_are_named():
    def spread(key: Serde) -> Topology:
        builder = StreamsBuilder()
        builder.stream("clicks", Consumed(key, LONG)).repartition(name="by-key").to("out")
        return builder.build()

    found = verdict(spread(STRING), spread(Serde.uuid()))

    assert [change.sentence() for change in found.changes] == [
        "repartition 'by-key-repartition': key was [Serde.string()], is [Serde.uuid()]: "
        "keys are in the partitions of their new bytes from now on"
    ]
    assert found.goes_on


def test_digits_of_a_serde_of_ones_own_are_not_compared_between_versions():
    def joining(encode: Any) -> dict[str, Any]:
        builder = StreamsBuilder()
        value = Serde.of(encode, bytes.decode, type="string")
        left = builder.table("left", Consumed(STRING, value), materialized=Materialized.as_("left"))
        right = builder.table("right", Consumed(STRING, STRING), materialized=Materialized.as_("right"))
        columns = {"foreign_key": lambda text: text, "foreign_key_returns": STRING, "returns": STRING}
        left.join(right, lambda one, other: "", name="fk", **columns)
        return code_snapshot(builder.build())

    before, now = joining(str.encode), joining(lambda text: text.strip().encode())

    assert [(one.store, one.what) for one in compare(before, now, {}).refused] == [
        ("fk-subscription-store", "left_value")
    ]
    assert compare(before | {"made_with": "polars 0"}, now, {}).refused == ()


def test_serdes_of_keys_are_not_compared_with_what_another_version_wrote():
    """
    A record from before this was kept has none of them.
    """
    before = code_snapshot(clicks(by_key(STRING))) | {"made_with": "polars 0"}
    del before["stores"]["store"]["settings"]["key_serdes"]
    for repartition in before["repartitions"].values():
        del repartition["key"]
    stored = code_snapshot(clicks(processed(KeyValues("a", STRING, LONG)))) | {"made_with": "polars 0"}
    del stored["stores"]["seen-stores"]["settings"]["stores"]["a"]["serdes"]

    assert compare(before, code_snapshot(clicks(by_key(STRING))), {}).changes == ()
    assert compare(stored, code_snapshot(clicks(processed(KeyValues("a", STRING, LONG)))), {}).changes == ()


def test_an_explicit_number_of_partitions_must_be_that_of_the_table_that_is_there():
    def spread(partitions: int) -> Topology:
        return clicks(lambda stream: stream.repartition(partitions=partitions, name="by-page").to("out"))

    counts = {"repartition/by-page-repartition": 2}
    before, same, more = code_snapshot(spread(2)), code_snapshot(spread(2)), code_snapshot(spread(3))

    assert compare(before, same, counts).goes_on
    assert said(compare(before, more, counts)) == [("repartition 'by-page-repartition'", "partitions", False)]


def test_semantics_are_never_mixed():
    found = verdict(clicks(windowed(SIZE)), clicks(windowed(SIZE), semantics="kip"))

    assert said(found) == [("topology", "semantics", False)]


# --- what comes, goes and comes back -----------------------------------------------------------------------------


def test_new_and_removed_outputs_and_stores_go_on():
    before = clicks(lambda stream: stream.group_by_key().count(NAMED).to_stream().to("counts"))
    now = clicks(lambda stream: stream.deduplicate_by_key(5, name="once").to("once"))

    assert said(verdict(before, now)) == [
        ("store 'once-store'", "new", True),
        ("store 'store'", "removed", True),
        ("output 'once'", "new", True),
        ("output 'counts'", "removed", True),
    ]


def test_a_store_that_comes_back_would_miss_what_came_between():
    before, now = code_snapshot(clicks(lambda stream: stream.to("out"))), clicks(windowed(SIZE))
    before["removed"] = {"stores": {"store": code_snapshot(now)["stores"]["store"] | {"increment": 7}}, "outputs": {}}

    refused = compare(before, code_snapshot(now), {})
    migrated = compare(before, code_snapshot(now), {}, StateRequests(migrated=["store"]))

    (change,) = refused.refused
    assert change.sentence() == (
        "store 'store': is back: its rows end with increment 7 and miss what came since; use another name, "
        "or migrate it"
    )
    assert migrated.goes_on


@pytest.mark.parametrize(
    ("before", "now", "goes_on"),
    [
        ("page string", "page string, ms long", True),
        ("page string, ms long", "page string", True),
        ("page string", "page long", False),
        ("page string", "ms long", False),
        ("at struct<x long>", "at struct<x long, y double>", True),
        ("at struct<x long>", "at struct<x double>", False),
        ("tags array<struct<a string>>", "tags array<struct<a string, b string>>", True),
        ("tags array<string>", "tags array<long>", False),
        ("day date", "day date, at time, attrs map<string, timestamp_ntz>", True),
        ("price decimal(10,2)", "price decimal(12,2)", False),
        ("day date", "day timestamp", False),
        ("at time", "at long", False),
        ("attrs map<string, int>", "attrs map<string, long>", False),
    ],
)
def test_values_may_gain_and_lose_fields_in_stores_and_outputs_alike(before, now, goes_on):
    def table(schema: str) -> Topology:
        value = Serde.json(schema)
        return clicks(lambda stream: stream.to_table(materialized=NAMED).to_stream().to("out"), value=value)

    found = verdict(table(before), table(now))

    assert said(found) == [("store 'store'", "column value", goes_on), ("output 'out'", "value", goes_on)]


def test_texts_of_expressions_are_not_compared_between_versions_of_polars():
    def sums(key: str, of: str) -> dict[str, Any]:
        return code_snapshot(clicks(lambda stream: stream.group_by(key).aggregate(n=fold.sum(of), materialized=NAMED)))

    before, now = sums("page", "ms"), sums("page || ''", "ms + 0")

    assert not compare(before, now, {}).goes_on
    assert compare(before | {"made_with": "polars 0"}, now, {}).changes == ()


def test_an_output_that_the_topology_reads_from_now_on_goes_on_and_says_so():
    def between(builder: StreamsBuilder) -> None:
        builder.stream("in", Consumed(STRING, LONG)).to("mid")

    def read(builder: StreamsBuilder) -> None:
        between(builder)
        builder.stream("mid", Consumed(STRING, LONG)).to("out")

    written, both = StreamsBuilder(), StreamsBuilder()
    between(written)
    read(both)

    there, back = verdict(written.build(), both.build()), verdict(both.build(), written.build())

    assert there.goes_on
    assert back.goes_on
    assert ("topic 'mid'", "read by the topology", True) in said(there)
    assert ("topic 'mid'", "not read by the topology any more", True) in said(back)


def test_an_extractor_that_comes_is_seen_though_texts_are_of_another_version():
    def counted(**of_time: Any) -> dict[str, Any]:
        builder = StreamsBuilder()
        read = builder.stream("clicks", Consumed(STRING, LONG, **of_time))
        read.group_by_key().windowed_by(SIZE).count(NAMED).to_stream().to("out")
        return code_snapshot(builder.build())

    before, now = counted() | {"made_with": "polars 0"}, counted(timestamp_extractor="value")

    assert said(compare(before, now, {})) == [("store 'store'", "times", False)]
    assert said(compare(before, counted(), {})) == []


@pytest.mark.parametrize(
    ("now", "what"),
    [
        (window_store(100, size=20), "store 'a' window_size_ms"),
        (KeyValues("a", STRING, LONG), "store 'a' kind"),
        (
            Stores.timestamped_window_store_with_headers_builder(
                Stores.in_memory_window_store("a", 100, 10), STRING, LONG
            ),
            "store 'a' kind",
        ),
        (Stores.session_store_builder(Stores.in_memory_session_store("a", 100), STRING, LONG), "store 'a' kind"),
    ],
    ids=["windows of another size", "no windows", "values with headers", "sessions"],
)
def test_a_processor_s_store_of_another_kind_is_refused(now, what):
    found = verdict(clicks(processed(window_store(100))), clicks(processed(now)))

    assert (what, False) in [(change.what, change.goes_on) for change in found.changes]
