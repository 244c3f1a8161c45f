"""What a pipeline begins with of changelogs that are written by hand, and what is refused before a table is written."""

import base64
import itertools
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kstreams_replay.jobs.bootstrap import bootstrapping
from kstreams_replay.jobs.bootstrap.application_state import ApplicationState, CommittedPosition
from kstreams_replay.jobs.bootstrap.bootstrapping import bootstrap
from kstreams_replay.jobs.branches.backfill import backfill
from kstreams_replay.jobs.branches.branches import fork
from kstreams_replay.jobs.code_changes.state_migration import MigrationOptions
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.functions import folds as fold
from kstreams_replay.jobs.history.committed_tables import read_changelog, read_state
from kstreams_replay.jobs.operators.base.changelogs import Changelog
from kstreams_replay.jobs.replay.increment_tables import Transactions
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    Consumed,
    Materialized,
    Serde,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import BootstrapError, CodeChanged, ConfigError
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import HEADERS, Warehouse
from tests.bootstrap import kept
from tests.planted import LandedRecord, plant

S = Serde.string()


def counts() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(S, S)).group_by_key()
    clicks.count(Materialized("counts")).to_stream().to("out")
    return builder.build()


def log(store: str, *records: tuple[bytes, bytes | None, int]) -> Changelog:
    keys, values, times = zip(*records, strict=True) if records else ((), (), ())
    return Changelog(
        f"app-{store}-changelog", pa.array(keys, pa.binary()), pa.array(values, pa.binary()), np.array(times, np.int64)
    )


def long(number: int) -> bytes:
    return struct.pack(">q", number)


STATE = ApplicationState(
    "app",
    {"clicks": {0: CommittedPosition(2, 7)}},
    {"counts": [log("counts", (b"a", long(1), 3), (b"b", long(9), 4), (b"a", long(41), 7), (b"b", None, 8))]},
    {},
)
"""Two clicks were read; of the counts 41 is left."""


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    found = Warehouse(str(tmp_path / "w"))
    plant(found, "clicks", [LandedRecord(0, b"a", b"x", time_ms) for time_ms in (3, 7, 5)], partitions=1)
    return found


def test_the_last_value_of_a_key_counts_and_the_next_record_is_the_committed_one(warehouse):
    report = bootstrap(warehouse, counts(), STATE, pipeline="p")
    list(replay(warehouse, counts(), pipeline="p", runner=LocalRunner()))

    assert (report.rows, report.positions, report.stream_time_ms) == ({"counts": 1}, {"clicks": {"0": 2}}, 7)
    (row,) = read_changelog(warehouse, "p", "out").to_pylist()
    assert (row["key"], row["value"], row["record_time_ms"], row["increment"]) == ("a", 42, 7, 2)
    assert [each["aggregate"] for each in read_state(warehouse, "p", "counts", increment=1).to_pylist()] == [41]


@pytest.mark.parametrize("times", ["restarted", "uninterrupted"])
def test_the_ledger_names_the_application_its_times_and_when_it_was_read(times, warehouse, monkeypatch):
    monkeypatch.setattr(bootstrapping, "now_ms", lambda: 1_767_258_000_000)

    bootstrap(warehouse, counts(), STATE, pipeline="p", times=times)

    row = Ledger(warehouse.pipeline("p").ledger).last_done()
    assert row is not None
    assert row.content.bootstrap == {"application": "app", "times": times, "read_at_ms": 1_767_258_000_000}


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ({"changelogs": {}}, "stores with changelogs of the topology: expected counts, got those of none"),
        (
            {"changelogs": STATE.changelogs | {"more": [log("more")]}},
            "of the application: expected those of counts, got more",
        ),
        ({"changelogs": {"counts": [log("counts"), log("counts")]}}, "store 'counts': expected 1 partitions, got 2"),
        (
            {"unread": {"by-key-repartition": [log("by-key")]}},
            "topics of the application: expected those of none",
        ),
        ({"positions": {"clicks": {0: CommittedPosition(4)}}}, "offset 4 of partition 0, of which 3 have landed"),
        ({"positions": {"clicks": {1: CommittedPosition(4)}}}, "expected 1 partitions, got positions of partitions 1"),
    ],
)
def test_an_application_that_is_not_that_of_the_topology_is_refused_by_name(state, says, warehouse):
    with pytest.raises(BootstrapError) as refused:
        bootstrap(warehouse, counts(), replace(STATE, **state), pipeline="p")

    assert says in str(refused.value)
    assert not Path(warehouse.pipeline("p").root).exists()


