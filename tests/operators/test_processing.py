"""Python processors: what they see and forward, their stores, and when their schedules are due."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.expressions import Shape
from jobs.meeting import meet
from jobs.operators.operator import Place
from jobs.operators.processing import Process
from jobs.processing import KeyValues, Processor, PunctuationType, Record, RecordMetadata
from jobs.topology.nodes import ProcessNode
from state.errors import ConfigError, TaskFailed
from state.keys import Keys
from state.records import NO_OFFSET, Batch
from state.serdes import Serde
from tests.operators.foreign_key_parts import PARTITION, batch_of, chunk_of, rows_of

STRING, LONG = Serde.string(), Serde.long()
STREAM_TIME = PunctuationType.STREAM_TIME
SHAPE = Shape(STRING, STRING)


class Run:
    """One processor over a tape of (key, value, time), perhaps from what another left."""

    def __init__(
        self, supplier: Callable[[], Processor], stores=(), *, before: "Run | None" = None, value=STRING
    ) -> None:
        self.supplier, self.stores, self.value = supplier, stores, value
        self.keys = Keys(STRING)
        node = ProcessNode(
            name="KSTREAM-PROCESSOR-0000000001",
            inputs=("in",),
            shape=Shape(STRING, value),
            supplier=supplier,
            store="stores",
            stores=tuple(stores),
        )
        self.operator = Process(Place("KSTREAM-PROCESSOR-0000000001", SHAPE, self.keys), node)
        if before is None:
            self.durable: dict[tuple, dict] = {}
            self.taken, clocks = 0, {}
        else:
            self.durable, self.taken, clocks = dict(before.durable), before.taken, before.operator.clocks()
        schema = self.operator.rows_schema()
        self.operator.resume(pa.Table.from_pylist(list(self.durable.values()), schema=schema), clocks)
        self.stream_time_ms = -1 if before is None else before.stream_time_ms

    def play(self, tape: list[tuple[str | None, str | None, int]], *, reaches=lambda key: True) -> list[tuple]:
        """(number of the record, key, value, time) of what is forwarded. ``reaches``: which records get to the node."""
        return [
            (self.taken - len(tape) + one["cause"], *show(one))
            for one in rows_of(self.batch(tape, reaches), self.value)
        ]

    def batch(self, tape: list[tuple[str | None, str | None, int]], reaches=lambda key: True) -> Batch:
        chunk = chunk_of(len(tape))
        times = np.array([time for _, _, time in tape], np.int64)
        chunk.time_ms = times
        chunk.offset = chunk.context_offset = np.arange(self.taken, self.taken + len(tape))
        chunk.stream_time_ms = np.maximum.accumulate(np.maximum(times, self.stream_time_ms))
        rows = [
            {"cause": cause, "key": key, "value": value, "time": time}
            for cause, (key, value, time) in enumerate(tape)
            if reaches(key)
        ]
        forwarded = self.operator.process(batch_of(self.keys, rows), chunk)
        self.stream_time_ms = max(self.stream_time_ms, *times.tolist(), -1)
        self.taken += len(tape)
        return forwarded

    def saved(self) -> "Run":
        """The same in a new increment."""
        for row in self.operator.changes().to_pylist():
            identity = row["store"], row["key"]
            if row.pop("deleted"):
                del self.durable[identity]
            else:
                self.durable[identity] = row
        return Run(self.supplier, self.stores, before=self, value=self.value)


def show(row: dict) -> tuple:
    return row["key"], row["value"], row["time"]


def each(function: Callable[[Processor, Record], None]) -> Callable[[], Processor]:
    """A supplier of processors that do ``function`` to every record."""

    class Each(Processor):
        def process(self, record: Record) -> None:
            function(self, record)

    return Each


def scheduled(*schedules: tuple, on_record: Callable | None = None) -> Callable[[], Processor]:
    """A supplier of processors that forward the stream time at every punctuation, under the schedule's name.

    ``schedules``: (name, interval) or (name, interval, start).
    """

    class Scheduled(Processor):
        def init(self, context) -> None:
            super().init(context)
            self.made = {}
            for name, interval, *start in schedules:
                callback = self.callback(name)
                start_ms = start[0] if start else None
                self.made[name] = context.schedule(interval, STREAM_TIME, callback, start_ms=start_ms)

        def callback(self, name: str) -> Callable[[int], None]:
            return lambda time_ms: self.context.forward(name, f"@{time_ms}")

        def process(self, record: Record) -> None:
            if on_record is not None:
                on_record(self, record)

    return Scheduled


def at(*times: int) -> list[tuple]:
    return [("k", "v", time) for time in times]


# --- records -------------------------------------------------------------------------------------------------


def test_a_processor_forwards_what_it_likes_under_the_record_s_time_by_default():
    def split(self, record):
        for letter in record.value or "":
            self.context.forward(record.key, letter)
        self.context.forward(None, None, 99)

    got = Run(each(split)).play([("a", "xy", 5), (None, None, 3)])

    assert got == [(0, "a", "x", 5), (0, "a", "y", 5), (0, None, None, 99), (1, None, None, 99)]


def test_a_processor_sees_where_a_record_is_from_and_the_stream_time():
    seen = []
    look = each(lambda self, record: seen.append((self.context.record_metadata, self.context.current_stream_time_ms())))

    Run(look).play(at(5, 3))

    assert seen == [(RecordMetadata("in", PARTITION, 0), 5), (RecordMetadata("in", PARTITION, 1), 5)]


def test_headers_are_seen_and_go_on_unless_others_are_given():
    def forward(self, record):
        self.context.forward(record.key, repr(record.headers))
        self.context.forward(record.key, "other", headers=(("trace", None),))

    run = Run(each(forward))
    batch = batch_of(run.keys, [{"cause": 0, "key": "a", "value": "x", "time": 1}])
    headers = pa.array(
        [[{"key": "id", "value": b"1"}]], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    )
    object.__setattr__(batch, "headers", headers)

    got = run.operator.process(batch, chunk_of(1))

    assert rows_of(got, STRING)[0]["value"] == "(('id', b'1'),)"
    assert got.headers.to_pylist() == [[{"key": "id", "value": b"1"}], [{"key": "trace", "value": None}]]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda self, record: 1 // 0, "expected a processor that does not fail, got ZeroDivisionError: .* on key 'k'"),
        (lambda self, record: self.context.store("x"), "expected a store of \\['counts'\\], got 'x'"),
        (lambda self, record: self.context.store("counts").get(None), "store 'counts': expected a key, got None"),
        (lambda self, record: self.context.store("counts").put("a", "b"), "expected a long, got 'b'"),
        (lambda self, record: self.context.forward("k", 7), "expected a forwarded value of .*, got 7 .* with key 'k'"),
        (lambda self, record: self.context.forward(7, "v"), "expected a forwarded key of .*, got 7"),
        (lambda self, record: self.context.forward("k", "v", -1), "expected a timestamp of 0 ms or more, got -1 ms"),
        (lambda self, record: self.context.schedule(1, STREAM_TIME, print), "expected schedules made in init"),
    ],
)
def test_what_a_processor_does_wrong_ends_the_run_and_is_named(act, message):
    run = Run(each(act), [KeyValues("counts", STRING, LONG)])

    with pytest.raises(TaskFailed, match=message):
        run.play(at(1))


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda context: context.schedule(5, PunctuationType.WALL_CLOCK_TIME, print), "a replay has no wall clock"),
        (lambda context: context.schedule(0, STREAM_TIME, print), "expected an interval of 1 ms or more, got 0 ms"),
        (lambda context: context.forward("k", "v"), "expected forward in process or in a punctuation"),
    ],
)
def test_what_init_may_not_do_is_named(act, message):
    class Wrong(Processor):
        def init(self, context):
            act(context)

        def process(self, record):
            raise AssertionError("there are no records")

    with pytest.raises(TaskFailed, match=message):
        Run(Wrong)


def test_two_stores_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="expected stores of different names, got 'a' twice"):
        Run(each(lambda self, record: None), ["a", KeyValues("a", STRING, LONG)])


# --- stores --------------------------------------------------------------------------------------------------


def test_a_store_answers_what_was_put_and_ranges_go_by_the_bytes_of_the_keys():
    answers = {}

    def act(self, record):
        store = self.context.store("words")
        for key in ("b", "é", "a", "aa", "B"):
            store.put(key, key.upper())
        answers["get"] = store.get("a"), store.get("zz")
        answers["all"] = [key for key, _ in store.all()]
        answers["reverse"] = [key for key, _ in store.reverse_all()]
        answers["range"] = list(store.range("a", "b"))
        answers["from"] = [key for key, _ in store.range("aa")]
        answers["until"] = [key for key, _ in store.reverse_range(None, "aa")]
        answers["empty"] = list(store.range("b", "a"))
        answers["deleted"] = store.delete("b"), store.delete("b"), len(store)
        answers["absent"] = store.put_if_absent("a", "other"), store.put_if_absent("b", "new"), store.get("b")
        store.put("a", None)
        answers["left"] = [key for key, _ in store.all()]

    Run(each(act), ["words"]).play(at(1))

    assert answers == {
        "get": ("A", None),
        "all": ["B", "a", "aa", "b", "é"],
        "reverse": ["é", "b", "aa", "a", "B"],
        "range": [("a", "A"), ("aa", "AA"), ("b", "B")],
        "from": ["aa", "b", "é"],
        "until": ["aa", "a", "B"],
        "empty": [],
        "deleted": ("B", None, 4),
        "absent": ("A", None, "new"),
        "left": ["B", "aa", "b", "é"],
    }


def test_puts_during_a_range_do_not_show_in_it():
    def act(self, record):
        store = self.context.store("words")
        store.put("a", "1")
        for key, value in store.all():
            store.put(key + "x", value)
            store.delete(key)
        self.context.forward("keys", ",".join(key for key, _ in store.all()))

    assert Run(each(act), ["words"]).play(at(1)) == [(0, "keys", "ax", 1)]


def test_what_is_put_is_a_copy():
    clicks = Serde.json("pages array<string>")

    def act(self, record):
        store, value = self.context.store("clicks"), {"pages": ["a"]}
        store.put("k", value)
        value["pages"].append("b")
        store.get("k")["pages"].append("c")
        self.context.forward("k", repr(store.get("k")))

    assert Run(each(act), [KeyValues("clicks", STRING, clicks)]).play(at(1)) == [(0, "k", "{'pages': ['a']}", 1)]


# --- punctuation ---------------------------------------------------------------------------------------------


def test_a_schedule_is_due_at_0_then_at_its_multiples_and_once_after_a_gap():
    got = Run(scheduled(("tick", 10))).play(at(3, 9, 10, 19, 15, 47, 50, 60, 61))

    assert got == [
        (0, "tick", "@3", 3),  # due at 0
        (2, "tick", "@10", 10),
        (5, "tick", "@47", 47),  # due at 20, once; next at 50
        (6, "tick", "@50", 50),
        (7, "tick", "@60", 60),
    ]


def test_a_start_in_the_future_is_waited_for():
    got = Run(scheduled(("tick", 10, 25))).play(at(3, 24, 25, 34, 35, 58))

    assert [(cause, value) for cause, _, value, _ in got] == [(2, "@25"), (4, "@35"), (5, "@58")]


def test_records_that_do_not_reach_the_processor_move_its_schedules_on_too():
    run = Run(scheduled(("tick", 10), on_record=lambda self, record: self.context.forward(record.key, "here")))

    got = run.play([("x", "v", 5), ("k", "v", 7), ("x", "v", 12), ("x", "v", 30)], reaches=lambda key: key == "k")

    assert got == [(0, "tick", "@5", 5), (1, "k", "here", 7), (2, "tick", "@12", 12), (3, "tick", "@30", 30)]


def test_of_several_the_earliest_due_goes_first_and_ties_go_as_in_java_s_heap():
    got = Run(scheduled(("a", 7), ("b", 5), ("c", 10))).play(at(0, 10, 35))

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

    got = Run(SelfStopping).play([("k", "go", 0), ("k", "stop", 10), ("k", "go", 20), ("k", "go", 30)])

    assert [(cause, key) for cause, key, _, _ in got] == [(0, "a"), (0, "b"), (1, "a"), (2, "a")]


def test_what_a_punctuation_forwards_has_no_origin_and_stands_behind_all_else_of_its_record():
    run = Run(scheduled(("tick", 10), on_record=lambda self, record: self.context.forward("r", "v")))
    sibling = batch_of(run.keys, [{"cause": 0, "key": "s", "value": "v", "time": 3}])
    ways = np.array([1], np.int64), np.array([2], np.int64)
    chunk = chunk_of(1)
    taken = batch_of(run.keys, [{"cause": 0, "key": "k", "value": "v", "time": 3}])
    object.__setattr__(taken, "path", ways[:1])
    object.__setattr__(sibling, "path", ways[1:])

    forwarded = run.operator.process(taken, chunk)

    sources, offsets = forwarded.coordinates(chunk)
    assert list(zip(sources.tolist(), offsets.tolist(), strict=True)) == [(0, 0), (-1, NO_OFFSET)]
    assert meet((forwarded, sibling)).which.tolist() == [0, 1, 0]


def test_the_stream_time_is_the_default_time_and_there_is_no_metadata_in_a_punctuation():
    seen = []

    class Looking(Processor):
        def init(self, context):
            context.schedule("10ms", STREAM_TIME, lambda time: seen.append((time, context.record_metadata)))

        def process(self, record):
            pass

    Run(Looking).play(at(12, 4))

    assert seen == [(12, None)]


# --- cuts ----------------------------------------------------------------------------------------------------


class Counting(Processor):
    """Counts by key, tells the counts at 10 ms and forgets the first of them at 7 ms; stops that when it sees "stop"."""

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


@settings(deadline=None, max_examples=80)
@given(tape=tapes, cuts=st.lists(st.integers(0, 25), max_size=4), saves=st.booleans())
def test_where_the_tape_is_cut_changes_nothing(tape, cuts, saves):
    stores = [KeyValues("counts", STRING, LONG)]
    whole = Run(Counting, stores)
    want = whole.play(tape)

    run, got, bounds = Run(Counting, stores), [], [0, *sorted(min(cut, len(tape)) for cut in cuts), len(tape)]
    for begin, end in zip(bounds, bounds[1:], strict=False):
        got += run.play(tape[begin:end])
        run = run.saved() if saves else run

    assert got == want
    assert run.operator.rows() == whole.operator.rows()
    assert run.operator.clocks() == whole.operator.clocks()
