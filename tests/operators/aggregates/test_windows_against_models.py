"""Random tapes: windowed aggregates of every kind and store equal models of Kafka's own source. They forward updates or
final results, run compiled or in Python, and the tape is cut, saved and resumed anywhere.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.graph.windows import SessionWindows, SlidingWindows, TimeWindows
from tests.operators.aggregates.window_models import HoppingModel, Model, Record, SessionModel, SlidingModel
from tests.operators.aggregates.window_runs import PlayedWindows, WindowRun, aggregated, tapes
from tests.sampling import examples

EXAMPLES = settings(max_examples=examples(300), deadline=None)
LONGER = st.sampled_from([0, 1, 7, 60, 150_000])
CUTS = st.lists(st.integers(0, 40), max_size=3)
"""Where a tape is cut; a cut may fall beside it."""


def assert_as_the_model(run: WindowRun, model: Model, tape: list[Record], cuts: list[int], resumes: bool) -> None:
    want = [result for step, record in enumerate(tape) for result in model.process(step, record)]

    got = aggregated(run, tape, cuts, resumes=resumes)

    assert got.results == want
    assert got.drops == model.drops
    assert got.puts == (model.puts if run.is_viewed and run.emits_final else [])
    whole: PlayedWindows = aggregated(run, tape)
    assert (got.rows, got.counters) == (whole.rows, whole.counters)


@EXAMPLES
@given(
    tape=tapes(),
    size=st.integers(1, 12),
    advance=st.integers(1, 12),
    grace=st.integers(0, 12),
    longer=LONGER,
    is_persistent=st.booleans(),
    emits_final=st.booleans(),
    in_python=st.booleans(),
    is_viewed=st.booleans(),
    cuts=CUTS,
    resumes=st.booleans(),
)
def test_hopping_windows(
    tape, size, advance, grace, longer, is_persistent, emits_final, in_python, is_viewed, cuts, resumes
):
    advance, retention = min(size, advance), size + grace + longer
    run = WindowRun(
        TimeWindows(size, advance, grace), retention, is_persistent, emits_final, in_python, is_viewed=is_viewed
    )
    model = HoppingModel(grace, retention, is_persistent, emits_final, size=size, advance=advance)

    assert_as_the_model(run, model, tape, cuts, resumes)


@EXAMPLES
@given(
    tape=tapes(),
    difference=st.integers(1, 12),
    grace=st.integers(0, 12),
    longer=LONGER,
    is_persistent=st.booleans(),
    emits_final=st.booleans(),
    in_python=st.booleans(),
    is_viewed=st.booleans(),
    cuts=CUTS,
    resumes=st.booleans(),
)
def test_sliding_windows(
    tape, difference, grace, longer, is_persistent, emits_final, in_python, is_viewed, cuts, resumes
):
    retention = 2 * difference + grace + longer
    run = WindowRun(
        SlidingWindows(difference, grace), retention, is_persistent, emits_final, in_python, is_viewed=is_viewed
    )
    model = SlidingModel(grace, retention, is_persistent, emits_final, difference=difference)

    assert_as_the_model(run, model, tape, cuts, resumes)


@EXAMPLES
@given(
    tape=tapes(),
    gap=st.integers(0, 12),
    grace=st.integers(0, 12),
    longer=LONGER,
    is_persistent=st.booleans(),
    emits_final=st.booleans(),
    in_python=st.booleans(),
    is_viewed=st.booleans(),
    cuts=CUTS,
    resumes=st.booleans(),
)
def test_session_windows(tape, gap, grace, longer, is_persistent, emits_final, in_python, is_viewed, cuts, resumes):
    retention = gap + grace + longer
    run = WindowRun(SessionWindows(gap, grace), retention, is_persistent, emits_final, in_python, is_viewed=is_viewed)
    model = SessionModel(grace, retention, is_persistent, emits_final, gap=gap)

    assert_as_the_model(run, model, tape, cuts, resumes)
