"""Repartition topics and changelogs, read in the test driver by their names without the application's id."""

import pytest

from kstreams_replay import (
    Consumed,
    KeyValues,
    Materialized,
    Processor,
    PunctuationType,
    Serde,
    SessionWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
    ValueAndTimestamp,
    Windowed,
    fold,
)
from kstreams_replay.state.errors import ConfigError, TaskFailed, TopologyError

STRING, LONG = Serde.string(), Serde.long()
LONGS = Consumed(STRING, LONG)


def records(driver, topic):
    return [(record.key, record.value, record.timestamp_ms) for record in driver.read_outputs(topic)]


def counted():
    builder = StreamsBuilder()
    stream = builder.stream("in", LONGS)
    by_parity = stream.select_key("CASE WHEN value % 2 = 0 THEN 'even' ELSE 'odd' END").group_by_key(name="by-parity")
    by_parity.count(Materialized.as_("counts")).to_stream().to("out")
    by_parity.windowed_by(TimeWindows.of_size(10)).count(Materialized.as_("windows"))
    builder.table("t", LONGS, materialized=Materialized.as_("rows")).filter("value > 1", Materialized.as_("large"))
    return builder.build()


def test_what_is_sent_to_a_repartition_topic_is_read_by_its_name():
    driver = TopologyTestDriver(counted())
    driver.pipe_input("in", "a", 1, 5, headers=(("h", b"x"),))
    driver.pipe_input("in", "b", 2, 3)

    assert records(driver, "by-parity-repartition") == [("odd", 1, 5), ("even", 2, 3)]
    driver.pipe_input("in", "c", 3, 9)
    (record,) = driver.read_outputs("by-parity-repartition")
    assert (record.key, record.arrival, record.headers) == ("odd", 2, ())
    topic = driver.create_output_topic("by-parity-repartition", value_serde=Serde.bytes())
    driver.pipe_input("in", "c", 4, 9)
    assert topic.read_value() == b"\0\0\0\0\0\0\0\4"


def test_a_changelog_has_every_put_with_the_time_of_the_aggregate():
    driver = TopologyTestDriver(counted())
    for value, at in ((1, 5), (3, 2), (2, 12)):
        driver.pipe_input("in", "k", value, at)

    assert records(driver, "counts-changelog") == [("odd", 1, 5), ("odd", 2, 5), ("even", 1, 12)]
    driver.pipe_input("in", "k", 5, 25)
    assert records(driver, "counts-changelog") == [("odd", 3, 25)]
    windows = [(*row, record.window) for row, record in _windows(driver)]
    assert windows == [
        ("odd", 1, 5, (0, 10)),
        ("odd", 2, 5, (0, 10)),
        ("even", 1, 12, (10, 20)),
        ("odd", 1, 25, (20, 30)),
    ]
    assert records(driver, "out") == [("odd", 1, 5), ("odd", 2, 5), ("even", 1, 12), ("odd", 3, 25)]


def _windows(driver):
    found = driver.read_outputs("windows-changelog")
    return [((record.key, record.value, record.timestamp_ms), record) for record in found]


def test_the_changelog_of_a_table_has_its_tombstones_and_of_a_step_what_it_keeps():
    driver = TopologyTestDriver(counted())
    for key, value in (("a", 1), ("b", 2), ("b", None), ("a", 5), ("a", 0)):
        driver.pipe_input("t", key, value, 1)

    assert records(driver, "rows-changelog") == [("a", 1, 1), ("b", 2, 1), ("b", None, 1), ("a", 5, 1), ("a", 0, 1)]
    assert records(driver, "large-changelog") == [("b", 2, 1), ("b", None, 1), ("a", 5, 1), ("a", None, 1)]
    assert driver.create_output_topic("rows-changelog").is_empty()


class Keeps(Processor):
    """Puts twice, deletes what is 0, and puts the time of each punctuation."""

    def init(self, context):
        super().init(context)
        context.schedule(10, PunctuationType.STREAM_TIME, lambda time: context.store("kept").put("tick", time))

    def process(self, record):
        kept, timed = self.context.store("kept"), self.context.store("timed")
        kept.put(record.key, record.value)
        kept.put_if_absent(record.key, 7)
        if record.value == 0:
            kept.delete(record.key)
        timed.put(record.key, ValueAndTimestamp(record.value, 99))


