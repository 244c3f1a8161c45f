"""Changes of a table under new keys: what is taken away, what is added, and in which order (KTableRepartitionMap)."""

import pytest

from kstreams_replay.jobs.functions.expressions import Call, Shape
from kstreams_replay.jobs.graph.graph import TableTraits
from kstreams_replay.jobs.operators.base.operator import OperatorContext
from kstreams_replay.jobs.operators.tables.table_group_by import build
from kstreams_replay.jobs.operators.tables.table_nodes import TableGroupByNode
from kstreams_replay.state.records.keys import Keys
from kstreams_replay.state.serdes import Serde
from tests.operators.cut_tapes import chunk_of
from tests.operators.tables.changes import Change, Forwarded, batch_of, forwarded_of

STRING = Serde.string()
SHAPE = Shape(STRING, STRING)


def calls(key, value):
    """``a1`` is the value 1 of group a; ``-1`` has no group, ``a-`` no value."""
    assert value is not None, "a callable never sees a null value"
    return [None if part == "-" else part for part in value]


def grouped(*changes: Change, is_versioned: bool = False) -> tuple[list[Forwarded], list[bool]]:
    """What is forwarded, and which changes end here."""
    node = TableGroupByNode(
        name="group",
        inputs=("table",),
        shape=SHAPE,
        selector=Call(lambda key, value: calls(key, value)[0], SHAPE, STRING, "group"),
        mapper=Call(lambda key, value: calls(key, value)[1], SHAPE, STRING, "group"),
    )
    context = OperatorContext("group", SHAPE, Keys(STRING), above=(TableTraits(is_versioned=is_versioned),))
    operator, chunk = build(node, context), chunk_of(len(changes))
    batch = operator.process(batch_of(changes, context.keys, STRING), chunk)
    assert batch.keys is operator.keys
    return forwarded_of(batch, STRING), chunk.left_out.tolist()


@pytest.mark.parametrize(
    ("new", "old", "want"),
    [
        ("a2", None, [("a", "2", None)]),
        (None, "a1", [("a", None, "1")]),
        ("a2", "a1", [("a", "2", "1")]),  # one group: one change says both
        ("b2", "a1", [("a", None, "1"), ("b", "2", None)]),  # the old group first
        ("-2", "a1", [("a", None, "1")]),  # a null group is no pair
        ("a-", "a1", [("a", None, "1")]),  # and so is a null value
        ("a2", "-1", [("a", "2", None)]),
        ("a2", "a-", [("a", "2", None)]),
        ("--", "--", []),
        (None, None, []),
    ],
)
def test_the_old_value_leaves_its_group_before_the_new_one_enters_its_own(new, old, want):
    got, left_out = grouped(Change("k", new, old, 7))

    assert got == [Forwarded(0, *row, 7) for row in want]
    assert left_out == [not want]


def test_changes_stay_in_order():
    got, _ = grouped(Change("k", "b1", "a1", 3), Change("l", "a2", None, 2), Change("k", None, "b1", 1))

    assert got == [
        Forwarded(0, "a", None, "1", 3),
        Forwarded(0, "b", "1", None, 3),
        Forwarded(1, "a", "2", None, 2),
        Forwarded(2, "b", None, "1", 1),
    ]


def test_an_older_version_is_left_out_in_silence_and_only_of_a_versioned_table():
    older = Change("k", "b1", "a1", 3, is_latest=False)

    assert grouped(older, is_versioned=True) == ([], [True])
    assert len(grouped(older)[0]) == 2
