"""The right side of a foreign-key join: subscriptions are kept, and answered in Kafka's order with Kafka's times."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.graph.foreign_key_messages import Instruction
from kstreams_replay.jobs.graph.graph import TableTraits
from kstreams_replay.jobs.operators.base.operator import OperatorContext
from kstreams_replay.jobs.operators.joins.foreign_key_join import ForeignKeyJoin
from kstreams_replay.jobs.operators.joins.foreign_key_nodes import ForeignKeyJoinNode
from kstreams_replay.state.records.keys import Keys
from tests.operators.cut_tapes import chunk_of, drops_of, merged
from tests.operators.joins.foreign_key_parts import (
    RESPONSE,
    STRING,
    SUBSCRIPTION,
    PutsByCause,
    batch_of,
    rows_of,
)
from tests.operators.tapes import parse, render, table, value_of
from tests.sampling import examples

DELETE, TOMBSTONE, ALWAYS, IF_FOUND = Instruction


RIGHT = Shape(STRING, STRING)


class JoinOverSaves:
    """An operator between two saves, with the right table that it looks into."""

    def __init__(self, rows: pa.Table | None = None, *, is_versioned: bool = False) -> None:
        self.keys = Keys(STRING)
        self.view = PutsByCause(self.keys)
        node = ForeignKeyJoinNode(
            name="join", inputs=("sent", "right"), shape=RESPONSE, reads=("right",), kind="left", store="subscriptions"
        )
        above = (TableTraits(is_versioned=is_versioned),)
        context = OperatorContext(
            "join", SUBSCRIPTION, self.keys, shapes=(SUBSCRIPTION, RIGHT), views=(self.view,), above=above
        )
        self.operator = ForeignKeyJoin(context, node)
        self.operator.resume(self.operator.rows_schema().empty_table() if rows is None else rows, {})

    def run(self, tape: list[dict], *, latest: bool = False) -> tuple[list[dict], list[tuple[int, str]]]:
        """Answers and refusals of records with consecutive causes."""
        asked = [record | {"value": message(record)} for record in tape if record["side"] == "left"]
        told = [record for record in tape if record["side"] == "right"]
        for record in told:
            if record["key"] is not None and record.get("latest", True):
                self.view.put(record["cause"], record["key"], record["value"], record["time"])
        chunk = chunk_of(max((record["cause"] for record in tape), default=-1) + 1)
        batches = batch_of(self.keys, asked, SUBSCRIPTION.value), batch_of(self.keys, told, latest=latest)
        answers = rows_of(self.operator.process_all(batches, chunk), RESPONSE.value)
        self.view.settle()
        return [answer | answer.pop("value") for answer in answers], drops_of(chunk)


def message(record: dict) -> dict:
    """``value`` of a subscription is the hash, as one number."""
    return {
        "primary_key": record["primary"].encode(),
        "instruction": int(record["instruction"]),
        "hash_a": record["value"],
        "hash_b": None if record["value"] is None else -record["value"],
        "partition": 7,
    }


def tape_of(text: str) -> list[dict]:
    rows = [{name: value_of(cell) for name, cell in row.items()} for row in parse(text)]
    names = {"delete": DELETE, "tombstone": TOMBSTONE, "always": ALWAYS, "if_found": IF_FOUND, None: None}
    return [row | {"cause": row["step"] - 1, "instruction": names[row["instruction"]]} for row in rows]


def answered(text: str) -> str:
    """Step, key, hash, right value and time of every answer."""
    answers, _ = JoinOverSaves().run(tape_of(text))
    named = [answer | {"step": answer["cause"] + 1, "hash": answer["hash_a"]} for answer in answers]
    return render(named, ["step", "key", "hash", "right", "time"])


def test_a_subscription_is_answered_with_the_right_value_of_that_moment_at_the_later_time():
    got = answered("""
        step | side  | key | primary | instruction | value | time
        1    | left  | f   | a       | always      | 1     | 10
        2    | right | f   | -       | -           | x     | 5
        3    | left  | f   | b       | always      | 2     | 3
        4    | left  | f   | c       | if_found    | 3     | 8
        5    | left  | g   | d       | if_found    | 4     | 8
    """)

    assert got == table("""
        step | key | hash | right | time
        1    | a   | 1    | -     | 10
        2    | a   | 1    | x     | 5
        3    | b   | 2    | x     | 5    # max(3, 5)
        4    | c   | 3    | x     | 8    # nothing for d: g has no value
    """)


def test_a_deleted_subscription_is_answered_only_when_it_asks_for_it_and_is_told_nothing_more():
    got = answered("""
        step | side  | key | primary | instruction | value | time
        1    | right | f   | -       | -           | x     | 5
        2    | left  | f   | a       | always      | 1     | 6
        3    | left  | f   | b       | always      | 2     | 6
        4    | left  | f   | a       | delete      | 3     | 7
        5    | left  | f   | b       | tombstone   | -     | 4
        6    | right | f   | -       | -           | y     | 8
        7    | left  | h   | z       | tombstone   | -     | 9
    """)

    assert got == table("""
        step | key | hash | right | time
        2    | a   | 1    | x     | 6
        3    | b   | 2    | x     | 6
        5    | b   | -    | -     | 5    # max(4, 5): the right value is not told, but its time counts
        7    | z   | -    | -     | 9
    """)


def test_a_change_is_told_by_rising_bytes_of_the_primary_key_at_its_own_time():
    got = answered("""
        step | side  | key | primary | instruction | value | time
        1    | left  | f   | b       | if_found    | 1     | 90
        2    | left  | f   | ä       | if_found    | 2     | 90
        3    | left  | f   | aa      | if_found    | 3     | 90
        4    | left  | f   | a       | if_found    | 4     | 90
        5    | left  | g   | c       | if_found    | 5     | 90
        6    | left  | f   | B       | if_found    | 6     | 90
        7    | right | f   | -       | -           | x     | 5
        8    | left  | f   | b       | if_found    | 7     | 90
        9    | left  | f   | A       | if_found    | 8     | 3
        10   | right | f   | -       | -           | -     | 4
    """)

    assert got == table("""
        step | key | hash | right | time
        7    | B   | 6    | x     | 5
        7    | a   | 4    | x     | 5
        7    | aa  | 3    | x     | 5
        7    | b   | 1    | x     | 5
        7    | ä   | 2    | x     | 5
        8    | b   | 7    | x     | 90
        9    | A   | 8    | x     | 5
        10   | A   | 8    | -     | 4
        10   | B   | 6    | -     | 4
        10   | a   | 4    | -     | 4
        10   | aa  | 3    | -     | 4
        10   | b   | 7    | -     | 4
        10   | ä   | 2    | -     | 4
    """)


def test_a_null_foreign_key_is_answered_and_not_kept_or_refused():
    tape = tape_of("""
        step | side  | key | primary | instruction | value | time
        1    | left  | -   | a       | always      | 1     | 10
        2    | left  | -   | a       | if_found    | 1     | 10
        3    | left  | -   | a       | delete      | 1     | 10
        4    | right | -   | -       | -           | x     | 11
    """)
    joined = JoinOverSaves()

    answers, dropped = joined.run(tape)

    assert [(answer["cause"], answer["key"], answer["right"]) for answer in answers] == [(0, "a", None)]
    assert dropped == [(1, "null-foreign-key"), (2, "null-foreign-key"), (3, "null-key")]
    assert len(joined.operator.rows()) == 0


def test_an_out_of_order_change_of_a_versioned_table_is_refused():
    tape = tape_of("""
        step | side  | key | primary | instruction | value | time
        1    | left  | f   | a       | always      | 1     | 10
        2    | right | f   | -       | -           | x     | 20
        3    | right | f   | -       | -           | y     | 15
        4    | left  | f   | b       | always      | 2     | 10
    """)
    tape = [record | {"latest": record["value"] != "y"} for record in tape]

    answers, dropped = JoinOverSaves(is_versioned=True).run(tape, latest=True)

    got = [(answer["cause"], answer["key"], answer["right"], answer["time"]) for answer in answers]
    assert got == [(0, "a", None, 10), (1, "a", "x", 20), (3, "b", "x", 20)]
    assert dropped == [(2, "out-of-order-version")]


def test_an_answer_goes_to_the_partition_of_its_left_record():
    subscription = {
        "side": "left",
        "cause": 0,
        "key": "f",
        "primary": "a",
        "instruction": ALWAYS,
        "value": 1,
        "time": 1,
    }
    change = {"side": "right", "cause": 1, "key": "f", "value": "x", "time": 2}

    answers, _ = JoinOverSaves().run([subscription, change])

    assert [answer["partition"] for answer in answers] == [7, 7]


def test_a_right_value_of_no_bytes_is_told_as_null_but_counts_as_one():
    tape = tape_of("""
        step | side  | key | primary | instruction | value | time
        1    | right | f   | -       | -           | x     | 9
        2    | left  | f   | a       | if_found    | 1     | 5
        3    | right | f   | -       | -           | -     | 12
    """)
    tape[0]["value"] = tape[2]["value"] = ""

    answers, _ = JoinOverSaves().run(tape)

    got = [(answer["cause"], answer["right"], answer["time"]) for answer in answers]
    assert got == [(1, None, 9), (2, None, 12)]


# --- against the rules, record by record ---------------------------------------------------------------------


def expected(tape: list[dict]) -> list[tuple]:
    """(cause, primary key, hash, right value, time) after the rules, on dicts."""
    right: dict[str, tuple[str, int]] = {}
    kept: dict[str, dict[str, int]] = {}
    answers = []
    for record in tape:
        cause, key, time = record["cause"], record["key"], record["time"]
        if record["side"] == "right":
            if record["value"] is None:
                right.pop(key, None)
            else:
                right[key] = (record["value"], time)
            told = sorted(kept.get(key, {}), key=str.encode)
            answers += [(cause, primary, kept[key][primary], record["value"], time) for primary in told]
            continue
        primary, instruction = record["primary"], record["instruction"]
        if instruction in (DELETE, TOMBSTONE):
            kept.get(key, {}).pop(primary, None)
        else:
            kept.setdefault(key, {})[primary] = record["value"]
        value, right_time = right.get(key, (None, -1))
        if instruction == DELETE or (instruction == IF_FOUND and value is None):
            continue
        shown = None if instruction == TOMBSTONE else value
        answers.append((cause, primary, record["value"], shown, max(time, right_time)))
    return answers


foreign, times = st.sampled_from("fgh"), st.integers(0, 50)
primaries = st.sampled_from(["", "a", "aa", "a\0", "b", "é", "zz"])
lefts = st.fixed_dictionaries(
    {
        "side": st.just("left"),
        "key": foreign,
        "primary": primaries,
        "instruction": st.sampled_from(Instruction),
        "value": st.integers(1, 99),
        "time": times,
    }
)
rights = st.fixed_dictionaries(
    {"side": st.just("right"), "key": foreign, "value": st.none() | st.sampled_from("xyz"), "time": times}
)
tapes = st.lists(lefts | rights, max_size=40)


def numbered(tape: list[dict]) -> list[dict]:
    return [record | {"cause": cause} for cause, record in enumerate(tape)]


def shown(answers: list[dict], first: int = 0) -> list[tuple]:
    return [
        (answer["cause"] + first, answer["key"], answer["hash_a"], answer["right"], answer["time"])
        for answer in answers
    ]


@settings(deadline=None, max_examples=examples(150))
@given(tape=tapes)
def test_answers_are_those_of_the_rules(tape):
    tape = numbered(tape)

    answers, _ = JoinOverSaves().run(tape)

    assert shown(answers) == expected(tape)


@settings(deadline=None, max_examples=examples(100))
@given(tape=tapes, cuts=st.lists(st.integers(0, 40), max_size=4))
def test_where_the_tape_is_cut_changes_nothing(tape, cuts):
    whole = JoinOverSaves()
    want, _ = whole.run(numbered(tape))

    got, rows, joined = [], None, JoinOverSaves()
    bounds = [0, *sorted(min(cut, len(tape)) for cut in cuts), len(tape)]
    for begin, end in pairwise(bounds):
        got += shown(joined.run(numbered(tape[begin:end]))[0], begin)
        rows = merged(joined.operator, rows)
        now = {STRING.to_python(joined.keys.typed(np.array([code])))[0]: put for code, put in joined.view.now.items()}
        joined = JoinOverSaves(rows)
        for key, (value, time_ms) in now.items():
            joined.view.put(-1, key, value, time_ms)
        joined.view.settle()

    assert got == shown(want)
    assert sorted(map(repr, rows.to_pylist())) == sorted(map(repr, whole.operator.rows().to_pylist()))


@pytest.mark.parametrize("subscribers", [1, 5, 3000])
def test_a_change_may_have_more_answers_than_the_chunk_has_records(subscribers):
    joined = JoinOverSaves()
    tape = [
        {
            "side": "left",
            "key": "f",
            "primary": f"{n * 7919 % subscribers:05}",
            "instruction": IF_FOUND,
            "value": n,
            "time": 0,
        }
        for n in range(subscribers)
    ]
    joined.run(numbered(tape))

    answers, _ = joined.run(
        numbered([{"side": "right", "key": "f", "value": value, "time": 1} for value in ("x", None, "y")])
    )

    want = [(cause, f"{n:05}", value) for cause, value in enumerate(("x", None, "y")) for n in range(subscribers)]
    assert [(answer["cause"], answer["key"], answer["right"]) for answer in answers] == want