def kept():
    builder = StreamsBuilder()
    timed = Stores.timestamped_key_value_store_builder(Stores.in_memory_key_value_store("timed"), STRING, LONG)
    builder.stream("in", LONGS).process(Keeps, [KeyValues("kept", STRING, LONG), timed])
    return builder.build()


@pytest.mark.parametrize("chunk_records", [1, None])
def test_stores_of_processors_have_changelogs_with_the_time_of_the_record_or_of_the_value(chunk_records):
    driver = TopologyTestDriver(kept(), chunk_records=chunk_records)
    driver.pipe_input("in", "a", 5, 3)
    driver.pipe_input("in", "a", 0, 12)

    assert records(driver, "kept-changelog") == [
        ("a", 5, 3),
        ("tick", 3, 3),
        ("a", 0, 12),
        ("a", None, 12),
        ("tick", 12, 12),
    ]
    assert records(driver, "timed-changelog") == [("a", 5, 99), ("a", 0, 99)]


def test_what_a_test_puts_is_in_the_changelog_too():
    driver = TopologyTestDriver(kept())
    driver.get_key_value_store("kept").put("a", 4)

    assert [record[:2] for record in records(driver, "kept-changelog")] == [("a", 4)]


def test_what_came_after_a_failure_did_not_happen():
    builder = StreamsBuilder()
    stream = builder.stream("in", LONGS)
    stream.group_by_key().count(Materialized.as_("counts"))
    stream.map_values(lambda value: 1 // value, returns=LONG).repartition(name="again").to("out")
    driver = TopologyTestDriver(builder.build())
    assert records(driver, "counts-changelog") == []
    driver.pipe_key_values("in", [("a", 1), ("b", 0), ("c", 1)])
    with pytest.raises(TaskFailed):
        driver.run()

    assert [record[0] for record in records(driver, "again-repartition")] == ["a"]
    assert [record[0] for record in records(driver, "counts-changelog")] == ["a"]


def test_other_names_are_no_topics():
    driver = TopologyTestDriver(counted())
    for name in ("counts", "app-counts-changelog", "t", "by-parity"):
        with pytest.raises(ConfigError, match=r"read_output: expected one of \['out'\]"):
            driver.read_outputs(name)


# --- outputs that are called as internal topics ----------------------------------------------------------------------


def beside(write, config=None):
    """A count behind a repartition, whose keys are all "x"; ``write`` writes what comes, whose keys are not."""
    builder = StreamsBuilder(config=config)
    stream = builder.stream("in", LONGS)
    stream.select_key("'x'").group_by_key(name="cnt").count(Materialized.as_("cnt")).to_stream().to("out")
    write(stream)
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 1, 0)
    driver.pipe_input("in", "b", 2, 0)
    return driver


