"""Topics of which nothing more comes: nobody waits for them, no cut changes a result, and the word holds."""

import random
from collections.abc import Callable

import pytest

from kstreams_replay import record_complete
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.landing.landing import FileSource, LandingRules, land_files, land_records
from kstreams_replay.jobs.landing.recorded_time import record_time
from kstreams_replay.jobs.replay.landed_times import LandedTimes
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.replay.planner import Planner
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.orchestration.what_waits import inputs_that_wait
from kstreams_replay.state.errors import ConfigError, LandingError
from kstreams_replay.state.tables.ledger import LandingLedger
from kstreams_replay.state.tables.ledger_rows import DoneRow
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.landing.landed_records import records

STRING = Serde.string()
Rows = list[tuple[int, int, bytes, bytes]]


def table_join() -> Topology:
    builder = StreamsBuilder()
    users = builder.table("users", Consumed(STRING, STRING))
    pays = builder.stream("pays", Consumed(STRING, STRING))
    pays.left_join(users, lambda pay, user: f"{pay}+{user}", returns=STRING).to("out")
    return builder.build()


def global_join() -> Topology:
    builder = StreamsBuilder()
    users = builder.global_table("users", Consumed(STRING, STRING))
    pays = builder.stream("pays", Consumed(STRING, STRING))
    pays.left_join(users, lambda pay, user: f"{pay}+{user}", selector="record_key", returns=STRING).to("out")
    return builder.build()


def join_behind_a_repartition() -> Topology:
    builder = StreamsBuilder()
    users = builder.table("users", Consumed(STRING, STRING))
    pays = builder.stream("pays", Consumed(STRING, STRING))
    by_value = pays.select_key(lambda key, value: value, returns=STRING).repartition(name="by-value")
    by_value.left_join(users, lambda pay, user: f"{pay}+{user}", returns=STRING).to("out")
    return builder.build()


TOPOLOGIES = (table_join, global_join, join_behind_a_repartition)


def run(warehouse: Warehouse, topology: Topology) -> None:
    for _ in replay(warehouse, topology, pipeline="p", runner=LocalRunner()):
        pass


def output(warehouse: Warehouse) -> list[tuple[object, ...]]:
    rows = read_table(warehouse, "p", "outputs/out").to_pylist()
    names = ("partition", "offset", "key", "value", "record_time_ms", "stream_time_ms")
    return sorted(tuple(row[name] for name in names) for row in rows)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_first_run_with_a_static_table_replays_everything(warehouse, topology: Callable[[], Topology]):
    land_records(warehouse, "users", records((0, 0, b"a", b"Ann")))
    land_records(warehouse, "pays", records((0, 10, b"a", b"a"), (0, 20, b"a", b"a")))
    assert len(inputs_that_wait(warehouse, topology(), pipeline="p")) == 2

    assert record_complete(warehouse, "users")

    assert inputs_that_wait(warehouse, topology(), pipeline="p") == []
    run(warehouse, topology())
    assert [row[3] for row in output(warehouse)] == ["a+Ann", "a+Ann"]


def rows_of(seed: int) -> tuple[Rows, Rows]:
    """Users and payments at few different times, so that many are equal, and some out of order."""
    chance = random.Random(seed)
    users = [(0, chance.randrange(12), chance.choice([b"a", b"b"]), b"u%d" % each) for each in range(6)]
    pays = [(0, max(0, each + chance.randrange(-3, 3)), b"a", chance.choice([b"a", b"b"])) for each in range(12)]
    return users, pays


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("seed", range(4))
def test_increments_of_what_comes_beside_a_complete_topic_change_no_row(tmp_path, topology, seed):
    users, pays = rows_of(seed)
    whole, cut = Warehouse(tmp_path / "whole"), Warehouse(tmp_path / "cut")
    for warehouse in (whole, cut):
        land_records(warehouse, "users", records(*users))
        record_complete(warehouse, "users")
    land_records(whole, "pays", records(*pays))
    run(whole, topology())

    chance, begin = random.Random(seed), 0
    while begin < len(pays):
        end = begin + chance.randrange(1, 5)
        land_records(cut, "pays", records(*pays[begin:end]))
        run(cut, topology())
        begin = end

    assert output(cut) == output(whole)
    assert output(whole)


