"""What a reader sees of a table: windows that are forgotten, suppressed keys, whatever the cuts (KTableValueGetter)."""

import pytest

from kstreams_replay.jobs.topology import (
    Consumed,
    KTable,
    Materialized,
    Processor,
    Record,
    Serde,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from tests.operators.cut_tapes import Output, play_task
from tests.playing import InputRecord

TEXT, LONG = Serde.string(), Serde.long()


def counts(
    builder: StreamsBuilder, topic: str, windows, retention: int | None = None, store: str = "persistent"
) -> KTable:
    grouped = builder.stream(topic, Consumed(TEXT, LONG)).group_by_key().windowed_by(windows)
    return grouped.count(Materialized(f"{topic}-counts", retention=retention, store=store))


def both(left: KTable, right: KTable) -> KTable:
    return left.join(right, lambda one, other: f"{one},{other}", returns=TEXT)


@pytest.mark.parametrize("store", ["persistent", "in_memory"])
@pytest.mark.parametrize(
    ("newest", "is_shown"),
    [
        (19, True),  # newest start 10: 0 > 10 - 11
        (20, False),  # newest start 20: 0 <= 20 - 11
    ],
)
def test_a_reader_does_not_see_a_window_that_its_store_has_forgotten(newest, is_shown, store):
    def build(builder: StreamsBuilder) -> KTable:
        windows = TimeWindows.of_size(10)
        return both(counts(builder, "a", windows, 11, store), counts(builder, "b", windows))

    tape = [InputRecord("a", "k", 1, 5), InputRecord("a", "l", 1, newest), InputRecord("b", "k", 1, 7)]
    want = [Output(2, ("k", 0, 10), "1,1", 7)] if is_shown else []
    for cuts in ((), (1,), (2,), (1, 2)):
        for breaks in ((), (1, 2)):
            assert play_task(build, tape, cuts=cuts, chunks=breaks).outputs == want


@pytest.mark.parametrize(
    ("newest", "is_shown"),
    [
        (24, True),  # 5 > 24 - 20
        (25, False),
    ],
)
def test_sessions_are_forgotten_by_their_end(newest, is_shown):
    def build(builder: StreamsBuilder) -> KTable:
        windows = SessionWindows.with_inactivity_gap(5)
        return both(counts(builder, "a", windows, 20), counts(builder, "b", windows))

    tape = [InputRecord("a", "k", 1, 3), InputRecord("a", "k", 1, 5), InputRecord("a", "l", 1, newest)]
    tape += [InputRecord("b", "k", 1, 3), InputRecord("b", "k", 1, 5)]
    shown = [output for output in play_task(build, tape, cuts=(3,)).outputs if output.value is not None]

    assert shown == ([Output(4, ("k", 3, 5), "2,2", 5)] if is_shown else [])


def test_a_window_that_was_put_again_is_seen_as_it_is_now():
    def build(builder: StreamsBuilder) -> KTable:
        windows = TimeWindows.of_size(10)
        return both(counts(builder, "a", windows), counts(builder, "b", windows))

    tape = [
        InputRecord("a", "k", 1, 1),
        InputRecord("b", "k", 1, 2),
        InputRecord("a", "k", 1, 3),
        InputRecord("b", "k", 1, 4),
    ]
    want = [
        Output(1, ("k", 0, 10), "1,1", 2),
        Output(2, ("k", 0, 10), "2,1", 3),
        Output(3, ("k", 0, 10), "2,2", 4),
    ]
    for cuts in ((), (1,), (2,), (3,), (1, 2, 3)):
        assert play_task(build, tape, cuts=cuts).outputs == want


def test_a_window_that_waits_is_seen_as_before_it_began_to_wait():
    """
    What the first change replaced is the initial value, 0, and has no time. A window that was closed is seen as it is.
    """

    def build(builder: StreamsBuilder) -> KTable:
        windows = TimeWindows.of_size(10)
        final = counts(builder, "a", windows, 100).suppress(Suppressed.until_window_closes())
        return both(counts(builder, "b", windows), final)

    tape = [
        InputRecord("a", "k", 1, 1),
        InputRecord("b", "k", 1, 2),
        InputRecord("a", "k", 1, 3),
        InputRecord("b", "k", 1, 4),
    ]
    tape += [InputRecord("a", "k", 1, 10), InputRecord("b", "k", 1, 6)]
    want = [
        Output(1, ("k", 0, 10), "1,0", 2),
        Output(3, ("k", 0, 10), "2,0", 4),
        Output(4, ("k", 0, 10), "2,2", 4),
        Output(5, ("k", 0, 10), "3,2", 6),
    ]
    for cuts in ((), (1,), (2,), (3,), (4,), (5,), (1, 2, 3, 4, 5)):
        assert play_task(build, tape, cuts=cuts).outputs == want


class Bystander(Processor):
    """Since it may use another node's store, its task runs record by record."""

    def process(self, record: Record) -> None:
        pass


def plays(build, tape):
    """What the tape's task writes, cut nowhere, once and everywhere, in chunks and in increments."""
    every = tuple(range(1, len(tape)))
    for cuts in ((), *((cut,) for cut in every), every):
        yield play_task(build, tape, cuts=cuts).outputs
        yield play_task(build, tape, chunks=cuts).outputs


@pytest.mark.parametrize("is_by_record", [False, True])
def test_a_window_that_left_in_silence_is_seen_as_it_is_from_the_next_record_on(is_by_record):
    """
    The filter takes back its result, so that nothing is emitted when it closes: it leaves as part of the put that
    closes it (TimeOrderedKeyValueBuffer.evictWhile), after which the table above shows nothing for it.
    """

    def build(builder: StreamsBuilder) -> KTable:
        one = builder.stream("a", Consumed(TEXT, LONG))
        counted = one.group_by_key().windowed_by(TimeWindows.of_size(10)).count(Materialized("a-counts"))
        if is_by_record:
            one.process(Bystander, stores=["a-counts"])
        final = counted.filter(lambda key, count: count < 2).suppress(Suppressed.until_window_closes())
        return both(counts(builder, "b", TimeWindows.of_size(10, grace=100), 200), final)

    tape = [
        InputRecord("a", "k", 1, 1),
        InputRecord("a", "k", 1, 2),
        InputRecord("b", "k", 1, 3),
        InputRecord("a", "l", 1, 15),
        InputRecord("b", "k", 1, 7),
        InputRecord("b", "k", 1, 8),
    ]
    for outputs in plays(build, tape):
        assert outputs == [Output(2, ("k", 0, 10), "1,0", 3)]


@pytest.mark.parametrize("is_by_record", [False, True])
def test_who_gets_a_final_result_sees_its_window_as_before_it_waited(is_by_record):
    """
    Kafka emits an entry, and removes it from the buffer when all below have got it (evictWhile).
    """

    def build(builder: StreamsBuilder) -> KTable:
        one = builder.stream("a", Consumed(TEXT, LONG))
        counted = one.group_by_key().windowed_by(TimeWindows.of_size(10)).count(Materialized("a-counts"))
        if is_by_record:
            one.process(Bystander, stores=["a-counts"])
        final = counted.suppress(Suppressed.until_window_closes())
        return both(final, final.map_values(lambda count: count + 100, returns=LONG))

    tape = [
        InputRecord("a", "k", 1, 1),
        InputRecord("a", "k", 1, 2),
        InputRecord("a", "j", 1, 3),
        InputRecord("a", "l", 1, 15),
    ]
    # The count of a window begins with 0, which is what each result replaces.
    for outputs in plays(build, tape):
        assert outputs == [
            Output(3, ("j", 0, 10), "0,101", 3),
            Output(3, ("j", 0, 10), "1,100", 3),
            Output(3, ("k", 0, 10), "0,102", 2),
            Output(3, ("k", 0, 10), "2,100", 2),
        ]