WAYS = {
    "to": lambda topic: lambda stream: stream.to(topic),
    "one of several": lambda topic: lambda stream: stream.to(lambda key, value: topic, topics=[topic, "more"]),
    "by the data": lambda topic: lambda stream: stream.to(lambda key, value: topic),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("topic", ["cnt-repartition", "cnt-changelog"])
@pytest.mark.parametrize("config", [None, {"application.id": "app"}])
def test_an_output_of_that_name_without_the_id_is_another_topic_as_in_kafka(way, topic, config):
    driver = beside(WAYS[way](topic), config)

    assert records(driver, topic) == [("a", 1, 0), ("b", 2, 0)]
    assert records(driver, "out") == [("x", 1, 0), ("x", 2, 0)]
    driver.pipe_input("in", "c", 3, 5)
    assert records(driver, topic) == [("c", 3, 5)]


@pytest.mark.parametrize("topic", ["app-cnt-repartition", "app-cnt-changelog"])
@pytest.mark.parametrize("way", ["to", "one of several"])
def test_an_output_that_would_be_an_internal_topic_of_the_application_is_refused(way, topic):
    with pytest.raises(TopologyError, match=f"topic '{topic}': .*, which Kafka Streams writes itself; choose another"):
        beside(WAYS[way](topic), {"application.id": "app"})

    assert records(beside(WAYS[way](topic)), topic) == [("a", 1, 0), ("b", 2, 0)]


@pytest.mark.parametrize("topic", ["app-cnt-repartition", "app-cnt-changelog"])
def test_a_record_that_names_an_internal_topic_of_the_application_ends_the_run(topic):
    driver = beside(WAYS["by the data"](topic), {"application.id": "app"})

    with pytest.raises(TaskFailed, match="expected a topic that is not the topology's own"):
        driver.run()


def test_the_changelog_of_a_processors_store_is_an_internal_topic_too():
    builder = StreamsBuilder(config={"application.id": "app"})
    builder.stream("in", LONGS).process(Keeps, [KeyValues("kept", STRING, LONG)]).to("app-kept-changelog")

    with pytest.raises(TopologyError, match="got the changelog of the store 'kept'"):
        builder.build()


# --- what a changelog has is what the store has ----------------------------------------------------------------------


class Changes(Processor):
    """Changes what it has put."""

    def process(self, record):
        key, value = {"k": record.key}, {"n": 1}
        self.context.store("kept").put(key, value)
        key["k"], value["n"] = "other", 99
        self.context.store("halves").put("whole", 5)


def test_the_changelog_of_a_processors_store_has_what_the_store_has():
    builder = StreamsBuilder()
    kept = KeyValues("kept", Serde.json("k string"), Serde.json("n long"))
    builder.stream("in", LONGS).process(Changes, [kept, KeyValues("halves", STRING, Serde.double())])
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 0)

    assert records(driver, "kept-changelog") == [({"k": "a"}, {"n": 1}, 0)]
    assert repr(records(driver, "halves-changelog")) == "[('whole', 5.0, 0)]"


class ChangesWindows(Processor):
    def process(self, record):
        value = {"total": record.value}
        self.context.store("windows").put(record.key, ValueAndTimestamp(value, 3), 0)
        self.context.store("sessions").put(Windowed(record.key, 50, 60), value)
        value["total"] = 99


def test_the_changelogs_of_windows_and_sessions_have_what_the_stores_have():
    builder = StreamsBuilder()
    grouped = builder.stream("other", LONGS).group_by_key()
    of_windows, of_sessions = grouped.windowed_by(TimeWindows.of_size(10)), SessionWindows.with_inactivity_gap(5)
    of_windows.aggregate(total=fold.sum("value"), materialized=Materialized.as_("windows"))
    grouped.windowed_by(of_sessions).aggregate(total=fold.sum("value"), materialized=Materialized.as_("sessions"))
    builder.stream("in", LONGS).process(ChangesWindows, ["windows", "sessions"])
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 4, 2)

    assert records(driver, "windows-changelog") == [("a", {"total": 4}, 3)]
    assert records(driver, "sessions-changelog") == [("a", {"total": 4}, 2)]


def test_what_a_test_puts_into_a_table_or_an_aggregate_is_in_the_changelog_too():
    builder = StreamsBuilder()
    grouped = builder.stream("in", LONGS).group_by_key()
    grouped.windowed_by(TimeWindows.of_size(10)).count(Materialized.as_("windows"))
    grouped.windowed_by(SessionWindows.with_inactivity_gap(5)).count(Materialized.as_("sessions"))
    builder.table("t", LONGS, materialized=Materialized.as_("rows"))
    driver = TopologyTestDriver(builder.build())
    driver.get_key_value_store("rows").put("a", 4)
    driver.get_timestamped_key_value_store("rows").put("b", ValueAndTimestamp(5, 70))
    driver.get_key_value_store("rows").delete("a")
    driver.get_window_store("windows").put("a", 6, 10)
    driver.get_session_store("sessions").put(Windowed("a", 5, 9), 7)
    driver.pipe_input("t", "c", 8, 3)

    assert records(driver, "rows-changelog") == [("a", 4, -1), ("b", 5, 70), ("a", None, -1), ("c", 8, 3)]
    (window,) = driver.read_outputs("windows-changelog")
    assert window == ("a", 6, -1, (10, 20), -1, ())
    (session,) = driver.read_outputs("sessions-changelog")
    assert session == ("a", 7, -1, (5, 9), -1, ())
