"""What versions of Kafka Streams answered to one tape: where answers change, the table of differences says so.

The answers are those of Kafka's own TopologyTestDriver, of the first release of each version, without caches and with
the interval of outer joins at 0. They were asked once, by hand; a test run asks our driver alone.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from kstreams_replay.jobs.code_changes.kafka_differences import VERSIONS, Effect
from kstreams_replay.jobs.code_changes.upgrade_advice import upgrade_advice
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import (
    Consumed,
    JoinWindows,
    KStream,
    KTable,
    Serde,
    SlidingWindows,
    StreamsBuilder,
    Topology,
)

TEXT = Serde.string()
ASKED = (*VERSIONS[1:12], "4.3", "4.4")
"""3.0 lacks the windows of these joins; 4.2 was not asked."""
Line = tuple[str, str | None, str | None, int]
Answers = list[list[str]]


@dataclass(frozen=True)
class Case:
    """``answers``: from that version on, to each line of the ``tape`` (topic, key, value, time) the results by it."""

    build: Callable[[StreamsBuilder], None]
    tape: list[Line]
    answers: dict[str, Answers]

    def topology(self) -> Topology:
        builder = StreamsBuilder()
        self.build(builder)
        return builder.build()


def stream(b: StreamsBuilder, topic: str) -> KStream:
    return b.stream(topic, Consumed(TEXT, TEXT))


def table(b: StreamsBuilder, topic: str) -> KTable:
    return b.table(topic, Consumed(TEXT, TEXT))


def pair(left: str | None, right: str | None) -> str:
    return f"{left or 'null'}+{right or 'null'}"


WINDOW = JoinWindows.of_time_difference_and_grace(10, 0)
UNEVEN: list[Line] = [
    ("l", "k", "L1", 1), ("r", "q", "R2", 2), ("l", "z", "L5", 5), ("l", "z", "L9", 9), ("r", "z", "R14", 14),
    ("l", "z", "L30", 30), ("r", "z", "R60", 60),
]  # fmt: skip
ROWS_OF_KEYS: list[Line] = [
    ("r", "eu", "EUR", 1), ("r", "us", "USD", 2), ("l", "u", "none", 3), ("l", "u", "eu", 4), ("l", "u", "none", 5),
    ("l", "u", "eu", 6), ("l", "u", "us", 7), ("l", "u", "xx", 8), ("l", "u", None, 9),
]  # fmt: skip


def key_of(value: str) -> str | None:
    return None if value == "none" else value


def by_foreign_key(kind: str) -> Callable[[StreamsBuilder], None]:
    return lambda b: (
        getattr(table(b, "l"), kind)(
            table(b, "r"), pair, foreign_key=key_of, foreign_key_returns=TEXT, returns=TEXT
        ).to_stream().to("out")
    )  # fmt: skip


CASES = {
    "outer join, only ahead": Case(
        lambda b: stream(b, "l").outer_join(stream(b, "r"), pair, WINDOW.before(0), returns=TEXT).to("out"),
        UNEVEN,
        {
            "3.1": [[], ["k=L1+null"], [], [], ["q=null+R2", "z=L5+null", "z=L9+null", "z=L5+R14", "z=L9+R14"], [],
                    ["z=L30+null"]],
            "3.2": [[], [], [], [], ["k=L1+null", "q=null+R2", "z=L5+null", "z=L9+null", "z=L5+R14", "z=L9+R14"], [],
                    ["z=L30+null"]],
            "3.8": [[], [], [], [], ["k=L1+null", "q=null+R2", "z=L5+R14", "z=L9+R14"], [], ["z=L30+null"]],
        },
    ),
    "outer join, only back": Case(
        lambda b: stream(b, "l").outer_join(stream(b, "r"), pair, WINDOW.after(0), returns=TEXT).to("out"),
        UNEVEN,
        {
            "3.1": [[], [], ["k=L1+null", "q=null+R2"], ["z=L5+null"], [], ["z=L9+null", "z=null+R14"],
                    ["z=L30+null"]],
            "3.2": [[], [], [], [], ["k=L1+null", "q=null+R2"], ["z=L5+null", "z=L9+null", "z=null+R14"],
                    ["z=L30+null"]],
            "3.8": [[], [], ["k=L1+null"], ["z=L5+null"], [], ["q=null+R2", "z=L9+null", "z=null+R14"],
                    ["z=L30+null"]],
        },
    ),
    "inner join of what has expired": Case(
        lambda b: stream(b, "l").join(stream(b, "r"), pair, WINDOW, returns=TEXT).to("out"),
        [("r", "k", "R1", 1), ("l", "k", "L5", 5), ("r", "k", "R100", 100), ("l", "k", "L2", 2)],
        {"3.1": [[], ["k=L5+R1"], [], ["k=L2+R1"]], "3.4": [[], ["k=L5+R1"], [], []]},
    ),
    "sliding windows without grace": Case(
        lambda b: stream(b, "l").group_by_key().windowed_by(SlidingWindows.of_time_difference(10)).count().to_stream()
        .map("concat(record_key, '@', window_start_ms)", "CAST(value AS VARCHAR)").to("out"),
        [("l", "a", "x", 1), ("l", "a", "x", 15), ("l", "a", "x", 20), ("l", "a", "x", 18)],
        {
            "3.1": [["a@0=1"], [], [], []],
            "3.2": [["a@0=1"], ["a@5=1"], ["a@16=1", "a@10=2"], ["a@16=2", "a@10=3", "a@19=1"]],
        },
    ),
    "reduce of a grouped table": Case(
        lambda b: table(b, "l").group_by("left(value, 1)", "value").reduce(
            lambda whole, one: whole + one, lambda whole, one: whole.replace(one, "", 1)
        ).to_stream().to("out"),
        [("l", "a", "x1", 1), ("l", "a", "x2", 2)],
        {"3.1": [["x=x1"], ["x=", "x=x2"]], "3.5": [["x=x1"], ["x=x2"]]},
    ),
    "null key in a left join of streams": Case(
        lambda b: stream(b, "l").left_join(stream(b, "r"), pair, WINDOW, returns=TEXT).to("out"),
        [("l", None, "L1", 1), ("l", "k", "L100", 100)],
        {"3.1": [[], []], "3.7": [["null=L1+null"], []]},
    ),
    "null key in a left join with a table": Case(
        lambda b: stream(b, "l").left_join(table(b, "t"), pair, returns=TEXT).to("out"),
        [("l", None, "L1", 1)],
        {"3.1": [[]], "3.7": [["null=L1+null"]]},
    ),
    "inner join by a foreign key": Case(
        by_foreign_key("join"),
        ROWS_OF_KEYS,
        {
            "3.9": [[], [], [], [], [], [], ["u=us+USD"], ["u=null"], ["u=null"]],
            "4.1": [[], [], [], ["u=eu+EUR"], ["u=null"], ["u=eu+EUR"], ["u=us+USD"], ["u=null"], ["u=null"]],
        },
    ),
    "left join by a foreign key": Case(
        by_foreign_key("left_join"),
        ROWS_OF_KEYS,
        {
            "3.9": [[], [], ["u=none+null"], ["u=eu+EUR"], ["u=none+null", "u=none+null"], ["u=eu+EUR"],
                    ["u=us+null", "u=us+USD"], ["u=xx+null", "u=xx+null"], ["u=null", "u=null"]],
            "4.1": [[], [], ["u=none+null"], ["u=eu+EUR"], ["u=none+null"], ["u=eu+EUR"], ["u=us+USD"], ["u=xx+null"],
                    ["u=null"]],
        },
    ),
    "left join with a global table": Case(
        lambda b: stream(b, "l").left_join(
            b.global_table("g", Consumed(TEXT, TEXT)), pair, selector=lambda key, value: key_of(value),
            selector_returns=TEXT, returns=TEXT,
        ).to("out"),
        [("g", "eu", "EUR", 1), ("l", "k", "eu", 2), ("l", "k", "none", 3), ("l", None, "none", 4),
         ("l", None, "eu", 5)],
        {
            "3.9": [[], ["k=eu+EUR"], [], ["null=none+null"], ["null=eu+EUR"]],
            "4.1": [[], ["k=eu+EUR"], ["k=none+null"], ["null=none+null"], ["null=eu+EUR"]],
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_replay_gives_the_answers_of_the_newest_version(name):
    case = CASES[name]
    driver, got = TopologyTestDriver(case.topology()), list[list[str]]()
    for topic, key, value, time_ms in case.tape:
        driver.pipe_input(topic, key, value, time_ms)
        results = driver.read_outputs("out")
        got.append([f"{each.key or 'null'}={'null' if each.value is None else each.value}" for each in results])

    assert got == list(case.answers.values())[-1]


@pytest.mark.parametrize("name", CASES)
def test_where_answers_change_the_table_has_a_difference_in_rows_of_that_version(name):
    case = CASES[name]
    versions = list(case.answers)
    advice = upgrade_advice(case.topology(), versions[0], VERSIONS[-1])

    told = {each.difference.since for each in advice.touched if each.difference.effect is Effect.ROWS}
    assert set(versions) <= set(ASKED)
    assert set(versions[1:]) <= told
