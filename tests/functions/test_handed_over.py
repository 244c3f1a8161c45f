"""A value is what it was when it was handed over: what Kafka Streams gives, by hand, for functions that change objects
in place, and what taking a value gives for each serde.
"""

import datetime
from decimal import Decimal
from typing import Any

import pytest

from kstreams_replay import (
    Consumed,
    KeyValues,
    Materialized,
    Processor,
    PunctuationType,
    Record,
    Serde,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
)
from kstreams_replay.state.errors import ConfigError, TaskFailed
from kstreams_replay.state.serdes.handed_over import HandOver

S, L = Serde.string(), Serde.json("items array<string>")


def driver_of(build: Any, records: list[tuple[str, Any]], serde: Serde = S) -> TopologyTestDriver:
    builder = StreamsBuilder()
    build(builder, Consumed(S, serde))
    driver = TopologyTestDriver(builder.build())
    for number, (key, value) in enumerate(records):
        driver.pipe_input("in", key, value, timestamp_ms=10 * number)
    return driver


def items(driver: TopologyTestDriver) -> list[list[str]]:
    return [record.value["items"] for record in driver.read_outputs("out")]


class Batching(Processor):
    """Collects three, forwards them, clears the list."""

    def init(self, context) -> None:
        super().init(context)
        self.store = context.store("pending")

    def process(self, record) -> None:
        pending = self.store.get(record.key) or {"items": []}
        pending["items"].append(record.value)
        if len(pending["items"]) == 3:
            self.context.forward(record.with_value(pending))
            pending["items"].clear()
        self.store.put(record.key, pending)


class Ticking(Processor):
    def init(self, context) -> None:
        super().init(context)
        self.one: dict[str, list[str]] = {"items": []}
        context.schedule(10, PunctuationType.STREAM_TIME, self.tick)

    def process(self, record) -> None:
        self.one["items"].append(record.value)

    def tick(self, now_ms: int) -> None:
        self.context.forward(Record("k", self.one, now_ms))
        self.one["items"].clear()


class WithHeaders(Processor):
    def process(self, record) -> None:
        headers = [*record.headers, ("n", b"1")]
        self.context.forward(record.with_headers(headers))
        headers.append(("n", b"2"))
        self.context.forward(record.with_headers(headers))


def test_a_list_that_is_forwarded_and_then_cleared_arrives_whole():
    stores = [KeyValues("pending", S, L)]
    driver = driver_of(
        lambda b, read: b.stream("in", read).process(Batching, stores, returns_key=S, returns=L).to("out"),
        [("k", f"v{number}") for number in range(6)],
    )

    assert items(driver) == [["v0", "v1", "v2"], ["v3", "v4", "v5"]]


def test_a_schedule_forwards_what_its_list_has_then():
    driver = driver_of(
        lambda b, read: b.stream("in", read).process(Ticking, returns_key=S, returns=L).to("out"),
        [("k", "a"), ("k", "b"), ("k", "c")],
    )

    assert items(driver) == [["a"], ["b"], ["c"]]


def test_headers_are_those_of_their_own_forward():
    driver = driver_of(
        lambda b, read: b.stream("in", read).process(WithHeaders, returns_key=S, returns=S).to("out"), [("k", "v")]
    )

    headers = [record.headers for record in driver.read_outputs("out")]
    assert headers == [(("n", b"1"),), (("n", b"1"), ("n", b"2"))]


@pytest.mark.parametrize("keeps_key", [True, False])
def test_a_generator_that_fills_one_object_gives_it_as_it_is_at_each_yield(keeps_key):
    def grow(key, value):
        one = {"items": []}
        for letter in value:
            one["items"].append(letter)
            yield one if keeps_key else (key, one)

    def build(b, read):
        stream = b.stream("in", read)
        flat = stream.flat_map_values(grow, returns=L) if keeps_key else stream.flat_map(grow, returns_key=S, returns=L)
        flat.to("out")

    assert items(driver_of(build, [("k", "v0")])) == [["v"], ["v", "0"]]


def add(key, value, total):
    total["items"].extend(value["items"])
    return total


def take(key, value, total):
    for one in value["items"]:
        total["items"].remove(one)
    return total


CHANGES = [("1", {"items": ["a"]}), ("2", {"items": ["b"]}), ("1", {"items": ["c"]}), ("2", None)]


