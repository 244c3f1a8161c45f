"""A field that no record has, and a topic of which all is left out, are warned of; what may be meant is not."""

import json

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.increment_report import IncrementReport
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology, fold
from kstreams_replay.orchestration.cli.exit_codes import ExitCode
from kstreams_replay.orchestration.cli.run_outcome import run_exit_code, warnings_of
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

FILTERED = "KSTREAM-FILTER-0000000001"


def filtered(fields: str, condition: str) -> Topology:
    builder = StreamsBuilder()
    builder.stream("clicks", Consumed(Serde.string(), Serde.json(fields))).filter(condition).to("kept")
    return builder.build()


def counted(fields: str, last: str | None = None) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("clicks", Consumed(Serde.string(), Serde.json(fields))).group_by_key()
    grouped.aggregate(out=fold.count() if last is None else fold.last(last)).to_stream().to("counts")
    return builder.build()


def clicks(*values: object, partition: int = 0) -> list[LandedRecord]:
    return [LandedRecord(partition, b"ann", json.dumps(value).encode(), at) for at, value in enumerate(values)]


def replayed(
    warehouse: Warehouse, topology: Topology, *increments: list[LandedRecord], partitions: int = 1
) -> list[IncrementReport]:
    """Of each landing a run of its own."""
    reports: list[IncrementReport] = []
    for records in increments:
        plant(warehouse, "clicks", records, partitions=partitions)
        reports += replay(warehouse, topology, pipeline="p", runner=LocalRunner(), idle="proceed")
    return reports


def test_a_misspelt_field_that_leaves_out_everything_is_named_with_the_one_that_is_there(tmp_path):
    topology = filtered("pgae string, ms long", "pgae IS NOT NULL")

    reports = replayed(Warehouse(tmp_path), topology, clicks({"page": "home", "ms": 1}, {"page": "cart", "ms": 2}))

    assert warnings_of(reports, warehouse="W", pipeline="p") == [
        "none of 2 records of clicks has the field 'pgae', which its serde declares; did you mean 'page'?",
        f"all 2 records of clicks were left out by {FILTERED}; see `replay explain --record clicks:0:0 "
        "--topology TOPOLOGY --warehouse W --pipeline p`",
    ]
    assert run_exit_code(reports) == ExitCode.WARNINGS


def test_a_misspelt_field_of_an_object_is_named_where_the_records_are_applied(tmp_path):
    topology = counted("at struct<citty string, zip string>", last="at.zip")

    reports = replayed(Warehouse(tmp_path), topology, clicks({"at": {"city": "Bonn", "zip": "53111"}}))

    assert warnings_of(reports) == [
        "the 1 record of clicks lacks the field 'at.citty', which its serde declares; did you mean 'at.city'?"
    ]


def test_a_field_is_there_where_one_record_of_any_partition_has_it_or_says_null(tmp_path):
    topology = counted("page string, note string, tip string")
    records = clicks({"page": "home", "note": None}) + clicks({"page": "cart", "tip": "x"}, partition=1)

    assert warnings_of(replayed(Warehouse(tmp_path), topology, records, partitions=2)) == []


def test_tombstones_lack_no_field(tmp_path):
    topology = counted("page string")
    records = [LandedRecord(0, b"ann", None, 0)] * 3

    assert not [said for said in warnings_of(replayed(Warehouse(tmp_path), topology, records)) if "field" in said]


def test_a_field_that_few_records_of_a_later_run_lack_may_be_one_that_they_may_lack(tmp_path):
    warehouse, topology = Warehouse(tmp_path), counted("page string, tip string")
    with_tip, without = clicks({"page": "home", "tip": "x"}), clicks({"page": "home"})

    first, few, many = replayed(warehouse, topology, with_tip, without, clicks(*[{"page": "cart"}] * 100))

    assert [warnings_of([report]) for report in (first, few)] == [[], []]
    assert warnings_of([many]) == [
        "none of 100 records of clicks has the field 'tip', which its serde declares; a field that is missing is null"
    ]
    assert warnings_of([few, many, first]) == []  # the newest has it again


def test_a_filter_that_lets_nothing_of_a_few_later_records_through_is_no_warning(tmp_path):
    warehouse, topology = Warehouse(tmp_path), filtered("page string", "page = 'buy'")

    first, few, many = replayed(
        warehouse, topology, clicks({"page": "buy"}, {"page": "home"}), clicks({"page": "home"}),
        clicks(*[{"page": "home"}] * 100),
    )  # fmt: skip

    assert [warnings_of([report]) for report in (first, few)] == [[], []]
    (said,) = warnings_of([many])
    assert said.startswith(f"all 100 records of clicks were left out by {FILTERED}; see ")
    assert "--record clicks:0:3 " in said


def test_the_topic_whose_records_find_no_partner_is_named_beside_one_that_is_applied(tmp_path):
    builder, warehouse = StreamsBuilder(), Warehouse(tmp_path)
    users = builder.table("users", Consumed(Serde.string(), Serde.string()))
    stream = builder.stream("clicks", Consumed(Serde.string(), Serde.string()))
    stream.join(users, lambda click, user: user, returns=Serde.string()).to("joined")
    plant(warehouse, "users", [LandedRecord(0, b"Ann", b"x", at) for at in (0, 9)], partitions=1)

    reports = replayed(warehouse, builder.build(), [LandedRecord(0, b"ann", b"home", 5)])

    assert warnings_of(reports) == [
        "the 1 record of clicks was left out by KSTREAM-JOIN-0000000004; see `replay explain --record clicks:0:0 "
        "--topology TOPOLOGY`"
    ]
