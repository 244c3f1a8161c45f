"""Both ends of a foreign-key join at the left table: the instructions that are sent, and stale answers."""

import pyarrow as pa
import pytest

from kstreams_replay.jobs.functions.expressions import Call, Shape
from kstreams_replay.jobs.functions.value_joiners import Joiner
from kstreams_replay.jobs.graph.foreign_key_messages import Instruction, response_shape, subscription_shape
from kstreams_replay.jobs.graph.graph import TableTraits
from kstreams_replay.jobs.kernels.murmur3 import murmur3_128
from kstreams_replay.jobs.operators.base.operator import OperatorContext
from kstreams_replay.jobs.operators.joins.foreign_key_nodes import ForeignKeyResponseNode, ForeignKeySendNode
from kstreams_replay.jobs.operators.joins.foreign_key_send_and_response import ForeignKeyResponse, ForeignKeySend
from kstreams_replay.state.records.batches import Batch
from kstreams_replay.state.records.keys import Keys
from kstreams_replay.state.serdes import Serde
from tests.operators.cut_tapes import PARTITION, chunk_of, drops_of
from tests.operators.joins.foreign_key_parts import (
    RESPONSE,
    STRING,
    SUBSCRIPTION,
    PutsByCause,
    batch_of,
    rows_of,
)
from tests.operators.tapes import parse, render, table, value_of

LEFT = Shape(STRING, STRING)
LONG = Serde.long()
HASH_OF_G2 = (-6776040936442324265, 1683482432058818212)
"""Murmur3.hash128 of the UTF-8 of "g:2", by Kafka Streams 4.3.0."""
SHORT = {
    Instruction.DELETE_NO_PROPAGATE: "delete",
    Instruction.DELETE_AND_PROPAGATE: "tombstone",
    Instruction.PROPAGATE_NULL_IF_NO_FK: "always",
    Instruction.PROPAGATE_ONLY_IF_FK: "if_found",
}


def rows(text: str) -> list[dict]:
    found = [{name: value_of(cell) for name, cell in row.items()} for row in parse(text)]
    return [row | {"cause": row["step"] - 1} for row in found]


def first_part(key: str, value: str) -> str | None:
    """What is before the colon; ``:...`` has none. Kafka never asks for the key of a null value."""
    assert value is not None
    return value.partition(":")[0] or None


def sender(kind: str, *, is_versioned: bool = False) -> tuple[ForeignKeySend, Keys]:
    keys = Keys(STRING)
    extractor = Call(first_part, LEFT, STRING, "extractor")
    node = ForeignKeySendNode(
        name="send", inputs=("left",), shape=SUBSCRIPTION, kind=kind, foreign_key=extractor, left_value=STRING
    )
    return ForeignKeySend(
        OperatorContext("send", LEFT, keys, above=(TableTraits(is_versioned=is_versioned),)), node
    ), keys


def sent(kind: str, text: str) -> tuple[str, list[tuple[int, str]]]:
    """Instructions and refusals of changes (step, key, old, value, time)."""
    operator, keys = sender(kind)
    tape = rows(text)
    chunk = chunk_of(len(tape))
    found = rows_of(operator.process(batch_of(keys, tape, with_old=True), chunk), SUBSCRIPTION.value)
    named = [
        row
        | {
            "step": row["cause"] + 1,
            "foreign": row["key"],
            "primary": row["value"]["primary_key"].decode(),
            "instruction": SHORT[Instruction(row["value"]["instruction"])],
        }
        for row in found
    ]
    return render(named, ["step", "foreign", "primary", "instruction", "time"]), drops_of(chunk)


CHANGES = """
    step | key | old | value | time
    1    | a   | -   | f:1   | 10    # none to f
    2    | a   | f:1 | f:2   | 11    # f stays
    3    | a   | f:2 | g:2   | 9     # f to g
    4    | a   | g:2 | -     | 12    # deleted
    5    | a   | -   | -     | 13    # was not there
    6    | a   | -   | :3    | 14    # no foreign key
    7    | a   | :3  | f:3   | 15    # none to f
    8    | a   | f:3 | :4    | 16    # f to none
    9    | a   | :4  | :5    | 17    # none still
    10   | a   | :5  | -     | 18    # deleted, without a foreign key
"""


