"""What no table shows is judged by a second run of the increment: of all its tasks, or of some, or not at all."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import pytest

from kstreams_replay.expectations.verdicts import Verdict, check_increment
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.operators.deduplicate import Deduplicate
from kstreams_replay.jobs.operators.joins.stream_join import StreamJoin
from kstreams_replay.jobs.operators.suppress.suppress import Suppress
from kstreams_replay.jobs.operators.tables.versioned_store import VersionedView
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import JoinWindows, Materialized, StreamsBuilder, Topology
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.orchestration.facts import replay_facts, second_run
from kstreams_replay.state.node_rows import ROWS_MAX
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.expectations.pipelines import PIPELINES, TEXTS, GuaranteedPipeline, tape
from tests.expectations.test_joins_again import priced, random_tape
from tests.planted import LandedRecord, plant

NAME = "p"


@dataclass
class Judge:
    """Runs topologies over the topic clicks, and asks one guarantee about every increment."""

    folder: str

    def __call__(
        self,
        topology: Topology,
        guarantee: str,
        clicks: list[LandedRecord],
        *,
        size: int | None = None,
        partitions: int = 1,
        rows_max: int = ROWS_MAX,
    ) -> list[Verdict]:
        warehouse = Warehouse(f"{self.folder}/w")
        plant(warehouse, "clicks", clicks, partitions=partitions)
        runner, facts = LocalRunner(f"{self.folder}/cache"), replay_facts(topology)
        done = list(replay(warehouse, topology, pipeline=NAME, runner=runner, max_records=size))
        again = second_run(warehouse, NAME, topology, rows_max)
        verdicts = [
            check_increment(warehouse, NAME, facts, each.increment, engine="plain", again=again) for each in done
        ]
        return [each for found in verdicts for each in found if each.guarantee == guarantee]


@pytest.fixture
def judged(tmp_path) -> Judge:
    return Judge(str(tmp_path))


def counted(peek: Callable[[object, object], None] | None = None, *, by_value: bool = False) -> Topology:
    """The first clicks of ten milliseconds, counted: no table has them."""
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", TEXTS)
    clicks = clicks if peek is None else clicks.peek(peek)
    firsts = clicks.deduplicate("value", 10, name="first") if by_value else clicks.deduplicate_by_key(10, name="first")
    firsts.group_by_key().count(Materialized.as_("counts-store")).to_stream().to("counts")
    return builder.build()


CLICKS = tape(
    ("ann", "1", 3),
    ("ann", "2", 13),  # ten milliseconds later: a duplicate
    ("bob", "3", 9),
    ("ann", "4", 14),
    ("bob", "5", 40),
    ("ann", "6", 41),
)


@pytest.mark.guarantee("G14")
def test_what_a_deduplication_in_the_middle_keeps_is_seen_in_a_second_run(judged):
    got = judged(counted(), "G14", CLICKS, size=3)

    assert [(each.answer, each.table, each.rows) for each in got] == [("true", "state/first-store", 3)] * 2
    assert [each.observed["run_again"] for each in got] == [3, 3]
    assert got[0].reason == ("no output has all that it keeps, so tasks 0_0 of the increment were run again, 3 records")


@pytest.mark.guarantee("G14")
@pytest.mark.parametrize("by_value", [False, True], ids=["by key", "by id"])
def test_an_engine_with_another_interval_is_found_though_it_says_the_same_twice(judged, monkeypatch, by_value):
    """
    With an interval of nine the second record passes, in both runs.
    """
    begin = Deduplicate.__init__
    monkeypatch.setattr(Deduplicate, "__init__", lambda self, *a, **k: begin(self, *a, **k | {"interval_ms": 9}))
    clicks = [each._replace(value=each.key) for each in CLICKS] if by_value else CLICKS

    (got,) = judged(counted(by_value=by_value), "G14", clicks)

    assert (got.answer, got.broken) == ("false", ("expect_kept_records_apart",))
    assert [row["timestamp"] for row in got.witnesses] == [13]
    assert got.observed["other_rows"] == 0


@pytest.mark.guarantee("G14")
def test_a_stream_time_that_the_store_does_not_show_is_known_in_the_next_increment(judged):
    """
    A record without a key has moved stream time to 100, so that ann's, an increment later, are too old to be
    remembered, and both are kept.
    """
    clicks = tape((None, "1", 100), ("bob", "2", 80), ("bob", "3", 81), ("ann", "4", 50), ("ann", "5", 51))

    got = judged(counted(), "G14", clicks, size=3)

    assert [(each.answer, each.rows) for each in got] == [("true", 3), ("true", 2)]


@pytest.mark.guarantee("G14")
def test_of_an_increment_above_the_bound_tasks_are_chosen_by_a_seed(judged):
    """
    Of four tasks with five records each, one has room in six.
    """
    clicks = tape(*((f"user-{number % 9}", str(number), 100 * number) for number in range(20)))
    spread = [each._replace(partition=number % 4) for number, each in enumerate(clicks)]

    (got,) = judged(counted(), "G14", spread, partitions=4, rows_max=6)

    assert (got.answer, got.rows) == ("true", 5)
    assert {name: got.observed[name] for name in ("run_again", "tasks_left_out")} == {
        "run_again": 5,
        "tasks_left_out": 3,
    }
    assert got.observed["seed"] > 0


@pytest.mark.guarantee("G14")
@pytest.mark.parametrize(
    ("rows_max", "why"),
    [
        (5, "the increment has more than 5 records, which is the most that is run again"),
        (0, "nothing is to be run again"),
    ],
)
def test_above_the_bound_nothing_is_judged(judged, rows_max, why):
    (got,) = judged(counted(), "G14", CLICKS, rows_max=rows_max)

    assert (got.answer, got.reason) == ("unchecked", f"no output has all that it keeps, and {why}")


@pytest.mark.guarantee("G14")
def test_stores_that_are_too_large_to_be_loaded_are_not(judged):
    """
    Both stores have the forty users of the first increment: eighty rows, and sixteen times three are forty-eight.
    """
    clicks = tape(*((f"user-{number}", str(number), number) for number in range(40)), ("ann", "1", 41))

    got = judged(counted(), "G14", clicks, size=40, rows_max=3)

    assert (got[1].answer, got[1].reason) == (
        "unchecked",
        "no output has all that it keeps, and its tasks would load more than 48 rows of stores",
    )


@pytest.mark.guarantee("G14")
def test_functions_that_only_look_on_are_not_called_again(judged):
    calls: list[object] = []

    (got,) = judged(counted(lambda key, value: calls.append(value)), "G14", CLICKS)

    assert (got.answer, calls) == ("true", ["1", "2", "3", "4", "5", "6"])


@pytest.mark.guarantee("G13")
def test_a_join_of_streams_in_the_middle_with_a_wider_window_is_found(tmp_path, monkeypatch):
    """
    Eleven milliseconds lie between the click of 44 and the view of 33.
    """
    begin = StreamJoin.__init__
    wider = {"before_ms": 11, "after_ms": 11}
    monkeypatch.setattr(StreamJoin, "__init__", lambda self, *a, **k: begin(self, *a, **k | wider))

    builder = StreamsBuilder()
    clicks, views = builder.stream("clicks", TEXTS), builder.stream("views", TEXTS)
    pairs = clicks.join(views, "left || '+' || right", JoinWindows.of_time_difference_and_grace(10, 5))
    pairs.group_by_key().count(Materialized.as_("counts-store")).to_stream().to("counts")

    got = of_pipeline(replace(PIPELINES["pairs"], topology=builder.build), str(tmp_path), "G13")

    assert {each.answer: each.broken for each in got} == {"true": (), "false": ("expect_pairs_within_the_window",)}
    assert [row["record_time_ms"] for each in got for row in each.witnesses] == [44]


@pytest.mark.guarantee("G5")
def test_a_final_result_in_the_middle_that_is_lost_on_its_way_is_missed(tmp_path, monkeypatch):
    """
    Bob's of [0, 20), with a record of 9.
    """
    process = Suppress.process

    def without_bobs(self, batch, chunk):
        found = process(self, batch, chunk)
        return found.where(found.time_ms != 9)

    monkeypatch.setattr(Suppress, "process", without_bobs)

    got = of_pipeline(PIPELINES["counted finals"], str(tmp_path), "G5")

    assert [each.answer for each in got].count("false") == 1
    assert {name for each in got for name in each.broken} == {"expect_windows_to_wait_or_leave"}


@pytest.mark.guarantee("G15")
@pytest.mark.parametrize("kind", ["inner", "left"])
def test_joins_of_random_tapes_below_a_step_are_what_they_are_when_joined_again(tmp_path, kind):
    seed = Random().randrange(10**9)
    dice = Random(seed)
    history_ms, tapes = dice.choice([10, 1000]), {name: random_tape(dice, 25) for name in ("clicks", "prices")}
    topology = priced(kind, history_ms=history_ms, step=True)

    got = of_pipeline(GuaranteedPipeline(lambda: topology, tapes, slice=11), str(tmp_path), "G15")

    assert [(seed, each.reason, each.witnesses) for each in got if each.answer != "true"] == []
    assert sum(each.rows for each in got) > 0


@pytest.mark.guarantee("G15")
def test_a_table_in_the_middle_that_answers_of_a_later_time_is_found(tmp_path, monkeypatch):
    """
    The click of 7 comes when the price is 3 already; it was 1 then.
    """
    get = VersionedView.get
    monkeypatch.setattr(VersionedView, "get", lambda self, asking, keys, as_of_ms=None: get(self, asking, keys))
    tapes = {
        "prices": tape(("ann", "1", 5), ("ann", "3", 15), ("ann", "9", 99)),
        "clicks": tape(("ann", "a", 20), ("ann", "b", 7), ("ann", "c", 100)),
    }

    (got,) = of_pipeline(replace(PIPELINES["counted prices"], tapes=tapes, slice=9), str(tmp_path), "G15")

    assert (got.answer, got.broken) == ("false", ("expect_versions_as_of_times",))
    assert [row["timestamp"] for row in got.witnesses] == [7]


@pytest.mark.guarantee("G15")
def test_a_table_that_an_operator_makes_is_not_judged_by_what_that_operator_got(tmp_path):
    """
    The versions of the joined table are what its join forwards, not the records of either side.
    """
    builder = StreamsBuilder()
    sides = [builder.table(name, TEXTS) for name in ("prices", "clicks")]
    versioned = Materialized.versioned("both-store", 1000)
    both = sides[0].join(sides[1], "left || '&' || right", materialized=versioned)
    builder.stream("asked", TEXTS).join(both, "left || '@' || right").to("answered")
    topology = builder.build()
    tapes = {
        "prices": tape(("ann", "1", 1), ("ann", "3", 9)),
        "clicks": tape(("ann", "a", 2), ("ann", "b", 9)),
        "asked": tape(("ann", "?", 3), ("ann", "?", 9)),
    }

    got = of_pipeline(GuaranteedPipeline(lambda: topology, tapes, slice=9), str(tmp_path), "G15")

    assert {(each.answer, each.reason) for each in got} == {
        ("unchecked", "no table has the values that the join reads")
    }


def of_pipeline(one: GuaranteedPipeline, folder: str, guarantee: str) -> list[Verdict]:
    """Verdicts of one guarantee on every increment of a pipeline."""
    warehouse = Warehouse(folder)
    for topic, records in one.tapes.items():
        plant(warehouse, topic, records, partitions=one.partitions)
    topology, runner = one.topology(), LocalRunner(f"{folder}/cache")
    done = list(replay(warehouse, topology, pipeline=NAME, runner=runner, max_records=one.slice))
    facts, again = replay_facts(topology), second_run(warehouse, NAME, topology)
    verdicts = [check_increment(warehouse, NAME, facts, each.increment, engine="plain", again=again) for each in done]
    return [each for found in verdicts for each in found if each.guarantee == guarantee]


@pytest.mark.guarantee("G14")
def test_the_command_runs_increments_again_if_it_is_not_told_otherwise(judged, tmp_path, capsys):
    judged(counted(), "G14", CLICKS)
    file = tmp_path / "topology.py"
    file.write_text("from tests.expectations.test_second_run import counted\n\ntopology = counted()\n")
    command = ["check", f"{file}:topology", "--warehouse", f"{tmp_path}/w", "--pipeline", NAME, "--engine", "plain"]

    said = []
    for options in ((), ("--run-again", "0")):
        main([*command, *options])
        lines = capsys.readouterr().out.splitlines()
        said += [line.partition(" state/")[0] for line in lines if "G14" in line]

    assert said == ["holds   G14", "NOT CHECKED G14"]
