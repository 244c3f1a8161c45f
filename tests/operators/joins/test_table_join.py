"""Joins of tables: which changes cause a result, its value and its time (KTableKTable*Join, KIP-914)."""

import pytest

from kstreams_replay.jobs.topology import Consumed, Materialized, Serde
from tests.operators.cut_tapes import Output, play_task
from tests.playing import InputRecord

TEXT = Serde.string()


def joined(kind: str, *records: InputRecord, a: Materialized | None = None, b: Materialized | None = None, **options):
    """Tables of texts from the topics a and b, joined; values are ``left,right``."""

    def build(builder):
        left, right = (
            builder.table(topic, Consumed(TEXT, TEXT), materialized=materialized)
            for topic, materialized in (("a", a), ("b", b))
        )
        method = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[kind]
        return method(right, lambda one, other: f"{one},{other}", returns=TEXT, **options)

    return play_task(build, records)


def a(value: str | None, time_ms: int, key: str | None = "k") -> InputRecord:
    return InputRecord("a", key, value, time_ms)


def b(value: str | None, time_ms: int, key: str | None = "k") -> InputRecord:
    return InputRecord("b", key, value, time_ms)


NOTHING = object()
CASES = {
    # (kind, side): (other absent: new value, deletion of a value, deletion of nothing; other present: the same)
    ("inner", "a"): ((NOTHING, NOTHING, NOTHING), ("new,o", None, None)),
    ("inner", "b"): ((NOTHING, NOTHING, NOTHING), ("o,new", None, None)),
    ("left", "a"): (("new,None", None, NOTHING), ("new,o", None, None)),
    ("left", "b"): ((NOTHING, NOTHING, NOTHING), ("o,new", "o,None", "o,None")),
    ("outer", "a"): (("new,None", None, NOTHING), ("new,o", "None,o", "None,o")),
    ("outer", "b"): (("None,new", None, NOTHING), ("o,new", "o,None", "o,None")),
}


@pytest.mark.parametrize(("kind", "side"), CASES)
@pytest.mark.parametrize("is_there", [False, True], ids=["other absent", "other present"])
@pytest.mark.parametrize("change", [0, 1, 2], ids=["a new value", "a deletion", "a deletion of nothing"])
def test_what_a_change_causes(kind, side, is_there, change):
    here, there = (a, b) if side == "a" else (b, a)
    other = [there("o", 5)] if is_there else []
    before = [here("old", 1)] if change == 1 else []
    tape = [*other, *before, here("new" if change == 0 else None, 3)]

    got = [output for output in joined(kind, *tape).outputs if output.step == len(tape) - 1]

    want = CASES[kind, side][is_there][change]
    assert got == ([] if want is NOTHING else [Output(len(tape) - 1, "k", want, 5 if is_there else 3)])


def test_an_older_version_of_a_versioned_table_is_refused_and_of_the_other_it_is_not():
    versioned = Materialized.versioned("history", 100)

    got = joined("inner", a("a0", 0), a("a4", 4), b("b2", 2), b("b1", 1), a("a3", 3), b=versioned)

    assert got.outputs == [Output(2, "k", "a4,b2", 4), Output(4, "k", "a3,b2", 3)]
    assert got.dropped == [(3, "out-of-order-version")]
    assert got.counts == (5, 0)  # the table took it


def test_a_change_with_a_null_key_is_refused_by_its_table():
    got = joined("outer", a("a0", 0, key=None), b("b0", 0, key=None))

    assert got.outputs == []
    assert got.dropped == [(0, "null-key"), (1, "null-key")]


def test_a_materialized_join_keeps_its_newest_results():
    got = joined("left", a("a0", 1), b("b0", 4), a("a1", 2, "l"), a(None, 5), materialized=Materialized("joined"))

    assert got.stores["joined"] == [{"key": "l", "value": "a1,None", "record_time_ms": 2}]
    assert [output.value for output in got.outputs] == ["a0,None", "a0,b0", "a1,None", None]


def test_a_versioned_join_refuses_a_result_older_than_its_history():
    got = joined(
        "outer", a("a0", 50, "l"), a("a1", 40), b("b0", 39, "m"), materialized=Materialized.versioned("joined", 10)
    )

    assert [output.value for output in got.outputs] == ["a0,None", "a1,None"]
    assert got.dropped == [(2, "expired-version")]  # 39 < 50 - 10
    assert got.counts == (3, 0)