def test_an_inner_join_sends_what_the_rules_say():
    got, dropped = sent("inner", CHANGES)

    assert got == table("""
        step | foreign | primary | instruction | time
        1    | f       | a       | if_found    | 10
        2    | f       | a       | if_found    | 11
        3    | f       | a       | delete      | 9
        3    | g       | a       | always      | 9
        4    | g       | a       | tombstone   | 12
        7    | f       | a       | if_found    | 15
        8    | f       | a       | tombstone   | 16
    """)
    assert dropped == [(5, "null-foreign-key"), (7, "null-foreign-key"), (8, "null-foreign-key")]


def test_a_left_join_sends_what_the_rules_say():
    got, dropped = sent("left", CHANGES)

    assert got == table("""
        step | foreign | primary | instruction | time
        1    | f       | a       | always      | 10
        2    | f       | a       | always      | 11
        3    | f       | a       | delete      | 9
        3    | g       | a       | always      | 9
        4    | g       | a       | delete      | 12
        4    | -       | a       | always      | 12
        6    | -       | a       | always      | 14
        7    | f       | a       | always      | 15
        8    | f       | a       | delete      | 16
        8    | -       | a       | always      | 16
        9    | -       | a       | always      | 17
        10   | -       | a       | always      | 18
    """)
    assert dropped == []


def test_a_refused_change_that_still_deletes_counts_as_applied():
    operator, keys = sender("inner")
    chunk = chunk_of(2)

    operator.process(
        batch_of(
            keys,
            rows("""
        step | key | old | value | time
        1    | a   | f:3 | :4    | 16
        2    | b   | -   | :5    | 17
    """),
            with_old=True,
        ),
        chunk,
    )

    assert chunk.applied.tolist() == [True, False]
    assert chunk.refused.tolist() == [False, True]


@pytest.mark.parametrize("kind", ["inner", "left"])
def test_an_out_of_order_change_of_a_versioned_table_is_refused(kind):
    operator, keys = sender(kind, is_versioned=True)
    tape = rows("""
        step | key | old | value | time | latest
        1    | a   | -   | f:1   | 10   | 1
        2    | a   | f:1 | g:2   | 9    | 0
        3    | a   | f:1 | f:3   | 11   | 1
    """)
    chunk = chunk_of(3)

    found = operator.process(batch_of(keys, tape, with_old=True, latest=True), chunk)

    assert [row["cause"] for row in rows_of(found, SUBSCRIPTION.value)] == [0, 2]
    assert drops_of(chunk) == [(1, "out-of-order-version")]
    assert chunk.applied.tolist() == [True, False, True]


def test_a_subscription_carries_the_hash_of_the_new_value_and_the_partition_of_its_record():
    operator, keys = sender("left")
    tape = rows("""
        step | key | old | value | time
        1    | a   | f:1 | g:2   | 10
        2    | a   | g:2 | -     | 11
    """)

    found = rows_of(operator.process(batch_of(keys, tape, with_old=True), chunk_of(2)), SUBSCRIPTION.value)

    hashes = [(row["value"]["hash_a"], row["value"]["hash_b"]) for row in found]
    assert hashes == [HASH_OF_G2, HASH_OF_G2, (None, None), (None, None)]
    assert {row["value"]["partition"] for row in found} == {PARTITION}


# --- the answers ---------------------------------------------------------------------------------------------


class PairJoiner(Joiner):
    """``(left,right)``; remembers what it was asked."""

    result = STRING

    def __init__(self) -> None:
        self.asked: list[tuple] = []

    def evaluate(self, batch: Batch, left: pa.Array, right: pa.Array) -> pa.Array:
        assert len(batch) == len(left) == len(right)
        pairs = list(zip(left.to_pylist(), right.to_pylist(), strict=True))
        self.asked += pairs
        return pa.array([f"({one},{other})" for one, other in pairs], pa.string())


