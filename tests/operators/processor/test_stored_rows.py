"""Stores of processors over stored rows: what they find, in what order, and that a cut changes nothing.

Each random list of calls goes to a store that is never cut, to one that continues from its own rows at random places,
and of key-value stores to a dict. All three answer the same.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.functions.expressions import Windowed
from kstreams_replay.jobs.functions.processor_api import KeyValues, ValueAndTimestamp
from kstreams_replay.jobs.functions.state_stores import Stores
from kstreams_replay.jobs.operators.processor.opened_stores import stores_of
from kstreams_replay.jobs.topology import Serde
from tests.operators.processor.stored import stored_rows
from tests.sampling import examples
from tests.state.serdes.clicks import unhurried

STRING, LONG = Serde.string(), Serde.long()
KEYS = ["", "a", "aa", "a\0", "a\0\0\0\0\0\0\0\0\0\0\0\0\0", "b", "ä", "z" * 40]
VALUE = Serde.json("n long, tags array<string>")

Call = tuple[str, tuple[Any, ...]]
Calls = Callable[[Random], Call]


def value_of(random: Random) -> dict[str, Any] | None:
    return None if random.random() < 0.3 else {"n": random.randint(0, 9), "tags": ["t"] * random.randint(0, 2)}


def key_values(random: Random) -> Call:
    key, last = random.choice(KEYS), random.choice([None, *KEYS])
    return random.choice(
        [
            ("put", (key, value_of(random))), ("put", (key, value_of(random))), ("get", (key,)), ("delete", (key,)),
            ("put_if_absent", (key, value_of(random))), ("range", (key, last)), ("reverse_range", (last, key)),
            ("all", ()), ("__len__", ()),
        ]
    )  # fmt: skip


def windows(random: Random) -> Call:
    key, last, time, later = random.choice(KEYS), random.choice(KEYS), random.randint(0, 400), random.randint(-5, 450)
    return random.choice(
        [
            ("put", (key, value_of(random), time)), ("put", (key, value_of(random), time)), ("fetch", (key, time)),
            ("fetch_range", (key, later, time)), ("backward_fetch_range", (key, later - 300, time)), ("all", ()),
            ("fetch_keys", (key, last, later - 200, later)), ("fetch_all", (time, later)), ("backward_all", ()),
        ]
    )  # fmt: skip


def sessions(random: Random) -> Call:
    key, last, start, size = random.choice(KEYS), random.choice(KEYS), random.randint(0, 400), random.randint(0, 60)
    session = Windowed(key, start, start + size)
    return random.choice(
        [
            ("put", (session, value_of(random))), ("put", (session, value_of(random))), ("remove", (session,)),
            ("fetch_session", (key, start, start + size)), ("fetch", (key,)), ("backward_fetch", (key, last)),
            ("find_sessions", (key, start - 50, start)), ("find_sessions", (key, last, start, start + size)),
        ]
    )  # fmt: skip


def versions(random: Random) -> Call:
    key, time = random.choice(KEYS), random.randint(0, 400)
    return random.choice(
        [
            ("put", (key, value_of(random), time)), ("put", (key, value_of(random), time)), ("get", (key,)),
            ("get", (key, time)), ("delete", (key, time)),
        ]
    )  # fmt: skip


def window_store(supplier: Any) -> Any:
    return Stores.window_store_builder(supplier, STRING, VALUE)


KINDS: dict[str, tuple[Any, Calls]] = {
    "keys": (KeyValues("s", STRING, VALUE), key_values),
    "windows in memory": (window_store(Stores.in_memory_window_store("s", 200, 10)), windows),
    "windows on disk": (window_store(Stores.persistent_window_store("s", 200, 10)), windows),
    "twice in memory": (window_store(Stores.in_memory_window_store("s", 200, 10, retain_duplicates=True)), windows),
    "twice on disk": (window_store(Stores.persistent_window_store("s", 200, 10, retain_duplicates=True)), windows),
    "sessions in memory": (
        Stores.session_store_builder(Stores.in_memory_session_store("s", 200), STRING, VALUE),
        sessions,
    ),
    "sessions on disk": (
        Stores.session_store_builder(Stores.persistent_session_store("s", 200), STRING, VALUE),
        sessions,
    ),
    "versions": (
        Stores.versioned_key_value_store_builder(Stores.persistent_versioned_key_value_store("s", 150), STRING, VALUE),
        versions,
    ),
}


def opened(spec: Any) -> Any:
    (store,) = stores_of([spec], "here").values()
    return store


def answer(store: Any, call: Call) -> Any:
    name, arguments = call
    found = getattr(store, name)(*arguments)
    return list(found) if hasattr(found, "__next__") else found


def shown(store: Any) -> list[dict[str, Any]]:
    """What a driver would show; the order of a versioned store's rows is not promised."""
    return sorted(store.contents().rows.to_pylist(), key=repr)


