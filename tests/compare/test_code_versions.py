"""Rows that another version of the code wrote are known by a pipeline that ran the versions as production did."""

import struct

import pytest

from kstreams_replay.jobs.compare.comparison import Comparison, compare
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, StreamsBuilder, Topology, fold
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import ConfigError
from tests.planted import LandedRecord, plant


def sums(factor: int) -> Topology:
    """The previous version took each number twice, and left out what is above 50."""
    builder = StreamsBuilder()
    numbers = builder.stream("in", Consumed(Serde.string(), Serde.long()))
    (
        numbers.filter(f"value <= {1_000 if factor == 1 else 50}")
        .map_values(f"value * {factor}", returns=Serde.long())
        .group_by_key()
        .aggregate(total=fold.sum(), materialized=Materialized.as_("sums"))
        .to_stream()
        .to("out")
    )
    return builder.build()


DEPLOYED_MS = 10
INPUTS = [(b"a", 1, 1), (b"b", 60, 2), (b"a", 1, 5), (b"a", 1, 11), (b"c", 7, 12), (b"b", 1, 13)]
LIVE = [(b"a", 2, 1), (b"a", 4, 5), (b"a", 5, 11), (b"c", 7, 12), (b"b", 1, 13)]
"""What production wrote: a 2, 4 by the previous version, whose state the new one continued."""


def land(warehouse, live: list[tuple[bytes, int, int]]) -> None:
    inputs = [LandedRecord(0, key, struct.pack(">q", value), ms) for key, value, ms in INPUTS]
    written = [LandedRecord(0, key, b'{"total":%d}' % total, ms) for key, total, ms in live]
    for topic, rows in (("in", inputs), ("live", written)):
        plant(warehouse, topic, rows, partitions=1)


def run(warehouse, *, all_read: bool = True) -> None:
    """By the current rules, and as production was deployed."""
    runner = LocalRunner()
    list(replay(warehouse, sums(1), pipeline="rules", runner=runner))
    list(replay(warehouse, sums(2), pipeline="deployed", runner=runner, until_ms=DEPLOYED_MS))
    if all_read:
        list(replay(warehouse, sums(1), pipeline="deployed", runner=runner))


def compared(warehouse, **how) -> Comparison:
    return compare(warehouse, sums(1), "out", with_topic="live", pipeline="rules", form="events", **how)


def test_what_the_versions_wrote_is_explained_and_nothing_else(warehouse):
    land(warehouse, [*LIVE[:2], (b"a", 4, 5), *LIVE[2:], (b"x", 1, 14)])
    run(warehouse)

    without, found = compared(warehouse), compared(warehouse, deployed="deployed")

    assert "code version" not in without.causes
    assert found.verdicts["equal"] == 1  # c
    of_code = found.differences.filter(found.differences["cause"] == "code version")
    assert of_code["topic_offset"].drop_nulls().to_list() == [0, 1, 3, 5]
    assert of_code["offset"].to_list() == [0, 1, 2, 3, 5]  # ours of b, 60, is missing
    others = found.differences.filter(found.differences["cause"] != "code version")
    assert others.select("cause", "topic_offset").rows() == [("not explained", 2), ("not yet", 6)]


def test_a_row_that_production_lacks_and_the_versions_have_is_not_of_the_code(warehouse):
    land(warehouse, [row for row in LIVE if row[2] != 11])
    run(warehouse)

    found = compared(warehouse, deployed="deployed").differences

    assert found.filter(found["offset"] == 3).select("verdict", "cause").rows() == [("missing", "not explained")]


def test_sentences_name_the_pipeline_that_ran_the_versions(warehouse, capsys):
    land(warehouse, LIVE)
    run(warehouse)
    where = ["--warehouse", warehouse.root, "--pipeline", "rules", "--topology", f"{__file__}:rules"]

    code = main(["compare", "out", "--with-topic", "live", *where, "--as", "events", "--deployed", "deployed"])

    printed = " ".join(capsys.readouterr().out.split())
    assert code == 4
    assert "another version of the code: deployed, which ran the versions as production did, has the row of" in printed
    assert (
        "another version of the code: deployed, which ran the versions as production did, does not have it either"
        in (printed)
    )


def test_a_pipeline_that_has_read_other_records_is_refused(warehouse):
    land(warehouse, LIVE)
    run(warehouse, all_read=False)

    with pytest.raises(
        ConfigError,
        match="deployed: expected a pipeline that has read what rules has, got deployed, which has read other records; "
        "replay both as far as what has landed",
    ):
        compared(warehouse, deployed="deployed")


rules = sums(1)
