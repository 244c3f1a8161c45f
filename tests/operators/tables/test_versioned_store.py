"""Versioned stores: what a put answers, what a lookup finds, what is kept (KIP-889, KIP-914)."""

import random

import numpy as np
import pyarrow as pa
import pytest

from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.operators.tables import versioned_store_kernel
from kstreams_replay.jobs.operators.tables.versioned_store import VersionedTableStore, VersionedView
from kstreams_replay.jobs.testing.store_view import VersionedStoreView
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, Materialized, StreamsBuilder
from kstreams_replay.state.buffers import is_valid
from kstreams_replay.state.records.batches import Batch, Chunk, Values
from kstreams_replay.state.records.keys import Keys
from kstreams_replay.state.serdes import Serde
from kstreams_replay.state.stores.versions import LATEST, Versions
from tests.operators.cut_tapes import chunk_of
from tests.operators.tables.versioned_model import VersionedModel

STRING = Serde.string()
SHAPE = Shape(STRING, STRING)
NAMES = ("a", "b", "ab")

Put = tuple[str, str | None, int]
"""Key, value, time."""


def batch_of(keys: Keys, puts: list[Put], first: int = 0, step: int = 1) -> Batch:
    """Puts as changes whose causes are rows ``first``, ``first + step``, ... of a chunk."""
    key, value, time_ms = zip(*puts, strict=True) if puts else ((), (), ())
    values = pa.array(value, pa.string())
    return Batch(
        cause=(first + step * np.arange(len(puts))).astype(np.int32),
        key=keys.intern(STRING.encode(pa.array(key, pa.string()))),
        keys=keys,
        time_ms=np.array(time_ms, np.int64),
        valid=is_valid(values),
        value=Values(values),
    )


def store_of(retention_ms: int, puts: list[Put]) -> tuple[VersionedTableStore, Batch, Chunk]:
    """A store after ``puts`` in one chunk, and what it forwarded."""
    store = VersionedTableStore(SHAPE, Keys(STRING), node="t", history_retention_ms=retention_ms, sends_old=True)
    chunk = chunk_of(len(puts))
    return store, store.put(batch_of(store.keys, puts), chunk), chunk


def saved(store: VersionedTableStore) -> list[tuple]:
    """Durable rows: (key, from, to, value, is mark)."""
    return sorted((tuple(row.values()) for row in store.rows().to_pylist()), key=repr)


def resumed(store: VersionedTableStore) -> VersionedTableStore:
    again = VersionedTableStore(
        SHAPE, Keys(STRING), node="t", history_retention_ms=store.versions.retention_ms, sends_old=True
    )
    again.resume(store.rows(), store.counters())
    return again


@pytest.mark.parametrize(
    ("time_ms", "is_put"),
    [(89, False), (90, True), (91, True)],  # 100 - 10 = 90 is just in time
)
def test_a_put_older_than_the_history_retention_is_refused_with_the_numbers(time_ms, is_put):
    store, forwarded, chunk = store_of(10, [("a", "new", 100), ("b", "old", time_ms)])

    assert forwarded.value.all().to_pylist() == (["new", "old"] if is_put else ["new"])
    assert store.get("b") == ((time_ms, "old") if is_put else None)
    found = [(drops.reason, drops.row[0], drops.stream_time_ms[0], drops.limit_ms[0]) for _, _, drops in chunk.drops]
    assert found == ([] if is_put else [("expired-version", 1, 100, 90)])


def test_tombstones_advance_the_stores_stream_time_and_refused_puts_do_not():
    store, forwarded, _ = store_of(10, [("a", None, 100), ("b", "x", 50), ("b", "y", 90)])

    assert forwarded.value.all().to_pylist() == [None, "y"]
    assert store.counters() == {"store_time_ms": 100}


def test_a_change_says_what_the_latest_was_whatever_its_own_time_and_whether_it_is_the_latest_now():
    _, forwarded, _ = store_of(
        100,
        [
            ("a", "v1", 10),
            ("a", "v3", 30),
            ("a", "v2", 20),  # out of order: the latest is v3, before and after
            ("a", "V3", 30),  # of equal times the later put replaces the earlier
            ("a", None, 40),
            ("a", None, 50),  # a deletion of nothing is the latest too
            ("a", "v4", 35),
        ],
    )

    assert forwarded.old is not None
    assert forwarded.latest is not None
    assert forwarded.old.all().to_pylist() == [None, "v1", "v3", "v3", "V3", None, None]
    assert forwarded.latest.tolist() == [True, True, False, True, True, True, False]


