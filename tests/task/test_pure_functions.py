"""Functions that use a store or a table are called twice under new code: chance and counters are reported, once."""

import contextvars
import itertools
import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.functions.processor_api import (
    FixedKeyProcessor,
    KeyValues,
    Processor,
    PunctuationType,
    Record,
    ValueTransformerWithKey,
)
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.task.held_state import Kept
from kstreams_replay.jobs.task.put_back import HeldValue, PutBack
from kstreams_replay.jobs.topology import (
    Consumed,
    JoinWindows,
    Materialized,
    Serde,
    SessionWindows,
    StreamsBuilder,
    Topology,
)
from kstreams_replay.orchestration.cli.run_outcome import warnings_of
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

STRING, LONG = Serde.string(), Serde.long()
Function = Callable[[int], int]
"""What it gives counts in the result: the same number, or another one each time."""


class Adding(Processor):
    """Adds up values in its store."""

    def __init__(self, twist: Function) -> None:
        self.twist = twist

    def init(self, context) -> None:
        self.context, self.sums = context, context.store("sums")

    def process(self, record: Record) -> None:
        total = (self.sums.get(record.key) or 0) + self.twist(record.value)
        self.sums.put(record.key, total)
        self.context.forward(record.key, total)


class Twisting(ValueTransformerWithKey):
    def __init__(self, twist: Function) -> None:
        self.twist = twist

    def init(self, context) -> None:
        self.context = context

    def transform(self, key: Any, value: Any) -> Any:
        return None if value is None else self.twist(value)


def aggregate(builder: StreamsBuilder, twist: Function) -> None:
    grouped = numbers(builder).group_by_key()
    grouped.aggregate(
        initializer=lambda: 0,
        aggregator=lambda key, value, total: total + twist(value),
        returns=LONG,
        materialized=Materialized.as_("asked"),
    ).to("out")


def reduce(builder: StreamsBuilder, twist: Function) -> None:
    numbers(builder).group_by_key().reduce(lambda total, value: total + twist(value)).to("out")


def merge_sessions(builder: StreamsBuilder, twist: Function) -> None:
    grouped = numbers(builder).group_by_key().windowed_by(SessionWindows.with_inactivity_gap(5, grace=100))
    grouped.aggregate(
        initializer=lambda: 0,
        aggregator=lambda key, value, total: total + value,
        merger=lambda key, one, other: one + twist(other),
        returns=LONG,
    ).to("out")


def cogroup(builder: StreamsBuilder, twist: Function) -> None:
    cogrouped = numbers(builder).group_by_key().cogroup(lambda key, value, total: total + twist(value))
    cogrouped.aggregate(initializer=lambda: 0, returns=LONG).to("out")


def aggregate_table(builder: StreamsBuilder, twist: Function) -> None:
    grouped = builder.table("numbers", Consumed(STRING, LONG)).group_by("record_key", "value")
    grouped.aggregate(
        initializer=lambda: 0,
        adder=lambda key, value, total: total + twist(value),
        subtractor=lambda key, value, total: total - value,
        returns=LONG,
    ).to("out")


def join_streams(builder: StreamsBuilder, twist: Function) -> None:
    other = builder.stream("others", Consumed(STRING, LONG))
    windows = JoinWindows.of_time_difference_and_grace(1000, 0)
    numbers(builder).join(other, lambda left, right: left + twist(right), windows, returns=LONG).to("out")


def join_tables(builder: StreamsBuilder, twist: Function) -> None:
    mine, other = (builder.table(topic, Consumed(STRING, LONG)) for topic in ("numbers", "others"))
    mine.join(other, lambda left, right: left + twist(right), returns=LONG).to("out")


def join_stream_with_table(builder: StreamsBuilder, twist: Function) -> None:
    other = builder.table("others", Consumed(STRING, LONG))
    numbers(builder).left_join(other, lambda left, right: left + twist(right or 0), returns=LONG).to("out")


