"""Random changes: the compiled suppress says what a model of few lines says, wherever the tape is cut."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.operators.suppress.suppress import Suppress
from kstreams_replay.state.errors import BufferFull
from kstreams_replay.state.serdes import Serde
from tests.operators.aggregates.operator_runs import place_of, rows_of, run_chunks, run_increments
from tests.operators.suppress.suppress_model import UNBOUNDED, ForwardedChange, Full, SuppressModel
from tests.sampling import examples

TEXT = st.one_of(st.none(), st.sampled_from(["", "x", "yy", "zzz", "é"]))
HEADER = st.tuples(st.sampled_from(["h", "trace", "😀"]), st.one_of(st.none(), st.binary(max_size=2)))
WINDOWS = {
    "time": st.integers(0, 4).map(lambda n: (5 * n, 5 * n + 10)),
    "sliding": st.integers(0, 20).map(lambda start: (start, start + 5)),
    "session": st.tuples(st.integers(0, 15), st.integers(0, 6)).map(lambda w: (w[0], w[0] + w[1])),
    None: st.none(),
}
EXAMPLES = settings(max_examples=examples(200), deadline=None)


def tapes(window: str | None) -> st.SearchStrategy[list[ForwardedChange]]:
    change = st.builds(
        ForwardedChange,
        key=st.sampled_from(["a", "b", "aa", "é", "", "a\0"]),
        window=WINDOWS[window],
        time=st.integers(0, 30),
        new=TEXT,
        old=TEXT,
        headers=st.lists(HEADER, max_size=2).map(tuple),
        topic=st.sampled_from(["in", "other"]),
        offset=st.integers(-1, 50),
    )
    return st.lists(change.map(from_no_topic_without_offset), max_size=25)


def from_no_topic_without_offset(change: ForwardedChange) -> ForwardedChange:
    """A record that a punctuator made is from no topic."""
    return change._replace(topic="") if change.offset < 0 else change


@st.composite
def cases(draw: Any, when_full: str) -> tuple[SuppressModel, dict[str, Any], list[ForwardedChange], list[int]]:
    """(model, options of the operator, tape, cuts)."""
    window = draw(st.sampled_from([None, "time", "sliding", "session"]))
    is_final = window is not None and when_full != "emit-early" and draw(st.booleans())
    wait = draw(st.integers(0, 12))
    limits = [UNBOUNDED, UNBOUNDED]
    if when_full != "none":
        limits[0] = draw(st.one_of(st.just(UNBOUNDED), st.integers(0, 4)))
        limits[1] = draw(st.one_of(st.just(UNBOUNDED), st.integers(0, 150)))
    model = SuppressModel(wait, is_final, window == "session", *limits, emits_early=when_full == "emit-early")
    options = {
        "window": window,
        "until": "window-closes" if is_final else "time-limit",
        "wait_ms": wait,
        "max_records": limits[0],
        "max_bytes": limits[1],
        "when_full": "shut-down" if when_full == "none" else when_full,
    }
    tape = draw(tapes(window))
    cuts = sorted(draw(st.lists(st.integers(0, len(tape)), max_size=4)))
    return model, options, tape, cuts


def operator_of(window: str | None = None, **options: Any) -> Suppress:
    return Suppress(place_of(window), Serde.string(), **options)


@pytest.mark.slow
@pytest.mark.parametrize("when_full", ["none", "emit-early"])
def test_what_leaves_and_what_the_buffer_holds_is_that_of_the_model(when_full):
    @EXAMPLES
    @given(case=cases(when_full))
    def law(case):
        model, options, tape, cuts = case
        want = [emitted for change in tape for emitted in model.process(change)]

        operator = operator_of(**options)
        got = run_chunks(operator, tape, cuts)

        assert got == want
        numbers = operator.metrics()
        measured = model.measured or [(0, 0)]
        assert (numbers["count_current"], numbers["bytes_current"]) == (len(model.buffer), model.size())
        assert (numbers["count_max"], numbers["bytes_max"]) == tuple(map(max, zip(*measured, strict=True)))
        averages = [sum(column) / len(measured) for column in zip(*measured, strict=True)]
        assert [numbers["count_avg"], numbers["bytes_avg"]] == averages
        assert numbers["emitted"] == len(want)
        resumed_got, resumed = run_increments(lambda: operator_of(**options), tape, cuts)
        assert resumed_got == want
        whole = run_increments(lambda: operator_of(**options), tape, [])[1]
        assert rows_of(resumed) == rows_of(operator) == rows_of(whole)

    law()


@pytest.mark.parametrize("cuts", [[], [1], [2], [1, 2]])
def test_what_waits_to_leave_in_silence_has_no_context_wherever_the_tape_is_cut(cuts):
    """
    The deletion of a final result is nobody's to see; the change that it replaced must not show through.
    """
    tape = [
        ForwardedChange("a", (0, 5), 5, "1", offset=7, topic="other"),
        ForwardedChange("a", (0, 5), 5, None, offset=8, topic="in"),
        ForwardedChange("b", (0, 6), 6, None, offset=9, topic="in"),
    ]
    options = {"window": "session", "until": "window-closes", "wait_ms": 10}

    _, resumed = run_increments(lambda: operator_of(**options), tape, cuts)

    rows = resumed.rows().sort_by("key").select(["key", "context_topic", "context_offset", "stream_time_ms"])
    assert rows.to_pydict() == {
        "key": ["a", "b"],
        "context_topic": [None, None],
        "context_offset": [None, None],
        "stream_time_ms": [None, None],
    }


@EXAMPLES
@given(case=cases("shut-down"))
def test_a_full_buffer_ends_the_run_at_the_record_of_the_model(case):
    model, options, tape, cuts = case
    want, step = [], None
    try:
        for change in tape:
            want += model.process(change)
    except Full as error:
        step, emitted = error.args
        want += emitted

    try:
        got, failed = run_chunks(operator_of(**options), tape, cuts), None
    except BufferFull as error:
        got, failed = error.emitted, error.step

    assert failed == step
    assert got == want


@EXAMPLES
@given(case=cases("spill"))
def test_a_buffer_that_spills_emits_what_an_unbounded_one_does(case):
    model, options, tape, cuts = case
    model.max_records = model.max_bytes = UNBOUNDED
    want = [emitted for change in tape for emitted in model.process(change)]

    assert run_chunks(operator_of(**options), tape, cuts) == want
    assert run_increments(lambda: operator_of(**options), tape, cuts)[0] == want
