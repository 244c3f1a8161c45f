"""Aggregates of a grouped table: subtract, then add; times, deletions, versioned stores, cuts (KTableAggregate)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.graph.graph import StoreSpec, TableTraits
from kstreams_replay.jobs.operators.base.operator import OperatorContext
from kstreams_replay.jobs.operators.table_aggregates.table_aggregate import build
from kstreams_replay.jobs.operators.table_aggregates.table_aggregate_node import TableAggregateNode
from kstreams_replay.state.errors import TaskFailed
from kstreams_replay.state.records.keys import Keys
from kstreams_replay.state.serdes import Serde
from tests.operators.tables.changes import Change, Forwarded, PlayedChanges, play_changes
from tests.operators.tables.versioned_model import IS_LATEST, NOT_PUT, VersionedModel
from tests.sampling import examples

STRING, LONG = Serde.string(), Serde.long()


@dataclass(frozen=True)
class Kind:
    """An aggregate: options of its node, its serde, and what the model does."""

    options: dict[str, Any]
    returns: Serde
    initializer: Callable[[], Any] | None
    adder: Callable[[Any, Any, Any], Any]
    subtractor: Callable[[Any, Any, Any], Any]


def of_callables(returns: Serde, initializer: Any, adder: Any, subtractor: Any) -> Kind:
    options = {"initializer": initializer, "adder": adder, "subtractor": subtractor}
    return Kind(options, returns, initializer, adder, subtractor)


COUNT = Kind(
    {"function": "count"}, LONG, lambda: 0, lambda _, value, total: total + 1, lambda _, value, total: total - 1
)
SUM = Kind(
    {"function": "sum"}, LONG, lambda: 0, lambda _, value, total: total + value, lambda _, value, total: total - value
)
TEXT = of_callables(
    STRING, lambda: "", lambda key, value, text: f"{text}+{key}{value}", lambda key, value, text: f"{text}-{key}{value}"
)
REDUCED = of_callables(LONG, None, lambda _, value, total: total * 10 + value, lambda _, value, total: total - value)
DELETING = of_callables(
    LONG,
    lambda: 0,
    lambda _, value, total: None if value == 3 else total + value,
    lambda _, value, total: None if value == 2 else total - value,
)
KINDS = {"count": COUNT, "sum": SUM, "text": TEXT, "reduced": REDUCED, "deleting": DELETING}


def aggregated(
    kind: Kind, changes: Sequence[Change], retention_ms: int | None = None, cuts: Sequence[int] = (), *, step: int = 100
) -> PlayedChanges:
    traits = TableTraits(store=StoreSpec("totals", history_retention_ms=retention_ms), sends_old=True)
    node = TableAggregateNode(name="totals", inputs=("in",), shape=Shape(STRING, kind.returns), **kind.options)

    def start():
        return build(node, OperatorContext("totals", Shape(STRING, LONG), Keys(STRING), wants_old=True, table=traits))

    return play_changes(start, changes, kind.returns, cuts=cuts, step=step)


def model(kind: Kind, changes: Sequence[Change], retention_ms: int | None) -> PlayedChanges:
    """KTableAggregate and KTableReduce, change by change."""
    played, plain, versions = PlayedChanges(), {}, VersionedModel(retention_ms or 0)
    for cause, change in enumerate(changes):
        found = plain.get(change.key) if retention_ms is None else versions.get(change.key)
        stored_time, stored = found or (-1, None)
        result, time = stored, change.time_ms
        if change.old is not None and stored is not None:
            result, time = kind.subtractor(change.key, change.old, stored), max(time, stored_time)
        if change.new is not None:
            if result is None and kind.initializer is None:
                result = change.new
            else:
                started = kind.initializer() if result is None and kind.initializer is not None else result
                result = kind.adder(change.key, change.new, started)
            time = max(time, stored_time)
        if retention_ms is None:
            plain.pop(change.key, None)
            plain |= {} if result is None else {change.key: (time, result)}
        elif versions.put(change.key, result, time) == NOT_PUT:
            played.drops.append((cause, "expired-version"))
            continue
        played.forwarded.append(Forwarded(cause, change.key, result, stored, time))
    if retention_ms is None:
        played.rows = [
            {"key": key, "value": value, "record_time_ms": time} for key, (time, value) in sorted(plain.items())
        ]
    return played


def test_the_old_value_is_taken_away_before_the_new_one_is_added():
    got = aggregated(TEXT, [Change("a", 1, None, 5), Change("a", 2, 1, 3)])

    assert got.forwarded == [
        Forwarded(0, "a", "+a1", None, 5),
        Forwarded(1, "a", "+a1-a1+a2", "+a1", 5),  # the larger of both times
    ]


def test_a_count_of_nothing_stays_as_zero():
    got = aggregated(COUNT, [Change("a", 7, None, 1), Change("a", None, 7, 2)])

    assert got.forwarded[1] == Forwarded(1, "a", 0, 1, 2)
    assert got.rows == [{"key": "a", "value": 0, "record_time_ms": 2}]


def test_taking_from_a_group_that_is_not_there_is_a_deletion():
    got = aggregated(COUNT, [Change("a", None, 7, 4), Change("a", 7, None, 3)])

    assert got.forwarded == [Forwarded(0, "a", None, None, 4), Forwarded(1, "a", 1, None, 3)]


def test_a_reducer_begins_with_the_value_as_it_is():
    got = aggregated(REDUCED, [Change("a", 4, None, 1), Change("a", 5, None, 2), Change("a", None, 4, 3)])

    assert [change.new for change in got.forwarded] == [4, 45, 41]


def test_an_aggregate_that_becomes_none_begins_anew():
    got = aggregated(DELETING, [Change("a", 1, None, 9), Change("a", None, 2, 1), Change("a", 5, None, 2)])

    assert got.forwarded[1:] == [Forwarded(1, "a", None, 1, 9), Forwarded(2, "a", 5, None, 2)]


def test_a_versioned_store_refuses_what_is_older_than_its_history():
    changes = [Change("a", 1, None, 100), Change("b", 1, None, 90), Change("b", 1, None, 89), Change("c", 1, None, 89)]

    got = aggregated(COUNT, changes, retention_ms=10)

    assert got.drops == [(3, "expired-version")]  # 89 < 100 - 10; b's second result has b's time
    assert got.forwarded[1:] == [Forwarded(1, "b", 1, None, 90), Forwarded(2, "b", 2, 1, 90)]


def test_a_result_older_than_its_groups_deletion_is_history_only():
    changes = [Change("a", None, 1, 10), Change("a", 1, None, 5), Change("a", 1, None, 12)]

    got = aggregated(COUNT, changes, retention_ms=100)

    assert got.forwarded == [
        Forwarded(0, "a", None, None, 10),
        Forwarded(1, "a", 1, None, 5),
        Forwarded(2, "a", 1, None, 12),  # of the group as it is, which is none
    ]
    assert VersionedModel(100).put("a", 1, 5) == IS_LATEST  # without the deletion it would have been the newest


@pytest.mark.parametrize("broken", ["adder", "subtractor"])
def test_a_callable_that_fails_is_named_with_its_key(broken):
    def fail(key: Any, value: Any, aggregate: Any) -> Any:
        raise ZeroDivisionError("by hand")

    kind = Kind(TEXT.options | {broken: fail}, STRING, None, TEXT.adder, TEXT.subtractor)
    with pytest.raises(TaskFailed, match="totals: expected an aggregate, got ZeroDivisionError: by hand on key 'a'"):
        aggregated(kind, [Change("a", 1, None, 1), Change("a", 2, 1, 1)])


def test_an_aggregate_of_another_type_is_named_with_its_key():
    kind = Kind(TEXT.options | {"adder": lambda key, value, aggregate: 5}, STRING, None, TEXT.adder, TEXT.subtractor)
    with pytest.raises(
        TaskFailed, match=r"totals: expected an aggregate of Serde.string\(\), got 5 \(int\) on key 'b'"
    ):
        aggregated(kind, [Change("b", 1, None, 1)])


values = st.sampled_from((None, 1, 2, 3))
tapes = st.lists(
    st.builds(Change, st.sampled_from("ab"), values, values, st.integers(0, 20)).filter(
        lambda change: change.new is not None or change.old is not None
    ),
    max_size=16,
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(150), deadline=None)
@given(
    tape=tapes,
    retention_ms=st.sampled_from((None, 0, 3, 10)),
    cuts=st.sets(st.integers(0, 16), max_size=3),
    step=st.integers(1, 5),
)
def test_aggregates_are_those_of_one_change_after_the_other(kind, tape, retention_ms, cuts, step):
    got = aggregated(KINDS[kind], tape, retention_ms, cuts, step=step)

    want = model(KINDS[kind], tape, retention_ms)
    assert got.forwarded == want.forwarded
    assert got.drops == want.drops
    if retention_ms is None:
        assert sorted(got.rows, key=lambda row: row["key"]) == want.rows