def process(builder: StreamsBuilder, twist: Function) -> None:
    stores = [KeyValues("sums", STRING, LONG)]
    numbers(builder).process(lambda: Adding(twist), stores, returns_key=STRING, returns=LONG).to("out")


def transform(builder: StreamsBuilder, twist: Function) -> None:
    table = builder.table("numbers", Consumed(STRING, LONG))
    table.transform_values(lambda: Twisting(twist), returns=LONG).to("out")


def numbers(builder: StreamsBuilder):
    return builder.stream("numbers", Consumed(STRING, LONG))


CASES = {
    aggregate: "KSTREAM-AGGREGATE",
    reduce: "KSTREAM-REDUCE",
    merge_sessions: "KSTREAM-AGGREGATE",
    cogroup: "COGROUPKSTREAM-MERGE",
    aggregate_table: "KTABLE-AGGREGATE",
    join_streams: "KSTREAM-MERGE",
    join_tables: "KTABLE-MERGE",
    join_stream_with_table: "KSTREAM-LEFTJOIN",
    process: "KSTREAM-PROCESSOR",
    transform: "KTABLE-TRANSFORMVALUES",
}
"""What is built, and how the name of the node begins that is asked."""


def built(case: Callable[[StreamsBuilder, Function], None], twist: Function) -> Topology:
    builder = StreamsBuilder()
    case(builder, twist)
    return builder.build()


def land(warehouse: Warehouse) -> None:
    """Of one key: so that sessions merge, the record between two of them comes after both."""
    for topic in ("others", "numbers"):
        tape = [
            LandedRecord(0, b"k", (number + 1).to_bytes(8, "big"), at)
            for number, at in enumerate([0, 8, 4, 20, 28, 24, 40, 48, 44])
        ]
        plant(warehouse, topic, tape, partitions=1)


def warnings_in_increments(warehouse: Warehouse, topology: Topology, increments: int = 2) -> list[list[str]]:
    reports = replay(
        warehouse, topology, pipeline="p", runner=LocalRunner(), max_records=6, idle="proceed", increments=increments
    )
    return [warnings_of([report]) for report in reports]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_counter_in_a_function_that_meets_a_store_or_a_table_is_told_of_at_the_first_increment(tmp_path, case):
    warehouse, calls = Warehouse(tmp_path), itertools.count()
    land(warehouse)

    said, later = warnings_in_increments(warehouse, built(case, lambda number: number + next(calls)))

    said = [warning for warning in said if "does not answer alike twice" in warning]
    assert len(said) == 1
    assert said[0].startswith(f"step {CASES[case]}")
    assert "does not answer alike twice: of the record " in said[0]
    assert said[0].endswith("; functions must be pure")
    assert [warning for warning in later if "twice" in warning] == []  # they are asked once


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_pure_functions_are_not_told_of(tmp_path, case):
    warehouse = Warehouse(tmp_path)
    land(warehouse)

    warnings = itertools.chain(*warnings_in_increments(warehouse, built(case, lambda number: number)))

    assert [warning for warning in warnings if "twice" in warning] == []


def test_the_sentence_names_the_first_row_that_differs(tmp_path):
    """
    Together the calls have the numbers 0, 1, …, 5. In pieces, after that, the first one has 6: 1 + 6.
    """
    warehouse, calls = Warehouse(tmp_path), itertools.count()
    land(warehouse)

    warning, *_ = warnings_in_increments(warehouse, built(aggregate, lambda number: number + next(calls)))[0]

    assert warning == (
        "step KSTREAM-AGGREGATE-0000000001 does not answer alike twice: of the record numbers-0, offset 0, "
        "it gave key 'k', value 1, and then key 'k', value 7; the variable 'calls' changes while records are "
        "processed; keep it in a store; functions must be pure"
    )


