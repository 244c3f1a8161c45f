"""Every place that takes a user's function, in four topologies, whose functions hand over fresh objects or one object.

Rule: a function is written once, as what it computes. ``Fresh`` calls it so. ``Reused`` gives the same object each
time, with new content. Before every call it spoils all objects that were handed over earlier, and after it the
arguments that were given. Keys and values are JSON objects with a list, so that every part of them can be changed in
place.
"""

import copy
import functools
import inspect
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from kstreams_replay import (
    Consumed,
    FixedKeyProcessor,
    JoinWindows,
    KeyValues,
    Materialized,
    Printed,
    Processor,
    Produced,
    PunctuationType,
    Repartitioned,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TableJoined,
    TimeWindows,
    Topology,
    ValueAndTimestamp,
    ValueTransformerWithKey,
)
from tests.planted import LandedRecord

KEY = Serde.json("id string, parts array<string>")
VALUE = Serde.json("n long, items array<string>")
LONG, STRING = Serde.long(), Serde.string()
READ = Consumed(KEY, VALUE)
SPOILT = "spoilt"


def spoil(thing: Any) -> None:
    """Change everything in it that can be changed in place."""
    if isinstance(thing, dict):
        for one in thing.values():
            spoil(one)
        thing.clear()
        thing |= {"n": -1, "items": [SPOILT], "id": SPOILT}
    elif isinstance(thing, list):
        for one in thing:
            spoil(one)
        thing[:] = [SPOILT]
    elif isinstance(thing, tuple):
        for one in thing:
            spoil(one)


