"""Deduplicate: what its scenarios (KIP-655, example by example) leave out, and where its text is silent."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.functions.expressions import bind
from kstreams_replay.jobs.operators.deduplicate import Deduplicate
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import (
    Consumed,
    KStream,
    Materialized,
    Processor,
    Record,
    Serde,
    StreamsBuilder,
)
from tests.operators.aggregates.operator_runs import place_of, run_chunks, run_increments
from tests.operators.suppress.suppress_model import ForwardedChange
from tests.operators.tapes import play, topology_of
from tests.sampling import examples

STRING = Serde.string()


def verdicts(tape: str, interval: int) -> str:
    """F (forwarded) or D for every ``key@time`` of the tape."""
    records = [word.split("@") for word in tape.split()]
    rows = "\n".join(f"{key} | {n} | {time}" for n, (key, time) in enumerate(records))

    got = play(lambda stream: stream.deduplicate_by_key(interval), f"key | value | time_ms\n{rows}")

    forwarded = {record.arrival for record in got.driver.read_outputs("out")}
    assert got.driver.dropped == []
    return " ".join("F" if n in forwarded else "D" for n in range(len(records)))


@pytest.mark.parametrize(
    ("tape", "want"),
    [
        ("j@10 k@20 j@10", "F F D"),  # 10 >= 20 - 10: still there
        ("j@10 k@21 j@15", "F F F"),  # within the interval of one that is gone
        ("k@20 k@25 k@9 k@9", "F D F F"),  # too late to be saved
        ("k@20 k@25 k@15 k@15", "F D D D"),
        ("x@30 k@20 k@20", "F F D"),  # late by exactly the interval: saved
        ("x@31 k@20 k@20", "F F F"),
        ("k@20 k@31 k@25 k@21 k@20", "F F D D F"),
    ],
)
def test_what_is_older_than_stream_time_less_the_interval_is_gone(tape, want):
    assert verdicts(tape, 10) == want


def test_a_record_without_a_key_passes_and_moves_stream_time():
    assert verdicts("j@10 -@5 -@5 -@21 j@10", 10) == "F F F F F"


def test_what_passes_is_unchanged_and_duplicates_are_counted_and_not_dropped():
    topology, _ = topology_of(lambda stream: stream.deduplicate_by_key(10, name="once"))
    driver = TopologyTestDriver(topology)
    driver.pipe_input("in", "a", None, 1, headers=[("h", b"x")])
    driver.pipe_input("in", "a", 2, 2)
    driver.pipe_input("in", "b", 3, 3)

    got = driver.read_outputs("out")

    assert [(r.key, r.value, r.timestamp_ms, r.headers) for r in got] == [
        ("a", None, 1, (("h", b"x"),)),
        ("b", 3, 3, ()),
    ]
    assert driver.dropped == []


# --- identities ----------------------------------------------------------------------------------------------

NAMED = """
    key | value | time_ms
    a   | i     | 1
    a   | j     | 1
    b   | i     | 1
    a   | i     | 2
    -   | i     | 2
    a   | -     | 2
    a   | -     | 2
    -   | i     | 2
