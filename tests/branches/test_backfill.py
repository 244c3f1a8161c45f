"""Backfills of hand-made logs: where they begin, what they keep, what they refuse."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kstreams_replay.jobs.branches.backfill import Backfill, backfill
from kstreams_replay.jobs.branches.branches import branches
from kstreams_replay.jobs.branches.promotion import promote
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.functions.processor_api import Processor
from kstreams_replay.jobs.history.committed_tables import done_row, read_changelog
from kstreams_replay.jobs.history.output_diff import diff_output
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    Consumed,
    Materialized,
    Serde,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import BackfillDiffers, ConfigError, LedgerError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.once_a_run import once_a_run
from tests.planted import LandedRecord, plant
from tests.test_docs import code_blocks, document, section

pytestmark = pytest.mark.sampled

HOUR = 3_600_000
MONDAY, TUESDAY = 1_767_571_200_000, 1_767_657_600_000
END = TUESDAY + 4 * HOUR


def shown() -> dict[str, Any]:
    """What the document's example defines."""
    names: dict[str, Any] = {}
    for block in code_blocks(section(document("docs/backfills.md"), "## An example"), "python"):
        exec("\n".join(block), names)
    return names


def hours() -> Topology:
    """The topology of the document: final counts of every hour, with a grace of five minutes."""
    found: Topology = shown()["topology"]
    return found


