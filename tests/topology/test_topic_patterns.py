"""Sources that read all topics whose names match a pattern: those that have landed, and those that land later."""

import re
from pathlib import Path

import pytest

from kstreams_replay.jobs.branches.verification import verifiable, verify
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.explain.explanation import explain
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.task.kernel_calls import call_kernels
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, StreamsBuilder, Topology
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.orchestration.definitions import replay_definitions
from kstreams_replay.orchestration.settings.topology_loading import load_topology
from kstreams_replay.state.errors import ConfigError, TopologyError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant, tables_of

STRING = Consumed(Serde.string(), Serde.string())
SHOPS = re.compile("shop-[a-z]+")


def counted(pattern: re.Pattern[str] = SHOPS) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream(pattern, STRING)
    stream.group_by_key().count(Materialized.as_("counts")).to("counts")
    stream.to("all")
    return builder.build()


def landed(path: Path, **times: tuple[int, ...]) -> Warehouse:
    """``shop_a=(1, 2)``: records of these times, all with the key k, in the topic shop-a."""
    warehouse = Warehouse(path)
    for topic, found in times.items():
        records = [LandedRecord(0, b"k", f"{topic} {at}".encode(), at) for at in found]
        plant(warehouse, topic.replace("_", "-"), records, partitions=1)
    return warehouse


def run(warehouse: Warehouse, pipeline: str = "p", max_records: int | None = None, **more: object) -> None:
    settings = {"pipeline": pipeline, "runner": LocalRunner(), "idle": "proceed", "max_records": max_records} | more
    list(replay(warehouse, counted(), **settings))  # type: ignore[arg-type]


def values(warehouse: Warehouse, pipeline: str = "p") -> list[str]:
    topology = counted().reading(warehouse.topics())
    return [row["value"] for row in tables_of(warehouse, pipeline, topology)["outputs/all"]]


def test_it_reads_the_topics_whose_whole_names_match():
    topology = counted().reading(["shop-b", "shop-a", "shop-1", "my-shop-a", "shop-a-old"])
    driver = TopologyTestDriver(topology)
    for topic, value in (("shop-b", "x"), ("shop-a", "y"), ("shop-b", "z")):
        driver.pipe_input(topic, "k", value, 0)

    assert [record.value for record in driver.read_outputs("all")] == ["x", "y", "z"]
    assert [record.value for record in driver.read_outputs("counts")] == [1, 2, 3]
    assert topology.source_topics() == ["shop-a", "shop-b"]


def test_a_replay_reads_those_that_have_landed_wherever_it_is_cut(tmp_path):
    warehouse = landed(tmp_path, shop_a=(1, 5, 9), shop_b=(2, 3, 10), other=(4,))

    run(warehouse)
    run(warehouse, "cut", max_records=2)

    assert values(warehouse) == ["shop_a 1", "shop_b 2", "shop_b 3", "shop_a 5", "shop_a 9", "shop_b 10"]
    assert values(warehouse, "cut") == values(warehouse)


def test_one_that_lands_later_is_read_from_its_first_record_on_and_state_stays(tmp_path):
    warehouse = landed(tmp_path, shop_a=(1, 5))
    run(warehouse)
    landed(tmp_path, shop_c=(2, 3), shop_a=(7,))
    run(warehouse)

    tables = tables_of(warehouse, "p", counted().reading(warehouse.topics()))
    assert values(warehouse) == ["shop_a 1", "shop_a 5", "shop_c 2", "shop_c 3", "shop_a 7"]
    assert [row["value"] for row in tables["outputs/counts"]] == [1, 2, 3, 4, 5]


def test_an_increment_that_died_leaves_nothing_twice_when_another_topic_has_landed_since(tmp_path):
    warehouse = landed(tmp_path, shop_a=(1, 5))

    def die(step: str) -> None:
        if step.startswith("computed"):
            raise InterruptedError

    with pytest.raises(InterruptedError):
        run(warehouse, on_step=die)
    landed(tmp_path, shop_c=(2,))
    run(warehouse)

    assert sorted(values(warehouse)) == ["shop_a 1", "shop_a 5", "shop_c 2"]
    assert len(values(warehouse)) == 3


@pytest.mark.slow
def test_a_record_of_an_earlier_increment_is_explained_after_another_topic_has_landed(tmp_path):
    warehouse = landed(tmp_path, shop_a=(1,))
    run(warehouse)
    landed(tmp_path, shop_c=(2,))
    run(warehouse)

    topology = counted().reading(warehouse.topics())
    for record, increment in (("shop-a:0:0", 1), ("shop-c:0:0", 2)):
        explanation = explain(warehouse, "p", topology, record)
        assert (explanation.increment, explanation.difference) == (increment, None)


