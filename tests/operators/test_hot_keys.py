"""One key with hundreds of open windows, sessions or versions, and records that come anywhere among them: what models
of Kafka's own source say. Long lists are searched in another way than short ones (state/stores/skip_lists.py).
"""

import random

import pytest

from kstreams_replay.jobs.graph.windows import SessionWindows, SlidingWindows
from kstreams_replay.jobs.operators.joins import stream_join_kernel
from kstreams_replay.jobs.operators.tables.versioned_store import VersionedView
from kstreams_replay.state.records.keys import Keys
from kstreams_replay.state.stores.versions import Versions
from tests.operators.aggregates.test_windows_against_models import assert_as_the_model
from tests.operators.aggregates.window_models import Record, SessionModel, SlidingModel
from tests.operators.aggregates.window_runs import WindowRun
from tests.operators.cut_tapes import chunk_of
from tests.operators.joins.stream_join_parts import JoinRun
from tests.operators.joins.test_stream_join_against_model import agrees
from tests.operators.tables.test_versioned_store import SHAPE as TABLE
from tests.operators.tables.test_versioned_store import STRING, batch_of, look, pairs, put_one, store_of
from tests.operators.tables.versioned_model import VersionedModel

LONG = 1_000


def scattered(rng: random.Random, records: int, step: int) -> list[Record]:
    """Mostly of one key, ``step`` ms apart; a quarter falls anywhere before, and one jumps far ahead."""
    tape: list[Record] = []
    for number in range(records):
        time = 100 + step * number
        if rng.random() < 0.25:
            time = rng.randrange(time)
        tape.append(("a" if rng.random() < 0.9 else "b", number % 7, time))
    tape[2] = "a", 1, 100 + step * records
    return tape


@pytest.mark.sampled("emits_final")
@pytest.mark.parametrize("emits_final", [False, True])
@pytest.mark.parametrize(("grace", "cuts"), [(10 * LONG, [300, 800]), (4 * LONG, []), (LONG, [500])])
def test_sessions(grace, cuts, emits_final):
    gap = 3
    for longer in (0, 500):
        run = WindowRun(SessionWindows(gap, grace), gap + grace + longer, False, emits_final)
        model = SessionModel(grace, gap + grace + longer, False, emits_final, gap=gap)
        assert_as_the_model(run, model, scattered(random.Random(grace), LONG, 9), cuts, True)


@pytest.mark.parametrize("emits_final", [False, True])
@pytest.mark.parametrize(("grace", "cuts"), [(10 * LONG, [300, 800]), (LONG, [500])])
def test_sliding_windows(grace, cuts, emits_final):
    difference = 12
    retention = 2 * difference + grace
    run = WindowRun(SlidingWindows(difference, grace), retention, False, emits_final)
    model = SlidingModel(grace, retention, False, emits_final, difference=difference)
    assert_as_the_model(run, model, scattered(random.Random(grace), LONG, 9), cuts, True)


def put_of(rng: random.Random, number: int) -> tuple[str, str | None, int]:
    value = None if rng.random() < 0.2 else f"v{number}"
    return "a", value, 4 * number if rng.random() < 0.5 else rng.randrange(4 * number + 1)


@pytest.mark.slow
@pytest.mark.parametrize("retention", [100_000, 1_500])
def test_versions(retention):
    rng = random.Random(retention)
    model, keys = VersionedModel(retention), Keys(STRING)
    versions = Versions(keys, STRING, retention)
    for number in range(LONG):
        name, value, time_ms = put_of(rng, number)
        batch = batch_of(keys, [(name, value, time_ms)])
        assert put_one(versions, batch) == model.put(name, value, time_ms)
        if number % 200 == 0:
            versions.expire()
        for as_of in (None, time_ms, rng.randrange(4 * LONG)):
            assert look(versions, keys, name, as_of) == model.get(name, as_of)


def test_a_view_that_is_asked_again():
    rng, model, store = random.Random(1), VersionedModel(100_000), store_of(100_000, [])[0]
    view = VersionedView("t", TABLE, store.keys, history_retention_ms=100_000)
    for first in range(0, LONG, 200):
        puts = [put_of(rng, first + number) for number in range(200)]
        accepted = store.put(batch_of(store.keys, puts, step=2), chunk_of(400))
        asked = [("a", "", rng.randrange(4 * LONG)) for _ in puts]
        wanted = []
        for put, question in zip(puts, asked, strict=True):
            model.put(*put)
            wanted.append(model.get("a", question[2]))
        view.feed({("t", view.PUT): accepted})
        asking = batch_of(store.keys, asked, first=1, step=2)
        for _ in range(3):
            assert pairs(view.get(asking, asking.key, asking.time_ms)) == wanted
        view.settle()


@pytest.mark.slow
@pytest.mark.sampled("kind")
@pytest.mark.parametrize(("kind", "grace"), [("inner", 20 * LONG), ("outer", 20 * LONG), ("outer", 4 * LONG)])
@pytest.mark.parametrize("pairs_a_call", [None, 1])
def test_stream_joins(kind, grace, pairs_a_call, monkeypatch):
    """Thousands of records of a key on each side, several of a time, also when a call has room for one pair."""
    if pairs_a_call is not None:
        allocate = stream_join_kernel.allocate
        monkeypatch.setattr(stream_join_kernel, "allocate", lambda pairs, records: allocate(pairs_a_call, records))
    rng = random.Random(grace)
    tape = [
        (rng.choice(["left", "right"]), key, None if key == "b" else step, time // 12 * 12 + 1)
        for step, (key, _, time) in enumerate(scattered(rng, 4 * LONG, 4))
    ]
    agrees(JoinRun(kind, 12, 0, grace), tape, [700, 1_100, 3_500], [3_000])
