"""Backfills of topologies with processors: outputs that no processor has a hand in, and those that are left out."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kstreams_replay.expectations.suites.project_suites import ProjectSuite
from kstreams_replay.jobs.branches.backfill import Backfill, backfill
from kstreams_replay.jobs.branches.promotion import promote
from kstreams_replay.jobs.branches.range_part import range_part
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.functions.processor_api import KeyValues, Processor
from kstreams_replay.jobs.history.committed_tables import done_row, read_changelog
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    Consumed,
    KStream,
    KTable,
    Materialized,
    Serde,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.orchestration.quality.judge import Judge
from kstreams_replay.state.tables.refused_shares import RefusedLimit
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

TEXT = Consumed(Serde.string(), Serde.string())
FROM, TO = 2_000, 3_000


class Later(Processor):
    """Forwards every record 300 ms later. It must not run again in a backfill."""

    calls: list[str] = []  # noqa: RUF012

    def process(self, record):
        self.calls.append(record.value)
        self.context.forward(record._replace(timestamp_ms=record.timestamp_ms + 300))


def later(stream: KStream, stores: tuple[str, ...] = (), name: str = "later") -> KStream:
    return stream.process(Later, list(stores), returns_key=Serde.string(), returns=Serde.string(), name=name)


def hundreds(stream: KStream, output: str) -> KTable:
    """Final counts of every hundred milliseconds."""
    windows = TimeWindows.of_size(100, grace=20)
    counts = stream.group_by_key().windowed_by(windows).count(Materialized.as_(f"{output}-counts"))
    counts.suppress(Suppressed.until_window_closes(name=f"{output}-final")).to(output)
    return counts


def paid(*, without: str = "") -> Topology:
    """Alarms later in sub-topology 0; payments of users, whose table is done, and their final counts in another."""
    builder = StreamsBuilder()
    later(builder.stream("alarms", TEXT)).to("alarms-later")
    users = builder.table("users", TEXT, materialized=Materialized.as_("users-store"))
    joined = builder.stream("payments", TEXT).filter(f"value != '{without}'")
    joined = joined.join(users, "left", name="join")
    hundreds(joined, "counts")
    later(joined, name="later-paid").to("paid-later")
    return builder.build()


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """A payment and an alarm of ann every ten milliseconds; each second one is a bot's. Run by fifties."""
    found = Warehouse(str(tmp_path / "w"))
    times = range(500, 4_000, 10)
    values = [(b"home", b"bot")[number % 2] for number, _ in enumerate(times)]
    plant(found, "users", [LandedRecord(0, b"ann", b"u", 100)], partitions=1)
    for topic in ("payments", "alarms"):
        records = [LandedRecord(0, b"ann", value, time_ms) for value, time_ms in zip(values, times, strict=True)]
        plant(found, topic, records, partitions=1)
    list(replay(found, paid(), pipeline="p", runner=LocalRunner(), max_records=100, idle="proceed"))
    return found


def made(warehouse: Warehouse, topology: Topology, name: str = "b") -> Backfill:
    given = {"from_ms": FROM, "to_ms": TO, "runner": LocalRunner()}
    return backfill(warehouse, topology, pipeline="p", name=name, **given)


def counts(warehouse: Warehouse, pipeline: str) -> dict[int, int]:
    rows = read_changelog(warehouse, pipeline, "counts").to_pylist()
    return {row["window_start_ms"]: row["value"] for row in rows}


def test_what_no_processor_has_a_hand_in_is_made_again_and_proved(warehouse):
    Later.calls.clear()

    found = made(warehouse, paid())

    assert (found.rows, found.compared) == ({"counts": 10}, ["counts"])
    assert found.left_out == {"alarms-later": "later", "paid-later": "later-paid"}
    assert counts(warehouse, "b") == dict.fromkeys(range(FROM, TO, 100), 10)
    assert Later.calls == []
    # Three hundred records are one user, and payments and alarms up to 1,990 ms.
    assert found.begins == "increment 3 of p, since these keep what is old: KTABLE-SOURCE-0000000004, join"


def test_changed_code_beside_a_processor_is_promoted_and_outputs_below_it_stay(warehouse):
    before = read_changelog(warehouse, "p", "paid-later")

    found = made(warehouse, paid(without="bot"))
    promote(warehouse, "b")

    assert (found.rows, found.compared) == ({"counts": 10}, [])
    assert [counts(warehouse, "p")[at] for at in (FROM - 100, FROM, TO - 100, TO)] == [10, 5, 5, 10]
    assert read_changelog(warehouse, "p", "paid-later").equals(before)


def test_records_that_land_for_a_processor_alone_do_not_stand_against_the_promotion(warehouse):
    made(warehouse, paid(without="bot"))
    plant(warehouse, "alarms", [LandedRecord(0, b"ann", b"home", 5_000)], partitions=1)
    list(replay(warehouse, paid(), pipeline="p", runner=LocalRunner(), idle="proceed"))

    promote(warehouse, "b")

    assert counts(warehouse, "p")[FROM] == 5


