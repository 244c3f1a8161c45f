"""Advice about another grace equals the result of a fork that is replayed with it."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from kstreams_replay.jobs.branches.advice.grace import Advice, GraceAdvice, WhatIf, advise_grace, round_up
from kstreams_replay.jobs.branches.branches import fork
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    Consumed,
    JoinWindows,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import ConfigError, LedgerError
from kstreams_replay.state.tables.names import DROPPED
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.landing.file_folders import land, write
from tests.planted import LandedRecord, plant

STRING = Serde.string()
GRACES = [0, 25, 90]
GIVEN = {"sessions": 15, "pages": 10, "paid-merge": 8, "paid-counts": 5}


def shop(graces: dict[str, int] | None = None) -> Topology:
    """Sessions; pages below a repartition; a join of streams, and windows below it."""
    grace = GIVEN | (graces or {})
    builder = StreamsBuilder()
    clicks, paid = (builder.stream(topic, Consumed(STRING, STRING)) for topic in ("clicks", "paid"))
    sessions = SessionWindows.with_inactivity_gap(20, grace=grace["sessions"])
    counted = clicks.group_by_key().windowed_by(sessions).count(name="sessions")
    counted.suppress(Suppressed.until_window_closes(name="final-sessions")).to("sessions")
    pages = TimeWindows.of_size(30, grace=grace["pages"]).advance_by(10)
    by_page = clicks.filter(lambda key, value: value is not None).group_by(lambda key, value: value[:2], returns=STRING)
    by_page.windowed_by(pages).emit_strategy("on_window_close").count(name="pages").to("pages")
    windows = JoinWindows.of_time_difference_and_grace(15, grace["paid-merge"])
    both = clicks.left_join(paid, lambda click, paid: f"{click}{paid}", windows, returns=STRING, name="paid")
    sliding = SlidingWindows.of_time_difference(20, grace=grace["paid-counts"])
    both.group_by_key().windowed_by(sliding).count(name="paid-counts").to("paid-counts")
    return builder.build()


def tape(seed: int, records: int) -> list[LandedRecord]:
    dice, now, rows = random.Random(seed), 100, []
    for _ in range(records):
        now += dice.choice((0, 1, 3, 9, 30))
        key = dice.choice((b"ann", b"bob", b"cid", b"dan", None, b"bad \xff"))
        value = dice.choice((b"home", b"cart", b"help", b"home", None))
        rows.append(LandedRecord(dice.randrange(2), key, value, now - dice.choice((0, 0, 0, 2, 14, 60, 120))))
    return rows


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Three increments of two topics with two partitions each."""
    warehouse = Warehouse(str(tmp_path_factory.mktemp("advice")))
    for topic, seed in (("clicks", 3), ("paid", 4)):
        plant(warehouse, topic, tape(seed, 160), partitions=2)
    assert len(list(replay(warehouse, shop(), pipeline="p", runner=LocalRunner(), max_records=130))) > 2
    return warehouse


def files(root: str) -> set[str]:
    return {str(path) for path in Path(root).rglob("*")}


def late_drops(warehouse: Warehouse, pipeline: str) -> Counter[str]:
    """Rows of `dropped` that a limit of time decided, by node."""
    rows = read_table(warehouse, pipeline, DROPPED).to_pylist()
    return Counter(row["node"] for row in rows if row["reason"] in ("expired-window", "expired-in-store"))


def of(advice: Advice, node: str) -> GraceAdvice:
    return next(each for each in advice.nodes if each.node == node)


def what_if(advice: Advice, node: str, grace: int) -> WhatIf:
    return next(each for each in of(advice, node).what_if if each.grace_ms == grace)


def forked(warehouse: Warehouse, increment: int, graces: dict[str, int]) -> Counter[str]:
    """What a fork that is replayed with these graces refuses because it is late."""
    name = f"fork-{increment}-" + "-".join(f"{node}-{grace}" for node, grace in graces.items())
    fork(warehouse, "p", increment, name, topology=shop(graces))
    list(replay(warehouse, shop(graces), pipeline=name, runner=LocalRunner()))
    return late_drops(warehouse, name)


UNRELATED = ["sessions", "pages", "paid-merge"]


