"""Record by record a task does what it does chunk by chunk; and what processors cannot put where others look."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from kstreams_replay import Consumed, Serde, fold
from kstreams_replay.jobs.functions.processor_api import KeyValues, Processor, Record, ValueAndTimestamp
from kstreams_replay.jobs.graph.graph import Node
from kstreams_replay.jobs.task.task import Task
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Materialized, StreamsBuilder
from kstreams_replay.state.errors import TaskFailed
from kstreams_replay.state.records.batches import Batch
from tests.conformance.__main__ import report
from tests.conformance.test_goldens import SAMPLE
from tests.sampling import is_nightly
from tests.task.task_tapes import long, records, started
from tests.topology.streams import LONG, LONGS, STRING, stream

MINE = SAMPLE if is_nightly() else SAMPLE[::2]


@pytest.mark.slow
@pytest.mark.every_run
def test_every_operator_does_record_by_record_what_kafka_streams_did(monkeypatch):
    """
    Each record goes depth first through all nodes, in batches of one row: nothing but the speed may differ.
    """
    monkeypatch.setattr(Node, "is_by_record", True)
    monkeypatch.setattr("kstreams_replay.jobs.topology.topology._check_whole", lambda parts: None)
    run_by_record, ran = Task._chunk_run, []

    def chunk_run(self: Task, chunk: Any) -> Any:
        self.is_by_record = not (self.dataflow.imports or self.dataflow.exports)
        ran.append(self.is_by_record)
        return run_by_record(self, chunk)

    monkeypatch.setattr(Task, "_chunk_run", chunk_run)

    assert {scenario.name: why for scenario in MINE if (why := report(scenario)) is not None} == {}
    assert any(ran)


def each(function: Callable[[Any, Record], None]) -> Callable[[], Processor]:
    class Each(Processor):
        def process(self, record: Record) -> None:
            function(self.context.store("s"), record)

    return Each


def put(value: Any) -> Callable[[], Processor]:
    return each(lambda store, record: store.put(record.key, value))


@pytest.mark.parametrize(
    ("made", "value", "why"),
    [
        (
            lambda b: b.global_table("t", LONGS, materialized=Materialized.as_("s")),
            ValueAndTimestamp(1, 1),
            "the store of a global table to be read, got a put, on key 'a'; write to the topic of the global table",
        ),
        (
            lambda b: stream("t", b).group_by_key().aggregate(fold.mean("value"), Materialized.as_("s")),
            ValueAndTimestamp(1.0, 1),
            "a put into an aggregate whose folds show all that they keep, got one into that of the fold, "
            "which keeps more than it shows, on key 'a'; delete the key, or give aggregate() an initializer= and an "
            "aggregator=",
        ),
        (
            lambda b: b.table("t", LONGS, materialized=Materialized.as_("s")),
            7,
            "a ValueAndTimestamp, as it is the store of a table, got 7, on key 'a'; write ValueAndTimestamp(value",
        ),
    ],
    ids=["global table", "aggregate", "a value without its time"],
)
def test_what_cannot_be_put_ends_the_run(made, value, why):
    builder = StreamsBuilder()
    made(builder)
    stream(builder=builder).process(put(value), ["s"], name="here")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 1, 1)

    with pytest.raises(TaskFailed, match=r"here.* on key 'a'") as caught:
        driver.run()

    assert f"here, store 's': expected {why}" in str(caught.value)


FOLDS = {
    "count": (lambda g: g.count(Materialized.as_("s")), 10, [1, 2, 11, 12, 1]),
    "named folds": (
        lambda g: g.aggregate(Materialized.as_("s"), n=fold.count(), most=fold.max("value")),
        {"n": 10, "most": 100},
        [{"n": 1, "most": 1}, {"n": 2, "most": 2}, {"n": 11, "most": 100}, {"n": 12, "most": 100}, {"n": 1, "most": 5}],
    ),
    "an aggregator": (
        lambda g: g.aggregate(lambda: 0, lambda k, v, a: a + v, Materialized.as_("s"), returns=LONG),
        10,
        [1, 3, 13, 17, 5],
    ),
    "an expression": (
        lambda g: g.aggregate(fold.of(0, "aggregate + value"), Materialized.as_("s")),
        10,
        [1, 3, 13, 17, 5],
    ),
    "a grouped table": (
        lambda g: g.aggregate(Materialized.as_("s"), n=fold.count(), all=fold.sum("value")),
        {"n": 10, "all": 100},
        [{"n": 1, "all": 1}, {"n": 1, "all": 2}, {"n": 10, "all": 101}, {"n": 10, "all": 102}, {"n": 1, "all": 5}],
    ),
}


@pytest.mark.parametrize("name", FOLDS)
def test_an_aggregate_goes_on_from_what_a_processor_put_and_begins_again_after_a_delete(name):
    aggregate, given, want = FOLDS[name]
    builder = StreamsBuilder()
    if name == "a grouped table":
        table = builder.table("t", LONGS)
        grouped = table.group_by("record_key")
    else:
        grouped = stream("t", builder).group_by_key()
    aggregate(grouped).to_stream().to("out")
    stream("put", builder).process(put(ValueAndTimestamp(given, 7)), ["s"])
    stream("delete", builder).process(each(lambda store, record: store.delete(record.key)), ["s"])
    driver = TopologyTestDriver(builder.build())
    for topic, value in [("t", 1), ("t", 2), ("put", 0), ("t", 3), ("t", 4), ("delete", 0), ("t", 5)]:
        driver.pipe_input(topic, "a", value, 1)
    got = [record.value for record in driver.read_outputs("out")]

    assert got == want


def test_a_failure_below_names_the_processor_that_failed():
    def fail(store: Any, record: Record) -> None:
        raise ValueError("no")

    builder = StreamsBuilder().add_state_store(KeyValues("s", STRING, LONG))

    class On(Processor):
        def process(self, record: Record) -> None:
            self.context.forward(record)

    stream(builder=builder).process(On, ["s"], name="above").process(each(fail), ["s"], name="below")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 1, 1)

    with pytest.raises(TaskFailed, match=r"^below: expected a processor that does not fail, got ValueError: no on key"):
        driver.run()


def of_table(builder: StreamsBuilder, shape: str) -> None:
    """A table whose store is "s". A filter of it needs the old value of each change."""
    table = builder.table("t", LONGS, materialized=Materialized.as_("s"))
    if shape == "read below":
        table.to_stream().to("table")
    if shape == "old values":
        table.filter("value % 2 = 0").to_stream().to("even")


class Asks(Processor):
    """By the record's value: looks at its key, writes it, deletes it, or looks at all keys."""

    def process(self, record: Record) -> None:
        store, key = self.context.store("s"), record.key
        found = store.get(key)
        if record.value % 4 == 1:
            store.put(key, ValueAndTimestamp(record.value, record.timestamp_ms))
        elif record.value % 4 == 2:
            store.delete(key)
        shown = [one for _, one in store.range()] if record.value % 4 == 3 else []
        after = store.get(key)
        values = [-1 if one is None else one.value for one in (found, after, *shown)]
        self.context.forward(record.with_value(" ".join(map(str, values))))