@pytest.mark.parametrize(
    ("as_of_ms", "found"),
    [
        (9, None),
        (10, (10, "v1")),  # from is inclusive
        (19, (10, "v1")),
        (20, None),  # to is exclusive; deleted at 20
        (29, None),
        (30, (30, "v2")),
        (39, (30, "v2")),
        (40, (40, "v3")),
        (1000, (40, "v3")),
        (None, (40, "v3")),
    ],
)
def test_a_lookup_finds_the_version_that_was_valid_then(as_of_ms, found):
    store, _, _ = store_of(100, [("a", "v1", 10), ("a", "v3", 40), ("a", None, 20), ("a", "v2", 30)])

    assert store.get("a", as_of_ms) == found
    assert resumed(store).get("a", as_of_ms) == found


@pytest.mark.parametrize(
    ("as_of_ms", "found"),
    [(49, None), (50, (40, "v1")), (99, (40, "v1")), (100, (100, "v2")), (None, (100, "v2"))],
)
def test_history_is_answered_as_far_back_as_its_retention(as_of_ms, found):
    store, _, _ = store_of(50, [("a", "v1", 40), ("a", "v2", 100)])

    assert store.get("a", as_of_ms) == found


def test_a_latest_version_never_expires():
    store, _, _ = store_of(50, [("a", "v1", 40), ("b", "x", 1000)])

    assert store.get("a", 40) == (40, "v1")
    assert store.get("a", 39) is None
    assert saved(store) == [("a", 40, None, "v1", False), ("b", 1000, None, "x", False)]


def test_a_deletion_at_the_very_time_of_the_latest_is_forgotten_unless_history_ends_there():
    store, forwarded, _ = store_of(
        100,
        [
            ("k", "a", 10),
            ("k", None, 10),
            ("k", "b", 5),  # taken for the latest
            ("w", "c", 3),
            ("w", "a", 10),
            ("w", None, 10),
            ("w", "b", 5),  # out of order: w was deleted at 10
        ],
    )

    assert forwarded.latest is not None
    assert forwarded.latest.tolist() == [True, True, True, True, True, True, False]
    assert store.get("k") == (5, "b")
    assert store.get("w") is None


def test_a_deletion_of_nothing_leaves_a_mark_at_which_a_late_version_ends():
    store, _, _ = store_of(100, [("k", None, 10)])
    assert saved(store) == [("k", 10, 10, None, True)]

    again = resumed(store)
    forwarded = again.put(batch_of(again.keys, [("k", "b", 5)]), chunk_of(1))

    assert forwarded.latest is not None
    assert forwarded.latest.tolist() == [False]
    assert saved(again) == [("k", 5, 10, "b", False)]


def test_what_the_history_retention_has_passed_leaves_the_store_with_a_deleted_mark():
    store, _, _ = store_of(10, [("a", f"v{n}", 5 * n) for n in range(10)])
    store = resumed(store)

    store.put(batch_of(store.keys, [("a", "late", 44), ("b", "x", 60)]), chunk_of(2))
    changes = [tuple(row.values()) for row in store.changes().to_pylist()]

    assert saved(store) == [("a", 45, None, "v9", False), ("b", 60, None, "x", False)]
    assert sorted((key, start, deleted) for key, start, _, _, _, deleted in changes) == [
        ("a", 35, True),
        ("a", 40, True),
        ("b", 60, False),
    ]


def test_a_drivers_store_tells_the_versions_of_a_key():
    builder = StreamsBuilder()
    consumed = Consumed(STRING, STRING)
    builder.table("T", consumed, materialized=Materialized.versioned("prices", "50ms")).to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    for key, value, time_ms in [("a", "v1", 40), ("a", "v4", 100), ("a", None, 60), ("a", "v3", 80), ("b", "x", 90)]:
        driver.pipe_input("T", key, value, time_ms)

    store = driver.store("prices")

    assert isinstance(store, VersionedStoreView)
    assert store.all() == [("a", None, "v4"), ("b", None, "x")]
    assert store.versions("a") == [(40, 60, "v1"), (60, 80, None), (80, 100, "v3"), (100, None, "v4")]
    assert [store.get("a", as_of) for as_of in (49, 50, 59, 60, 80, 99, 100, None)] == (
        [None, "v1", "v1", None, "v3", "v3", "v4", "v4"]  # 49 is before 100 - 50
    )
    assert store.get("c") is None


