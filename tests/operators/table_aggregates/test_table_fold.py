"""Folds of a grouped table: values leave them again. Against lists that are recomputed from nothing, however cut."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.functions.folds.aggregation import Aggregation
from kstreams_replay.jobs.functions.folds.fold import Fold
from kstreams_replay.jobs.functions.folds.taken_back import Bag
from kstreams_replay.jobs.graph.graph import StoreSpec, TableTraits
from kstreams_replay.jobs.operators.base.operator import OperatorContext
from kstreams_replay.jobs.operators.table_aggregates.table_fold import build
from kstreams_replay.jobs.operators.table_aggregates.table_fold_node import TableFoldNode
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, Materialized, StreamsBuilder, fold
from kstreams_replay.state.records.keys import Keys
from kstreams_replay.state.serdes import Serde
from tests.operators.tables.changes import Change, Forwarded, play_changes
from tests.operators.tables.versioned_model import NOT_PUT, VersionedModel
from tests.sampling import examples
from tests.topology.streams import refused, table

STRING, DOUBLE = Serde.string(), Serde.double()
NAN = float("nan")

FOLDS: dict[str, Fold] = {
    "n": fold.count(),
    "big": fold.count_if("value > 1"),
    "any": fold.any("value > 1"),
    "all": fold.all("value > 1"),
    "total": fold.sum("CAST(value AS BIGINT)"),
    "mean": fold.mean("value"),
    "least": fold.min("value"),
    "most": fold.max("value"),
    "first_least": fold.min_by("value", "value * value"),
    "first_most": fold.max_by("value", "value * value"),
    "top": fold.top(2, "value * value", "value"),
    "list": fold.collect("value"),
    "different": fold.count_distinct("value"),
}
IN_VERSIONS: dict[str, Fold] = {name: FOLDS[name] for name in ("n", "big", "total", "list")}


def recomputed(values: Sequence[float], owed: Sequence[float]) -> dict[str, Any]:
    """Of the values that are there, in the order of adding. ``owed``: those that were taken and never added, which
    count in the numbers that a versioned store can keep.
    """
    falling = sorted(values, key=lambda value: -value * value)
    return {
        "n": len(values) - len(owed),
        "big": len([value for value in values if value > 1]) - len([value for value in owed if value > 1]),
        "any": any(value > 1 for value in values),
        "all": all(value > 1 for value in values),
        "total": sum(map(int, values)) - sum(map(int, owed)),
        "mean": sum(values) / len(values) if values else None,
        "least": min(values, default=None),
        "most": max(values, default=None),
        "first_least": min(values, key=lambda value: value * value, default=None),
        "first_most": falling[0] if values else None,
        "top": falling[:2],
        "list": list(values),
        "different": len(set(values)),
    }


def folded(
    folds: Mapping[str, Fold], changes: Sequence[Change], retention_ms: int | None, cuts: Sequence[int], step: int
) -> tuple[list[Forwarded], list[tuple[int, str]], list[dict[str, Any]]]:
    """Forwarded, drops, and what a reader sees at the end."""
    shape = Shape(STRING, DOUBLE)
    aggregation = Aggregation(folds, shape, "totals")
    traits = TableTraits(store=StoreSpec("totals", history_retention_ms=retention_ms), sends_old=True)
    node = TableFoldNode(
        name="totals", inputs=("in",), shape=Shape(STRING, aggregation.serde()), aggregation=aggregation
    )

    def start():
        return build(node, OperatorContext("totals", shape, Keys(STRING), wants_old=True, table=traits))

    got = play_changes(start, changes, node.shape.value, cuts=cuts, step=step)
    return got.forwarded, got.drops, sorted(got.operator.contents().to_pylist(), key=lambda row: row["key"])


def model(
    names: Sequence[str], changes: Sequence[Change], retention_ms: int | None
) -> tuple[list[Forwarded], list[tuple[int, str]]]:
    """KTableAggregate; the aggregate is the values of a group and those that it owes."""
    forwarded, drops, plain = [], [], dict[str, tuple[int, Any]]()
    versions = VersionedModel(retention_ms or 0)
    for cause, change in enumerate(changes):
        found = plain.get(change.key) if retention_ms is None else versions.get(change.key)
        stored_time, stored = found or (-1, None)
        values, time = None if stored is None else (list(stored[0]), list(stored[1])), change.time_ms
        if values is not None:
            time = max(time, stored_time)
            if change.old in values[0]:
                values[0].remove(change.old)
            elif change.old is not None:
                values[1].append(change.old)
        if change.new is not None:
            values = values or ([], [])
            values[0].append(change.new)
        if retention_ms is not None and versions.put(change.key, values, time) == NOT_PUT:
            drops.append((cause, "expired-version"))
            continue
        plain |= {} if values is None else {change.key: (time, values)}
        shown = [None if each is None else _shown(names, each) for each in (values, stored)]
        forwarded.append(Forwarded(cause, change.key, *shown, time))
    return forwarded, drops


def _shown(names: Sequence[str], values: tuple[list[float], list[float]]) -> dict[str, Any]:
    everything = recomputed(*values)
    return {name: everything[name] for name in names}


@st.composite
def tables(draw: st.DrawFn) -> list[Change]:
    """Changes of groups as a table of few keys makes them: only what is there is taken back."""
    there: dict[int, tuple[str, float]] = {}
    changes: list[Change] = []
    for time_ms in draw(st.lists(st.integers(0, 30), max_size=30)):
        key, group = draw(st.integers(0, 4)), draw(st.sampled_from("gh"))
        value = draw(st.sampled_from([None, -2.0, 0.0, 1.0, 2.0, 2.0, 3.0]))
        before = there.pop(key, None)
        if value is not None:
            there[key] = group, value
        if before is not None and value is not None and before[0] == group:
            changes.append(Change(group, value, before[1], time_ms))
            continue
        changes += [] if before is None else [Change(before[0], None, before[1], time_ms)]
        changes += [] if value is None else [Change(group, value, None, time_ms)]
    return changes


@settings(max_examples=examples(12), deadline=None)
@given(tables(), st.data())
def test_folds_are_as_recomputed_from_what_is_there_wherever_they_are_cut(changes, data):
    cuts = data.draw(st.lists(st.integers(0, len(changes)), max_size=3))
    forwarded, _, shown = folded(FOLDS, changes, None, cuts, data.draw(st.integers(1, 8)))
    want, _ = model(list(FOLDS), changes, None)

    assert forwarded == want
    assert {row["key"]: row["value"] for row in shown} == {each.key: each.new for each in want}


@settings(max_examples=examples(12), deadline=None)
@given(tables(), st.sampled_from([0, 5, 100]), st.data())
def test_a_versioned_store_that_refuses_a_result_leaves_the_group_as_it_was(changes, retention_ms, data):
    cuts = data.draw(st.lists(st.integers(0, len(changes)), max_size=3))
    forwarded, drops, _ = folded(IN_VERSIONS, changes, retention_ms, cuts, data.draw(st.integers(1, 8)))

    assert (forwarded, drops) == model(list(IN_VERSIONS), changes, retention_ms)


# --- at the bounds ---------------------------------------------------------------------------------------------


def shown_last(changes: Sequence[Change], **folds: Fold) -> Any:
    return folded(folds, changes, None, (), 100)[0][-1].new


def test_what_was_never_added_is_not_taken_from_values_and_makes_numbers_smaller():
    changes = [Change("g", 4.0, None, 1), Change("g", None, 9.0, 2)]
    folds = {name: FOLDS[name] for name in ("n", "total", "most", "list")}

    assert shown_last(changes, **folds) == {"n": 0, "total": -5, "most": 4.0, "list": [4.0]}


def test_what_is_taken_from_a_group_that_never_was_is_a_deletion():
    assert folded(FOLDS, [Change("g", None, 9.0, 2)], None, (), 1)[0] == [Forwarded(0, "g", None, None, 2)]


def test_a_nan_is_taken_back_and_never_leads():
    builder = StreamsBuilder()
    grouped = builder.table("in", Consumed(STRING, DOUBLE)).group_by(pl.lit("g"))
    grouped.aggregate(least=fold.min("value"), most=fold.max("value"), different=fold.count_distinct("value")).to("out")
    driver = TopologyTestDriver(builder.build())
    for key, value in (("a", NAN), ("b", 4.0), ("c", NAN), ("a", None), ("b", None), ("c", None)):
        driver.pipe_input("in", key, value, timestamp_ms=0)

    got = [tuple(record.value.values()) for record in driver.read_outputs("out")]
    # least, most, different
    assert got == [
        (None, None, 1),
        (4.0, 4.0, 2),
        (4.0, 4.0, 2),
        (4.0, 4.0, 2),
        (None, None, 1),
        (None, None, 0),
    ]


def test_a_single_fold_that_is_null_is_a_deletion_and_the_group_goes_on():
    changes = [Change("g", 4.0, None, 7), Change("g", None, 4.0, 2), Change("g", 5.0, None, 1)]
    forwarded, _, shown = folded({"": fold.max("value")}, changes[:2], None, (), 1)

    assert [each.new for each in forwarded] == [4.0, None]
    assert shown == []
    assert folded({"": fold.max("value")}, changes, None, (2,), 1)[0][-1] == Forwarded(2, "g", 5.0, None, 7)


def test_a_ranking_forgets_what_has_gone():
    bag = Bag(1)
    for number in range(1_000):
        bag.add(number, number)
        bag.take(number, number)

    assert len(bag.ranking) <= 65
    assert bag.leading(1) == []


# --- refused ---------------------------------------------------------------------------------------------------

NEXT = (
    "use count, count_if, any, all, sum, mean, min, max, min_by, max_by, top, collect or count_distinct, or "
    "initializer=, adder=, subtractor="
)
TIMELESS = (
    "here: expected folds of the value and the key, since a table's old value is taken back without the time it had, "
    'got [(col("value")) + (col("record_time_ms"))]; put the time into the value, or use '
    "initializer=, adder=, subtractor="
)


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (
            lambda g: g.aggregate(fold.last("value"), name="here"),
            "here: expected a fold that values can be taken back from, since a change of a table takes its old value "
            f"away, got one that keeps but a part of what it was given; {NEXT}",
        ),
        (lambda g: g.aggregate(x=fold.sum("value + record_time_ms"), name="here"), TIMELESS),
        (
            lambda g: g.aggregate(x=fold.max("value"), materialized=Materialized.versioned("v", 5), name="here"),
            "here: expected folds whose value is all that they know, in a versioned store: count, count_if, sum, "
            "collect, got 'x'; use a plain store, or initializer=, adder=, subtractor=",
        ),
        (
            lambda g: g.aggregate(fold.count(), n=fold.count(), name="here"),
            "here: expected a fold, named folds, or an adder and a subtractor, got more than one of them; choose one; "
            "a field called fold is given by fields={'fold': …}",
        ),
        (
            lambda g: g.aggregate(initializer=int, adder=max, name="here"),
            "here: expected initializer=, adder=, subtractor= and returns=, got no subtractor=, returns=; give them, "
            "or folds such as n=fold.count()",
        ),
    ],
)
def test_folds_that_nothing_can_be_taken_back_from_are_refused(call, want):
    grouped = table().group_by("value", name="grouped")

    assert refused(lambda: call(grouped)) == want
