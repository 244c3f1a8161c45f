"""What an upgrade of Kafka Streams means for a topology. Expected lines were read in Kafka's upgrade guide and code."""

import json
import re
from collections.abc import Callable

import pytest

from kstreams_replay.jobs.code_changes.kafka_differences import DIFFERENCES, VERSIONS, Effect
from kstreams_replay.jobs.code_changes.upgrade_advice import upgrade_advice
from kstreams_replay.jobs.functions.processor_api import KeyValues, Processor
from kstreams_replay.jobs.functions.state_stores import Stores
from kstreams_replay.jobs.graph.kafka_traits import KafkaTrait
from kstreams_replay.jobs.topology import (
    Consumed,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    Topology,
)
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.kafka_version import JUDGE, REPLAYED
from tests.every_store import every_store
from tests.test_docs import code_blocks, document

TEXT, LONG = Serde.string(), Serde.long()
EVEN = JoinWindows.of_time_difference_and_grace("10s", "1s")
ROWS, STATE, CALLS, TASKS = Effect.ROWS, Effect.STATE, Effect.CALLS, Effect.TASKS


class Sources:
    """What a case may use; tables have stores in memory, so that a case is about its own operator."""

    def __init__(self) -> None:
        self.builder = StreamsBuilder(config={"default.dsl.store": "in_memory"})
        self.left, self.right = self.stream("left"), self.stream("right")

    def stream(self, topic: str) -> KStream:
        return self.builder.stream(topic, Consumed(TEXT, TEXT))

    def table(self, topic: str) -> KTable:
        return self.builder.table(topic, Consumed(TEXT, TEXT))


def joined(kind: str, windows: JoinWindows) -> Callable[[Sources], object]:
    return lambda s: getattr(s.left, kind)(s.right, "left", windows, name="it")


def by_foreign_key(kind: str) -> Callable[[Sources], object]:
    return lambda s: getattr(s.table("a"), kind)(
        s.table("b"), "left", foreign_key="value", materialized=Materialized.as_("it", store="in_memory"), name="it"
    )


def globally(kind: str) -> Callable[[Sources], object]:
    return lambda s: getattr(s.left, kind)(
        s.builder.global_table("g", Consumed(TEXT, TEXT)), "left", selector="value", name="it"
    )


class Nothing(Processor):
    def process(self, record: object) -> None:
        """
        Takes records, and forwards none.
        """


def touching(build: Callable[[Sources], object], since: str, until: str, effect: Effect) -> list[tuple[str, str]]:
    """Version and first id of the differences that touch the operator "it", or a part of it in Kafka's names."""
    sources = Sources()
    build(sources)
    advice = upgrade_advice(sources.builder.build(), since, until)
    return [
        (each.difference.since, each.difference.ids[0] if each.difference.ids else "")
        for each in advice.touched
        if each.difference.effect is effect and any(re.match(r"it(-|$)", name) for name in each.operators)
    ]