def hash_of(value: str | None) -> tuple[int | None, int | None]:
    first, second = murmur3_128(STRING.encode(pa.array([value], pa.string())))
    return (None, None) if value is None else (int(first[0]), int(second[0]))


def joined(kind: str, left: list[tuple], text: str) -> tuple[str, list[tuple[int, str]], list[tuple]]:
    """Results and refusals of answers (step, key, to, right, time), where ``to`` is the left value that asked; and what
    the joiner was asked. ``left``: (cause, key, value) put into the left table.
    """
    keys, joiner = Keys(STRING), PairJoiner()
    view = PutsByCause(keys)
    for cause, key, value in left:
        view.put(cause, key, value, 0)
    node = ForeignKeyResponseNode(
        name="resolve", inputs=("answers",), shape=LEFT, reads=("left",), kind=kind, joiner=joiner, left_value=STRING
    )
    operator = ForeignKeyResponse(OperatorContext("resolve", RESPONSE, keys, views=(view,)), node)
    tape = rows(text)
    for row in tape:
        hash_a, hash_b = hash_of(row["to"])
        row["value"] = {"hash_a": hash_a, "hash_b": hash_b, "right": row["right"], "partition": PARTITION}
    chunk = chunk_of(max(row["cause"] for row in tape) + 1)
    results = rows_of(operator.process(batch_of(keys, tape, RESPONSE.value), chunk), STRING)
    named = [row | {"step": row["cause"] + 1} for row in results]
    return render(named, ["step", "key", "value", "time"]), drops_of(chunk), joiner.asked


ANSWERS = """
    step | key | to  | right | time
    2    | a   | f:1 | x     | 50
    3    | a   | f:1 | -     | 60
    4    | a   | f:1 | y     | 70
    5    | a   | f:2 | y     | 71
    6    | a   | -   | -     | 72   # a is there, so it asks in vain
    7    | b   | -   | -     | 5
    8    | a   | f:2 | z     | 73
"""
LEFT_TABLE = [(0, "a", "f:1"), (3, "a", "f:2"), (7, "a", None)]
"""A put counts for the answers of later causes."""


def test_an_answer_to_a_value_that_is_no_longer_there_is_stale():
    got, dropped, asked = joined("inner", LEFT_TABLE, ANSWERS)

    assert got == table("""
        step | key | value   | time
        2    | a   | (f:1,x) | 50
        3    | a   | -       | 60
        4    | a   | (f:1,y) | 70
        5    | a   | (f:2,y) | 71
        7    | b   | -       | 5
        8    | a   | (f:2,z) | 73
    """)
    assert dropped == [(5, "stale-response")]
    assert asked == [("f:1", "x"), ("f:1", "y"), ("f:2", "y"), ("f:2", "z")]


def test_the_left_table_is_seen_as_it_is_when_the_answer_comes():
    _, dropped, _ = joined("inner", [(0, "a", "f:1"), (2, "a", "f:2"), (6, "a", None)], ANSWERS)

    assert dropped == [(3, "stale-response"), (5, "stale-response"), (7, "stale-response")]


def test_a_left_join_joins_a_left_value_with_nothing_but_never_nothing_with_nothing():
    got, _, asked = joined("left", LEFT_TABLE, ANSWERS)

    assert got == table("""
        step | key | value      | time
        2    | a   | (f:1,x)    | 50
        3    | a   | (f:1,None) | 60
        4    | a   | (f:1,y)    | 70
        5    | a   | (f:2,y)    | 71
        7    | b   | -          | 5
        8    | a   | (f:2,z)    | 73
    """)
    assert (None, None) not in asked


def test_shapes_are_keyed_by_the_foreign_key_and_by_the_primary_key():
    assert subscription_shape(STRING, LONG).key == LONG
    assert response_shape(STRING, LONG).key == STRING
    assert response_shape(STRING, LONG).value.arrow_type.field("right").type == LONG.arrow_type