def random_puts(rng: random.Random, count: int) -> list[Put]:
    now, puts = 0, []
    behind = rng.choice([0, 3, 8, 20, 60])
    for number in range(count):
        now += rng.choice([0, 0, 0, 1, 2, 5, 20])
        value = None if rng.random() < 0.4 else f"v{number}"
        puts.append((rng.choice(NAMES), value, max(0, now - rng.randint(0, behind))))
    return puts


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_puts_and_lookups_agree_with_the_model_though_expired_versions_are_gone(seed):
    rng = random.Random(seed)
    retention = rng.choice([0, 1, 3, 10, 30, 100])
    model, keys = VersionedModel(retention), Keys(STRING)
    versions = Versions(keys, STRING, retention)
    for name, value, time_ms in random_puts(rng, 120):
        batch = batch_of(keys, [(name, value, time_ms)])
        assert put_one(versions, batch) == model.put(name, value, time_ms)
        if rng.random() < 0.3:
            versions.expire()
        for asked in NAMES:
            as_of = rng.choice([None, time_ms + rng.randint(-40, 40)])
            wanted = model.get(asked, as_of)
            assert look(versions, keys, asked, as_of) == wanted


def put_one(versions: Versions, batch: Batch) -> int:
    """The answer to a put of the one row of ``batch``."""
    versions.reserve(1)
    rows = batch.key, batch.time_ms, versions.append(batch.value.all(), batch.valid)
    answers, old = np.empty(1, np.int64), np.empty(1, np.int64)
    versioned_store_kernel.put_all(
        rows, False, versions.retention_ms, versions.columns(), versioned_store_kernel.NO_JOURNAL, answers, old
    )
    return int(answers[0])


def look(versions: Versions, keys: Keys, name: str, as_of: int | None) -> tuple[int, str] | None:
    code = keys.lookup(name.encode())
    slot = versioned_store_kernel.lookup(
        code, LATEST if as_of is None else as_of, versions.retention_ms, versions.columns()
    )
    if slot < 0:
        return None
    return int(versions.slots.start[slot]), versions.heap.take(versions.slots.reference[slot : slot + 1])[0].as_py()


@pytest.mark.parametrize("seed", range(15))
def test_a_view_answers_every_row_as_of_its_place_however_often_it_is_asked(seed):
    """Puts are caused by even rows of a chunk, questions by odd ones."""
    rng = random.Random(seed)
    retention = rng.choice([0, 5, 30])
    model, store = VersionedModel(retention), store_of(retention, [])[0]
    view = VersionedView("t", SHAPE, store.keys, history_retention_ms=retention)
    for _ in range(6):
        puts = random_puts(rng, 25)
        accepted = store.put(batch_of(store.keys, puts, step=2), chunk_of(50))
        asked = [(rng.choice(NAMES), "", rng.randint(0, 150)) for _ in puts]
        wanted = []
        for put, question in zip(puts, asked, strict=True):
            model.put(*put)
            wanted.append((model.get(question[0], question[2]), model.get(question[0])))
        view.feed({("t", view.PUT): accepted})
        asking = batch_of(store.keys, asked, first=1, step=2)
        for _ in range(2):
            as_of, latest = view.get(asking, asking.key, asking.time_ms), view.get(asking, asking.key)
            got = [pairs(as_of), pairs(latest)]
            assert list(zip(*got, strict=True)) == wanted
        view.settle()
        if rng.random() < 0.5:
            view = VersionedView("t", SHAPE, store.keys, history_retention_ms=retention)
            view.resume({"t": store.contents()})


def test_a_view_puts_once_into_its_owners_store_however_often_it_is_asked():
    """
    The put of 10 is accepted; put again after 1000, it would be older than the retention of 100 allows.
    """
    store, chunk = store_of(100, [])[0], chunk_of(4)
    view = VersionedView("t", SHAPE, store.keys, history_retention_ms=100)
    view.put_into(store)
    left = store.leave_to_view(batch_of(store.keys, [("a", "old", 10), ("a", "new", 1000)], step=2), chunk)
    view.feed({("t", view.PUT): left})
    asking = batch_of(store.keys, [("a", "", 1000), ("a", "", 1000)], first=1, step=2)

    first, again = (pairs(view.get(asking, asking.key, asking.time_ms)) for _ in range(2))
    view.settle()

    assert first == [(10, "old"), (1000, "new")]
    assert again == [(1000, "new"), (1000, "new")]  # what is there after all puts
    assert (chunk.drops, chunk.applied.tolist()) == ([], [True, False, True, False])


def pairs(found) -> list[tuple[int, str] | None]:
    rows = zip(found.valid, found.time_ms, found.value.to_pylist(), strict=True)
    return [(int(time_ms), value) if valid else None for valid, time_ms, value in rows]