@pytest.mark.parametrize(
    ("build", "rows"),
    [
        (joined("join", EVEN), []),
        (joined("join", EVEN.before("1s")), []),
        (joined("outer_join", EVEN), [("3.1", "KIP-633"), ("3.5", "KAFKA-14862"), ("3.7", "KIP-962")]),
        (
            joined("left_join", EVEN.before("1s")),
            [("3.1", "KIP-633"), ("3.2", "KAFKA-13721"), ("3.5", "KAFKA-14862"), ("3.7", "KIP-962"),
             ("3.8", "KAFKA-15417")],
        ),
        (joined("left_join", JoinWindows.of("10s").grace("1s")), [("3.7", "KIP-962")]),
        (by_foreign_key("join"), [("4.1", "KAFKA-16407")]),
        (by_foreign_key("left_join"), [("3.7", "KIP-962"), ("4.1", "KAFKA-18713")]),
        (globally("join"), []),
        (globally("left_join"), [("3.7", "KIP-962"), ("4.1", "KAFKA-19208")]),
        (lambda s: s.left.join(s.table("t"), "left", name="it"), []),
        (lambda s: s.left.left_join(s.table("t"), "left", name="it"), [("3.7", "KIP-962")]),
        (
            lambda s: s.table("t").group_by("value").count(Materialized.as_("s", store="in_memory"), name="it"),
            [("3.5", "KIP-904")],
        ),
        (
            lambda s: s.left.group_by_key().windowed_by(SlidingWindows.of_time_difference("1s")).count(
                Materialized.as_("s", store="in_memory"), name="it"
            ),
            [("3.2", "KAFKA-13739")],
        ),
        (
            lambda s: s.left.group_by_key().windowed_by(SessionWindows.with_inactivity_gap("1s")).count(
                Materialized.as_("s", store="persistent"), name="it"
            ),
            [("3.4", "KAFKA-12960")],
        ),
        (
            lambda s: s.left.group_by_key().windowed_by(SessionWindows.with_inactivity_gap("1s")).count(
                Materialized.as_("s", store="in_memory")
            ).to_stream().to("out", name="it"),
            [("4.4", "KIP-1321")],
        ),
        (
            lambda s: s.left.process(
                Nothing, [Stores.key_value_store_builder(Stores.in_memory_key_value_store("k"), TEXT, LONG)], name="it"
            ),
            [("4.0", "KAFKA-14460")],
        ),
        (
            lambda s: s.left.process(
                Nothing, [Stores.window_store_builder(
                    Stores.persistent_window_store("w", "1h", "1s", retain_duplicates=False), TEXT, LONG
                )], name="it",
            ),
            [("3.4", "KAFKA-12960")],
        ),
        (lambda s: s.left.filter("value = 'a'", name="it"), []),
    ],
)  # fmt: skip
def test_rows_that_an_upgrade_changes_are_told_of_the_operator_that_makes_them(build, rows):
    assert touching(build, "3.0", "4.4", ROWS) == rows


@pytest.mark.parametrize(
    ("build", "effect", "want"),
    [
        (by_foreign_key("join"), STATE, [("3.3", "KAFKA-13769"), ("3.8", "KAFKA-15774"), ("4.3", "KIP-1285")]),
        (by_foreign_key("join"), CALLS, [("3.1", "KIP-775"), ("4.0", "KIP-1104")]),
        (globally("join"), CALLS, [("4.4", "KIP-1340")]),
        (lambda s: s.left.to("out", name="it", partitioner=lambda *_: 0, partitions=2), CALLS,
         [("3.4", "KIP-873"), ("4.4", "KIP-1321")]),
        (lambda s: s.left.to("out", name="it"), CALLS, []),
        (lambda s: s.table("t").suppress(Suppressed.until_time_limit("1s", name="it")), STATE, [("4.4", "KIP-1285")]),
        (lambda s: s.left.process(Nothing, name="it"), CALLS, [("3.3", "KIP-820")]),
        (lambda s: s.left.process(Nothing, name="it"), STATE, []),
        (lambda s: s.left.process(Nothing, name="it"), TASKS, []),
        (lambda s: s.left.process(Nothing, [KeyValues("k", TEXT, LONG)], name="it"), TASKS, [("4.4", "")]),
        (lambda s: s.left.process(Nothing, [KeyValues("k", TEXT, LONG)], name="it"), STATE,
         [("4.0", ""), ("4.3", "KIP-1035")]),
        (lambda s: s.builder.global_table("g", Consumed(TEXT, TEXT), name="it"), TASKS, []),
    ],
)  # fmt: skip
def test_what_else_an_upgrade_means_is_told_by_its_effect(build, effect, want):
    assert touching(build, "3.0", "4.4", effect) == want


@pytest.mark.parametrize(
    ("since", "until", "rows"),
    [
        ("3.9", "4.4", [("4.1", "KAFKA-18713")]),
        ("3.6", "3.7", [("3.7", "KIP-962")]),
        ("3.7", "3.9", []),
        ("4.0", "4.1", [("4.1", "KAFKA-18713")]),
        ("4.1", "4.4", []),
    ],
)
def test_a_difference_counts_from_behind_the_first_version_up_to_the_second(since, until, rows):
    assert touching(by_foreign_key("left_join"), since, until, ROWS) == rows


def stateless() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(TEXT, TEXT)).filter("value <> ''").to("out")
    return builder.build()