"""


def by_key_value(stream: KStream) -> KStream:
    return stream.deduplicate_by_key_value("value", 10)


def by_id(stream: KStream) -> KStream:
    return stream.deduplicate("value", 10)


def test_by_key_and_value_both_must_be_equal_and_neither_null():
    got = play(by_key_value, NAMED, value=STRING)

    assert [record.arrival for record in got.driver.read_outputs("out")] == [0, 1, 2, 4, 5, 6, 7]


def test_by_id_the_key_does_not_matter_and_stays():
    got = play(by_id, NAMED, value=STRING)

    assert [(record.arrival, record.key) for record in got.driver.read_outputs("out")] == [
        (0, "a"),
        (1, "a"),
        (5, "a"),
        (6, "a"),
    ]


def test_identities_are_equal_when_their_bytes_are():
    """
    -0.0 and 0.0 are equal numbers of other bytes.
    """
    got = play(
        lambda stream: stream.deduplicate(lambda key, value: -0.0 if value < 0 else 0.0, 10, returns=Serde.double()),
        "key | value | time_ms\n a | 1 | 1\n a | -1 | 1\n a | 2 | 1",
    )

    assert [record.arrival for record in got.driver.read_outputs("out")] == [0, 1]


# --- records that are processed again -------------------------------------------------------------------------


def operator_of(by: str = "key", interval: int = 10, semantics: str = "kafka") -> Deduplicate:
    context = place_of(wants_old=False, counts_bytes=False)
    selector = None if by == "key" else bind("value", context.shape, "node")
    return Deduplicate(context, by=by, interval_ms=interval, id_selector=selector, semantics=semantics)


@pytest.mark.parametrize(("semantics", "want"), [("kafka", ["x", "y", "z"]), ("kip", ["x", "z"])])
def test_records_that_one_record_caused_are_one_again_by_the_letter_and_duplicates_by_intention(semantics, want):
    """
    Two records of one cause share its offset; the third is of another cause, at the same offset.
    """
    operator = operator_of(semantics=semantics)
    tape = [
        ForwardedChange("a", None, 1, "x", offset=7),
        ForwardedChange("a", None, 2, "y", offset=7),
        ForwardedChange("a", None, 3, "z", offset=7),
    ]

    got = run_chunks(operator, tape, [], causes=[0, 0, 1])

    assert [emitted.change.new for emitted in got] == want


# --- where the tape is cut -----------------------------------------------------------------------------------


def by_the_text(tape: list[ForwardedChange], by: str, interval: int) -> list[int]:
    """Steps that are forwarded; record by record, from the text."""
    stream_time, store, forwarded = -1, {}, []
    for step, record in enumerate(tape):
        stream_time = max(stream_time, record.time)
        store = {identity: entry for identity, entry in store.items() if entry[0] >= stream_time - interval}
        identity = {"key": (record.key,), "key-value": (record.key, record.new), "id": (record.new,)}[by]
        if None in identity:
            forwarded.append(step)
            continue
        coordinates = (record.topic, record.offset) if record.offset >= 0 else None
        time, known = store.get(identity, (None, None))
        if time is not None and coordinates is not None and coordinates == known:
            forwarded.append(step)
        elif time is None or abs(record.time - time) > interval:
            forwarded.append(step)
            if record.time >= stream_time - interval:
                store[identity] = record.time, coordinates
    return forwarded


RECORDS = st.builds(
    ForwardedChange,
    key=st.sampled_from(["a", "b", None]),
    window=st.none(),
    time=st.integers(0, 40),
    new=st.sampled_from(["i", "j", "ab", None]),
    topic=st.sampled_from(["in", "other"]),
    offset=st.integers(-1, 4),
).map(lambda record: record._replace(topic="") if record.offset < 0 else record)


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(
    tape=st.lists(RECORDS, max_size=25),
    by=st.sampled_from(["key", "key-value", "id"]),
    interval=st.integers(0, 12),
    cuts=st.lists(st.integers(0, 25), max_size=4),
)
def test_it_says_what_the_text_says_wherever_the_tape_is_cut(tape, by, interval, cuts):
    cuts = sorted(min(cut, len(tape)) for cut in cuts)
    want = [(step, tape[step]) for step in by_the_text(tape, by, interval)]

    chunks = run_chunks(operator_of(by, interval), tape, cuts)
    increments, _ = run_increments(lambda: operator_of(by, interval), tape, cuts)

    assert [(emitted.step, emitted.change) for emitted in chunks] == want
    assert [(emitted.step, emitted.change) for emitted in increments] == want


def test_old_identities_leave_the_store_and_the_durable_table():
    _, operator = run_increments(
        operator_of, [ForwardedChange("a", None, 0, "x"), ForwardedChange("b", None, 5, "x")], []
    )

    run_chunks(operator, [ForwardedChange("c", None, 11, "x")], [])

    marks = [(row["key"], row["deleted"]) for row in operator.changes().to_pylist()]
    assert marks == [("c", False), ("a", True)]
    assert sorted(row["key"] for row in operator.rows().to_pylist()) == ["b", "c"]


def test_an_increment_without_records_changes_no_row():
    _, operator = run_increments(operator_of, [ForwardedChange("a", None, 0, "x")], [1])

    assert len(operator.changes()) == 0


class Bystander(Processor):
    """Reads a table, so that its task runs by record."""

    def process(self, record: Record) -> None:
        pass


@pytest.mark.parametrize(("semantics", "want"), [("kafka", ["v", "v2"]), ("kip", ["v"])])
@pytest.mark.parametrize("is_by_record", [False, True])
def test_records_of_one_cause_are_known_as_such_however_the_task_runs(semantics, want, is_by_record):
    builder, texts = StreamsBuilder(semantics=semantics), Consumed(STRING, STRING)
    stream = builder.stream("in", texts)
    twice = stream.flat_map_values(lambda value: [value, f"{value}2"], returns=STRING)
    twice.deduplicate_by_key(100).to("out")
    if is_by_record:
        builder.table("names", texts, materialized=Materialized.as_("names"))
        stream.process(Bystander, stores=["names"])
    driver = TopologyTestDriver(builder.build())

    for value, time_ms in (("v", 1), ("w", 5)):
        driver.pipe_input("in", "k", value, time_ms)

    assert [record.value for record in driver.read_outputs("out")] == want
