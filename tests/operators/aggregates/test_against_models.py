"""Random tapes: the compiled, columnar operators say what a model of few lines says, wherever a batch is cut."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import (
    Consumed,
    Materialized,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    fold,
)
from tests.operators.aggregates.models import WindowSuppressModel, run
from tests.operators.aggregates.window_models import HoppingModel, Record, Result, SessionModel, SlidingModel
from tests.sampling import examples

STRING, LONG = Serde.string(), Serde.long()
TAPES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "aa", "é", "", None]),
        st.one_of(st.none(), st.integers(-3, 3)),
        st.integers(0, 60),
    ),
    max_size=30,
)
CHUNKS = st.sampled_from([1, 2, 3, 7, 1_000])
EXAMPLES = settings(max_examples=examples(250), deadline=None)


def played(
    windows: TimeWindows | SlidingWindows | SessionWindows,
    tape: list[Record],
    *,
    chunk_records: int,
    suppressed: bool,
    materialized: Materialized | None = None,
) -> tuple[list[Result], list[int]]:
    """Updates, and the steps of refusals, as the models give them."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(STRING, LONG)).group_by_key().windowed_by(windows)
    results = grouped.aggregate(all=fold.collect("value"), materialized=materialized)
    (results.suppress(Suppressed.until_window_closes()) if suppressed else results).to("out")
    driver = TopologyTestDriver(builder.build(), chunk_records=chunk_records)
    for key, value, time_ms in tape:
        key_bytes = None if key is None else key.encode()
        driver.pipe_bytes("in", key_bytes, None if value is None else value.to_bytes(8, "big", signed=True), time_ms)
    updates = [
        (r.arrival, r.key, r.window, None if r.value is None else tuple(r.value["all"]), r.timestamp_ms)
        for r in driver.read_outputs("out")
    ]
    return updates, sorted(refusal.arrival for refusal in driver.dropped)


@EXAMPLES
@given(
    tape=TAPES,
    gap=st.integers(0, 12),
    grace=st.integers(0, 12),
    longer=st.sampled_from([0, 1, 5, 1_000]),
    store=st.sampled_from(["persistent", "in_memory"]),
    suppressed=st.booleans(),
    chunk_records=CHUNKS,
)
def test_sessions_and_their_final_results_are_those_of_the_model(
    tape, gap, grace, longer, store, suppressed, chunk_records
):
    model = SessionModel(grace, gap + grace + longer, store == "persistent", False, gap=gap)
    suppress = WindowSuppressModel(grace + gap, is_session=True) if suppressed else None
    want = run(model, tape, suppress)

    got = played(
        SessionWindows.with_inactivity_gap(gap, grace=grace),
        tape,
        chunk_records=chunk_records,
        suppressed=suppressed,
        materialized=Materialized(store=store, retention=gap + grace + longer),
    )

    assert got == (want, model.drops)


@EXAMPLES
@given(
    tape=TAPES,
    size=st.integers(1, 12),
    advance=st.integers(1, 12),
    grace=st.integers(0, 12),
    suppressed=st.booleans(),
    chunk_records=CHUNKS,
)
def test_hopping_windows_and_their_final_results_are_those_of_the_model(
    tape, size, advance, grace, suppressed, chunk_records
):
    advance = min(size, advance)
    model = HoppingModel(grace, size + grace, True, False, size=size, advance=advance)
    suppress = WindowSuppressModel(grace, is_session=False) if suppressed else None
    want = run(model, tape, suppress)

    got = played(
        TimeWindows.of_size(size, grace=grace).advance_by(advance),
        tape,
        chunk_records=chunk_records,
        suppressed=suppressed,
    )

    assert got == (want, model.drops)


@EXAMPLES
@given(
    tape=TAPES,
    difference=st.integers(1, 12),
    grace=st.integers(0, 12),
    suppressed=st.booleans(),
    chunk_records=CHUNKS,
)
def test_sliding_windows_and_their_final_results_are_those_of_the_model(
    tape, difference, grace, suppressed, chunk_records
):
    model = SlidingModel(grace, 2 * difference + grace, True, False, difference=difference)
    suppress = WindowSuppressModel(grace, is_session=False) if suppressed else None
    want = run(model, tape, suppress)

    got = played(
        SlidingWindows.of_time_difference(difference, grace=grace),
        tape,
        chunk_records=chunk_records,
        suppressed=suppressed,
    )

    assert got == (want, model.drops)