@pytest.mark.parametrize("kind", ["plain", "versioned", "reduce", "one initial value"])
def test_adders_and_subtractors_in_place_give_the_aggregate_of_each_change(kind):
    empty = {"items": []}

    def build(b, read):
        grouped = b.table("in", read).group_by("'all'")
        if kind == "reduce":
            grouped.reduce(lambda one, two: add("", two, one), lambda one, two: take("", two, one)).to("out")
            return
        kept = Materialized.versioned("v", 1000) if kind == "versioned" else Materialized.as_("v")
        initial = (lambda: empty) if kind == "one initial value" else (lambda: {"items": []})
        grouped.aggregate(initial, add, take, returns=L, materialized=kept).to("out")

    assert items(driver_of(build, CHANGES, L)) == [["a"], ["a", "b"], ["b", "c"], ["c"]]
    assert empty == {"items": []}


def size(value):
    return len(value["items"])


def all_of(b, read):
    """The aggregate of all rows, which is changed in place."""
    grouped = b.table("in", read).group_by("'all'")
    return grouped.aggregate(lambda: {"items": []}, add, take, returns=L, materialized=Materialized.as_("all"))


def test_a_step_below_an_aggregate_that_is_changed_in_place_sees_each_change():
    driver = driver_of(lambda b, read: all_of(b, read).map_values(size, returns=Serde.int()).to("out"), CHANGES, L)

    assert [record.value for record in driver.read_outputs("out")] == [1, 2, 2, 1]


def test_a_grouping_below_an_aggregate_that_is_changed_in_place_takes_back_what_was_there_before():
    """
    [a], [a b], [b c], [c]. Of one size before and after, Kafka takes back and adds in one step (KTableRepartitionMap).
    """

    def build(b, read):
        by_size = all_of(b, read).group_by(
            lambda key, value: str(size(value)), lambda key, value: size(value), returns_key=S, returns=Serde.int()
        )
        by_size.count(Materialized.as_("by-size")).to("out")

    driver = driver_of(build, CHANGES, L)

    rows = [(record.key, record.value) for record in driver.read_outputs("out")]
    assert rows == [("1", 1), ("1", 0), ("2", 1), ("2", 1), ("2", 0), ("1", 1)]


def test_one_record_of_two_windows_is_given_to_each_of_them_as_it_came():
    def aggregate(key, value, total):
        value["items"].append("seen")
        return {"items": [*total["items"], *value["items"]]}

    def build(b, read):
        windows = TimeWindows.of_size(20, grace=0).advance_by(10)
        grouped = b.stream("in", read).group_by_key().windowed_by(windows)
        grouped.aggregate(lambda: {"items": []}, aggregate, returns=L).to("out")

    assert items(driver_of(build, [("k", {"items": ["a"]}), ("k", {"items": ["b"]})], L)) == [
        ["a", "seen"], ["a", "seen", "b", "seen"], ["b", "seen"],
    ]  # fmt: skip


@pytest.mark.parametrize("reads_each", [True, False])
def test_an_aggregate_is_what_its_serde_reads_back_wherever_an_increment_ends(reads_each):
    """A field that was left out is None for the next record, and an int is a double."""
    seen = []

    def aggregate(key, value, total):
        seen.append(dict(total))
        return {"n": len(seen)}

    def build(b, read):
        serde = Serde.json("n double, note string")
        b.stream("in", read).group_by_key().aggregate(lambda: {"n": 0, "note": ""}, aggregate, returns=serde).to("out")

    driver = driver_of(build, [("k", "a")])
    for value in ("b", "c"):
        if reads_each:
            driver.read_outputs("out")
        driver.pipe_input("in", "k", value, timestamp_ms=100)
    driver.read_outputs("out")

    assert repr(seen[-3:]) == "[{'n': 0, 'note': ''}, {'n': 1.0, 'note': None}, {'n': 2.0, 'note': None}]"


def test_a_value_of_another_type_is_refused_where_it_is_forwarded():
    caught = []

    class Wrong(Processor):
        def process(self, record) -> None:
            try:
                self.context.forward(record.with_value({"items": record.value}))
            except TaskFailed as error:
                caught.append(error.got)
            self.context.forward(record.with_value({"items": ["right"]}))

    driver = driver_of(
        lambda b, read: b.stream("in", read).process(Wrong, returns_key=S, returns=L).to("out"), [("k", "a")]
    )

    assert items(driver) == [["right"]]
    assert caught == ["'a' (str), in field items instead of a list with key 'k'"]


@pytest.mark.parametrize("headers", [[("n", 1)], [("n",)], [(b"n", b"1")], 5])
def test_headers_that_are_none_are_refused_where_they_are_forwarded(headers):
    class Wrong(Processor):
        def process(self, record) -> None:
            self.context.forward(record.with_headers(headers))

    with pytest.raises(TaskFailed, match=r"expected forwarded headers as \(name, bytes or None\) pairs, got "):
        driver_of(
            lambda b, read: b.stream("in", read).process(Wrong, returns_key=S, returns=S).to("out"), [("k", "a")]
        ).read_outputs("out")