def by_value(store: str = "counts", repartition: str = "values") -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(S, S)).group_by("value", name=repartition)
    clicks.count(Materialized(store)).to_stream().to("out")
    return builder.build()


@pytest.mark.parametrize("max_records", [None, 1])
def test_records_between_tasks_are_taken_first_and_once(max_records, warehouse):
    between = log("values", (b"y", b"y", 6), (b"x", b"x", 7), (b"y", b"y", 4))
    counted = {"counts": [log("counts", (b"x", long(1), 3))]}
    state = replace(STATE, changelogs=counted, unread={"values-repartition": [between]})
    plant(warehouse, "clicks", [LandedRecord(0, b"a", b"y", 8)], partitions=1)

    bootstrap(warehouse, by_value(), state, pipeline="p")
    list(replay(warehouse, by_value(), pipeline="p", runner=LocalRunner(), max_records=max_records))

    rows = read_changelog(warehouse, "p", "out").select(["key", "value", "record_time_ms"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [("y", 1, 6), ("x", 2, 7), ("y", 2, 6), ("x", 3, 7), ("y", 3, 8)]


@pytest.mark.parametrize("settings", [{}, {"max_records": 1}, {"until_ms": 5}, {"idle": "proceed"}])
def test_records_between_tasks_are_taken_when_nothing_lands(settings, warehouse):
    between = {"values-repartition": [log("values", (b"y", b"y", 6), (b"x", b"x", 7))]}
    read = {"clicks": {0: CommittedPosition(3, 7)}}
    bootstrap(warehouse, by_value(), replace(STATE, positions=read, unread=between), pipeline="p")

    reports = list(replay(warehouse, by_value(), pipeline="p", runner=LocalRunner(), **settings))
    again = list(replay(warehouse, by_value(), pipeline="p", runner=LocalRunner(), **settings))

    assert ([report.increment for report in reports], again) == ([2], [])
    assert read_changelog(warehouse, "p", "out")["key"].to_pylist() == ["y", "x"]


def test_records_between_tasks_outlive_a_migration(warehouse):
    between = {"values-repartition": [log("values", (b"y", b"y", 6), (b"x", b"x", 7))]}
    bootstrap(warehouse, by_value(), replace(STATE, unread=between), pipeline="p")

    renamed = MigrationOptions(renamed={"counts": "numbers"})
    list(replay(warehouse, by_value("numbers"), pipeline="p", runner=LocalRunner(), wanted=renamed))

    rows = Ledger(warehouse.pipeline("p").ledger).done_rows()
    assert [row.content.unread is None for row in rows] == [False, False, True]
    assert read_changelog(warehouse, "p", "out")["key"].to_pylist() == ["y", "x", "x"]


def test_records_between_tasks_are_not_lost_with_their_repartition_topic(warehouse):
    between = {"values-repartition": [log("values", (b"y", b"y", 6))]}
    bootstrap(warehouse, by_value(), replace(STATE, unread=between), pipeline="p")

    with pytest.raises(CodeChanged, match="code that reads repartition topic values-repartition, whose records"):
        list(replay(warehouse, by_value(repartition="others"), pipeline="p", runner=LocalRunner()))

    list(replay(warehouse, by_value(), pipeline="p", runner=LocalRunner()))  # the next step that it says
    plant(warehouse, "clicks", [LandedRecord(0, b"a", b"z", 8)], partitions=1)
    list(replay(warehouse, by_value(repartition="others"), pipeline="p", runner=LocalRunner()))
    rows = read_changelog(warehouse, "p", "out").select(["key", "value"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [("y", 1), ("x", 1), ("z", 1)]


def test_records_between_tasks_have_no_arrival(warehouse):
    state = replace(STATE, unread={"values-repartition": [log("values", (b"y", b"y", 6))]})
    bootstrap(warehouse, by_value(), state, pipeline="p")

    with pytest.raises(ConfigError, match='expected order="time", got records of an application'):
        list(replay(warehouse, by_value(), pipeline="p", runner=LocalRunner(), order="arrival"))
    assert Ledger(warehouse.pipeline("p").ledger).pending() is None


def test_changes_of_tables_between_tasks_are_not_lost_in_silence(warehouse):
    builder = StreamsBuilder()
    users = builder.table("clicks", Consumed(S, S), Materialized("users"))
    grouped = users.group_by(lambda key, value: (value, key), returns_key=S, returns=S, name="values")
    grouped.count(Materialized("counts")).to_stream().to("out")
    logs = STATE.changelogs | {"users": [log("users")]}
    state = replace(STATE, changelogs=logs, unread={"values-repartition": [log("values", (b"y", b"y", 6))]})

    with pytest.raises(BootstrapError, match="1 records in values-repartition that no task has taken"):
        bootstrap(warehouse, builder.build(), state, pipeline="p")


def test_a_fold_that_keeps_more_than_it_shows_is_refused(warehouse):
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(S, Serde.long())).group_by_key()
    clicks.aggregate(fold.mean(), Materialized("counts")).to_stream().to("out")

    with pytest.raises(ConfigError, match=r"store 'counts': .* folds that keep more than they show"):
        bootstrap(warehouse, builder.build(), STATE, pipeline="p")


@pytest.mark.parametrize(
    ("kept_headers", "rows"),
    [({}, 1), ({"vh.old": b"\0" + long(-1)}, 1), ({"vh.old": b"\x12\x02\x0atrace\x02\x01" + long(3)}, None)],
)
def test_a_buffer_that_keeps_headers_of_its_values_is_refused(kept_headers, rows, warehouse):
    """Bytes as Kafka Streams has logged them with dsl.store.format=HEADERS, of a click without and with one."""
    context = long(3) + long(0) + struct.pack(">i", 6) + b"clicks" + struct.pack(">ii", 0, 0)
    entry = context + struct.pack(">iii", -1, -1, 8) + long(1) + long(10_000)
    headers = [{"key": name, "value": value} for name, value in {"v": b"\x03", **kept_headers}.items()]
    buffer = replace(log("buffer-store", (b"ann" + long(0), entry, 3)), headers=pa.array([headers], HEADERS))
    state = replace(STATE, changelogs={"counts": [log("counts")], "buffer-store": [buffer]})

    if rows is None:
        with pytest.raises(ConfigError, match=r"'buffer-store': .* got entries whose values have headers of"):
            bootstrap(warehouse, kept.windows(), state, pipeline="p")
    else:
        assert bootstrap(warehouse, kept.windows(), state, pipeline="p").rows == {"counts": 0, "buffer-store": rows}


def test_bytes_that_the_serde_cannot_read_are_refused_with_their_topic(warehouse):
    other = replace(STATE, changelogs={"counts": [log("counts", (b"a", b"41", 3))]})

    with pytest.raises(ConfigError, match=r"changelog app-counts-changelog: expected bytes of .*long.*got others"):
        bootstrap(warehouse, counts(), other, pipeline="p")


def test_a_dry_run_counts_and_writes_nothing(warehouse):
    report = bootstrap(warehouse, counts(), STATE, pipeline="p", dry_run=True)

    assert report.rows == {"counts": 1}
    assert not Path(warehouse.pipeline("p").root).exists()


def test_a_pipeline_of_that_name_stays_as_it_is(warehouse):
    bootstrap(warehouse, counts(), STATE, pipeline="p")

    with pytest.raises(ConfigError, match="expected a name that is free"):
        bootstrap(warehouse, counts(), STATE, pipeline="p")


def test_a_folder_that_no_bootstrap_has_made_is_left_alone(warehouse):
    own = Path(warehouse.pipeline("p").root) / "own.txt"
    own.parent.mkdir(parents=True)
    own.write_text("somebody's")

    with pytest.raises(ConfigError, match="expected a name that is free, got a folder of that name"):
        bootstrap(warehouse, counts(), STATE, pipeline="p")

    assert own.read_text() == "somebody's"


def test_what_a_death_has_left_is_no_pipeline_and_is_made_again(warehouse, monkeypatch):
    commit = Transactions.commit

    def dies(*arguments):
        commit(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(Transactions, "commit", dies)
    with pytest.raises(KeyboardInterrupt):
        bootstrap(warehouse, counts(), STATE, pipeline="p")
    monkeypatch.undo()
    fewer = replace(STATE, changelogs={"counts": [log("counts", (b"c", long(5), 6))]})

    bootstrap(warehouse, counts(), fewer, pipeline="p")

    assert [row["key"] for row in read_state(warehouse, "p", "counts").to_pylist()] == ["c"]


def test_a_table_without_a_changelog_is_its_topic_up_to_the_committed_offset(warehouse):
    builder = StreamsBuilder()
    users = builder.table("users", Consumed(S, S), Materialized("users-kept"))
    builder.stream("clicks", Consumed(S, S)).join(users, "right", returns=S).to("out")
    records = [LandedRecord(0, b"a", b"ann", 1), LandedRecord(0, b"b", b"bob", 2), LandedRecord(0, b"a", b"later", 9)]
    plant(warehouse, "users", records, partitions=1)
    positions = {"clicks": {0: CommittedPosition(2, 7)}, "users": {0: CommittedPosition(2, 2)}}

    report = bootstrap(warehouse, builder.build(), ApplicationState("app", positions, {}, {}), pipeline="p")

    assert (report.rows, report.replaced) == ({"users-kept": 2}, ("users-kept",))
    assert {row["key"]: row["value"] for row in read_state(warehouse, "p", "users-kept").to_pylist()} == {
        "a": "ann",
        "b": "bob",
    }


@pytest.mark.sampled(share=4)
@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        (["check", "--all"], 0, "G3 ledger, increment 2"),
        (["verify", "--from", "2"], 0, "the same tables"),
        (["books"], 0, "    these     1        1"),
        (["metrics"], 0, "replay_stream_time_ms"),
        (["explain", "--record", "clicks:0:2"], 0, "41 -> 42"),
        (["explain", "--record", "clicks:0:0"], 1, "of an application's state nothing is known"),
        (
            ["backfill", "p", "--from", "1", "--to", "10", "--as", "b", "--local"],
            2,
            "behind all that increment 1 had read, which goes back to an application's state",
        ),
        (["restore", "--to", "1"], 0, "p goes on from increment 1"),
    ],
)
def test_commands_know_a_pipeline_that_begins_with_an_applications_state(
    command, code, says, warehouse, tmp_path, capsys
):
    bootstrap(warehouse, counts(), STATE, pipeline="p")
    list(replay(warehouse, counts(), pipeline="p", runner=LocalRunner()))
    name, *words = command
    topology, place = f"{__file__}:counts", ["--warehouse", warehouse.root]
    if name in ("check", "verify"):
        words = [topology, *words]
    if name in ("explain", "backfill"):
        words += ["--topology", topology]
    words += [] if name == "backfill" else ["--pipeline", "p"]

    assert main([name, *words, *place]) == code
    said = capsys.readouterr()
    assert says in said.out + said.err


def in_windows() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(S, S)).group_by_key()
    windows = clicks.windowed_by(TimeWindows.of_size("10ms", grace="0ms"))
    windows.count(Materialized("counts")).to_stream().to("out")
    return builder.build()


@pytest.mark.parametrize("forks", [["p"], ["p", "b"], ["p", "b", "c"]])
def test_a_backfill_of_a_branch_begins_with_the_applications_state(forks, warehouse):
    window = b"a" + long(10) + struct.pack(">i", 0)
    state = replace(
        STATE,
        positions={"clicks": {0: CommittedPosition(4, 12)}},
        changelogs={"counts": [log("counts", (window, long(41), 12))]},
    )
    plant(warehouse, "clicks", [LandedRecord(0, b"a", b"x", time_ms) for time_ms in (12, 15, 25, 31)], partitions=1)
    bootstrap(warehouse, in_windows(), state, pipeline="p")
    for parent, name in itertools.pairwise(forks):
        fork(warehouse, parent, 1, name)
    list(replay(warehouse, in_windows(), pipeline=forks[-1], runner=LocalRunner()))

    def made(from_ms: int) -> list[tuple[int, int]]:
        backfill(
            warehouse, in_windows(), pipeline=forks[-1], name="again", from_ms=from_ms, to_ms=30, runner=LocalRunner()
        )
        rows = read_changelog(warehouse, "again", "out").to_pylist()
        return [(row["record_time_ms"], row["value"]) for row in rows]

    with pytest.raises(ConfigError, match="behind all that increment 1 had read"):
        made(from_ms=5)
    assert made(from_ms=13) == [(15, 42), (25, 1)]


def encoded(version: int, time_ms: int, numbers: Mapping[str, int] | None = None) -> str:
    """As TopicPartitionMetadata.encode writes it."""
    data = struct.pack(">bq", version, time_ms)
    if numbers:
        data += struct.pack(">i", len(numbers))
        data += b"".join(
            struct.pack(">i", len(name)) + name.encode() + long(number) for name, number in numbers.items()
        )
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("metadata", "time_ms", "numbers"),
    [
        (encoded(2, 17, {"closed": 5, "other": 6}), 17, {"closed": 5, "other": 6}),
        (encoded(2, 17), 17, {}),
        (encoded(1, 17), 17, {}),
        (encoded(2, 17) + "\x00", -1, {}),
        (encoded(2, 17, {"closed": 5}) + "\x02", -1, {}),
        (encoded(3, 17), -1, {}),
        ("a consumer's own words", -1, {}),
        ("", -1, {}),
        (None, -1, {}),
    ],
)
def test_partition_times_are_read_out_of_the_metadata_of_offsets(metadata, time_ms, numbers):
    assert CommittedPosition.of(4, metadata) == CommittedPosition(4, time_ms, numbers)