def test_the_command_names_the_processor_and_the_outputs_that_are_not_made(warehouse, tmp_path, capsys):
    (tmp_path / "paid.py").write_text("from tests.branches.test_range_part import paid\n\ntopology = paid()\n")
    place = ["--warehouse", warehouse.root]

    code = main(
        ["backfill", "p", "--from", str(FROM), "--to", str(TO), "--as", "b", "--local",
         "--topology", f"{tmp_path}/paid.py:topology", *place]
    )  # fmt: skip

    out = capsys.readouterr().out.splitlines()
    assert code == 0
    assert out[-3].split()[:2] == ["counts", "10"]
    assert out[-2].startswith("not made: alarms-later, since the processor later may forward any time: fork the")
    assert out[-1].startswith("not made: paid-later, since the processor later-paid may forward any time: fork the")
    assert main(["diff", "p", "b", *place]) == 0
    assert "paid-later: not compared, b does not make it (processor later-paid)" in capsys.readouterr().out

    assert main(["check", f"{tmp_path}/paid.py:topology", "--pipeline", "b", "--engine", "plain", *place]) == 0
    assert "later" not in capsys.readouterr().out


def test_a_judge_of_a_backfill_judges_no_suite_of_an_output_that_it_does_not_make(warehouse):
    made(warehouse, paid())
    suites = [
        ProjectSuite(name, f"outputs/{name}", f"{name}.yaml", {"expectations": []}) for name in ("paid-later", "counts")
    ]

    judge = Judge.of(warehouse, "b", paid(), refused=RefusedLimit(), suites=suites, engine="plain")

    assert [suite.name for suite in judge.suites] == ["counts"]
    assert {each.table for each in judge.verdicts([done_row(warehouse, "b").increment])} >= {"outputs/counts", "ledger"}


# --- which outputs -------------------------------------------------------------------------------------------


def left_out(build: Callable[[StreamsBuilder], None]) -> dict[str, str]:
    builder = StreamsBuilder()
    build(builder)
    return dict(range_part(builder.build()).left_out)


def test_a_table_into_whose_store_a_processor_may_put_is_left_out_with_what_reads_it():
    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("visits", TEXT)
        table = stream.group_by_key().count(Materialized.as_("visits-counts"))
        table.to_stream().to("counts")
        stream.join(table, "left", name="join").to("joined")
        stream.to("copied")
        later(builder.stream("alarms", TEXT), ("visits-counts",)).to("out")

    assert left_out(build) == {"counts": "later", "joined": "later", "out": "later"}


def test_a_processor_with_a_store_of_its_own_leaves_the_tables_beside_it():
    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("visits", TEXT)
        stream.group_by_key().count(Materialized.as_("visits-counts")).to_stream().to("counts")
        seen = KeyValues("seen", Serde.string(), Serde.string())
        stream.process(Later, [seen], returns_key=Serde.string(), returns=Serde.string(), name="later").to("out")

    assert left_out(build) == {"out": "later"}


def test_what_comes_over_a_topic_of_the_topologys_own_is_below_the_processor():
    def build(builder: StreamsBuilder) -> None:
        later(builder.stream("visits", TEXT)).to("between")
        builder.stream("between", TEXT).to("out")
        builder.stream("others", TEXT).to("out-of-others")

    assert left_out(build) == {"between": "later", "out": "later"}


def test_a_join_beside_which_a_task_merges_what_a_processor_sends_is_left_out():
    """
    Records of equal times come in an order that depends on all that the task merges.
    """

    def build(builder: StreamsBuilder, *, merges: bool) -> None:
        users = builder.table("users", TEXT, materialized=Materialized.as_("users-store"))
        builder.stream("visits", TEXT).join(users, "left", name="visited").to("visited")
        sent = later(builder.stream("alarms", TEXT)).repartition(name="sent")
        (sent.join(users, "left", name="alarmed") if merges else sent).to("alarmed")

    assert left_out(lambda builder: build(builder, merges=False)) == {"alarmed": "later"}
    assert left_out(lambda builder: build(builder, merges=True)) == {"alarmed": "later", "visited": "later"}


def test_a_topic_that_only_a_processor_takes_is_read_beside_the_others_as_before():
    builder = StreamsBuilder()
    visits, others = builder.stream("visits", TEXT), builder.stream("others", TEXT)
    users = builder.table("users", TEXT, materialized=Materialized.as_("users-store"))
    visits.join(users, "left", name="join").to("joined")
    seen = KeyValues("seen", Serde.string(), Serde.string())
    for name, stream in (("later", visits), ("later-too", others)):
        stream.process(Later, [seen], returns_key=Serde.string(), returns=Serde.string(), name=name).to(f"{name}-out")

    part = range_part(builder.build())

    (sub,) = part.topology.sub_topologies
    assert {source.topic for source in sub.sources} == {"visits", "others", "users"}
    assert [sink.topic for sink in part.topology.sinks()] == ["joined"]