class Increments:
    """A store and the rows that its increments left, the oldest first."""

    def __init__(self, spec: Any) -> None:
        self.spec, self.store, self.runs = spec, opened(spec), []

    def cut(self, expected: pa.BinaryArray) -> None:
        """The next increment; the rows ``expected`` are looked up at once."""
        changes = [*self.store.alive(only_changed=True), *((name, None) for name in self.store.gone())]
        self.runs.append(changes)
        counters, self.store = self.store.counters(), opened(self.spec)
        self.store.load(stored_rows("s", *self.runs), counters)
        if hasattr(self.store, "expect"):
            self.store.expect(expected)


@pytest.mark.parametrize("kind", KINDS)
@settings(unhurried, max_examples=examples(120))
@given(seed=st.integers(0, 10**9))
def test_where_a_store_is_cut_changes_none_of_its_answers(kind, seed):
    spec, calls = KINDS[kind]
    random = Random(seed)
    whole, parts = opened(spec), Increments(spec)

    for _ in range(40):
        if random.random() < 0.15:
            parts.cut(pa.array([key.encode() for key in KEYS if random.random() < 0.5], pa.binary()))
        call = calls(random)
        assert answer(parts.store, call) == answer(whole, call), call
    assert sorted(parts.store.alive(only_changed=False)) == sorted(whole.alive(only_changed=False))
    assert shown(parts.store) == shown(whole)


@settings(unhurried, max_examples=examples(200))
@given(seed=st.integers(0, 10**9))
def test_a_key_value_store_is_a_dict_in_the_order_of_its_bytes(seed):
    random, parts, model = Random(seed), Increments(KINDS["keys"][0]), {}

    for _ in range(40):
        if random.random() < 0.15:
            parts.cut(pa.array([], pa.binary()))
        key, value = random.choice(KEYS), value_of(random)
        parts.store.put(key, value)
        model[key] = value
        there = sorted((one.encode(), found) for one, found in model.items() if found is not None)
        low, high = sorted(random.choice(KEYS).encode() for _ in range(2))
        between = [(name.decode(), found) for name, found in there if low <= name <= high]
        assert parts.store.get(random_key := random.choice(KEYS)) == model.get(random_key)
        if random.random() < 0.3:
            assert list(parts.store.range(low.decode(), high.decode())) == between
            assert list(parts.store.reverse_range(low.decode(), high.decode())) == between[::-1]
            assert len(parts.store) == len(there)


TIMED = Stores.timestamped_key_value_store_builder(Stores.in_memory_key_value_store("s"), STRING, VALUE)
SESSION = Windowed("a", 1, 5)

Put = Callable[[Any, dict[str, Any]], None]
Look = Callable[[Any], dict[str, Any]]
HELD: dict[str, tuple[Any, Put, tuple[Look, ...]]] = {
    "keys": (
        KINDS["keys"][0],
        lambda store, value: store.put("a", value),
        (lambda store: store.get("a"), lambda store: next(store.all())[1]),
    ),
    "times": (
        TIMED,
        lambda store, value: store.put("a", ValueAndTimestamp(value, 5)),
        (lambda store: store.get("a").value, lambda store: next(store.all())[1].value),
    ),
    **{
        kind: (
            KINDS[kind][0],
            lambda store, value: store.put("a", value, 5),
            (lambda store: store.fetch("a", 5), lambda store: next(store.all())[1]),
        )
        for kind in ("windows in memory", "windows on disk")
    },
    **{
        kind: (
            KINDS[kind][0],
            lambda store, value: store.put(SESSION, value),
            (lambda store: store.fetch_session("a", 1, 5), lambda store: next(store.fetch("a"))[1]),
        )
        for kind in ("sessions in memory", "sessions on disk")
    },
    "versions": (
        KINDS["versions"][0],
        lambda store, value: store.put("a", value, 5),
        (lambda store: store.get("a").value, lambda store: store.get("a", 7).value),
    ),
}
"""A store of each kind, how a value is put into it, and ways to look at it."""


@pytest.mark.parametrize("kind", HELD)
def test_what_a_caller_changes_in_place_changes_nothing_in_the_store(kind):
    spec, put, looks = HELD[kind]
    parts = Increments(spec)
    given_value = {"n": 1, "tags": ["a"]}
    put(parts.store, given_value)
    given_value["tags"].append("b")
    for look in looks:
        look(parts.store)["tags"].clear()
        look(parts.store)["n"] = 7
    parts.cut(pa.array([], pa.binary()))
    for look in looks:
        look(parts.store)["tags"].clear()

    assert [look(parts.store) for look in looks] == [{"n": 1, "tags": ["a"]}] * 2
    assert parts.store.alive(only_changed=True) == []


def test_a_stored_row_of_another_increment_or_store_is_not_taken_for_it():
    (one,) = stores_of([KeyValues("s", STRING, STRING)], "here").values()
    one.load(stored_rows("s", [(b"a", b"old"), (b"b", b"old")], [(b"a", b"new")], [(b"b", None)]), {})

    assert [one.get(key) for key in "abc"] == ["new", None, None]
    assert list(one.all()) == [("a", "new")]
    one.delete("c")
    one.delete("a")
    assert one.gone() == [b"a"]
