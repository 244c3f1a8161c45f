"""One aggregate of several streams: whose aggregator takes a record, whose stream time closes a window (KIP-150)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.graph.windows import Windows
from kstreams_replay.jobs.operators.aggregates.aggregate_nodes import CogroupNode
from kstreams_replay.jobs.operators.aggregates.cogroup import Cogroup, build
from kstreams_replay.jobs.operators.base.operator import OperatorContext
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import (
    Consumed,
    KGroupedStream,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
)
from kstreams_replay.state.records.batches import Batch
from kstreams_replay.state.records.keys import Keys
from tests.operators.aggregates.window_models import HoppingModel, Model, Record, Result, SessionModel, SlidingModel
from tests.operators.aggregates.window_runs import batch_of, results_of, tapes
from tests.operators.cut_tapes import Increments
from tests.sampling import examples

STRING, LONG = Serde.string(), Serde.long()


def texts(windows=None) -> Topology:
    """Numbers of topic ``plus`` and words of topic ``words``, put together as one text, in windows or none."""
    builder = StreamsBuilder()
    plus: KGroupedStream = builder.stream("plus", Consumed(STRING, LONG)).group_by_key()
    words = builder.stream("words", Consumed(STRING, STRING)).group_by_key()
    both = plus.cogroup(lambda key, value, text: f"{text}+{value}")
    both = both.cogroup(words, lambda key, value, text: None if value == "stop" else text + value)
    both = both if windows is None else both.windowed_by(windows)
    merger = (lambda key, one, other: one + other) if isinstance(windows, SessionWindows) else None
    both.aggregate(str, merger=merger, returns=STRING).to("out")
    return builder.build()


def played(windows, *records, chunk_records: int = 1_000) -> TopologyTestDriver:
    driver = TopologyTestDriver(texts(windows), chunk_records=chunk_records)
    for topic, value, time_ms in records:
        driver.pipe_input(topic, "a", value, time_ms)
    driver.run()
    return driver


def results(driver: TopologyTestDriver) -> list[tuple]:
    return [(r.arrival, r.window, r.value, r.timestamp_ms) for r in driver.read_outputs("out")]


@pytest.mark.parametrize("chunk_records", [1, 2, 1_000])
def test_each_record_goes_to_the_aggregator_of_its_stream_in_the_order_of_the_tape(chunk_records):
    records = (
        ("plus", 1, 1),
        ("words", "x", 5),
        ("plus", 2, 3),
        ("words", "stop", 6),
        ("words", "y", 4),
        ("plus", None, 9),
    )

    driver = played(None, *records, chunk_records=chunk_records)

    assert results(driver) == [
        (0, None, "+1", 1),
        (1, None, "+1x", 5),
        (2, None, "+1x+2", 5),
        (3, None, None, 6),
        (4, None, "y", 4),  # begins anew
    ]
    assert [(drop.arrival, drop.reason) for drop in driver.dropped] == [(5, "null-value")]


def test_every_stream_has_a_stream_time_of_its_own():
    """
    Kafka runs one processor a stream: numbers at 30 do not make words at 5 late, words at 12 do.
    """
    records = ("plus", 1, 30), ("words", "x", 5), ("words", "y", 12), ("words", "z", 6), ("plus", 2, 5)

    driver = played(TimeWindows.of_size(10), *records)

    assert results(driver) == [
        (0, (30, 40), "+1", 30),
        (1, (0, 10), "x", 5),
        (2, (10, 20), "y", 12),
    ]
    assert [(drop.arrival, drop.reason, drop.limit_ms) for drop in driver.dropped] == [
        (3, "expired-window", 12),
        (4, "expired-window", 30),
    ]


def test_sessions_of_several_streams_merge():
    records = ("plus", 1, 0), ("words", "x", 10), ("plus", 2, 5)

    assert results(played(SessionWindows.with_inactivity_gap(5, grace=50), *records)) == [
        (0, (0, 0), "+1", 0),
        (1, (10, 10), "x", 10),
        (2, (0, 0), None, 0),
        (2, (10, 10), None, 10),
        (2, (0, 10), "+1x+2", 10),
    ]


def test_sliding_windows_take_records_of_all_streams():
    records = ("plus", 1, 15), ("words", "x", 20)

    assert results(played(SlidingWindows.of_time_difference(10), *records)) == [
        (0, (5, 15), "+1", 15),
        (1, (16, 26), "x", 20),
        (1, (10, 20), "+1x", 20),
    ]


def shared(windows, retention_ms: int = 0, *, is_persistent: bool = True) -> Cogroup:
    """The operator of two streams of numbers, all of which go into a text; a 9 of the second deletes it."""
    node = CogroupNode(
        name="all",
        inputs=("first", "second"),
        shape=Shape(STRING, STRING),
        store="all",
        initializer=str,
        aggregators=(
            lambda key, value, text: f"{text}{value},",
            lambda key, value, text: None if value == 9 else f"{text}{value},",
        ),
        merger=lambda key, one, other: one + other,
        windows=windows,
        retention_ms=retention_ms,
        is_persistent=is_persistent,
    )
    shape = Shape(STRING, LONG)
    return build(node, OperatorContext("all", shape, Keys(STRING), shapes=(shape, shape)))


Ran = tuple[list[Batch], list[int], list[dict], dict]


def run(start, tape: list[Record], streams: list[int], cuts: list[int]) -> Ran:
    """Forwarded batches, steps of refusals, rows and counters when the operator is saved and made again at every
    cut.
    """
    increments, forwarded, drops = Increments(start), [], []
    for operator, begin, end in increments.chunks(len(tape), cuts=cuts):
        batch, chunk = batch_of(tape[begin:end], operator.context.keys)
        which = np.array(streams[begin:end], np.int64)
        out = operator.process_all(tuple(batch.take(np.flatnonzero(which == n)) for n in (0, 1)), chunk)
        forwarded.append(replace(out, cause=out.cause + begin))
        drops += sorted(int(step) + begin for _, cause, _ in chunk.drops for step in cause)
    operator = increments.running
    return forwarded, drops, sorted(operator.rows().to_pylist(), key=repr), operator.counters()


def forwarded_by(ran: Ran) -> list[Result]:
    return [result for batch in ran[0] for result in results_of(batch, 0)]


@settings(max_examples=examples(200), deadline=None)
@given(
    tape=tapes(),
    kind=st.sampled_from(["hopping", "sliding", "session"]),
    length=st.integers(1, 12),
    grace=st.integers(0, 12),
    longer=st.sampled_from([0, 1, 60]),
    is_persistent=st.booleans(),
    lead=st.sampled_from([0, 15, 100, 130_000]),
    dice=st.randoms(use_true_random=False),
)
def test_streams_that_share_a_store_do_as_models_that_share_one(
    tape, kind, length, grace, longer, is_persistent, lead, dice
):
    """
    One stream lags behind the other: its windows are open by its own time, and past the retention of the store.
    """
    tape = [record for record in tape if record[1] != 9]
    streams = [dice.randrange(2) for _ in tape]
    tape = [(key, value, time + lead * stream) for (key, value, time), stream in zip(tape, streams, strict=True)]
    windows, models = _configured(kind, length, grace, longer, is_persistent)

    got = run(lambda: shared(windows, windows.retention_ms + longer, is_persistent=is_persistent), tape, streams, [])

    want = [result for step, one in enumerate(tape) for result in models[streams[step]].process(step, one)]
    assert forwarded_by(got) == want
    assert got[1] == sorted(models[0].drops + models[1].drops)


def _configured(kind: str, length: int, grace: int, longer: int, is_persistent: bool) -> tuple[Windows, list[Model]]:
    advance = max(1, length // 2)
    windows, model, own = {
        "hopping": (TimeWindows(length, advance, grace), HoppingModel, {"size": length, "advance": advance}),
        "sliding": (SlidingWindows(length, grace), SlidingModel, {"difference": length}),
        "session": (SessionWindows(length, grace), SessionModel, {"gap": length}),
    }[kind]
    models = [model(grace, windows.retention_ms + longer, is_persistent, False, **own) for _ in range(2)]
    models[1].store = models[0].store
    return windows, models


@pytest.mark.sampled(share=4)
@pytest.mark.parametrize(
    "windows", [None, TimeWindows(12, 5, 3), SlidingWindows(7, 4), SessionWindows(4, 6)], ids=lambda w: type(w).__name__
)
def test_where_the_tape_is_cut_and_resumed_changes_nothing(windows):
    dice = np.random.default_rng(7)
    streams = dice.integers(0, 2, 60).tolist()
    tape = [("ab"[n % 2], int(dice.integers(0, 10)), max(0, 2 * n + int(dice.integers(-25, 5)))) for n in range(60)]

    def said(cuts: list[int]) -> tuple:
        ran = run(lambda: shared(windows, 0 if windows is None else windows.retention_ms + 5), tape, streams, cuts)
        rows = [
            (int(step), key, value, time)
            for batch in ran[0]
            for step, key, value, time in zip(
                batch.cause,
                batch.keys.typed(batch.key).to_pylist(),
                batch.value.all().to_pylist(),
                batch.time_ms,
                strict=True,
            )
        ]
        return rows, *ran[1:]

    whole = said([])

    assert len(whole[0]) > 30
    for cuts in ([1], [30], [20, 21, 40], list(range(1, 60))):
        assert said(cuts) == whole
