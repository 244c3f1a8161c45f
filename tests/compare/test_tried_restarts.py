"""Restarts that no refused record speaks of are found by running a task again with them.

Expected rows are those of Kafka's stores. A join's store hides what is older than its retention, 20 s here. It keeps
that for a segment of a minute, and shows it again after a restart. tests/judge/test_restarts.py has Kafka's own tasks.
"""

import struct
from typing import Any

import pytest

from kstreams_replay.jobs.compare import trials, tried_causes
from kstreams_replay.jobs.compare.comparison import Comparison, compare
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.landing.recorded_restarts import record_restarts
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    Consumed,
    JoinWindows,
    KStream,
    Serde,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    Topology,
)
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import DamagedTable
from tests.planted import LandedRecord, plant

pytestmark = pytest.mark.every_run

S = Serde.string()
Records = list[tuple[str, str, int]]
CLICKS = [("a", "x", 1_000), ("a", "y", 40_000)]
VIEWS = [("a", "in time", 41_000), ("a", "late", 2_000)]
"""The late view comes when its click is 39 s old by the clock of the clicks: a restart alone gives it a partner."""
RULES = [("a", "y/in time", 41_000)]
RESTARTED = [*RULES, ("a", "x/late", 2_000)]
CODE = (
    "from kstreams_replay import Consumed, JoinWindows, Serde, StreamsBuilder\n"
    "S = Serde.string()\n"
    "builder = StreamsBuilder()\n"
    "clicks, views = (builder.stream(topic, Consumed(S, S)) for topic in ('clicks', 'views'))\n"
    "within = JoinWindows.of_time_difference_with_no_grace('10s')\n"
    "clicks.join(views, lambda click, view: f'{click}/{view}', windows=within, returns=S).to('out')\n"
    "topology = builder.build()\n"
)


def pairs_of(builder: StreamsBuilder) -> KStream:
    clicks, views = (builder.stream(topic, Consumed(S, S)) for topic in ("clicks", "views"))
    within = JoinWindows.of_time_difference_with_no_grace("10s")
    return clicks.join(views, lambda click, view: f"{click}/{view}", windows=within, returns=S)


def joined() -> Topology:
    builder = StreamsBuilder()
    pairs_of(builder).to("out")
    return builder.build()


def counted() -> Topology:
    builder = StreamsBuilder()
    pairs_of(builder).group_by_key().count().to_stream().to("out")
    return builder.build()


def beside_another() -> Topology:
    builder = StreamsBuilder()
    builder.stream("before", Consumed(S, S)).to("copy")
    pairs_of(builder).to("out")
    return builder.build()


def replay_of(warehouse: Any, topology: Topology, clicks: Records, views: Records) -> None:
    """Land these, and replay them by their rules."""
    for topic, records in (("clicks", clicks), ("views", views)):
        plant(warehouse, topic, _landed(records), partitions=1)
    list(replay(warehouse, topology, pipeline="rules", runner=LocalRunner(), idle="proceed"))


@pytest.fixture
def replayed(warehouse):
    """The clicks and views, replayed by their rules."""
    replay_of(warehouse, joined(), CLICKS, VIEWS)
    return warehouse


def _landed(records: Records) -> list[LandedRecord]:
    return [LandedRecord(0, key.encode(), value.encode(), time_ms) for key, value, time_ms in records]


def compared(warehouse: Any, pipeline: str = "rules", **how: Any) -> Comparison:
    return compare(warehouse, joined(), "out", with_topic="live", pipeline=pipeline, form="events", **how)


def production(warehouse: Any, rows: Records) -> None:
    plant(warehouse, "live", _landed(rows), partitions=1)


def test_a_pair_that_a_restart_shows_again_is_explained_by_the_restart(replayed):
    production(replayed, RESTARTED)

    found = compared(replayed)

    assert found.verdicts == {"equal": 1, "extra": 1}
    assert found.causes == {"restart": 1}
    (restart,) = found.restarts
    assert (restart.topic, restart.partition, restart.after, restart.before) == ("views", 0, 0, 1)
    assert found.first[0].sentence == (
        "of a restart: with one between views:0:0 and views:0:1, its task writes the rows of production"
    )


def test_a_replay_with_the_restart_that_was_found_equals_production(replayed):
    production(replayed, RESTARTED)
    (restart,) = compared(replayed).restarts

    record_restarts(replayed, restart.topic, [(restart.partition, restart.before)])
    list(replay(replayed, joined(), pipeline="live", runner=LocalRunner(), idle="proceed"))

    assert compared(replayed, "live").is_equal


def test_behind_a_row_that_no_restart_explains_none_is(replayed):
    """Production has lost the pair in time."""
    production(replayed, [("a", "x/late", 2_000)])

    found = compared(replayed)

    assert found.verdicts == {"equal": 0, "missing": 1, "extra": 1}
    assert found.causes["not explained"] > 0
    assert "restart" not in found.causes
    assert found.restarts == ()


@pytest.mark.parametrize("value", ["x/other", "y/late"])
def test_a_row_that_no_restart_gives_has_no_cause(replayed, value):
    production(replayed, [*RULES, ("a", value, 2_000)])

    assert compared(replayed).not_explained == 1