def test_a_topology_may_be_touched_by_none():
    advice = upgrade_advice(stateless(), "3.9", "4.4")

    assert (advice.touched, advice.known > 0) == ((), True)


def test_between_the_versions_that_a_replay_makes_no_rows_differ_but_by_a_serializer_that_reads_headers():
    first, last = REPLAYED
    found = [each for each in DIFFERENCES if first < each.since <= last and each.effect is ROWS]

    assert [(each.ids, each.touches) for each in found] == [(("KIP-1321", "KAFKA-20197"), (KafkaTrait.WINDOWED_KEYS,))]


@pytest.mark.parametrize(
    ("since", "until", "words"),
    [
        ("2.8", "4.4", "--from: expected a version from 3.0 to 4.4, got '2.8'"),
        ("3.9", "4.4.0", "--to: expected a version from 3.0 to 4.4, got '4.4.0'; give the first two numbers"),
        ("4.4", "3.9", "--to: expected a version after 4.4, got '3.9'"),
        ("4.4", "4.4", "--to: expected a version after 4.4, got '4.4'"),
    ],
)
def test_versions_that_are_not_known_are_refused(since, until, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        upgrade_advice(stateless(), since, until)


def test_the_table_is_in_order_and_every_line_says_where_it_was_looked_up():
    order = [VERSIONS.index(each.since) for each in DIFFERENCES]
    ids = {each for difference in DIFFERENCES for each in difference.ids}

    assert order == sorted(order)
    assert {each for each in ids if not re.fullmatch(r"(KIP|KAFKA)-\d+", each)} == set()
    assert [each for each in DIFFERENCES if not (each.says.endswith(".") and each.verified and each.touches)] == []
    assert {trait for each in DIFFERENCES for trait in each.touches} == set(KafkaTrait)
    assert VERSIONS[-1] == REPLAYED[-1]
    assert JUDGE.startswith(f"{REPLAYED[0]}.")


def test_every_operator_of_a_topology_with_every_store_can_be_asked():
    advice = upgrade_advice(every_store(), "3.0", "4.4")

    touched = {name for each in advice.touched for name in each.operators}
    assert {"priced", "described-result", "final", "calm", "counting", "by-name"} - touched == {"by-name"}


TOPOLOGY = """
from kstreams_replay import Consumed, Serde, StreamsBuilder

builder = StreamsBuilder()
text = Consumed(Serde.string(), Serde.string())
users = builder.global_table("users", text)
builder.stream("orders", text).left_join(users, "left", selector="value", name="with-user").to("out")
topology = builder.build()
"""


def test_the_page_shows_what_the_command_says(tmp_path, capsys, monkeypatch):
    (tmp_path / "orders.py").write_text(TOPOLOGY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (shown,) = code_blocks(document("docs/upgrading-kafka.md"), "text")

    assert main(["upgrade-advice", "orders.py:topology", "--from", "3.9", "--to", "4.4"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line for line in shown if line not in (*said, "…")] == []


def test_the_command_names_operators_and_prints_rows_for_programs(tmp_path, capsys):
    file = tmp_path / "orders.py"
    file.write_text(TOPOLOGY, encoding="utf-8")
    asked = ["upgrade-advice", f"{file}:topology", "--from", "3.9", "--to", "4.1"]

    assert main(asked) == 0
    said = capsys.readouterr().out
    assert f"Kafka Streams 3.9 to 4.1: 2 of 6 known differences touch operators of {file}:topology" in said
    assert "4.1  rows  KAFKA-19208\n  A record whose key selector gives null is joined with null." in said
    assert "\n  - with-user\n  verified: pull request 19580" in said

    assert main([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["from"], found["to"], found["known"]) == ("3.9", "4.1", 6)
    assert [(each["since"], each["effect"], each["ids"], each["operators"]) for each in found["differences"]] == [
        ("4.0", "state", [], ["KTABLE-SOURCE-0000000002"]),
        ("4.1", "rows", ["KAFKA-19208"], ["with-user"]),
    ]

    assert main([*asked[:-1], "3.8"]) == 2
    assert "expected a version after 3.9, got '3.8'" in capsys.readouterr().err