@pytest.mark.sampled(share=3)
@pytest.mark.parametrize("chunk", [1, 5, None])
@pytest.mark.parametrize("shape", ["alone", "read below", "old values"])
def test_a_processor_finds_in_a_table_what_came_and_what_was_put_before(shape, chunk):
    """The expected values are those of a dict that is asked and written in the order of the records."""
    random, table, want, kept = Random(7), {}, [], []
    builder = StreamsBuilder()
    of_table(builder, shape)
    stream(builder=builder).process(Asks, ["s"], returns=STRING).to("out")
    driver = TopologyTestDriver(builder.build(), chunk_records=chunk)
    for number in range(300):
        topic, key = random.choice(["t", "in"]), random.choice("abcde")
        value = random.randrange(100)
        if topic == "t":
            given = None if value % 9 == 0 else value
            table = {name: one for name, one in table.items() if name != key}
            table |= {} if given is None else {key: given}
            driver.pipe_input("t", key, given, number)
            kept.append((key, given))
            continue
        driver.pipe_input("in", key, value, number)
        found = table.get(key, -1)
        if value % 4 == 1:
            table[key] = value
        elif value % 4 == 2:
            table.pop(key, None)
        shown = [table[name] for name in sorted(table)] if value % 4 == 3 else []
        want.append(" ".join(map(str, [found, table.get(key, -1), *shown])))

    assert [record.value for record in driver.read_outputs("out")] == want
    assert {key: value for key, _, value in driver.store("s").all()} == table
    if shape == "read below":
        assert [(record.key, record.value) for record in driver.read_outputs("table")] == kept