@pytest.mark.sampled(share=len(GRACES))
@pytest.mark.parametrize("turn", range(len(GRACES)))
def test_what_it_says_of_three_graces_is_what_forks_refuse(replayed, turn):
    before = files(replayed.root)
    advice = advise_grace(replayed, shop(), pipeline="p", graces=GRACES, nodes=UNRELATED)
    assert files(replayed.root) == before
    assert advice.runs == 1 + len(GRACES)  # of three nodes together
    now = {each.node: what_if(advice, each.node, GIVEN[each.node]).refusals for each in advice.nodes}
    assert now == {node: late_drops(replayed, "p")[node] for node in UNRELATED}
    assert len({what_if(advice, "sessions", grace).refusals for grace in GRACES}) == 3

    graces = {node: GRACES[(turn + place) % len(GRACES)] for place, node in enumerate(UNRELATED)}
    refused = forked(replayed, 0, graces)
    assert {node: what_if(advice, node, grace).refusals for node, grace in graces.items()} == {
        node: refused[node] for node in UNRELATED
    }


@pytest.mark.nightly
@pytest.mark.parametrize("grace", GRACES)
def test_below_a_join_it_is_what_a_fork_refuses(replayed, grace):
    advice = advise_grace(replayed, shop(), pipeline="p", graces=[grace])

    assert advice.runs == 1 + 2  # what stands below the join by itself
    assert what_if(advice, "paid-counts", grace).refusals == forked(replayed, 0, {"paid-counts": grace})["paid-counts"]


@pytest.mark.nightly
def test_from_the_middle_it_is_what_a_fork_from_there_refuses(replayed):
    advice = advise_grace(replayed, shop(), pipeline="p", graces=[40], nodes=["pages"], since_ms=1200)

    assert advice.since > 1
    earlier = read_table(replayed, "p", DROPPED, increment=advice.since - 1).to_pylist()
    before = sum(row["node"] == "pages" and row["reason"] == "expired-window" for row in earlier)
    assert before > 0
    assert what_if(advice, "pages", 40).refusals == forked(replayed, advice.since - 1, {"pages": 40})["pages"] - before
    assert what_if(advice, "pages", 40).state_rows is None


def one_window(grace: int = 0) -> Topology:
    builder = StreamsBuilder()
    windows = TimeWindows.of_size(10, grace=grace)
    counts = builder.stream("in", Consumed(STRING, STRING)).group_by_key().windowed_by(windows).count(name="counts")
    counts.suppress(Suppressed.until_window_closes(name="final")).to("out")
    return builder.build()


# Of partition 0, stream time before each record: -1, 100, 100, 100, 140. Of partition 1: -1, 50, 50.
TAPE = [
    LandedRecord(0, b"ann", b"x", 100),
    LandedRecord(0, b"bob", b"x", 93),  # 7 behind: [90, 100) is closed unless the grace is above 0
    LandedRecord(0, None, b"x", 200),  # no key: it moves no stream time
    LandedRecord(0, b"ann", b"x", 100),
    LandedRecord(0, b"ann", b"x", 140),
    LandedRecord(0, b"cid", b"x", 111),  # 29 behind: [110, 120) takes it with a grace above 20
    LandedRecord(1, b"dan", b"x", 50),
    LandedRecord(1, b"dan", b"x", 50),
    LandedRecord(1, None, b"x", 10),
]


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    warehouse = Warehouse(str(tmp_path_factory.mktemp("counted")))
    plant(warehouse, "in", TAPE, partitions=2)
    list(replay(warehouse, one_window(), pipeline="p", runner=LocalRunner(), idle="proceed"))
    return warehouse


def test_lateness_is_counted_by_partition_and_by_key(counted):
    (advice,) = advise_grace(counted, one_window(), pipeline="p", graces=[]).nodes

    assert [
        (each.partition, each.records, each.records_behind, each.max_ms, each.keys, each.keys_behind)
        for each in advice.lateness
    ] == [(None, 7, 2, 29, 4, 2), (0, 5, 2, 29, 3, 2), (1, 2, 0, 0, 1, 0)]
    assert [list(each.percentiles_ms.values()) for each in advice.lateness] == [
        [0, 29, 29, 29], [0, 29, 29, 29], [0, 0, 0, 0],
    ]  # fmt: skip