def test_a_command_and_definitions_find_the_landed_topics(tmp_path):
    warehouse = landed(tmp_path / "w", shop_a=(1,), shop_b=(2,))
    file = tmp_path / "shops.py"
    file.write_text(
        "import re\nfrom kstreams_replay import Consumed, Serde, StreamsBuilder\nbuilder = StreamsBuilder()\n"
        "builder.stream(re.compile('shop-.*'), Consumed(Serde.string(), Serde.string())).to('all')\n"
        "topology = builder.build()\n"
    )

    assert load_topology(str(file), str(tmp_path / "w")).source_topics() == ["shop-a", "shop-b"]
    assert load_topology(str(file)).has_patterns
    assets = replay_definitions(counted(), pipeline="p", warehouse=warehouse).resolve_asset_graph().get_all_asset_keys()
    assert {"shop-a", "shop-b"} <= {key.path[-1].replace("_", "-") for key in assets}


def test_the_processor_api_takes_topics_and_a_pattern():
    topology = Topology().add_source("shops", STRING, SHOPS).add_source("others", STRING, "a", "b")
    topology.add_sink("write", "out", "shops", "others")
    driver = TopologyTestDriver(topology.reading(["shop-x", "c"]))
    for topic in ("b", "shop-x", "a"):
        driver.pipe_input(topic, "k", topic, 0)

    assert [record.value for record in driver.read_outputs("out")] == ["b", "shop-x", "a"]


def test_equal_patterns_are_one_source():
    builder = StreamsBuilder()
    builder.stream(re.compile("a.*"), STRING).to("one")
    builder.stream(re.compile("a.*"), STRING).to("two")

    assert builder.build().describe().count("Source:") == 1


def built(*read: str | re.Pattern[str], to: str | None = "out") -> Topology:
    builder = StreamsBuilder()
    for number, topic in enumerate(read):
        builder.stream(topic, STRING).to(to or f"out-{number}")
    return builder.build()


A = re.compile("a.*")


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda: built(A, "a1"), "match 'a.*', got the topic 'a1', which KSTREAM-SOURCE-0000000002 reads"),
        (lambda: built("a1", A), "match 'a.*', got the topic 'a1', which KSTREAM-SOURCE-0000000000 reads"),
        (lambda: built(A, to="a2"), "match 'a.*', got the topic 'a2', which KSTREAM-SINK-0000000001 writes"),
        (lambda: built(A).source_topics(), "expected the topics that match its pattern, got a pattern"),
        (lambda: TopologyTestDriver(built(A)), "expected the topics that match its pattern, got a pattern"),
        (lambda: built(A).reading(["b"]), "a landed topic that 'a.*' matches, got none among b"),
        (
            lambda: built(A, re.compile(".1"), to=None).reading(["a1"]),
            "one pattern to match the topic 'a1', got also that of",
        ),
    ],
)
def test_what_a_pattern_cannot_match_is_said(build, why):
    with pytest.raises(TopologyError, match=re.escape(why)):
        build()


@pytest.mark.slow
def test_verify_runs_increments_again_with_the_topics_that_they_read(tmp_path):
    warehouse = landed(tmp_path, shop_a=(1, 2, 3), shop_b=(2, 4))
    run(warehouse, max_records=2)
    landed(tmp_path, shop_c=(5, 6))
    run(warehouse, max_records=1)
    asked = {"pipeline": "p", "runner": LocalRunner(), "increments": (1, 2)}

    for topology in (counted(), counted().reading(warehouse.topics())):
        before = verify(warehouse, topology, since=1, until=2, **asked)
        after = verify(warehouse, topology, since=3, **asked)

        assert (before.holds, before.records, before.rows["outputs/all"]) == (True, 5, 5)
        assert (after.holds, after.records, after.rows["outputs/all"]) == (True, 2, 2)
        assert verifiable(warehouse, topology, "p") == [range(1, 3), range(3, 5)]
        with pytest.raises(ConfigError, match="got topics that landed after increment 2; verify the increments before"):
            verify(warehouse, topology, since=2, **asked)


def test_kernels_are_compiled_before_any_topic_that_matches_has_landed():
    call_kernels(counted().reading(None))

    assert counted().reading(None).reading(["shop-a"]).source_topics() == ["shop-a"]


def test_the_command_that_compiles_needs_no_topic_that_has_landed(tmp_path, monkeypatch):
    code = (
        "import re\nfrom kstreams_replay import Consumed, Serde, StreamsBuilder\n\n"
        "builder = StreamsBuilder()\n"
        "builder.stream(re.compile('shop-.*'), Consumed(Serde.string(), Serde.string())).to('all')\n"
        "topology = builder.build()\n"
    )
    (tmp_path / "patterns.py").write_text(code)
    monkeypatch.chdir(tmp_path)

    assert main(["warm-up", "patterns.py:topology"]) == 0
