"""Python processors: what they see and forward, and their stores."""

import random

import pyarrow as pa
import pytest

from kstreams_replay.jobs.functions.processor_api import KeyValues, Processor, Record, RecordMetadata
from kstreams_replay.jobs.operators.processor.sorted_rows import OrderedKeys
from kstreams_replay.state.errors import ConfigError, TaskFailed
from kstreams_replay.state.serdes import Serde
from tests.operators.cut_tapes import PARTITION, chunk_of
from tests.operators.joins.foreign_key_parts import batch_of, rows_of
from tests.operators.processor.process_runs import LONG, STREAM_TIME, STRING, ProcessorRun, at, each

# --- records -------------------------------------------------------------------------------------------------


def test_a_processor_forwards_what_it_likes_under_the_record_s_time_by_default():
    def split(self, record):
        for letter in record.value or "":
            self.context.forward(record.key, letter)
        self.context.forward(None, None, 99)

    got = ProcessorRun(each(split)).process([("a", "xy", 5), (None, None, 3)])

    assert got == [(0, "a", "x", 5), (0, "a", "y", 5), (0, None, None, 99), (1, None, None, 99)]


def test_a_processor_sees_where_a_record_is_from_and_the_stream_time():
    seen = []
    look = each(lambda self, record: seen.append((self.context.record_metadata, self.context.current_stream_time_ms())))

    ProcessorRun(look).process(at(5, 3))

    assert seen == [(RecordMetadata("in", PARTITION, 0), 5), (RecordMetadata("in", PARTITION, 1), 5)]


def test_headers_are_seen_and_go_on_unless_others_are_given():
    def forward(self, record):
        self.context.forward(record.key, repr(record.headers))
        self.context.forward(record.key, "other", headers=(("trace", None),))

    run = ProcessorRun(each(forward))
    batch = batch_of(run.keys, [{"cause": 0, "key": "a", "value": "x", "time": 1}])
    headers = pa.array(
        [[{"key": "id", "value": b"1"}]], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    )
    object.__setattr__(batch, "headers", headers)

    got = run.operator.process(batch, chunk_of(1))

    assert rows_of(got, STRING)[0]["value"] == "(('id', b'1'),)"
    assert got.headers.to_pylist() == [[{"key": "id", "value": b"1"}], [{"key": "trace", "value": None}]]


def test_a_record_is_forwarded_as_it_is_or_with_one_thing_changed():
    def forward(self, record):
        self.context.forward(record)
        self.context.forward(record.with_value("y"))
        self.context.forward(record.with_key("b").with_timestamp(9))
        self.context.forward(Record("c", None, 7))

    assert ProcessorRun(each(forward)).process([("a", "x", 5)]) == [
        (0, "a", "x", 5),
        (0, "a", "y", 5),
        (0, "b", "x", 9),
        (0, "c", None, 7),
    ]


def test_a_forwarded_record_has_its_own_headers():
    def forward(self, record):
        self.context.forward(record.with_headers((("trace", b"1"),)))

    run = ProcessorRun(each(forward))

    got = run.operator.process(batch_of(run.keys, [{"cause": 0, "key": "a", "value": "x", "time": 1}]), chunk_of(1))

    assert got.headers.to_pylist() == [[{"key": "trace", "value": b"1"}]]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda self, record: self.context.forward("k"),
            "expected a Record, or a key and a value, to forward, got 'k'",
        ),
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
    run = ProcessorRun(each(act), [KeyValues("counts", STRING, LONG)])

    with pytest.raises(TaskFailed, match=message):
        run.process(at(1))


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda context: context.schedule(5, "wall-clock time", print),
            "expected a PunctuationType, got 'wall-clock time'",
        ),
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
        ProcessorRun(Wrong)


def test_two_stores_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="expected stores of different names, got 'a' twice"):
        ProcessorRun(each(lambda self, record: None), [KeyValues("a", STRING, STRING), KeyValues("a", STRING, LONG)])


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

    ProcessorRun(each(act), [KeyValues("words", STRING, STRING)]).process(at(1))

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


def test_thousands_of_keys_stay_in_order_while_they_come_and_go():
    generator = random.Random(1)
    keys, there = OrderedKeys([]), set()
    for step in range(20_000):
        key = generator.randrange(9_000 if step < 12_000 else 3_000).to_bytes(2)
        if key in there:
            keys.remove(key)
            there.remove(key)
        else:
            keys.add(key)
            there.add(key)
        if step % 500 == 0:
            first, last = sorted(generator.randrange(9_000).to_bytes(2) for _ in range(2))
            assert keys.between(first, last) == sorted(key for key in there if first <= key <= last)
            assert keys.between(None, last) == sorted(key for key in there if key <= last)
            assert keys.between(first, None) == sorted(key for key in there if first <= key)
            assert OrderedKeys(sorted(there)).between(None, None) == keys.between(None, None) == sorted(there)
    for key in sorted(there):
        keys.remove(key)
    assert keys.between(None, None) == []


def test_puts_during_a_range_do_not_show_in_it():
    def act(self, record):
        store = self.context.store("words")
        store.put("a", "1")
        for key, value in store.all():
            store.put(key + "x", value)
            store.delete(key)
        self.context.forward("keys", ",".join(key for key, _ in store.all()))

    assert ProcessorRun(each(act), [KeyValues("words", STRING, STRING)]).process(at(1)) == [(0, "keys", "ax", 1)]


def test_what_is_put_is_a_copy():
    clicks = Serde.json("pages array<string>")

    def act(self, record):
        store, value = self.context.store("clicks"), {"pages": ["a"]}
        store.put("k", value)
        value["pages"].append("b")
        store.get("k")["pages"].append("c")
        self.context.forward("k", repr(store.get("k")))

    assert ProcessorRun(each(act), [KeyValues("clicks", STRING, clicks)]).process(at(1)) == [
        (0, "k", "{'pages': ['a']}", 1)
    ]
