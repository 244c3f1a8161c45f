"""``is_strict_final``: never a second final result of a window, where Kafka's suppress has one (KIP-328)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.operators.suppress import Suppress
from state.serdes import Serde
from tests.operators.operator_runs import batch_of, chunk_of, place_of, run_chunks, run_increments
from tests.operators.suppress_model import Change, SuppressModel


def strict(wait: int, window: str = "session") -> Suppress:
    options = {"until": "window-closes", "wait_ms": wait, "is_strict_final": True}
    return Suppress(place_of(window, counts_bytes=False), Serde.string(), **options)


def session(key: str, start: int, end: int, new: str | None) -> Change:
    return Change(key, (start, end), end, new)


# A session [0, 0] with gap 10 and grace 5 closes at 15, where its aggregation still takes records.
TWICE = [
    session("a", 0, 0, "1"),
    session("x", 15, 15, "1"),  # [0, 0] leaves
    session("a", 0, 0, "2"),  # and would leave again
    session("b", 0, 0, "1"),  # another window, of the same time: leaves
    session("b", 0, 0, "2"),
    session("x", 16, 16, "1"),
]


def test_a_window_that_left_at_its_close_does_not_leave_again():
    for cuts in ([], [1], [2], [3], [4], [1, 2, 3, 4, 5], [3, 3]):
        got, operator = run_increments(lambda: strict(15), TWICE, cuts)

        assert [(emitted.step, emitted.change.key, emitted.change.new) for emitted in got] == [
            (1, "a", "1"),
            (3, "b", "1"),
        ]
        assert not [row for row in operator.rows().to_pylist() if row["is_emitted"]]  # 16: nobody comes back


def test_what_does_not_leave_again_is_booked():
    operator, chunk = strict(15), chunk_of(TWICE)

    operator.process(batch_of(TWICE, operator.place.keys), chunk)

    ((node, cause, drops),) = chunk.drops
    assert (node, drops.reason, cause.tolist(), drops.is_record.tolist()) == (
        "node",
        "window-is-final",
        [2, 4],
        [False, False],
    )
    assert (drops.stream_time_ms.tolist(), drops.limit_ms.tolist()) == ([15, 15], [0, 0])
    assert (drops.window_start_ms.tolist(), drops.window_end_ms.tolist()) == ([0, 0], [0, 0])


def test_a_deletion_between_is_no_result_and_hides_none():
    tape = [session("a", 0, 0, "1"), session("x", 15, 15, "1"), session("a", 0, 0, None), session("a", 0, 0, "2")]

    got = run_chunks(strict(15), tape, [])

    assert [(emitted.change.key, emitted.change.new) for emitted in got] == [("a", "1")]


def test_windows_are_remembered_while_stream_time_stands_at_their_close():
    _, operator = run_increments(lambda: strict(15), TWICE[:5], [])

    remembered = [row for row in operator.rows().to_pylist() if row["is_emitted"]]

    assert sorted((row["key"], row["window_start_ms"], row["window_end_ms"]) for row in remembered) == [
        ("a", 0, 0),
        ("b", 0, 0),
    ]


@settings(max_examples=200, deadline=None)
@given(
    records=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 12), st.integers(0, 4), st.sampled_from([None, "1", "2"])),
        max_size=25,
    ),
    wait=st.integers(0, 4),
    cuts=st.lists(st.integers(0, 25), max_size=3),
)
def test_it_is_suppress_without_second_results_wherever_the_tape_is_cut(records, wait, cuts):
    """
    Changes as an aggregation sends them: of windows that it has not closed by its own stream time.
    """
    tape, stream_time = [], -1
    for key, time, length, new in records:
        stream_time = max(stream_time, time)
        if time >= stream_time - wait:
            tape.append(session(key, max(0, time - length), time, new))
    cuts = sorted(min(cut, len(tape)) for cut in cuts)
    model, want, seen = SuppressModel(wait, is_final=True, is_session=True), [], set()
    for change in tape:
        for emitted in model.process(change):
            if (emitted.change.key, emitted.change.window) not in seen:
                want.append(emitted)
            seen.add((emitted.change.key, emitted.change.window))

    assert run_chunks(strict(wait), tape, cuts) == want
    assert run_increments(lambda: strict(wait), tape, cuts)[0] == want
