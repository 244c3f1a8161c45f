"""Whoever runs increments again takes their records in the order in which the pipeline took them.

A record and the row of the table that it joins have one key. By time the row is first; it arrived last.
"""

import pytest

from kstreams_replay.jobs.branches.advice.grace import advise_grace
from kstreams_replay.jobs.branches.verification import verify
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.explain.explanation import explain
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Topology
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.landing.landed_records import records

CODE = (
    "from kstreams_replay import Consumed, Serde, StreamsBuilder, TimeWindows\n"
    "S = Serde.string()\n"
    "builder = StreamsBuilder()\n"
    "names = builder.table('names', Consumed(S, S))\n"
    "both = builder.stream('in', Consumed(S, S)).left_join(names, lambda one, name: f'{one} {name}', returns=S)\n"
    "both.group_by_key().windowed_by(TimeWindows.of_size(10, grace=0)).count().to_stream().to('counts')\n"
    "both.to('out')\n"
    "topology = builder.build()\n"
)
RUNNER = LocalRunner()


def topology_of_code() -> Topology:
    made: dict[str, Topology] = {}
    exec(CODE, made)
    return made["topology"]


@pytest.fixture
def by_arrival(warehouse: Warehouse) -> Warehouse:
    for topic, arrival, row in (("in", 0, (0, 20, b"a", b"x")), ("names", 1, (0, 5, b"a", b"ann"))):
        land_records(warehouse, topic, records(row, arrivals=[arrival]), partitions=1)
    list(replay(warehouse, topology_of_code(), pipeline="p", runner=RUNNER, idle="proceed", order="arrival"))
    return warehouse


def test_a_record_is_explained_in_the_order_of_its_replay(by_arrival):
    explanation = explain(by_arrival, "p", topology_of_code(), "in:0:0")

    said = [sentence for step in explanation.steps for sentence in step.sentences]
    assert explanation.difference is None
    assert [sentence for sentence in said if "outputs/out" in sentence or "'x None'" in sentence]
    assert not [sentence for sentence in said if "x ann" in sentence]


def test_increments_are_verified_and_graces_are_tried_in_the_order_of_the_replay(by_arrival):
    verification = verify(by_arrival, topology_of_code(), pipeline="p", runner=RUNNER, increments=(1, 2))
    assert [cutting.difference for cutting in verification.cuttings] == [None, None]

    advice = advise_grace(by_arrival, topology_of_code(), pipeline="p", graces=[5])
    assert advice.records == 2


def test_another_order_than_that_of_the_replay_is_refused(by_arrival):
    expected = r"expected the order of its replay, 'arrival', got 'time'"
    with pytest.raises(ConfigError, match=expected):
        explain(by_arrival, "p", topology_of_code(), "in:0:0", order="time")
    with pytest.raises(ConfigError, match=expected):
        verify(by_arrival, topology_of_code(), pipeline="p", runner=RUNNER, order="time")
    with pytest.raises(ConfigError, match=expected):
        advise_grace(by_arrival, topology_of_code(), pipeline="p", order="time")


def test_a_range_of_increments_of_both_orders_is_refused(by_arrival):
    land_records(by_arrival, "in", records((0, 30, b"a", b"y"), arrivals=[2]))
    list(replay(by_arrival, topology_of_code(), pipeline="p", runner=RUNNER, idle="proceed"))

    with pytest.raises(ConfigError, match="expected increments that took records in one order, got arrival and time"):
        verify(by_arrival, topology_of_code(), pipeline="p", runner=RUNNER)
    assert verify(by_arrival, topology_of_code(), pipeline="p", runner=RUNNER, since=2, increments=[1]).holds


def test_commands_take_the_order_of_the_replay(by_arrival, tmp_path, capsys):
    code = tmp_path / "names.py"
    code.write_text(CODE)
    place = ["--warehouse", by_arrival.root, "--pipeline", "p"]

    assert main(["verify", f"{code}:topology", *place, "--increments", "1"]) == 0
    assert main(["advise", "grace", f"{code}:topology", *place, "--grace", "5ms"]) == 0
    capsys.readouterr()
    assert main(["explain", "--record", "in:0:0", "--all", "--topology", f"{code}:topology", *place]) == 0
    assert "x ann" not in capsys.readouterr().out
