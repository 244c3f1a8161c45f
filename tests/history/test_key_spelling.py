"""A key that people write in another form than the table has it."""

import struct
from collections.abc import Sequence

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

UPPER, LOWER = "0A1B2C3D-0000-4000-8000-00000000ABCD", "0a1b2c3d-0000-4000-8000-00000000abcd"
NAN = struct.pack(">d", float("nan"))


def kept(key: Serde) -> Topology:
    builder = StreamsBuilder()
    builder.table("in", Consumed(key, Serde.string())).to_stream().to("out")
    return builder.build()


def replayed(warehouse: Warehouse, key: Serde, keys: Sequence[bytes]) -> list[str]:
    plant(warehouse, "in", [LandedRecord(0, each, b"wanted", 1) for each in keys], partitions=1)
    list(replay(warehouse, kept(key), pipeline="p", runner=LocalRunner()))
    return ["--warehouse", warehouse.root]


@pytest.mark.parametrize("asked", [UPPER, LOWER])
@pytest.mark.parametrize("landed", [UPPER, LOWER])
def test_a_uuid_is_one_key_in_lower_and_in_upper_case(warehouse, capsys, landed, asked):
    place = replayed(warehouse, Serde.uuid(), [landed.encode()])

    for words in (["out", "--pipeline", "p"], ["out", "--changelog", "--pipeline", "p"], ["landed/in"]):
        assert main(["show", *words, *place, "--key", asked]) == 0
        assert "wanted" in capsys.readouterr().out


@pytest.mark.parametrize("asked", [UPPER, LOWER])
def test_a_row_of_a_uuid_is_explained_in_either_case(warehouse, tmp_path, capsys, asked):
    place = replayed(warehouse, Serde.uuid(), [UPPER.encode()])
    code = tmp_path / "kept.py"
    code.write_text(
        "from kstreams_replay import Consumed, Serde, StreamsBuilder\n"
        "builder = StreamsBuilder()\n"
        "builder.table('in', Consumed(Serde.uuid(), Serde.string())).to_stream().to('out')\n"
        "topology = builder.build()\n"
    )

    words = ["explain", "--output", "out", "--key", asked, "--topology", f"{code}:topology", *place]
    assert main([*words, "--pipeline", "p"]) == 0
    assert "in:0:0 was read by increment 1" in capsys.readouterr().out


def test_not_a_number_is_a_key_that_can_be_asked_for(warehouse, capsys):
    place = replayed(warehouse, Serde.double(), [NAN, struct.pack(">d", 1.0)])

    assert main(["show", "out", *place, "--pipeline", "p", "--key", "nan"]) == 0
    assert capsys.readouterr().out.count("wanted") == 1