def final_counts() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(S, S)).group_by_key()
    windows = clicks.windowed_by(TimeWindows.of_size("10ms", grace="0ms")).count(Materialized("counts"))
    windows.suppress(Suppressed.until_window_closes(name="buffer")).to_stream().to("out")
    return builder.build()


@pytest.mark.parametrize("max_records", [None, 1])
def test_a_window_that_is_let_in_twice_and_is_in_no_store_leaves_once(max_records, tmp_path):
    """The store's time is 200, so it keeps nothing of the window that ends at 10: each of the two records counts as its
    first. Kafka's buffer has one entry of a window, so the later result takes the place of the earlier.
    """
    window = b"a" + long(200) + struct.pack(">i", 0)
    logs = {"counts": [log("counts", (window, long(1), 200))], "buffer-store": [log("buffer-store")]}
    state = replace(STATE, positions={"clicks": {0: CommittedPosition(1, 200)}}, changelogs=logs)
    records = [LandedRecord(0, b"a", b"x", time_ms) for time_ms in (200, 7, 5, 300)]
    warehouse = Warehouse(str(tmp_path / "w"))
    plant(warehouse, "clicks", records, partitions=1)
    topology = final_counts()
    bootstrap(warehouse, topology, state, pipeline="p")

    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), max_records=max_records))

    rows = read_changelog(warehouse, "p", "out").to_pylist()
    assert [(row["window_start_ms"], row["value"], row["record_time_ms"]) for row in rows] == [(0, 1, 5)]