def test_records_of_a_complete_topic_wait_for_others_and_those_of_its_times_too(warehouse):
    """A payment of 15 may still come before the user of 20, and one of 10 beside that of 10."""
    land_records(warehouse, "users", records((0, 10, b"a", b"u"), (0, 20, b"a", b"v")))
    record_complete(warehouse, "users")
    land_records(warehouse, "pays", records((0, 10, b"a", b"a")))

    waits = inputs_that_wait(warehouse, table_join(), pipeline="p")

    assert sorted((each.topic, each.records, each.for_topic) for each in waits) == [
        ("pays", 1, "pays"), ("users", 2, "pays"),
    ]  # fmt: skip


def test_two_topics_of_which_more_comes_wait_for_each_other(warehouse):
    builder = StreamsBuilder()
    users = builder.table("users", Consumed(STRING, STRING))
    both = [builder.stream(name, Consumed(STRING, STRING)) for name in ("pays", "gifts")]
    both[0].merge(both[1]).left_join(users, lambda pay, user: pay, returns=STRING).to("out")
    land_records(warehouse, "users", records((0, 0, b"a", b"u")))
    record_complete(warehouse, "users")
    land_records(warehouse, "pays", records((0, 10, b"a", b"a"), (0, 20, b"a", b"a")))
    land_records(warehouse, "gifts", records((0, 12, b"a", b"a")))

    waits = inputs_that_wait(warehouse, builder.build(), pipeline="p")

    assert {(each.topic, each.records, each.for_topic) for each in waits} == {
        ("pays", 1, "gifts"), ("gifts", 1, "gifts"),
    }  # fmt: skip


def test_a_day_does_not_wait_for_a_complete_topic(warehouse):
    land_records(warehouse, "users", records((0, 0, b"a", b"u")))
    land_records(warehouse, "pays", records((0, 10, b"a", b"a")))

    def not_yet() -> list[str]:
        planner = Planner(warehouse, table_join(), increment=1, previous=DoneRow(), idle="wait", times=LandedTimes())
        return [topic for topic, *_ in planner.backlog().not_yet_at(5)]

    assert not_yet() == ["users"]
    record_complete(warehouse, "users")
    assert not_yet() == []


# --- the word holds ----------------------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path) -> FileSource:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.jsonl").write_text('{"ms": 1, "user": "a"}\n')
    return FileSource(str(tmp_path / "in"), timestamp="ms", key="user")


def test_more_of_a_complete_topic_is_refused_until_it_is_reopened(warehouse, source, tmp_path):
    land_files(None, warehouse, "users", source)
    assert record_complete(warehouse, "users")
    assert not record_complete(warehouse, "users")
    assert land_files(None, warehouse, "users", source).increments == ()  # nothing is new

    (tmp_path / "in" / "2.jsonl").write_text('{"ms": 2, "user": "b"}\n')
    with pytest.raises(LandingError, match="expected nothing new, since it was recorded that the topic is complete"):
        land_files(None, warehouse, "users", source)
    ledger = LandingLedger(warehouse.landing_ledger("users"))
    assert ledger.pending() is None

    report = land_files(None, warehouse, "users", source, rules=LandingRules(reopen=True))
    last = ledger.last_done()
    assert (report.records, last is not None and last.content.complete) == (1, None)


def test_records_from_python_are_refused_too(warehouse):
    land_records(warehouse, "users", records((0, 0, b"a", b"u")))
    record_complete(warehouse, "users")

    with pytest.raises(LandingError, match="topic users: expected nothing new"):
        land_records(warehouse, "users", records((0, 1, b"a", b"v")))


def test_a_recorded_time_leaves_it_complete(warehouse):
    land_records(warehouse, "users", records((0, 0, b"a", b"u")))
    record_complete(warehouse, "users")
    record_time(warehouse, "users", 100)

    last = LandingLedger(warehouse.landing_ledger("users")).last_done()
    assert last is not None
    assert (last.content.complete, last.content.lands_records) == (True, False)


def test_a_topic_that_never_landed_cannot_be_complete(warehouse):
    with pytest.raises(ConfigError, match="topic 'users': expected a landed topic"):
        record_complete(warehouse, "users")