class Fresh:
    """Functions as anybody writes them."""

    def function(self, computed: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(computed)
        def called(*arguments: Any) -> Any:
            return self.give(called, computed(*self.begin(arguments)), arguments)

        called.__signature__ = inspect.signature(computed)  # type: ignore[attr-defined]
        return called

    def generator(self, computed: Callable[..., Iterable[Any]]) -> Callable[..., Any]:
        """Of a function that gives several results, one after the other."""

        @functools.wraps(computed)
        def called(*arguments: Any) -> Any:
            for one in list(computed(*self.begin(arguments))):
                given = self.give(called, one, arguments)
                yield given
                self.after(given)

        called.__signature__ = inspect.signature(computed)  # type: ignore[attr-defined]
        return called

    def begin(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """What the function computes with."""
        return arguments

    def give(self, owner: Any, result: Any, arguments: tuple[Any, ...]) -> Any:
        """What the function ``owner`` hands over."""
        return result

    def after(self, *handed: Any) -> None:
        """They were handed over and will not be used again."""


class Reused(Fresh):
    """One object of each kind a function, refilled each time and spoilt after each hand-over."""

    def __init__(self) -> None:
        self._objects: dict[tuple[int, type, int], Any] = {}
        self._owners: list[Any] = []

    def begin(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        self.after(*self._objects.values())
        return copy.deepcopy(arguments)

    def give(self, owner: Any, result: Any, arguments: tuple[Any, ...]) -> Any:
        result = copy.deepcopy(result)
        self.after(*arguments)
        self._owners.append(owner)
        return self._filled(id(owner), result, 0)

    def _filled(self, owner: int, result: Any, place: int) -> Any:
        if isinstance(result, tuple):
            parts = [self._filled(owner, one, place + at) for at, one in enumerate(result)]
            return result._make(parts) if hasattr(result, "_make") else tuple(parts)
        if not isinstance(result, dict | list):
            return result
        one = self._objects.setdefault((owner, type(result), place), type(result)())
        one.clear()
        if isinstance(result, dict):
            for at, (name, each) in enumerate(result.items()):
                one[name] = self._filled(owner, each, 10 * place + at + 1)
        else:
            one += result
        return one

    def after(self, *handed: Any) -> None:
        for one in handed:
            spoil(one)


# --- what the functions compute ----------------------------------------------------------------------------------


def key_of(key: Any) -> dict[str, Any]:
    """Also of a windowed key."""
    key = getattr(key, "key", key)
    return {"id": "", "parts": []} if key is None else key


def more(key: Any, value: Any) -> Any:
    """The value with the key's id in it."""
    if value is None:
        return None
    return {"n": value["n"] + 1, "items": [*value["items"], key_of(key)["id"]]}


def less(key: Any, value: Any) -> dict[str, Any]:
    return {"id": key_of(key)["id"][:1], "parts": [*key_of(key)["parts"], "x"]}


def added(key: Any, value: Any, total: Any) -> Any:
    if value is None:
        return total
    return {"n": total["n"] + value["n"], "items": [*total["items"], *value["items"]]}


def added_with_key(key: Any, value: Any, total: Any) -> Any:
    return more(key, added(key, value, total))


def removed(key: Any, value: Any, total: Any) -> Any:
    rest = list(total["items"])
    for one in value["items"]:
        rest.remove(one)
    return {"n": total["n"] - value["n"], "items": rest}


def both(left: Any, right: Any) -> Any:
    sides = [one for one in (left, right) if one is not None]
    return {"n": sum(one["n"] for one in sides), "items": [each for one in sides for each in one["items"]]}


def nothing() -> dict[str, Any]:
    return {"n": 0, "items": []}


class Forwarding(Processor):
    """Forwards what it has collected, again and again, with headers, and from a schedule."""

    def __init__(self, wear: Fresh, store: str = "") -> None:
        self.wear, self.store_name = wear, store

    def init(self, context: Any) -> None:
        super().init(context)
        if self.store_name:
            context.schedule(7, PunctuationType.STREAM_TIME, self.tick)

    def process(self, record: Any) -> None:
        key, value = self.wear.begin((record.key, record.value))
        if self.store_name:
            store = self.context.store(self.store_name)
            total = both(store.get(key), value)
            store.put(key, self.wear.give(self.put, total, ()))
            value = total
        for number in range(2):
            made = {"n": value["n"] + number, "items": [*value["items"], str(number)]}
            self.send(record, less(key, None) if number else key, made)
        self.wear.after(record.key, record.value)

    put = "what goes into the store"

    def send(self, record: Any, key: Any, value: Any) -> None:
        key, value = self.wear.give(self.put, (key, value), ())
        headers = self.wear.give(self.send, [("h", b"1")], ())
        self.context.forward(record.with_key(key).with_value(value).with_headers(headers))
        self.wear.after(key, value, headers)

    def tick(self, now_ms: int) -> None:
        self.wear.begin(())
        for key, value in self.context.store(self.store_name).all():
            given = self.wear.give(self.tick, (key, value), ())
            self.context.forward(*given, now_ms)
            self.wear.after(*given, key, value)


class ForwardingValues(FixedKeyProcessor):
    """The same, of values alone."""

    def __init__(self, wear: Fresh) -> None:
        self.wear = wear

    def process(self, record: Any) -> None:
        key, value = self.wear.begin((record.key, record.value))
        for number in range(2):
            made = self.wear.give(self.wear, {"n": number, "items": [*value["items"], key["id"]]}, ())
            self.context.forward(record.with_value(made))
            self.wear.after(made)


class Transforming(ValueTransformerWithKey):
    def __init__(self, wear: Fresh) -> None:
        self.called = wear.function(more)

    def transform(self, key: Any, value: Any) -> Any:
        return self.called(key, value)


class Keeping(Processor):
    """Of a global store."""

    def __init__(self, wear: Fresh, store: str) -> None:
        self.wear, self.store_name = wear, store

    def process(self, record: Any) -> None:
        key, value = self.wear.begin((record.key, record.value))
        self.wear.after(record.key, record.value)
        store = self.context.store(self.store_name)
        given = self.wear.give(self.wear, (key, both(store.get(key), value)), ())
        store.put(*given)
        self.wear.after(*given)


class Looking(Processor):
    """Reads a store that others keep, and changes what it got."""

    def __init__(self, wear: Fresh, store: str) -> None:
        self.wear, self.store_name = wear, store

    def process(self, record: Any) -> None:
        key, value = self.wear.begin((record.key, record.value))
        for _ in range(2):
            found = self.context.store(self.store_name).get(key)
            if isinstance(found, ValueAndTimestamp):
                found = found.value
            made = self.wear.give(self.wear, both(found, value), ())
            self.context.forward(record.with_value(made))
            self.wear.after(made, found)


# --- the topologies ----------------------------------------------------------------------------------------------


def supplier(make: Callable[[], Any]) -> Callable[[], Any]:
    """Marked as what the law has in hand."""

    @functools.wraps(make)
    def supplied() -> Any:
        return make()

    return supplied


def steps(wear: Fresh) -> Topology:
    """Streams without a table."""
    f, builder = wear.function, StreamsBuilder()
    own = Serde.of(*CODES[type(wear)], type="n long, items array<string>")
    timed = Consumed(KEY, own).with_timestamp_extractor(f(lambda record: record.timestamp_ms + record.value["n"] % 2))
    s = builder.stream("in", timed).map_values(f(more), returns=VALUE)
    s.filter(f(lambda key, value: value["n"] % 2 == 0)).to("filter")
    s.filter_not(f(lambda key, value: value["n"] % 2 == 0)).to("filter_not")
    s.map(f(lambda key, value: (less(key, value), more(key, value))), returns_key=KEY, returns=VALUE).to("map")
    s.map(f(less), f(more), returns_key=KEY, returns=VALUE).to("map_both")
    builder.stream(re.compile("second"), timed).map_values(f(more), returns=VALUE).to("pattern")
    s.print(Printed.to_file("/dev/null").with_key_value_mapper(f(lambda key, value: str(value))))
    s.map_values(f(lambda value: more(None, value)), returns=VALUE).to("map_values")
    s.select_key(f(less), returns=KEY).to("select_key")
    s.peek(f(lambda key, value: None)).to("peek")
    s.foreach(f(lambda key, value: None))
    several = wear.generator(lambda key, value: [more(key, value), value, more(key, more(key, value))])
    s.flat_map_values(several, returns=VALUE).to("flat_map_values")
    pairs = wear.generator(lambda key, value: [(key, value), (less(key, value), more(key, value))])
    s.flat_map(pairs, returns_key=KEY, returns=VALUE).to("flat_map")
    s.process(supplier(lambda: Forwarding(wear)), returns_key=KEY, returns=VALUE).to("process")
    stores = [KeyValues("own", KEY, VALUE)]
    s.process(supplier(lambda: Forwarding(wear, "own")), stores, returns_key=KEY, returns=VALUE).to("punctuate")
    s.process_values(supplier(lambda: ForwardingValues(wear)), returns=VALUE).to("process_values")
    s.to(f(lambda key, value: f"by-{value['n'] % 2}"), topics=["by-0", "by-1"])
    s.to(f(lambda key, value: f"named-{value['n'] % 2}"), name="named_by_data")
    s.to("partitioned", partitioner=f(lambda topic, key, value, n: [0]), partitions=1)
    by_option = Produced.as_("by-option").with_stream_partitioner(f(lambda topic, key, value, n: [0]))
    s.to("partitioned_by_option", by_option, partitions=1)
    by_option = Repartitioned.as_("again").with_stream_partitioner(f(lambda topic, key, value, n: [0]))
    s.repartition(by_option.with_number_of_partitions(1)).to("repartitioned_by_option")
    s.repartition(name="there", partitioner=f(lambda topic, key, value, n: [0]), partitions=1).to("repartitioned")
    identity = f(lambda key, value: {"n": value["n"], "items": []})
    s.deduplicate(identity, "5ms", returns=VALUE).to("deduplicate")
    s.deduplicate_by_key_value(identity, "5ms", returns=VALUE).to("deduplicate_by_key_value")
    branches = s.split(name="part-").branch(f(lambda key, value: value["n"] > 3), name="large").no_default_branch()
    branches["part-large"].to("branch")
    return builder.build()


def aggregates(wear: Fresh) -> Topology:
    """Grouped streams."""
    f, builder = wear.function, StreamsBuilder()
    s = builder.stream("in", READ)
    grouped = s.group_by_key()
    plain = {"initializer": f(nothing), "aggregator": f(added_with_key), "returns": VALUE}
    merger = f(lambda key, one, other: added(key, other, one))
    grouped.aggregate(**plain).to("aggregate")
    grouped.reduce(f(both)).to("reduce")
    s.group_by(f(less), returns=KEY).aggregate(**plain).to("group_by")
    hopping = TimeWindows.of_size(20, grace=100).advance_by(5)
    grouped.windowed_by(hopping).aggregate(**plain).to("hopping")
    grouped.windowed_by(hopping).reduce(f(both)).to("hopping_reduce")
    grouped.windowed_by(SlidingWindows.of_time_difference_and_grace(10, 100)).aggregate(**plain).to("sliding")
    sessions = SessionWindows.with_inactivity_gap(4, grace=100)
    grouped.windowed_by(sessions).aggregate(**plain, merger=merger).to("sessions")
    grouped.windowed_by(sessions).reduce(f(both)).to("session_reduce")
    grouped.aggregate(**plain, materialized=Materialized.versioned("versions", 1000)).to("versioned")
    identity = f(lambda key, value: {"n": value["n"], "items": []})
    grouped.windowed_by(TimeWindows.of_size(20)).distinct(identity, returns=VALUE).to("distinct")
    other = builder.stream("other", READ).group_by_key()
    cogrouped = grouped.cogroup(f(added_with_key)).cogroup(other, f(added_with_key))
    cogrouped.aggregate(f(nothing), returns=VALUE).to("cogroup")
    cogrouped.windowed_by(sessions).aggregate(f(nothing), merger, returns=VALUE).to("cogroup_sessions")
    return builder.build()


def tables(wear: Fresh) -> Topology:
    """Tables and joins."""
    f, builder = wear.function, StreamsBuilder()
    s, t, other = builder.stream("in", READ), builder.table("tab", READ), builder.table("other", READ)
    second, everywhere = builder.stream("second", READ), builder.global_table("everywhere", READ)
    t.filter(f(lambda key, value: value["n"] % 2 == 0)).to("filter")
    t.filter_not(f(lambda key, value: value["n"] % 2 == 0)).to("filter_not")
    t.map_values(f(more), returns=VALUE).to("map_values")
    t.transform_values(supplier(lambda: Transforming(wear)), returns=VALUE, materialized=Materialized.as_("made")).to(
        "transformed"
    )
    unstored = t.transform_values(supplier(lambda: Transforming(wear)), returns=VALUE)
    s.join(unstored, f(both), returns=VALUE).to("looked_up")
    t.to_stream(f(less), returns=KEY).to("to_stream")

    def keyed_add(key: Any, value: Any, total: Any) -> Any:
        return {**added(key, value, total), "n": total["n"] + len(key["id"])}

    grouped = t.group_by(f(less), f(more), returns_key=KEY, returns=VALUE)
    of_table = {"initializer": f(nothing), "adder": f(keyed_add), "subtractor": f(removed), "returns": VALUE}
    grouped.aggregate(**of_table).to("aggregate")
    grouped.aggregate(**of_table, materialized=Materialized.versioned("versioned", 1000)).to("versioned")
    grouped.reduce(f(both), f(lambda total, value: removed(None, value, total))).to("reduce")
    unstored.group_by(f(less), f(more), returns_key=KEY, returns=VALUE).aggregate(**of_table).to("aggregate_made")
    above = grouped.aggregate(**of_table)
    above.map_values(f(more), returns=VALUE).to("aggregate_mapped")
    above.group_by(f(less), f(more), returns_key=KEY, returns=VALUE).aggregate(**of_table).to("aggregate_again")
    for kind in ("join", "left_join", "outer_join"):
        getattr(t, kind)(other, f(both), returns=VALUE).to(f"table_{kind}")
        windows = JoinWindows.of_time_difference_and_grace(20, 100)
        getattr(s, kind)(second, f(both), windows, returns=VALUE).to(f"stream_{kind}")
    s.left_join(t, f(lambda key, left, right: more(key, both(left, right))), returns=VALUE).to("stream_table")
    s.join(everywhere, f(both), selector=f(lambda key, value: key), selector_returns=KEY, returns=VALUE).to("global")
    s.left_join(everywhere, f(both), selector=f(less), selector_returns=KEY, returns=VALUE).to("global_left")
    there = f(lambda topic, key, value, n: [0])
    joined = TableJoined.with_(there, there).with_partitioner(there).with_other_partitioner(there)
    foreign = f(lambda value: {"id": value["items"][0], "parts": []})
    keyed = {"foreign_key": foreign, "foreign_key_returns": KEY, "returns": VALUE}
    t.join(other, f(both), joined, **keyed).to("foreign")
    t.left_join(other, f(both), **keyed, partitioner=there, other_partitioner=there).to("foreign_left")
    t.join(other, f(both), **keyed, partitioner=there, other_partitioner=there).to("foreign_again")
    return builder.build()


def shared(wear: Fresh) -> Topology:
    """Processors that share stores, so that the task runs record by record, and a global store."""
    f, builder = wear.function, StreamsBuilder()
    s = builder.stream("in", READ)
    builder.table("tab", READ, materialized=Materialized.as_("tab-store"))
    builder.add_global_store(KeyValues("kept", KEY, VALUE), "everywhere", READ, supplier(lambda: Keeping(wear, "kept")))
    builder.add_state_store(KeyValues("sums", KEY, VALUE))
    made = s.process(supplier(lambda: Forwarding(wear, "sums")), ["sums"], returns_key=KEY, returns=VALUE)
    made.to("forwarded")
    made.map_values(f(more), returns=VALUE).to("below")
    for store in ("sums", "tab-store", "kept"):
        looking = s.process(supplier(lambda store=store: Looking(wear, store)), [store], returns_key=KEY, returns=VALUE)
        looking.to(f"looked_{store}")
    return builder.build()


def processors(wear: Fresh) -> Topology:
    """The same of a topology that is put together by hand."""
    kept, topology = KeyValues("kept", KEY, VALUE), Topology()
    topology.add_global_store(kept, "all", READ, "everywhere", "keep", supplier(lambda: Keeping(wear, "kept")))
    topology.add_source("source", READ, "in")
    topology.add_processor("forward", supplier(lambda: Forwarding(wear, "own")), "source")
    topology.add_state_store(KeyValues("own", KEY, VALUE), "forward")
    topology.add_processor("look", supplier(lambda: Looking(wear, "kept")), "forward")
    topology.connect_processor_and_state_stores("look", "kept")
    topology.add_sink("sink", "out", "look", partitioner=wear.function(lambda topic, key, value, n: [0]), partitions=1)
    return topology


# --- a serde of the user's ----------------------------------------------------------------------------------------

_DECODED: dict[str, Any] = {}


def _encode(value: Any) -> bytes:
    written = json.dumps(value).encode()
    value.clear()
    return written


def _decode(data: bytes) -> Any:
    return json.loads(data)


def _decode_again(data: bytes) -> Any:
    _DECODED.clear()
    _DECODED.update(json.loads(data))
    return _DECODED


CODES = {Fresh: (_encode, _decode), Reused: (_encode, _decode_again)}

TOPOLOGIES = {"steps": steps, "aggregates": aggregates, "tables": tables, "shared": shared, "processors": processors}


def landed(topic: str) -> list[LandedRecord]:
    """Six records of three keys; of a table one is a deletion."""
    found = []
    for number in range(6):
        key = json.dumps({"id": "abc"[number * 2 % 3], "parts": ["p"]}).encode()
        value: bytes | None = json.dumps({"n": number, "items": ["abc"[number % 3], topic]}).encode()
        if topic in ("tab", "other") and number == 4:
            value = None
        found.append(LandedRecord(0, key, value, 100 + 3 * number - (4 if number == 3 else 0)))
    return found