def test_each_grace_has_what_it_saves_and_what_it_costs(counted):
    (advice,) = advise_grace(counted, one_window(), pipeline="p", graces=[1, 20, 21, 100]).nodes

    found = [(each.grace_ms, each.refused, each.refusals, each.saved, each.delayed_by_ms) for each in advice.what_if]
    assert found == [(0, 2, 2, 0, 0), (1, 1, 1, 1, 1), (20, 1, 1, 1, 20), (21, 0, 0, 2, 21), (100, 0, 0, 2, 100)]
    # the most in the buffers, counted before what closes leaves: ann twice, bob if he is in time, and dan; with 100 cid
    assert [each.buffer_results for each in advice.what_if] == [3, 4, 4, 4, 5]
    sizes = [each.buffer_bytes for each in advice.what_if]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    rows = [each.state_rows for each in advice.what_if]
    assert rows == sorted(rows)
    assert all(each.state_bytes for each in advice.what_if)
    assert advice.suggested_ms == 21
    assert advice.reason == (
        "21ms refuses 0 of 7 records (0.000%), where 0s refuses 2; results leave 21ms later, and it is the shortest "
        "that refuses at most 0.100% of its records."
    )


def test_it_says_when_the_grace_is_right_and_when_none_is(counted):
    (kept,) = advise_grace(counted, one_window(21), pipeline="p", graces=[5, 50]).nodes
    (none,) = advise_grace(counted, one_window(), pipeline="p", graces=[5]).nodes

    assert kept.suggested_ms == 21
    assert kept.reason.startswith("Keep it: 21ms refuses 0 of 7 records")
    assert none.suggested_ms == 5
    assert "5ms still refuses 1 of 7 records" in none.reason
    assert "The latest record was 29ms behind" in none.reason


def test_without_graces_those_around_the_percentiles_are_tried(counted):
    (advice,) = advise_grace(counted, one_window(), pipeline="p").nodes

    assert [each.grace_ms for each in advice.what_if] == [0, 50]
    assert [round_up(ms) for ms in (0, 1, 3, 999, 1001, 61_000, 3_600_001, 50_000_000, 90_000_000)] == [
        0, 1, 5, 1000, 2000, 120_000, 7_200_000, 86_400_000, 172_800_000,
    ]  # fmt: skip


def test_records_of_a_time_and_later_are_left_out(counted):
    advice = advise_grace(counted, one_window(), pipeline="p", graces=[], until_ms=140)

    assert advice.records == 5  # what stands before the first record of that time or later, in each partition: 2 + 3
    assert advice.nodes[0].lateness[0].max_ms == 7


def test_a_buffer_that_would_be_full_is_said(tmp_path):
    builder = StreamsBuilder()
    windows = TimeWindows.of_size(10, grace=0)
    counts = builder.stream("in", Consumed(STRING, STRING)).group_by_key().windowed_by(windows).count(name="counts")
    counts.suppress(Suppressed.until_window_closes(max_records=2, name="final")).to("out")
    topology, warehouse = builder.build(), Warehouse(str(tmp_path))
    plant(warehouse, "in", [LandedRecord(0, b"ann", b"x", 10 * number) for number in range(5)], partitions=1)
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner()))

    (advice,) = advise_grace(warehouse, topology, pipeline="p", graces=[100]).nodes

    assert [each.fails is None for each in advice.what_if] == [True, False]
    assert "buffer" in str(advice.what_if[1].fails)
    assert advice.suggested_ms == 0


def test_what_it_cannot_advise_on_is_an_error(counted, tmp_path):
    with pytest.raises(
        ConfigError, match="node 'final': expected an operator whose windows have a grace, got those are"
    ):
        advise_grace(counted, one_window(), pipeline="p", nodes=["final"])
    with pytest.raises(LedgerError, match="run the replay first"):
        advise_grace(counted, one_window(), pipeline="nobody")