UTC, EAST = datetime.UTC, datetime.timezone(datetime.timedelta(hours=2))
TAKEN: list[tuple[Serde, Any, str]] = [
    (Serde.string(), "é", "'é'"),
    (Serde.float(), 0.1, "0.10000000149011612"),
    (Serde.double(), 3, "3.0"),
    (Serde.long(), -5, "-5"),
    (Serde.json("a long, b string"), {"b": "x"}, "{'a': None, 'b': 'x'}"),
    (Serde.json("a array<int>"), {"a": (1, 2)}, "{'a': [1, 2]}"),
    (Serde.json("m map<string,double>"), {"m": {"x": 1}}, "{'m': {'x': 1.0}}"),
    (Serde.json("d decimal(5,2)"), {"d": Decimal("1.5")}, "{'d': Decimal('1.50')}"),
    (
        Serde.json("t timestamp"),
        {"t": datetime.datetime(2020, 1, 1, 2, tzinfo=EAST)},
        "{'t': datetime.datetime(2020, 1, 1, 0, 0, tzinfo=zoneinfo.ZoneInfo(key='UTC'))}",
    ),
    (Serde.list(Serde.int()), [1, None], "[1, None]"),
    (Serde.json("b boolean, y string, d date"), {"b": True, "y": "é", "d": None}, "{'b': True, 'y': 'é', 'd': None}"),
    (
        Serde.json("o struct<x: long, y: float>, l array<struct<z: double>>"),
        {"l": [{"z": 1}, {}, None], "o": {"y": 0.1}},
        "{'o': {'x': None, 'y': 0.10000000149011612}, 'l': [{'z': 1.0}, {'z': None}, None]}",
    ),
    (Serde.json("m map<string, array<long>>"), {"m": {"é": [1, None]}}, "{'m': {'é': [1, None]}}"),
    (Serde.variant(), "x", "'x'"),
]


@pytest.mark.parametrize(("serde", "value", "wanted"), TAKEN)
def test_what_is_taken_is_what_the_serde_reads_back(serde, value, wanted):
    taken = HandOver(serde.codec).take(value)

    assert repr(taken) == wanted
    assert repr(serde.to_python(serde.decode(serde.encode(serde.from_python([value]))).values)[0]) == wanted
    assert taken is not value or not serde.codec.can_change


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (Serde.long(), 2**63), (Serde.long(), True), (Serde.string(), "\ud800"), (Serde.bytes(), "x"),
        (Serde.json("a long"), {"b": 1}), (Serde.json("a array<string>"), {"a": ["x", 1]}),
        (Serde.json("m map<string,int>"), {"m": {None: 1}}), (Serde.float(), 1e39),
        (Serde.json("a int, b long"), {"a": 2**31, "b": 1}), (Serde.json("a string"), {"a": "\ud800"}),
        (Serde.json("o struct<x: long>"), {"o": {"x": True}}), (Serde.json("l array<long>"), {"l": [2**63]}),
        (Serde.json("m map<string,long>"), {"m": {"x": 1.0}}), (Serde.json("a long, b long"), {"a": 1, "c": 2}),
    ],
)  # fmt: skip
def test_what_no_serde_carries_is_not_taken(serde, value):
    with pytest.raises(ConfigError):
        HandOver(serde.codec).take(value)


COPIED = [
    (Serde.json("a long, b string"), {"a": 1, "b": None}),
    (Serde.json("l array<long>, m map<string,long>, s struct<x: long>"), {"l": [1], "m": {"x": 1}, "s": {"x": 1}}),
    (Serde.json("l array<array<string>>"), {"l": [["x"], None]}),
    (Serde.list(Serde.string()), ["x", None]),
]


def changeable_parts(value: Any) -> list[int]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    found = [one for part in parts for one in changeable_parts(part)]
    return [id(value), *found] if isinstance(value, dict | list) else found


@pytest.mark.parametrize(("serde", "value"), COPIED)
@pytest.mark.parametrize("how", ["take", "give", "own"])
def test_no_part_that_can_be_changed_is_shared_after_the_hand_over(serde, value, how):
    copied = getattr(HandOver(serde.codec), how)(value)

    assert copied == value
    assert set(changeable_parts(copied)) & set(changeable_parts(value)) == set()


@pytest.mark.parametrize("value", [{"a": [["x"]]}, {"a": 1, "other": ["x"]}, [["x"]], ({"x": []},)])
def test_a_value_of_another_type_is_the_engine_s_own_too(value):
    own = HandOver(Serde.json("a long").codec).own(value)

    assert own == value
    assert set(changeable_parts(own)) & set(changeable_parts(value)) == set()