def in_sessions() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(S, S)).group_by_key()
    sessions = clicks.windowed_by(SessionWindows.with_inactivity_gap("10ms", grace="0ms"))
    sessions.count(Materialized("counts")).to_stream().to("out")
    return builder.build()


@pytest.mark.parametrize("name", ["p", "b"])
def test_a_session_of_the_applications_state_may_be_taken_back(name, tmp_path, capsys):
    session = b"a" + long(12) + long(10)
    logs = {"counts": [log("counts", (session, long(4), 12))]}
    state = replace(STATE, positions={"clicks": {0: CommittedPosition(0, 12)}}, changelogs=logs)
    warehouse = Warehouse(str(tmp_path / "w"))
    records = [LandedRecord(0, b"a", b"x", time_ms) for time_ms in (15, 19)]
    plant(warehouse, "clicks", records, partitions=1)
    bootstrap(warehouse, in_sessions(), state, pipeline="p")
    if name != "p":
        fork(warehouse, "p", 1, name)
    list(replay(warehouse, in_sessions(), pipeline=name, runner=LocalRunner()))

    rows = read_changelog(warehouse, name, "out").to_pylist()
    assert [(row["window_start_ms"], row["window_end_ms"], row["value"]) for row in rows] == [
        (10, 12, None), (10, 15, 5), (10, 15, None), (10, 19, 6),
    ]  # fmt: skip
    place = ["--warehouse", warehouse.root, "--pipeline", name, "--engine", "plain"]
    code, said = main(["check", f"{__file__}:in_sessions", *place, "--all"]), capsys.readouterr().out
    assert code == 0, said
    assert "holds   G11 outputs/out, increment 2" in said