def test_who_is_asked_twice_changes_nothing_and_who_only_looks_on_is_called_once(tmp_path):
    warehouse, seen = Warehouse(tmp_path), []
    land(warehouse)
    builder = StreamsBuilder()
    stream = numbers(builder).peek(lambda key, value: seen.append(value))
    stream.foreach(lambda key, value: seen.append(-value))
    stores = [KeyValues("sums", STRING, LONG)]
    summed = stream.process(lambda: Adding(lambda number: number), stores, returns_key=STRING, returns=LONG)
    summed.group_by_key().reduce(max).to("out")

    warnings_in_increments(warehouse, builder.build())

    assert sorted(seen) == sorted([*range(1, 10), *(-number for number in range(1, 10))])
    rows = read_table(warehouse, "p", "outputs/out").sort_by("offset").to_pylist()
    assert [row["value"] for row in rows] == list(itertools.accumulate(range(1, 10)))


# --- state beside the stores -------------------------------------------------------------------------------------


class First(Processor):
    """Forwards each value once, with what it remembers in an attribute."""

    def init(self, context) -> None:
        super().init(context)
        self.seen: set[int] = set()

    def process(self, record) -> None:
        if record.value % 3 not in self.seen:
            self.seen.add(record.value % 3)
            self.context.forward(record)


class FirstOfKey(FixedKeyProcessor):
    """The same, keeping keys."""

    def init(self, context) -> None:
        super().init(context)
        self.number = 0

    def process(self, record) -> None:
        self.number += 1
        self.context.forward(record.with_value(self.number))


class Rates(Processor):
    """Fails on a value for which an earlier record has left no attribute."""

    def init(self, context) -> None:
        super().init(context)
        self.first: dict[str, int] = {}

    def process(self, record) -> None:
        if record.value == 1:
            self.first[record.key] = record.value
        self.context.forward(record.with_value(self.first[record.key]))


class Shared(Processor):
    """With an attribute of the class."""

    seen: ClassVar[list[int]] = []

    def process(self, record) -> None:
        self.seen.append(record.value)
        self.context.forward(record.with_value(len(self.seen)))


class Numbered(ValueTransformerWithKey):
    def init(self, context) -> None:
        super().init(context)
        self.number = 0

    def transform(self, key, value) -> Any:
        self.number += 1
        return self.number


class CountsCalls:
    """A callable with an attribute, and a method that is one."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self, key: Any, value: Any, total: int) -> int:
        self.number += 1
        return self.number

    def method(self, key: Any, value: Any, total: int) -> int:
        return self(key, value, total)


class Keeping(Processor):
    """Of a global store: puts how many records it has seen."""

    def init(self, context) -> None:
        super().init(context)
        self.records, self.store = 0, context.store("rates")

    def process(self, record) -> None:
        self.records += 1
        self.store.put(record.key, self.records)


class GlobalReader(Processor):
    """Forwards what the global store has."""

    def process(self, record) -> None:
        self.context.forward(record.with_value(self.context.store("rates").get(record.key) or 0))


class Slotted:
    """An object without a ``__dict__``."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0

    def next(self) -> int:
        self.number += 1
        return self.number


def generated() -> Any:
    number = 0
    while True:
        number += 1
        yield number


def with_attribute(make: Callable[[], Any], ask: Callable[[Any], int]) -> Callable[[StreamsBuilder], Any]:
    """A processor that makes an object when it begins, and asks it for a number."""

    class Asking(Processor):
        def init(self, context) -> None:
            super().init(context)
            self.made = make()

        def process(self, record) -> None:
            self.context.forward(record.with_value(ask(self.made)))

    return processed(Asking)


def with_supplied_closure() -> Processor:
    """Its class, and the variable that its method counts in, are made for each processor."""
    seen: list[int] = []

    class Enclosed(Processor):
        def process(self, record) -> None:
            seen.append(record.value)
            self.context.forward(record.with_value(len(seen)))

    return Enclosed()