def test_nothing_is_tried_where_nobody_wants_it_or_it_takes_too_long(replayed, monkeypatch):
    production(replayed, RESTARTED)

    assert compared(replayed, no_trials=True).not_explained == 1
    assert compared(replayed, until_ms=50_000).not_explained == 1
    assert compared(replayed, ignore_order=True).not_explained == 1
    monkeypatch.setattr(tried_causes, "RECORDS_MAX", trials.RECORDS_A_TRIAL)
    assert compared(replayed).not_explained == 1


def test_nothing_is_tried_where_other_code_made_the_rows(replayed):
    production(replayed, RESTARTED)
    builder = StreamsBuilder()
    clicks, views = (builder.stream(topic, Consumed(S, S)) for topic in ("clicks", "views"))
    within = JoinWindows.of_time_difference_with_no_grace("10s")
    clicks.join(views, lambda click, view: f"{click} and {view}", windows=within, returns=S).to("out")

    found = compare(replayed, builder.build(), "out", with_topic="live", pipeline="rules", form="events")

    assert found.causes == {"not explained": 1}


def test_what_production_has_not_reached_yet_is_no_work_of_a_restart(warehouse):
    later = [*CLICKS, ("a", "z", 90_000)], [*VIEWS, ("a", "w", 91_000)]
    replay_of(warehouse, joined(), *later)
    production(warehouse, RESTARTED)

    assert compared(warehouse).causes == {"restart": 1, "not yet": 1}


def test_rows_of_a_partition_in_which_our_rules_give_none_are_explained(warehouse):
    """The two clicks of the key are hidden by one of another key; production counts both pairs at the late view."""
    clicks = [("a", "x", 1_000), ("a", "x2", 1_500), ("c", "y", 40_000)]
    replay_of(warehouse, counted(), clicks, [("b", "v", 41_000), ("a", "late", 2_000)])
    counts = [LandedRecord(0, b"a", count.to_bytes(8, "big"), 2_000) for count in (1, 2)]
    plant(warehouse, "live", counts, partitions=1)

    found = compare(warehouse, counted(), "out", with_topic="live", pipeline="rules", form="events")

    assert found.rows == (0, 2)
    assert found.causes == {"restart": 2}


def test_a_restart_that_changes_no_row_before_that_of_a_later_one_is_found(warehouse):
    """
    Gap 10 s, grace 5 s. Restarts before 9000, 18500 and b. The second shows a's first session again, and the record at
    18500 joins it to the one at 28000; but what comes out next is b, which the third one lets in.
    """
    builder = StreamsBuilder()
    records = builder.stream("clicks", Consumed(S, S))
    windows = SessionWindows.with_inactivity_gap("10s", grace="5s")
    table = records.group_by_key().windowed_by(windows).count().suppress(Suppressed.until_window_closes())
    table.to_stream().to("out")
    topology = builder.build()
    keys = [("a", 1_000), ("a", 28_000), ("a", 9_000), ("z", 41_000), ("a", 18_500), ("b", 2_000), ("z", 42_000)]
    plant(warehouse, "clicks", _landed([(key, "x", time_ms) for key, time_ms in [*keys, ("z", 60_000)]]), partitions=1)
    sessions = [("a", 1_000, 1_000, 1), ("a", 1_000, 9_000, 2), ("b", 2_000, 2_000, 1), ("a", 1_000, 28_000, 4)]
    written = [
        LandedRecord(0, key.encode() + struct.pack(">qq", end, start), struct.pack(">q", count), end)
        for key, start, end, count in [*sessions, ("z", 41_000, 42_000, 2)]
    ]
    plant(warehouse, "live", written, partitions=1)
    list(replay(warehouse, topology, pipeline="rules", runner=LocalRunner()))

    found = compare(warehouse, topology, "out", with_topic="live", pipeline="rules", no_cache=True)

    assert found.verdicts == {"equal": 2, "extra": 3, "missing": 1}
    assert found.causes == {"restart": 4}
    assert [restart.before for restart in found.restarts] == [2, 4, 5]


def test_the_task_is_found_among_those_of_other_sub_topologies(warehouse):
    plant(warehouse, "before", _landed(CLICKS), partitions=1)
    replay_of(warehouse, beside_another(), CLICKS, VIEWS)
    production(warehouse, RESTARTED)

    found = compare(warehouse, beside_another(), "out", with_topic="live", pipeline="rules", form="events")

    assert found.causes == {"restart": 1}


def test_tables_that_cannot_be_read_again_are_no_reason_to_fail(replayed, monkeypatch):
    production(replayed, RESTARTED)

    def damaged(*_: Any, **__: Any) -> None:
        raise DamagedTable("state/x", "a file", "none", "restore it")

    monkeypatch.setattr(trials, "Rerun", damaged)

    assert compared(replayed).not_explained == 1


def test_the_command_names_the_restart_and_how_to_record_it(replayed, tmp_path, capsys):
    production(replayed, RESTARTED)
    code = tmp_path / "pairs.py"
    code.write_text(CODE)
    words = ["compare", "out", "--with-topic", "live", "--topology", f"{code}:topology"]
    words += ["--warehouse", replayed.root, "--pipeline", "rules"]

    assert main([*words, "--infer-restarts"]) == 4
    assert f"replay land views --warehouse {replayed.root} --restart 0:1\nthey leave nothing" in capsys.readouterr().out
    assert main([*words, "--no-trials"]) == 4
    assert "not explained" in capsys.readouterr().out
