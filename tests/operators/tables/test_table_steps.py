"""Sources, filter and map_values of tables: what they forward, what they keep (KTableSource, KTableFilter)."""

import pytest

from kstreams_replay.jobs.topology import Consumed, KTable, Materialized, Serde
from tests.operators.cut_tapes import Output, play_task
from tests.playing import InputRecord

LONG, TEXT = Serde.long(), Serde.string()


def table(steps, *values: int | None, materialized: Materialized | None = None, times: tuple[int, ...] | None = None):
    """Values of the key k at times 0, 1, ... through ``steps``."""

    def build(builder) -> KTable:
        return steps(builder.table("in", Consumed(TEXT, LONG), materialized=materialized))

    times = times or tuple(range(len(values)))
    return play_task(build, [InputRecord("in", "k", value, time) for value, time in zip(values, times, strict=True)])


def outputs(played) -> list[tuple[int, object]]:
    """(step, value)."""
    return [(output.step, output.value) for output in played.outputs]


def never_null(key, value):
    assert value is not None, "a callable never sees a null value"
    return value > 1


def test_a_table_forwards_every_record_that_has_a_key():
    def build(builder) -> KTable:
        return builder.table("in", Consumed(TEXT, LONG), materialized=Materialized("kept"))

    tape = [
        InputRecord("in", "k", 1, 5),
        InputRecord("in", None, 2, 6),
        InputRecord("in", "k", 3, 2),
        InputRecord("in", "l", None, 7),
    ]
    got = play_task(build, tape)

    assert got.outputs == [Output(0, "k", 1, 5), Output(2, "k", 3, 2), Output(3, "l", None, 7)]
    assert got.dropped == [(1, "null-key")]
    assert got.counts == (3, 1)
    assert got.stores["kept"] == [{"key": "k", "value": 3, "record_time_ms": 2}]  # offsets decide, not times


@pytest.mark.parametrize("predicate", ["value > 1", never_null], ids=["expression", "callable"])
@pytest.mark.parametrize("keeps", [True, False])
def test_a_filter_deletes_what_does_not_pass(predicate, keeps):
    got = table(lambda t: t.filter(predicate) if keeps else t.filter_not(predicate), 1, None, 2)

    assert outputs(got) == [(0, None if keeps else 1), (1, None), (2, 2 if keeps else None)]


def test_a_filter_below_a_store_does_not_delete_what_was_not_there():
    got = table(lambda t: t.filter("value > 1"), 1, 2, 1, 1, None, materialized=Materialized("kept"))

    assert outputs(got) == [(1, 2), (2, None)]
    assert got.counts == (5, 0)


def test_a_filter_below_a_versioned_table_forwards_every_deletion():
    versioned = Materialized.versioned("kept", 100)

    got = table(lambda t: t.filter("value > 1"), 1, None, 2, materialized=versioned, times=(5, 9, 7))

    assert outputs(got) == [(0, None), (1, None), (2, 2)]


def test_a_stored_filter_keeps_what_passes():
    def build(t: KTable) -> KTable:
        return t.filter("value > 1", materialized=Materialized("passed"))

    got = table(build, 2, 1, 3)

    assert outputs(got) == [(0, 2), (1, None), (2, 3)]
    assert got.stores["passed"] == [{"key": "k", "value": 3, "record_time_ms": 2}]


def test_a_stored_filter_asked_for_old_values_compares_with_its_own_store():
    """
    The table above has no store, so nobody knows its old values; the filter's own are enough.
    """

    def build(t: KTable) -> KTable:
        kept = t.filter("value > 1", materialized=Materialized("passed"))
        return kept.left_join(kept, lambda one, other: f"{one},{other}", returns=TEXT)

    assert outputs(table(build, 1, None, 2, 1, 1))[:2] == [(2, "2,2"), (2, "2,2")]
    assert {step for step, _ in outputs(table(build, 1, None, 2, 1, 1))} == {2, 3}


def test_a_mapper_never_sees_a_deletion():
    def mapper(key, value):
        assert value is not None
        return None if value == 2 else value * 10

    got = table(lambda t: t.map_values(mapper, returns=LONG), 1, None, 2)

    assert outputs(got) == [(0, 10), (1, None), (2, None)]


def test_a_versioned_map_refuses_what_is_older_than_its_history():
    def build(t: KTable) -> KTable:
        return t.map_values("value * 10", materialized=Materialized.versioned("mapped", 3))

    got = table(build, 1, 2, 3, times=(10, 7, 6))

    assert outputs(got) == [(0, 10), (1, 20)]
    assert got.dropped == [(2, "expired-version")]  # 6 < 10 - 3
    assert got.counts == (2, 1)