UNSEEN = contextvars.ContextVar("UNSEEN", default=0)
"""Neither copied nor compared."""


class InContext(Processor):
    def process(self, record) -> None:
        UNSEEN.set(UNSEEN.get() + 1)
        self.context.forward(record.with_value(UNSEEN.get()))


ALL_SEEN: list[int] = []


def remember(key: Any, value: int, total: int) -> int:
    ALL_SEEN.append(value)
    return len(ALL_SEEN)


def aggregated(stream, aggregator) -> Any:
    return stream.group_by_key().aggregate(lambda: 0, aggregator, returns=LONG).to_stream()


def with_global_store(builder: StreamsBuilder) -> Any:
    builder.add_global_store(KeyValues("rates", STRING, LONG), "others", Consumed(STRING, LONG), Keeping)
    return numbers(builder).process(GlobalReader, returns_key=STRING, returns=LONG)


def processed(supplier, stores=()) -> Callable[[StreamsBuilder], Any]:
    return lambda builder: numbers(builder).process(supplier, list(stores), returns_key=STRING, returns=LONG)


HOLDING: dict[str, tuple[Callable[[StreamsBuilder], Any], str]] = {
    "processor": (processed(First), "the processor's attribute 'seen'"),
    "processor with a store": (
        processed(First, [KeyValues("unused", STRING, LONG)]), "the processor's attribute 'seen'",
    ),
    "processor that fails": (processed(Rates), "the processor's attribute 'first'"),
    "class attribute": (processed(Shared), "the attribute 'seen' of the class Shared"),
    "fixed-key processor": (
        lambda builder: numbers(builder).process_values(FirstOfKey, returns=LONG), "the processor's attribute 'number'",
    ),
    "transformer": (
        lambda builder: builder.table("numbers", Consumed(STRING, LONG))
        .transform_values(Numbered, returns=LONG, materialized=Materialized.as_("t"))
        .to_stream(),
        "the transformer's attribute 'number'",
    ),
    "callable object": (
        lambda builder: aggregated(numbers(builder), CountsCalls()), "the attribute 'number' of CountsCalls",
    ),
    "bound method": (
        lambda builder: aggregated(numbers(builder), CountsCalls().method), "the attribute 'number' of CountsCalls",
    ),
    "global variable": (lambda builder: aggregated(numbers(builder), remember), "the global variable 'ALL_SEEN'"),
    "object with slots": (with_attribute(Slotted, Slotted.next), "the processor's attribute 'made'"),
    "generator": (with_attribute(generated, next), "the processor's attribute 'made'"),
    "iterator": (with_attribute(lambda: iter(range(100)), next), "the processor's attribute 'made'"),
    "random numbers": (
        with_attribute(lambda: random.Random(1), lambda made: made.getrandbits(62)), "the processor's attribute 'made'",
    ),
    "variable of a supplier": (processed(with_supplied_closure), "the variable 'seen'"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOLDING)
def test_state_beside_the_stores_is_named(tmp_path, case):
    build, what = HOLDING[case]
    warehouse, builder = Warehouse(tmp_path), StreamsBuilder()
    land(warehouse)
    build(builder).to("out")

    (said,) = warnings_in_increments(warehouse, builder.build(), increments=1)

    (warning,) = [one for one in said if "twice" in one]
    assert f"; {what} changes while records are processed; keep it in a store; functions must be pure" in warning


class OnlyPutting(Processor):
    """Puts how many records came, and forwards nothing."""

    def init(self, context) -> None:
        super().init(context)
        self.number, self.store = 0, context.store("sums")

    def process(self, record) -> None:
        self.number += 1
        self.store.put(record.key, self.number)


class Chooses:
    """Chooses what it is asked for by how often it was asked: topics, partitions, and windows."""

    def __init__(self) -> None:
        self.number = 0

    def topic(self, key: Any, value: Any) -> str:
        self.number += 1
        return f"out{self.number % 2}"

    def partition(self, topic: str, key: Any, value: Any, partitions: int) -> int:
        self.number += 1
        return self.number % partitions

    def windows_for(self, timestamp_ms: int) -> dict[int, int]:
        self.number += 1
        return {self.number: self.number + 10}

    def size(self) -> int:
        return 10

    def grace_period_ms(self) -> int:
        return 1000


CHOOSING: dict[str, tuple[Callable[[StreamsBuilder], Any], str, str]] = {
    "store": (
        lambda builder: numbers(builder).process(
            OnlyPutting, [KeyValues("sums", STRING, LONG)], returns_key=STRING, returns=LONG
        ),
        "it stored key b'k', value b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x06' in 'sums', and then "
        "key b'k', value b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x03' in 'sums'",
        "the processor's attribute 'number'",
    ),
    "topics": (
        lambda builder: numbers(builder).to(Chooses().topic, topics=["out0", "out1"]),
        "offset 1, it gave key 'k', value 2, time 8, child 'KSTREAM-SINK-0000000001:out0', "
        "and then key 'k', value 2, time 8, child 'KSTREAM-SINK-0000000001:out1'",
        "the attribute 'number' of Chooses",
    ),
    "any topics": (
        lambda builder: numbers(builder).to(Chooses().topic),
        "topic 'out0', and then key 'k', value 2, time 8, topic 'out1'",
        "the attribute 'number' of Chooses",
    ),
    "partitions": (
        lambda builder: numbers(builder).to("out", partitioner=Chooses().partition, partitions=4),
        "partition 1, and then key b'k', partition 3",
        "the attribute 'number' of Chooses",
    ),
    "windows": (
        lambda builder: numbers(builder).group_by_key().windowed_by(Chooses()).count(),
        "it gave ",
        "the attribute 'number' of Chooses",
    ),
}


@pytest.mark.parametrize("case", CHOOSING)
def test_what_is_stored_and_where_records_go_is_compared(tmp_path, case):
    build, answers, what = CHOOSING[case]
    warehouse, builder = Warehouse(tmp_path), StreamsBuilder()
    land(warehouse)
    build(builder)

    (said,) = warnings_in_increments(warehouse, builder.build(), increments=1)

    (warning,) = [one for one in said if "twice" in one]
    assert answers in warning
    assert f"; {what} changes while records are processed; keep it in a store; functions must be pure" in warning


def test_what_cannot_be_compared_may_be_what_changes(tmp_path):
    warehouse, builder = Warehouse(tmp_path), StreamsBuilder()
    land(warehouse)
    processed(InContext)(builder).to("out")

    (said,) = warnings_in_increments(warehouse, builder.build(), increments=1)

    (warning,) = [one for one in said if "twice" in one]
    assert "; the global variable 'UNSEEN' may change while records are processed; keep it in a store" in warning


# --- the check leaves no trace -----------------------------------------------------------------------------------


class Base(Processor):
    """Attributes of a class that others inherit from: how many records came, by what, and the newest ones."""

    counts: ClassVar[dict[str, list[int]]] = {}
    total: ClassVar[int] = 0

    def numbered(self, record) -> Record:
        self.counts.setdefault(record.key, []).append(record.value)
        return record.with_value(sum(map(len, self.counts.values())))


class Inherits(Base):
    def process(self, record) -> None:
        self.context.forward(self.numbered(record))


class Rebinds(Base):
    """A number of the class, which is replaced."""

    def process(self, record) -> None:
        Base.total += 1
        self.context.forward(record.with_value(Base.total))


CALLED = 0


def called() -> int:
    global CALLED
    CALLED += 1
    return CALLED


class AsksAnother(Processor):
    """A global variable of another function of the module."""

    def process(self, record) -> None:
        self.context.forward(record.with_value(called()))


def with_nonlocal() -> Callable[[StreamsBuilder], Any]:
    """A method whose class is within the function that has the variable."""
    number = 0

    class Enclosed(Processor):
        def process(self, record) -> None:
            nonlocal number
            number += 1
            self.context.forward(record.with_value(number))

    return processed(lambda: Enclosed())


def step_with_nonlocal() -> Callable[[StreamsBuilder], Any]:
    number = 0

    def count(value: int) -> int:
        nonlocal number
        number += 1
        return number

    return lambda builder: numbers(builder).map_values(count, returns=LONG)


def table_with_nonlocal() -> Callable[[StreamsBuilder], Any]:
    seen: list[int] = []

    def count(key: str, value: int, total: int) -> int:
        seen.append(value)
        return len(seen)

    return lambda builder: aggregated(numbers(builder), count)


def defaults(value: int, seen: list[int] = [], *, more: dict[int, int] = {}) -> int:  # noqa: B006
    seen.append(value)
    more[len(more)] = value
    return max(len(seen), len(more))


class Defaults(Processor):
    def process(self, record, seen: list[int] = []) -> None:  # noqa: B006
        seen.append(record.value)
        self.context.forward(record.with_value(len(seen)))


def step_with_default() -> Callable[[StreamsBuilder], Any]:
    return lambda builder: numbers(builder).map_values(lambda value: defaults(value), returns=LONG)


def step_with_attribute() -> Callable[[StreamsBuilder], Any]:
    def count(value: int) -> int:
        count.calls = getattr(count, "calls", 0) + 1  # type: ignore[attr-defined]
        return int(count.calls)  # type: ignore[attr-defined]

    return lambda builder: numbers(builder).map_values(count, returns=LONG)


TRACES: dict[str, tuple[Callable[[], Callable[[StreamsBuilder], Any]], str]] = {
    "inherited attribute": (lambda: processed(Inherits), "the attribute 'counts' of the class Base"),
    "inherited number": (lambda: processed(Rebinds), "the attribute 'total' of the class Base"),
    "attribute of a supplied class": (
        lambda: processed(lambda: Inherits()),
        "the attribute 'counts' of the class Base",
    ),
    "global of another function": (lambda: processed(AsksAnother), "the global variable 'CALLED'"),
    "nonlocal of a method": (with_nonlocal, "the variable 'number'"),
    "nonlocal of a step": (step_with_nonlocal, "the variable 'number'"),
    "defaults": (step_with_default, "the default of 'seen' of defaults() and the default of 'more' of defaults()"),
    "default of a method": (lambda: processed(Defaults), "the default of 'seen' of process()"),
    "attribute of a function": (step_with_attribute, "the attribute 'calls' of count()"),
    "list of an aggregator": (table_with_nonlocal, "the variable 'seen'"),
    "attribute of a callable": (
        lambda: lambda builder: aggregated(numbers(builder), CountsCalls()),
        "'number' of CountsCalls",
    ),
    "global list": (lambda: lambda builder: aggregated(numbers(builder), remember), "the global variable 'ALL_SEEN'"),
}


@pytest.fixture
def _nothing_seen():
    """Each case begins with what the module began with."""
    global CALLED
    CALLED, Base.total = 0, 0
    Base.counts.clear()
    ALL_SEEN.clear()


@pytest.mark.usefixtures("_nothing_seen")
@pytest.mark.parametrize("case", TRACES)
def test_the_check_puts_back_what_functions_hold_and_names_it(tmp_path, case):
    """Each value is how many records came so far, in this process: from 1 on, as without a check."""
    make, what = TRACES[case]
    warehouse, builder = Warehouse(tmp_path), StreamsBuilder()
    land(warehouse)
    make()(builder).to("out")

    said = itertools.chain(*warnings_in_increments(warehouse, builder.build()))

    (warning,) = [one for one in said if "twice" in one]
    assert f"{what} change" in warning
    assert " while records are processed; keep " in warning
    rows = read_table(warehouse, "p", "outputs/out").sort_by("offset").to_pylist()
    assert [row["value"] for row in rows] == [*range(1, 10)]


def test_containers_stay_the_objects_that_they_are_and_get_their_entries_back():
    inner, numbers_seen = [1], {"a": 1}
    held = {
        "list": [inner, 2],
        "set": {1},
        "deque": deque([1, 2], 2),
        "counter": Counter("aab"),
        "bytes": bytearray(b"x"),
    }
    places = [HeldValue(name, value, (0, name), lambda value: None) for name, value in held.items()]
    before = PutBack([*places, HeldValue("dict", numbers_seen, (0, "dict"), lambda value: None)])
    inner.append(5)
    held["list"].clear()
    held["set"].add(2)
    held["deque"].append(3)
    held["counter"]["a"] = 9
    held["bytes"].extend(b"yz")
    numbers_seen["b"] = 2

    before.put_back(places)

    assert held["list"] == [[1], 2]
    assert held["list"][0] is inner
    assert held["set"] == {1}
    assert held["deque"] == deque([1, 2], 2)
    assert held["counter"] == {"a": 2, "b": 1}
    assert held["bytes"] == b"x"
    assert numbers_seen == {"a": 1}


def test_what_is_no_plain_data_is_left_alone():
    put: list[Any] = []
    counter, other = itertools.count(), itertools.count()
    before = PutBack([HeldValue("counter", counter, (0, "counter"), put.append)])

    before.put_back([HeldValue("counter", other, (0, "counter"), put.append)])

    assert put == []


def test_tuples_that_are_reached_by_many_ways_are_looked_into_once(monkeypatch):
    looked_at, note = list[Any](), PutBack._note
    monkeypatch.setattr(PutBack, "_note", lambda self, value: (looked_at.append(value), note(self, value)))
    entries = [1]
    nested: Any = entries
    for _ in range(5):
        nested = (nested,) * 10
    before = PutBack([HeldValue("nested", nested, (0, "nested"), lambda value: None)])
    entries.append(2)

    before.put_back([])

    assert entries == [1]
    assert len(looked_at) == 1 + 5 * 10 + 1  # the place, entries of five tuples, and the entry of the list


class Cached(First):
    """Attributes that change and decide nothing: the same values are in the store."""

    def init(self, context) -> None:
        super().init(context)
        self.store, self.cache, self.calls = context.store("sums"), {}, 0
        self.context.schedule(1, PunctuationType.STREAM_TIME, self.tick)

    def process(self, record) -> None:
        self.calls += 1
        if record.key not in self.cache:
            self.cache[record.key] = self.store.get(record.key) or 0
        self.cache[record.key] += record.value
        self.store.put(record.key, self.cache[record.key])
        self.context.forward(record.with_value(self.cache[record.key]))

    def tick(self, now_ms: int) -> None:
        self.calls += 1
        self.context.forward("tick", self.store.get("k"))


def test_attributes_that_decide_nothing_are_not_told_of(tmp_path):
    warehouse, builder = Warehouse(tmp_path), StreamsBuilder()
    land(warehouse)
    processed(Cached, [KeyValues("sums", STRING, LONG)])(builder).to("out")

    warnings = itertools.chain(*warnings_in_increments(warehouse, builder.build()))

    assert [warning for warning in warnings if "twice" in warning] == []


class Counted:
    """Counts how often two of it are compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return isinstance(other, Counted)

    __hash__ = None  # type: ignore[assignment]


def test_what_is_reached_by_many_ways_is_compared_once():
    shared: Any = Counted()
    for _ in range(5):
        shared = [shared] * 10
    state = [shared, [1]]

    def function(value: int) -> int:
        return value + len(state)

    kept = Kept([function])
    assert kept.outside() == ((), ())
    assert Counted.compared == 1

    state[1].append(2)
    assert kept.outside().changed == ("the variable 'state'",)
