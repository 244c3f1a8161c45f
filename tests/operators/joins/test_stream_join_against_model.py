"""Random tapes: the compiled join says what a model of few lines says, wherever the tape is cut."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.operators.joins import stream_join_kernel as kernel
from kstreams_replay.state.stores import timed_records
from tests.operators.joins.stream_join_model import StreamJoinModel
from tests.operators.joins.stream_join_parts import JoinRun, Record, joined_alone
from tests.sampling import examples

CLOSE, WIDE = 40, 200_000


def tapes(latest: int) -> st.SearchStrategy[list[Record]]:
    """Records whose value is their step, at times up to ``latest``."""
    records = st.tuples(
        st.sampled_from(["left", "right"]),
        st.sampled_from(["a", "a", "b", "aa", "é", "", None]),
        st.sampled_from([True, True, True, True, False]),
        st.one_of(st.integers(0, latest), st.sampled_from([0, 5, 5, 10, latest])),
    )
    return st.lists(records, max_size=40).map(
        lambda rows: [
            (side, key, step if has_value else None, time) for step, (side, key, has_value, time) in enumerate(rows)
        ]
    )


@st.composite
def rising_tapes(draw: st.DrawFn) -> list[Record]:
    """Times rise, with a step back now and then, and few keys have a partner, so that many records wait."""
    moves = st.tuples(st.sampled_from(["left", "right"]), st.sampled_from("abcdefgh"), st.integers(-3, 4))
    tape, time = [], 0
    for step, (side, key, move) in enumerate(draw(st.lists(moves, min_size=5, max_size=40))):
        time = max(0, time + move)
        tape.append((side, key, step, time))
    return tape


@st.composite
def joins(draw: st.DrawFn, longest: int) -> JoinRun:
    kind, is_persistent = draw(st.sampled_from(["inner", "left", "outer"])), draw(st.booleans())
    before = draw(st.integers(-longest, longest))
    after = draw(st.integers(max(-before, -longest), longest))
    return JoinRun(kind, before, after, draw(st.one_of(st.just(0), st.integers(0, longest))), is_persistent)


CUTS = st.lists(st.integers(1, 39), max_size=4)
EXAMPLES = settings(max_examples=examples(400), deadline=None)


def modelled(join: JoinRun, tape: list[Record]) -> tuple[list, list[int]]:
    """What the model forwards, with the step, and the steps of its drops."""
    model = StreamJoinModel(join.kind, join.before, join.after, join.grace, join.is_persistent)
    joined, drops = [], []
    for step, record in enumerate(tape):
        rows, dropped = model.process(record)
        joined += [(step, *row) for row in rows]
        drops += [step] * dropped
    return joined, drops


def agrees(join: JoinRun, tape: list[Record], chunks: list[int], cuts: list[int]) -> None:
    want, drops = modelled(join, tape)

    got = joined_alone(join, tape, chunks=chunks, cuts=cuts)

    assert got.joined == want
    assert [step for step, _, _ in got.drops] == drops
    refused = {step for step, _, is_whole in got.drops if is_whole}
    assert sorted({*got.applied, *refused}) == list(range(len(tape)))


@EXAMPLES
@given(join=joins(12), tape=tapes(CLOSE), chunks=CUTS, cuts=CUTS)
@example(
    join=JoinRun("outer", 0, 10),
    tape=[("left", "a", 0, 0), ("right", "b", 1, 0), ("left", "a", 2, 11)],
    chunks=[],
    cuts=[],
)
def test_a_join_agrees_with_the_model(join, tape, chunks, cuts):
    agrees(join, tape, chunks, cuts)


@EXAMPLES
@given(join=joins(90_000), tape=tapes(WIDE), chunks=CUTS, cuts=CUTS)
def test_a_join_over_several_segments_agrees_with_the_model(join, tape, chunks, cuts):
    agrees(join, tape, chunks, cuts)


@EXAMPLES
@given(join=joins(12), tape=rising_tapes(), chunks=CUTS, cuts=CUTS)
def test_a_join_in_which_many_wait_agrees_with_the_model(join, tape, chunks, cuts):
    agrees(join, tape, chunks, cuts)


@pytest.mark.slow
@EXAMPLES
@given(join=joins(12), tape=tapes(CLOSE), chunks=CUTS, cuts=CUTS)
def test_a_kernel_that_runs_out_of_room_goes_on_where_it_stopped(join, tape, chunks, cuts):
    """
    Room for one pair a call, and stores that are full at once.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "allocate", lambda pairs, records, allocate=kernel.allocate: allocate(1, records))
        patch.setattr(timed_records, "_POOL_MIN", 1)
        agrees(join, tape, chunks, cuts)