def test_what_one_processor_changes_in_place_another_below_the_same_node_never_sees():
    """Both children of a processor get a copy of their own, and so does each look into a table."""
    changed = Serde.json("parts array<long>")

    class Spoil(Processor):
        def process(self, record: Record) -> None:
            for parts in (record.value["parts"], self.context.store("s").get("a").value["parts"]):
                parts.append(9)
            self.context.forward(record.with_value({"parts": [len(self.context.store("s").get("a").value["parts"])]}))
            record.value["parts"].clear()

    builder = StreamsBuilder()
    builder.table("t", Consumed(STRING, changed), materialized=Materialized.as_("s"))
    source = builder.stream("in", Consumed(STRING, changed))
    on = source.process(Passes, name="above", returns=changed)
    for name in ("one", "two"):
        on.process(Spoil, ["s"], name=name, returns=changed).to(f"out-{name}")
    on.to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("t", "a", {"parts": [1, 2]}, 1)
    driver.pipe_input("in", "a", {"parts": [5]}, 2)

    got = [[record.value["parts"] for record in driver.read_outputs(topic)] for topic in ("out-one", "out-two", "out")]
    assert got == [[[2]], [[2]], [[5]]]


class Passes(Processor):
    def process(self, record: Record) -> None:
        self.context.forward(record)


class Sums(Processor):
    """Keeps sums by key in a store that another processor looks into."""

    def process(self, record: Record) -> None:
        store = self.context.store("sums")
        store.put(record.key, (store.get(record.key) or 0) + record.value)
        self.context.forward(record)


class LooksAtSums(Processor):
    def process(self, record: Record) -> None:
        self.context.forward(record.with_value(self.context.store("sums").get(record.key)))


def sharing() -> StreamsBuilder:
    builder = StreamsBuilder().add_state_store(KeyValues("sums", STRING, LONG))
    stream(builder=builder).process(Sums, ["sums"]).process(LooksAtSums, ["sums"]).to("out")
    return builder


def stepping() -> StreamsBuilder:
    """With steps above and below."""
    builder = StreamsBuilder().add_state_store(KeyValues("sums", STRING, LONG))
    above = stream(builder=builder).filter("value >= 0").map_values(lambda value: value + 1, returns=LONG)
    sums = above.process(Sums, ["sums"]).process(LooksAtSums, ["sums"])
    sums.filter("value >= 0").map_values("value + 1").to("out")
    return builder


def reading() -> StreamsBuilder:
    builder = StreamsBuilder()
    of_table(builder, "alone")
    builder.table("u", LONGS, materialized=Materialized.as_("u"))
    stream(builder=builder).process(Asks, ["s"], returns=STRING).to("out")
    return builder


