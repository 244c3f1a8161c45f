"""Schedules of Python processors: when they are due, in which order, and that cuts change nothing.

Times and orders that are not explained were seen in TopologyTestDriver of Kafka Streams 4.3.0.
"""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.functions.processor_api import KeyValues, Processor
from kstreams_replay.jobs.operators.base.forward_order import merge_in_forward_order
from kstreams_replay.state.records.batches import NO_OFFSET
from tests.operators.cut_tapes import chunk_of
from tests.operators.joins.foreign_key_parts import batch_of
from tests.operators.processor.process_runs import LONG, STREAM_TIME, STRING, ProcessorRun, at, scheduled
from tests.sampling import examples


def test_a_schedule_is_due_at_0_then_at_its_multiples_and_once_after_a_gap():
    got = ProcessorRun(scheduled(("tick", 10))).process(at(3, 9, 10, 19, 15, 47, 50, 60, 61))

    assert got == [
        (0, "tick", "@3", 3),  # due at 0
        (2, "tick", "@10", 10),
        (5, "tick", "@47", 47),  # due at 20, once; next at 50
        (6, "tick", "@50", 50),
        (7, "tick", "@60", 60),
    ]


def test_a_start_in_the_future_is_waited_for():
    got = ProcessorRun(scheduled(("tick", 10, 25))).process(at(3, 24, 25, 34, 35, 58))

    assert [(cause, value) for cause, _, value, _ in got] == [(2, "@25"), (4, "@35"), (5, "@58")]


def test_records_that_do_not_reach_the_processor_move_its_schedules_on_too():
    run = ProcessorRun(scheduled(("tick", 10), on_record=lambda self, record: self.context.forward(record.key, "here")))

    got = run.process([("x", "v", 5), ("k", "v", 7), ("x", "v", 12), ("x", "v", 30)], reaches=lambda key: key == "k")

    assert got == [(0, "tick", "@5", 5), (1, "k", "here", 7), (2, "tick", "@12", 12), (3, "tick", "@30", 30)]


def test_of_several_the_earliest_due_goes_first_and_ties_go_as_in_java_s_heap():
    got = ProcessorRun(scheduled(("a", 7), ("b", 5), ("c", 10))).process(at(0, 10, 35))

    # At 0 all are due at 0: the heap [a, b, c] gives a; moving c up and a (7) in behind leaves c on top, then b.
    assert [(cause, key) for cause, key, _, _ in got] == [
        *((0, "a"), (0, "c"), (0, "b")),
        *((1, "b"), (1, "a"), (1, "c")),
        *((2, "a"), (2, "b"), (2, "c")),
    ]


def test_a_cancelled_schedule_is_over_even_when_it_cancels_itself():
    def on_record(self, record):
        if record.value == "stop":
            self.made["b"].cancel()

    class SelfStopping(scheduled(("a", 10), ("b", 10), on_record=on_record)):
        def callback(self, name):
            def called(time_ms):
                self.context.forward(name, f"@{time_ms}")
                if name == "a" and time_ms >= 20:
                    self.made["a"].cancel()

            return called

    got = ProcessorRun(SelfStopping).process([("k", "go", 0), ("k", "stop", 10), ("k", "go", 20), ("k", "go", 30)])

    assert [(cause, key) for cause, key, _, _ in got] == [(0, "a"), (0, "b"), (1, "a"), (2, "a")]


def test_what_a_punctuation_forwards_has_no_origin_and_stands_behind_all_else_of_its_record():
    run = ProcessorRun(scheduled(("tick", 10), on_record=lambda self, record: self.context.forward("r", "v")))
    sibling = batch_of(run.keys, [{"cause": 0, "key": "s", "value": "v", "time": 3}])
    ways = np.array([1], np.int64), np.array([2], np.int64)
    chunk = chunk_of(1)
    taken = batch_of(run.keys, [{"cause": 0, "key": "k", "value": "v", "time": 3}])
    object.__setattr__(taken, "path", ways[:1])
    object.__setattr__(sibling, "path", ways[1:])

    forwarded = run.operator.process(taken, chunk)

    sources, offsets = forwarded.coordinates(chunk)
    assert list(zip(sources.tolist(), offsets.tolist(), strict=True)) == [(0, 0), (-1, NO_OFFSET)]
    assert merge_in_forward_order((forwarded, sibling)).which.tolist() == [0, 1, 0]


def test_the_stream_time_is_the_default_time_and_there_is_no_metadata_in_a_punctuation():
    seen = []

    class Looking(Processor):
        def init(self, context):
            context.schedule("10ms", STREAM_TIME, lambda time: seen.append((time, context.record_metadata)))

        def process(self, record):
            pass

    ProcessorRun(Looking).process(at(12, 4))

    assert seen == [(12, None)]


# --- cuts ----------------------------------------------------------------------------------------------------


class Counting(Processor):
    """Counts by key, forwards the counts every 10 ms and forgets the first every 7 ms, until it sees "stop"."""

    def init(self, context):
        super().init(context)
        self.counts = context.store("counts")
        context.schedule(10, STREAM_TIME, self.tell)
        self.forgetting = context.schedule(7, STREAM_TIME, self.forget, start_ms=5)
        context.schedule(10, STREAM_TIME, lambda time_ms: context.forward("third", str(time_ms)))

    def process(self, record):
        if record.value == "stop":
            self.forgetting.cancel()
        if record.value is not None and record.key is not None:
            self.counts.put(record.key, (self.counts.get(record.key) or 0) + 1)
        self.context.forward(
            record.key, f"{self.context.current_stream_time_ms()} {self.context.record_metadata.offset}"
        )

    def tell(self, time_ms):
        for key, count in self.counts.all():
            self.context.forward(key, f"{count} at {time_ms}", 0)

    def forget(self, time_ms):
        first = next(self.counts.all(), None)
        if first is not None:
            self.context.forward("forgot", str(self.counts.delete(first[0])))


tapes = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", None]), st.sampled_from(["x", "x", "x", "stop", None]), st.integers(0, 60)
    ),
    max_size=25,
)


@settings(deadline=None, max_examples=examples(80))
@given(tape=tapes, cuts=st.lists(st.integers(0, 25), max_size=4), saves=st.booleans())
def test_where_the_tape_is_cut_changes_nothing(tape, cuts, saves):
    stores = [KeyValues("counts", STRING, LONG)]
    whole = ProcessorRun(Counting, stores)
    want = whole.process(tape)

    run, got, bounds = ProcessorRun(Counting, stores), [], [0, *sorted(min(cut, len(tape)) for cut in cuts), len(tape)]
    for begin, end in pairwise(bounds):
        got += run.process(tape[begin:end])
        if saves:
            run.begin()

    assert got == want
    assert run.operator.rows() == whole.operator.rows()
    assert run.operator.counters() == whole.operator.counters()