def landed_and_replayed(folder: Path, files: dict[str, list[tuple[int, int]]]) -> Warehouse:
    """Files of records (time, partition)."""
    texts = {
        name: "".join(f'{{"t":{time_ms},"p":{partition},"k":"ann","v":"x"}}\n' for time_ms, partition in records)
        for name, records in files.items()
    }
    warehouse = Warehouse(str(folder / "w"))
    directory = write(folder / "in", texts)
    land(warehouse, directory, topic="in", key="k", value="v", partition="p", partitions=2)
    list(replay(warehouse, one_window(), pipeline="p", runner=LocalRunner(), idle="proceed"))
    return warehouse


@pytest.mark.parametrize("graces", [None, [5_000], [500]])
def test_no_grace_is_praised_where_files_have_landed_in_a_wrong_order(tmp_path, graces):
    files = {"dump-1.jsonl": [(1_000, 0), (1_010, 0)], "dump-2.jsonl": [(0, 0), (10, 0)]}
    warehouse = landed_and_replayed(tmp_path, files)

    (advice,) = advise_grace(warehouse, one_window(), pipeline="p", graces=graces).nodes

    assert [each.refused for each in advice.what_if if each.grace_ms == 0] == [2]
    assert advice.suggested_ms is None
    assert advice.reason == (
        "No grace, since the order of the log is wrong: in topic in, times go back by 1 s 10 ms from dump-1.jsonl to "
        "dump-2.jsonl (partition 0), and within a file by 0 ms at most. Land the files in the right order, into a "
        "topic of another name: --order-by names columns of theirs, --offset the one of Kafka's offsets. Without both, "
        "files are read in natural order of their names."
    )


def test_a_grace_is_suggested_for_records_that_are_later_than_the_order_of_files_makes_them(tmp_path):
    files = {"dump-1.jsonl": [(1_000, 0), (9_000, 1), (1_000, 1)], "dump-2.jsonl": [(900, 0)]}
    warehouse = landed_and_replayed(tmp_path, files)

    (advice,) = advise_grace(warehouse, one_window(), pipeline="p", graces=[100, 10_000]).nodes

    assert [(each.grace_ms, each.refused) for each in advice.what_if] == [(0, 2), (100, 1), (10_000, 0)]
    assert advice.suggested_ms == 10_000


def test_records_that_are_late_within_a_file_are_no_disorder(tmp_path):
    files = {"dump-1.jsonl": [(1_000, 0), (900, 0)], "dump-2.jsonl": [(700, 0)]}
    warehouse = landed_and_replayed(tmp_path, files)

    (advice,) = advise_grace(warehouse, one_window(), pipeline="p", graces=[100], refused_max=0.5).nodes

    assert [(each.grace_ms, each.refused) for each in advice.what_if] == [(0, 2), (100, 1)]
    assert advice.suggested_ms == 100


def test_the_command_prints_tables_and_json(counted, tmp_path, capsys):
    (tmp_path / "window.py").write_text(WINDOW)
    asked = ["advise", "grace", f"{tmp_path}/window.py:topology", "--warehouse", counted.root, "--pipeline", "p"]

    assert main([*asked, "--grace", "1ms, 21ms"]) == 0
    out = capsys.readouterr().out
    assert "increments 1 to 1: 9 records, run 3 times" in out
    assert "counts (sub-topology 0), grace 0s" in out
    assert "0s (now)" in out
    assert "suggested: 21ms. 21ms refuses 0 of 7 records" in out

    assert main([*asked, "--grace", "21ms", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["refused"] for each in found["nodes"][0]["what_if"]] == [2, 0]
    assert found["nodes"][0]["lateness"][0]["percentiles_ms"] == {"50.0": 0, "90.0": 29, "99.0": 29, "99.9": 29}

    assert main([*asked, "--grace", "often"]) == 2


WINDOW = """
from kstreams_replay import Consumed, Serde, StreamsBuilder, Suppressed, TimeWindows

builder = StreamsBuilder()
clicks = builder.stream("in", Consumed(Serde.string(), Serde.string()))
counts = clicks.group_by_key().windowed_by(TimeWindows.of_size(10)).count(name="counts")
counts.suppress(Suppressed.until_window_closes(name="final")).to("out")
topology = builder.build()
"""