@pytest.mark.parametrize("made", [sharing, stepping, reading])
def test_no_batch_is_made_for_each_record_on_its_way_through_processors_and_their_tables(made, monkeypatch):
    """A batch of one row costs as much as hundreds of rows: the number of batches is that of chunks and nodes."""
    made_batches, init = [], Batch.__init__

    def counted(self: Batch, *columns: Any, **named: Any) -> None:
        made_batches.append(1)
        init(self, *columns, **named)

    def batches(records: int) -> int:
        driver = TopologyTestDriver(made().build())
        for number in range(records):
            if made is reading:
                driver.pipe_input("t", f"k{number % 7}", number, number)
            driver.pipe_input("in", f"k{number % 7}", 4 * number + number % 2, number)
        made_batches.clear()
        driver.run()
        return len(made_batches)

    monkeypatch.setattr(Batch, "__init__", counted)

    assert batches(10) == batches(200) > 0


def failing_on(*values: int) -> Callable[[int], int]:
    """A function that fails on some values."""

    def step(value: int) -> int:
        if value in values:
            raise ValueError(f"no {value}")
        return value

    return step


class FailsOn(Processor):
    value = 0

    def process(self, record: Record) -> None:
        if record.value == self.value:
            raise ValueError(f"no {record.value}")
        self.context.forward(record)


class FailsOnSeven(FailsOn):
    value = 7


@pytest.mark.parametrize(
    ("above", "below", "beside", "first"),
    [
        (5, 6, 8, "above: .*no 5 on key 'a', value 5, of the record in-0, offset 5;"),
        (8, 6, 9, "below: .*no 6 on key 'a', value 6, of the record in-0, offset 6;"),
        (8, 9, 9, "here: .*no 7 on key 'a'"),
        (9, 5, 5, "below: .*no 5 on key 'a', value 5, of the record in-0, offset 5;"),
        (9, 6, 5, "beside: .*no 5 on key 'a', value 5, of the record in-0, offset 5;"),
    ],
    ids=["a step above", "a step below", "the processor", "two steps at one record", "two steps"],
)
def test_of_several_records_that_fail_the_first_ends_the_run(above, below, beside, first):
    """Steps above and below processors run over a chunk at once; the error is still that of the first record."""
    builder = StreamsBuilder().add_state_store(KeyValues("s", STRING, LONG))
    source = stream(builder=builder).map_values(failing_on(above), returns=LONG, name="above")
    other = source.process(Passes, ["s"], name="other")
    on = source.process(FailsOnSeven, ["s"], name="here")
    on.map_values(failing_on(below), returns=LONG, name="below").to("out")
    on.map_values(failing_on(beside), returns=LONG, name="beside").to("out-2")
    other.to("out-3")
    rows = [(value, value, b"a", long(value)) for value in range(12)]

    with pytest.raises(TaskFailed, match=first):
        started(builder.build()).process(records(*rows))


def test_what_steps_above_and_below_processors_forward_is_in_the_order_of_the_records():
    """Several records of one included, and none."""
    builder = StreamsBuilder().add_state_store(KeyValues("sums", STRING, LONG))
    numbers = stream(builder=builder).filter("value % 3 > 0").flat_map_values(lambda v: [v, 10 * v], returns=LONG)
    sums = numbers.process(Sums, ["sums"]).process(LooksAtSums, ["sums"])
    even = sums.filter("value % 2 = 0")
    even.map_values("value + 1").to("odd")
    even.flat_map_values(lambda v: [v] * (v % 4), returns=LONG).to("twice")
    sums.filter("value < 0")
    driver = TopologyTestDriver(builder.build())
    for value in range(8):
        driver.pipe_input("in", "a", value, value)

    want, total = [], 0
    for value in (1, 2, 4, 5, 7):
        for one in (value, 10 * value):
            total += one
            want.append(total)
    even_ones = [value for value in want if value % 2 == 0]
    assert [record.value for record in driver.read_outputs("odd")] == [value + 1 for value in even_ones]
    assert [record.value for record in driver.read_outputs("twice")] == [
        value for value in even_ones for _ in range(value % 4)
    ]
    assert len(want) > len(even_ones) > 1