def _begun(folder: Path) -> None:
    planted = Warehouse(str(folder / "w"))
    times = range(MONDAY - 12 * HOUR, END, HOUR // 6)
    plant(planted, "visits", [LandedRecord(0, b"ann", b"home", time_ms) for time_ms in times], partitions=1)
    list(replay(planted, hours(), pipeline="shop", runner=LocalRunner(), max_records=150, idle="proceed"))


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """Pipeline shop: a visit of ann every ten minutes, from Sunday's noon until four on Tuesday."""
    return Warehouse(shutil.copytree(once_a_run("visits", _begun) / "w", tmp_path / "w"))


def made(warehouse: Warehouse, topology: Topology | None = None, **settings: Any) -> Backfill:
    given: dict[str, Any] = {"pipeline": "shop", "name": "monday", "from_ms": MONDAY, "to_ms": TUESDAY}
    return backfill(warehouse, topology or hours(), runner=LocalRunner(), **(given | settings))


def counts(warehouse: Warehouse, pipeline: str) -> list[tuple[int, int]]:
    """Start and count of every window."""
    rows = read_changelog(warehouse, pipeline, "visits-per-hour").to_pylist()
    return [(row["window_start_ms"], row["value"]) for row in rows]


def test_the_example_of_the_document_begins_where_it_says_and_has_the_windows_of_the_day(warehouse):
    found = shown()["monday"](warehouse)

    # The last visit before Monday was ten minutes earlier; seven visits lie in the hour and ten minutes before that.
    assert found.begins == f"the landed log at {MONDAY - HOUR // 6 - HOUR - 2 * HOUR // 12} ms"
    assert found.warmed_up == 8
    assert counts(warehouse, "monday") == [(MONDAY + hour * HOUR, 6) for hour in range(24)]
    assert (found.rows, found.compared, found.open) == ({"visits-per-hour": 24}, ["visits-per-hour"], [])


def test_the_pipeline_is_only_read_and_the_diff_is_over_the_range(warehouse):
    before = done_row(warehouse, "shop")
    made(warehouse)

    assert done_row(warehouse, "shop") == before
    found = diff_output(warehouse, "shop", "monday", "visits-per-hour")
    assert (found.equal, found.is_empty) == (24, True)


def test_a_horizon_that_is_too_near_is_seen_and_the_backfill_begins_earlier(warehouse, monkeypatch):
    monkeypatch.setattr("kstreams_replay.jobs.branches.horizon.Horizon.longest_ms", 0)

    found = made(warehouse)

    assert found.begins != f"the landed log at {MONDAY - HOUR // 6} ms"
    assert found.compared == ["visits-per-hour"]


def test_other_rows_by_the_same_code_are_an_error_and_leave_no_branch(warehouse, monkeypatch):
    """Without the proof of the horizon the first window has lost visits, which the comparison sees."""
    monkeypatch.setattr("kstreams_replay.jobs.branches.horizon.Horizon.longest_ms", 0)
    monkeypatch.setattr("kstreams_replay.jobs.branches.horizon.Horizon.unsettled", lambda *given: [])

    with pytest.raises(BackfillDiffers, match="row 0 of the range: expected what shop has committed"):
        made(warehouse, from_ms=MONDAY + HOUR // 2)
    assert branches(warehouse) == {}


def test_results_of_the_range_that_still_wait_are_told(warehouse):
    found = made(warehouse, from_ms=TUESDAY, to_ms=END, name="tuesday")

    last = END - HOUR // 6
    assert {each.has_ms for each in found.open} == {last}
    assert counts(warehouse, "tuesday")[-1] == (TUESDAY + 2 * HOUR, 6)


def test_what_a_backfill_is_not_for_is_refused(warehouse):
    with pytest.raises(ConfigError, match="range: expected an end after its beginning"):
        made(warehouse, to_ms=MONDAY)
    with pytest.raises(ConfigError, match="a name that is free"):
        made(warehouse, name="shop")
    made(warehouse)
    with pytest.raises(LedgerError, match=f"which ends with it; .*`replay drop monday --warehouse {warehouse.root}`"):
        list(replay(warehouse, hours(), pipeline="monday", runner=LocalRunner()))
    with pytest.raises(ConfigError, match="a name that is free"):
        made(warehouse)
    assert list(branches(warehouse)) == ["monday"]


def test_the_command_says_where_it_began_and_what_it_proved(warehouse, tmp_path, capsys):
    blocks = code_blocks(section(document("docs/backfills.md"), "## An example"), "python")
    (tmp_path / "changed.py").write_text("\n".join(blocks[0]) + "\n")

    code = main(
        ["backfill", "shop", "--from", "2026-01-05", "--to", "2026-01-06", "--as", "monday", "--local",
         "--topology", f"{tmp_path}/changed.py:topology", "--warehouse", warehouse.root]
    )  # fmt: skip

    out = capsys.readouterr().out.splitlines()
    assert code == 0
    assert out[0] == "monday has the rows of shop from 2026-01-05 00:00:00 to 2026-01-06 00:00:00"
    assert out[1].endswith("8 records read before the range, 158 from it on")
    assert out[-1].split() == ["visits-per-hour", "24", "equal", "to", "what", "is", "committed"]


# --- what holds records back, or moves them ------------------------------------------------------------------


class Later(Processor):
    """Forwards every record 300 ms later."""

    def process(self, record):
        self.context.forward(record._replace(timestamp_ms=record.timestamp_ms + 300))


def orders_run(tmp_path: Path, topology: Topology) -> Warehouse:
    """An order of each of 60 keys, 50 ms apart from 1,000 ms on, whose users came before; replayed by tens."""
    found, times = Warehouse(str(tmp_path / "orders")), range(1_000, 4_000, 50)
    later = [LandedRecord(0, b"x", b"x", time_ms) for time_ms in times]
    plant(found, "users", [LandedRecord(0, b"%d" % n, b"u", 500) for n in times] + later, partitions=1)
    plant(found, "orders", [LandedRecord(0, b"%d" % n, b"o%d" % n, n) for n in times], partitions=1)
    list(replay(found, topology, pipeline="p", runner=LocalRunner(), max_records=10))
    return found


def joined_with_users(unless: str) -> Topology:
    builder, text = StreamsBuilder(), Consumed(Serde.string(), Serde.string())
    users = builder.table("users", text, materialized=Materialized.versioned("users", "100s"))
    orders = builder.stream("orders", text).filter(f"value != '{unless}'")
    orders.join(users, lambda left, right: left + right, returns=Serde.string(), grace=300).to("out")
    return builder.build()


def test_what_a_join_with_grace_still_holds_at_the_end_of_the_range_belongs_to_it(tmp_path):
    warehouse = orders_run(tmp_path, joined_with_users("none"))

    found = backfill(
        warehouse, joined_with_users("other"), pipeline="p", name="b", from_ms=2_000, to_ms=2_500, runner=LocalRunner()
    )

    rows = read_changelog(warehouse, "b", "out").to_pylist()
    assert [row["value"] for row in rows] == [f"o{n}u" for n in range(2_000, 2_500, 50)]
    assert found.open == []


def test_a_topology_all_of_whose_outputs_are_below_processors_has_no_ranges(tmp_path):
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed(Serde.string(), Serde.string()))
    orders.process(Later, returns_key=Serde.string(), returns=Serde.string(), name="later").to("out")
    topology = builder.build()
    warehouse = orders_run(tmp_path, topology)

    said = "got out, which may have any time, since they depend on the processor later; fork the pipeline"
    with pytest.raises(ConfigError, match=said):
        backfill(warehouse, topology, pipeline="p", name="b", from_ms=2_000, to_ms=2_500, runner=LocalRunner())


# --- beside tables whose topics are done -----------------------------------------------------------------------


def added(key: object, value: str, aggregate: int) -> int:
    return aggregate + int(value)


def capped(key: object, value: str, aggregate: int) -> int:
    return aggregate + min(int(value), 1)


def paid(
    aggregator: Callable[[object, str, int], int], *, is_global: bool = False, has_rates: bool = False
) -> Topology:
    """Payments by the hour of users, whose table has had its last record before the first payment. ``has_rates``: of
    those that are in a global table, too.
    """
    builder, text = StreamsBuilder(), Consumed(Serde.string(), Serde.string())
    payments = builder.stream("payments", text)
    if is_global:
        users = builder.global_table("users", text, materialized=Materialized.as_("users-store"))
        joined = payments.join(
            users, lambda left, right: left, selector="record_key", returns=Serde.string(), name="join"
        )
    else:
        table = builder.table("users", text, materialized=Materialized.as_("users-store"))
        joined = payments.join(table, lambda left, right: left, returns=Serde.string(), name="join")
    if has_rates:
        rates = builder.global_table("rates", text, materialized=Materialized.as_("rates-store"))
        joined = joined.join(rates, lambda left, right: left, selector="record_key", returns=Serde.string())
    windows = joined.group_by_key().windowed_by(TimeWindows.of_size("1h", grace="5m"))
    sums = windows.aggregate(lambda: 0, aggregator, returns=Serde.long(), materialized=Materialized.as_("hours"))
    sums.suppress(Suppressed.until_window_closes(name="final")).to("totals")
    return builder.build()


def payments_run(tmp_path: Path, topology: Topology) -> Warehouse:
    """A payment of 2 every hour of five days, each day an increment."""
    found, days = Warehouse(str(tmp_path / "payments")), range(5)
    for topic in ("users", "rates"):
        plant(found, topic, [LandedRecord(0, b"ann", b"u", MONDAY - 1)], partitions=1)
    times = [MONDAY + (24 * day + hour) * HOUR + 1_000 for day in days for hour in range(24)]
    plant(found, "payments", [LandedRecord(0, b"ann", b"2", time_ms) for time_ms in times], partitions=1)
    list(replay(found, topology, pipeline="p", runner=LocalRunner(), max_records=24, idle="proceed"))
    return found


def thursday(warehouse: Warehouse, topology: Topology) -> Backfill:
    range_ = {"from_ms": MONDAY + 72 * HOUR, "to_ms": MONDAY + 96 * HOUR}
    return backfill(warehouse, topology, pipeline="p", name="b", runner=LocalRunner(), **range_)


def test_changed_windows_below_a_table_begin_with_the_state_of_the_last_increment_that_is_early_enough(tmp_path):
    """
    Increment 2 has read Tuesday's last but one payment; 25 hours lie between it and Thursday.
    """
    found = thursday(payments_run(tmp_path, paid(added)), paid(capped))

    assert found.begins.startswith("increment 2 of p, since these keep what is old: KTABLE-SOURCE-0000000002, join; ")
    assert "the change of KSTREAM-AGGREGATE-" in found.begins
    assert "(store 'hours': functions) needs records from " in found.begins
    assert (found.warmed_up, found.compared) == (25, [])
    rows = read_changelog(Warehouse(str(tmp_path / "payments")), "b", "totals").to_pylist()
    assert [row["value"] for row in rows] == 24 * [1]


def test_code_of_another_python_counts_as_changed_and_the_backfill_says_so(tmp_path, monkeypatch):
    """
    As after an upgrade, since what functions do cannot be compared between versions.
    """
    warehouse = payments_run(tmp_path, paid(added))
    monkeypatch.setattr("kstreams_replay.jobs.code_changes.code_snapshot.made_with", lambda: "Python 4")

    found = thursday(warehouse, paid(added))

    assert found.begins.startswith("increment 2 of p, since these keep what is old: KTABLE-SOURCE-0000000002, join; ")
    assert "; code that may be other than that of polars " in found.begins
    assert found.compared == []


def merged(*topics: str) -> Topology:
    """What comes from all topics, as it comes."""
    builder, text = StreamsBuilder(), Consumed(Serde.string(), Serde.string())
    first, *others = (builder.stream(topic, text) for topic in topics)
    for other in others:
        first = first.merge(other)
    first.to("all")
    return builder.build()


def test_an_output_that_lost_a_topic_is_not_compared_and_can_be_promoted(tmp_path):
    """
    The pipeline has read more of the topic that it still reads.
    """
    found = Warehouse(str(tmp_path / "w"))
    for topic in ("users", "orders"):
        plant(found, topic, [LandedRecord(0, b"ann", topic.encode(), n) for n in range(1_000, 4_000, 50)], partitions=1)
    list(replay(found, merged("users", "orders"), pipeline="p", runner=LocalRunner(), max_records=10, idle="proceed"))

    made = backfill(found, merged("orders"), pipeline="p", name="b", from_ms=2_000, to_ms=5_000, runner=LocalRunner())
    assert (made.compared, made.rows) == ([], {"all": 40})

    promote(found, "b")
    values = [row["value"] for row in read_changelog(found, "p", "all").to_pylist() if row["record_time_ms"] >= 2_000]
    assert values == ["orders"] * 40


def test_code_that_no_state_is_for_begins_with_the_first_record_and_is_named(tmp_path):
    warehouse = payments_run(tmp_path, paid(added))
    builder, text = StreamsBuilder(), Consumed(Serde.string(), Serde.string())
    table = builder.table("users", text, materialized=Materialized.as_("users-store"))
    joined = builder.stream("payments", text).join(table, lambda left, right: left, returns=Serde.string(), name="join")
    windows = joined.group_by_key().windowed_by(TimeWindows.of_size("1h", grace="5m"))
    windows.count(Materialized.as_("hours")).suppress(Suppressed.until_window_closes(name="final")).to("totals")

    found = thursday(warehouse, builder.build())

    assert found.begins.startswith(
        "the first record, since the state of increment 1 cannot be continued: store 'hours': fold"
    )


def test_changed_windows_below_a_global_table_begin_with_the_same_state(tmp_path):
    found = thursday(payments_run(tmp_path, paid(added, is_global=True)), paid(capped, is_global=True))

    assert found.begins.startswith("increment 2 of p, since these keep what is old: KTABLE-SOURCE-0000000002; ")
    assert "(store 'hours': functions) needs records from " in found.begins
    assert (found.warmed_up, found.compared) == (25, [])
    rows = read_changelog(Warehouse(str(tmp_path / "payments")), "b", "totals").to_pylist()
    assert [row["value"] for row in rows] == 24 * [1]


def test_changed_windows_below_a_table_and_a_global_table_begin_no_earlier_than_they_need(tmp_path):
    """
    Increment 1 has read both tables and 22 payments, so that increment 3 ends with the payment of 21 o'clock on
    Wednesday. The windows need what is less than an hour and ten minutes older than that of 23 o'clock.
    """
    found = thursday(payments_run(tmp_path, paid(added, has_rates=True)), paid(capped, has_rates=True))

    assert found.begins.startswith("increment 3 of p, since these keep what is old: KTABLE-SOURCE-0000000002, join, ")
    assert (found.warmed_up, found.compared) == (2, [])
    rows = read_changelog(Warehouse(str(tmp_path / "payments")), "b", "totals").to_pylist()
    assert [row["value"] for row in rows] == 24 * [1]


def test_a_backfill_beside_a_global_table_is_compared(tmp_path):
    found = thursday(payments_run(tmp_path, paid(added, is_global=True)), paid(added, is_global=True))

    assert found.compared == ["totals"]
