"""What production wrote beside its rules: verdicts and causes of topics written by hand, after Kafka's rules."""

import json
import struct
import zlib
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest
from deltalake import DeltaTable

from kstreams_replay.jobs.compare.comparison import Comparison, compare
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    Consumed,
    Serde,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    fold,
)
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

Row = tuple[bytes, bytes | None, int]
"""Key, value, time."""


def long(number: int) -> bytes:
    return struct.pack(">q", number)


def at(key: bytes, start_ms: int) -> bytes:
    """As Kafka's TimeWindowedSerializer."""
    return key + long(start_ms)


def session(key: bytes, start_ms: int, end_ms: int) -> bytes:
    """As Kafka's SessionWindowedSerializer."""
    return key + long(end_ms) + long(start_ms)


TEN_SECONDS = TimeWindows.of_size("10s")


def windowed_counts(windows: Any = TEN_SECONDS) -> Topology:
    """Of the example that was run on a real broker (docs/compare.md): windows of 10 s, grace 0."""
    builder = StreamsBuilder()
    records = builder.stream("in", Consumed(Serde.string(), Serde.string()))
    records.group_by_key().windowed_by(windows).count().to_stream().to("out")
    return builder.build()


def forwarded(value: Serde | None = None) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serde.string(), value or Serde.string())).to("out")
    return builder.build()


def compared(
    warehouse: Warehouse, topology: Topology, inputs: list[Row], live: list[Row] | list[list[Row]],
    *, partitions: int = 1, **how: Any,
) -> Comparison:  # fmt: skip
    """``inputs`` are in partition 0; ``live``: by partition, or all in 0."""
    plant(warehouse, "in", [LandedRecord(0, *row) for row in inputs], partitions=partitions)
    parts: Any = live if live and isinstance(live[0], list) else [live]
    written = [LandedRecord(number, *row) for number, part in enumerate(parts) for row in part]
    plant(warehouse, "live", written, partitions=len(parts))
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner()))
    return compare(warehouse, topology, "out", with_topic="live", pipeline="p", **how)


RESTART = [(b"a", b"x", time_ms) for time_ms in (1_000, 1_001, 1_002, 100_000, 2_000)]
WRITTEN = [
    (at(b"a", 0), long(1), 1_000), (at(b"a", 0), long(2), 1_001), (at(b"a", 0), long(3), 1_002),
    (at(b"a", 100_000), long(1), 100_000),
]  # fmt: skip
LET_IN = (at(b"a", 0), long(1), 2_000)
"""What Kafka Streams 4.3.0 wrote on a real broker after a clean restart before the last record."""


@pytest.mark.every_run
def test_what_a_restart_lets_in_replaces_the_right_count_with_a_wrong_one(warehouse):
    found = compared(warehouse, windowed_counts(), RESTART, [*WRITTEN, LET_IN])

    (only,) = found.first
    assert (found.form, found.verdicts) == ("changelog", {"equal": 1, "other value": 1})
    assert (only.verdict, only.cause, only.key, only.window) == ("other value", "restart", "a", (0, 10_000))
    assert (only.ours, only.theirs) == (
        {"partition": 0, "offset": 2, "time_ms": 1_002, "value": 3},
        {"partition": 0, "offset": 4, "time_ms": 2_000, "value": 1},
    )
    assert only.record == "in:0:4"
    assert only.sentence == (
        "let in by a restart: in:0:4 of time 2000 was late by the task's stream time 100000, and early by one that "
        "began again at -1 between in:0:3 and in:0:4"
    )
    assert [(each.after, each.before, each.records, each.place) for each in found.restarts] == [(3, 4, 1, "0:4")]


DAY = 86_400_000


@pytest.mark.parametrize("windows", [TimeWindows.of_size("24h"), TimeWindows.of_days(zone="UTC")])
def test_a_window_of_a_day_closes_at_its_end(windows, warehouse):
    """
    A record at the end of the day, and none later, made a's second one late.
    """
    inputs = [(b"a", b"x", 1), (b"z", b"x", DAY), (b"a", b"x", 2), (b"z", b"x", DAY + 5)]
    live = [
        (at(b"a", 0), long(1), 1), (at(b"z", DAY), long(1), DAY), (at(b"a", 0), long(1), 2),
        (at(b"z", DAY), long(1), DAY + 5),
    ]  # fmt: skip

    found = compared(warehouse, windowed_counts(windows), inputs, live, form="events", no_trials=True)

    assert [(each.after, each.before) for each in found.restarts] == [(1, 2)]


def test_a_day_on_which_clocks_are_put_forward_ends_an_hour_early(warehouse):
    """
    What production alone has ends there, too; on the next day our side has a window.
    """
    midnights = ("03-30T00:00+01:00", "03-31T00:00+01:00", "04-01T00:00+02:00", "04-02T00:00+02:00")
    days = [int(datetime.fromisoformat(f"2024-{midnight}").timestamp() * 1000) for midnight in midnights]
    inputs = [(b"a", b"x", days[0]), (b"a", b"x", days[2])]
    live = [(at(b"b", day), long(1), day) for day in days[:3]]

    found = compared(warehouse, windowed_counts(TimeWindows.of_days(zone="Europe/Oslo")), inputs, live, form="events")

    assert {each.window for each in found.first if each.key == "b"} == set(pairwise(days))


def test_a_record_that_a_restart_let_in_is_found_in_a_file_that_was_rearranged(warehouse):
    inputs = [(key, b"x", time_ms) for key, time_ms in ((b"c", 1_000), (b"d", 1_001), (b"a", 100_000), (b"b", 2_000))]
    live = [(at(key, time_ms // 10_000 * 10_000), long(1), time_ms) for key, _, time_ms in inputs]
    compared(warehouse, windowed_counts(), inputs, live)
    DeltaTable(warehouse.landed("in")).optimize.z_order(["key"])
    plant(warehouse, "in", [LandedRecord(0, b"e", b"x", 200_000)], partitions=1)  # from here on those files count

    found = compare(warehouse, windowed_counts(), "out", with_topic="live", pipeline="p", no_trials=True)

    assert [(each.after, each.before) for each in found.restarts] == [(2, 3)]


def test_never_restarted_production_equals_its_rules(warehouse):
    found = compared(warehouse, windowed_counts(), RESTART, WRITTEN)

    assert (found.is_equal, found.verdicts, found.causes, found.first) == (True, {"equal": 2}, {}, ())


def test_the_command_names_the_restart_and_ends_with_4(warehouse, tmp_path, capsys):
    compared(warehouse, windowed_counts(), RESTART, [*WRITTEN, LET_IN])
    code = tmp_path / "windows.py"
    code.write_text(
        "from kstreams_replay import Consumed, Serde, StreamsBuilder, TimeWindows\n"
        "builder = StreamsBuilder()\n"
        "records = builder.stream('in', Consumed(Serde.string(), Serde.string()))\n"
        "records.group_by_key().windowed_by(TimeWindows.of_size('10s')).count().to_stream().to('out')\n"
        "topology = builder.build()\n"
    )
    place = ["--topology", f"{code}:topology", "--warehouse", warehouse.root, "--pipeline", "p"]
    words = ["compare", "out", "--with-topic", "live", *place, "--as", "events", "--raw"]

    assert main(words) == 4
    printed = capsys.readouterr().out
    assert "extra       1" in printed
    assert "between in:0:3 and in:0:4: 1 late record" in printed
    assert f"replay explain --record in:0:4 {' '.join(place)}" in printed
    assert main([*words, "--json"]) == 4
    said = json.loads(capsys.readouterr().out)
    assert said["causes"] == {"restart": 1}
    assert said["over_time"] == [{"from_ms": 2_000, "to_ms": 2_001, "differences": 1, "restart": 1}]
    assert main([*words, "--to", "2000"]) == 0
    assert capsys.readouterr().out.endswith("production equals its rules\n")


def test_a_session_that_a_restart_lets_in_and_its_final_result(warehouse):
    """
    Gap 5 s, grace 0: the session [1 s, 1 s] closes when stream time is beyond 6 s.
    """
    builder = StreamsBuilder()
    records = builder.stream("in", Consumed(Serde.string(), Serde.string()))
    sessions = records.group_by_key().windowed_by(SessionWindows.with_inactivity_gap("5s", grace="0s")).count()
    sessions.suppress(Suppressed.until_window_closes()).to_stream().to("out")
    inputs = [(b"a", b"x", 1_000), (b"a", b"x", 50_000), (b"b", b"x", 20_000), (b"a", b"x", 90_000)]
    live = [
        (session(b"a", 1_000, 1_000), long(1), 1_000),
        (session(b"b", 20_000, 20_000), long(1), 20_000),
        (session(b"a", 50_000, 50_000), long(1), 50_000),
    ]

    found = compared(warehouse, builder.build(), inputs, live)

    assert (found.form, found.verdicts) == ("events", {"equal": 2, "extra": 1})
    (only,) = found.first
    assert (only.cause, only.key, only.window, only.record) == ("restart", "b", (20_000, 20_000), "in:0:2")
    assert [(each.after, each.before) for each in found.restarts] == [(1, 2)]


def test_a_row_is_missing_extra_or_of_another_value_or_time(warehouse):
    inputs = [(b"a", b"1", 10), (b"b", b"2", 20), (b"c", b"3", 30), (b"d", b"4", 40), (b"z", b"9", 99)]
    live = [(b"a", b"1", 10), (b"b", b"two", 20), (b"c", b"3", 31), (b"x", b"5", 50), (b"z", b"9", 99)]

    found = compared(warehouse, forwarded(), inputs, live)

    said = [(each.verdict, each.key, each.cause, each.record) for each in found.first]
    assert said == [
        ("other value", "b", "not explained", "in:0:1"),
        ("other time", "c", "not explained", "in:0:2"),
        ("missing", "d", "not explained", "in:0:3"),
        ("extra", "x", "not explained", None),
    ]
    assert (found.not_explained, found.verdicts["equal"]) == (4, 2)


def test_the_fewest_rows_that_were_moved_are_in_another_order(warehouse):
    inputs = [(b"%d" % n, b"v", n) for n in range(6)]

    found = compared(warehouse, forwarded(), inputs, [inputs[n] for n in (0, 4, 1, 2, 3, 5)])

    assert [(each.verdict, each.key) for each in found.first] == [("other order", "4")]
    same = compare(warehouse, forwarded(), "out", with_topic="live", pipeline="p", ignore_order=True, form="events")
    assert same.is_equal


def test_values_are_compared_as_the_serde_reads_them_but_for_fields_that_are_ignored(warehouse):
    topology = forwarded(Serde.json("n long, updated_at long, tags map<string,long>"))
    inputs = [(b"a", b'{"n": 1, "updated_at": 5, "tags": {"x": 1, "y": 2}}', 1)]
    live = [(b"a", b'{"tags":{"y":2,"x":1},"updated_at":7,"n":1}', 1)]

    found = compared(warehouse, topology, inputs, live)
    assert found.verdicts == {"equal": 0, "other value": 1}
    words = {"with_topic": "live", "pipeline": "p"}
    assert compare(warehouse, topology, "out", ignore_fields=["updated_at"], **words).is_equal
    with pytest.raises(ConfigError, match=r"expected fields of the value \(n, updated_at, tags\), got m"):
        compare(warehouse, topology, "out", ignore_fields=["m"], **words)


def murmur2(key: bytes) -> int:
    """Of these keys, as Kafka's Utils.murmur2 without the sign gives it (tests/state has the vectors)."""
    import pyarrow as pa

    from kstreams_replay.state.records.murmur2 import murmur2_partitions

    return int(murmur2_partitions(pa.array([key], pa.binary()), 2**31 - 1)[0])


@pytest.mark.parametrize(
    ("hashed", "cause", "words"),
    [
        (murmur2, "partition count", "another partition count: live has 3 partitions and our tasks 1"),
        (zlib.crc32, "partitioner", "another partitioner: CRC32 of the key (librdkafka's consistent)"),
    ],
    ids=["murmur2", "crc32"],
)
def test_another_partition_count_and_another_partitioner_are_told_apart(warehouse, hashed, cause, words):
    inputs = [(b"key %d" % n, b"v", n) for n in range(20)]
    live = [[row for row in inputs if hashed(row[0]) % 3 == partition] for partition in range(3)]

    found = compared(warehouse, forwarded(), inputs, live)

    elsewhere = len(inputs) - len(live[0])
    assert found.verdicts == {"equal": len(live[0]), "other partition": elsewhere}
    assert found.causes == {cause: elsewhere}
    assert found.first[0].sentence.startswith(words)


def test_a_cache_explains_nothing_where_two_updates_of_one_key_are_both_there_within_the_interval(warehouse):
    """
    Without b's two updates the first of a could be swallowed; with both of them there was a commit in between, and
    then the first of a would have been published.
    """
    inputs = [(b"a", b"x", 1), (b"b", b"x", 2), (b"b", b"x", 3), (b"a", b"x", 4)]
    updates = ((b"a", 1, 1), (b"b", 1, 2), (b"b", 2, 3), (b"a", 2, 4))
    rows = [(at(key, 0), long(n), time_ms) for key, n, time_ms in updates]

    found = compared(warehouse, windowed_counts(), inputs, rows[1:], form="events")
    assert found.causes == {"not explained": 1}
    plant(warehouse, "cached", [LandedRecord(0, *row) for row in rows[2:]], partitions=1)
    words = {"with_topic": "cached", "pipeline": "p", "form": "events"}
    cached = compare(warehouse, windowed_counts(), "out", **words)
    assert cached.causes == {"record cache": 2}
    assert cached.first[0].sentence == (
        "swallowed by a record cache: only the last update of a commit interval is published, here cached:0:1"
    )
    assert compare(warehouse, windowed_counts(), "out", no_cache=True, **words).causes == {"not explained": 2}


def test_a_session_that_was_merged_away_within_a_commit_interval_leaves_nothing(warehouse):
    builder = StreamsBuilder()
    records = builder.stream("in", Consumed(Serde.string(), Serde.string()))
    records.group_by_key().windowed_by(SessionWindows.with_inactivity_gap("5s")).count().to_stream().to("out")
    inputs = [(b"a", b"x", 1_000), (b"a", b"x", 2_000)]

    found = compared(warehouse, builder.build(), inputs, [(session(b"a", 1_000, 2_000), long(2), 2_000)], form="events")

    assert found.causes == {"record cache": 2}  # [1 s, 1 s] and its tombstone
    assert "made and merged away" in found.first[0].sentence


def test_a_row_before_a_record_was_counted_twice_is_no_result_of_it(warehouse):
    """
    Of a, b and c no task processes b and c first. The record at 1003 was counted twice, or late ones were let in.
    """
    times = ((b"a", 1_000), (b"b", 1_001), (b"c", 1_002), (b"a", 1_003), (b"z", 100_000), (b"a", 1_000), (b"a", 1_003))
    rows = {(key, n): (at(key, 0), long(n), time_ms) for key, n, time_ms in
            ((b"a", 1, 1_000), (b"b", 1, 1_001), (b"c", 1, 1_002), (b"a", 2, 1_003), (b"a", 3, 1_003))}  # fmt: skip
    live = [rows[b"b", 1], rows[b"c", 1], rows[b"a", 1], rows[b"a", 2], rows[b"a", 3]]
    live.append((at(b"z", 100_000), long(1), 100_000))
    inputs = [(key, b"x", time_ms) for key, time_ms in times]

    found = compared(warehouse, windowed_counts(), inputs, live, form="events")

    said = [(each.verdict, each.theirs and each.theirs["value"], each.cause) for each in found.first]
    assert said == [("other order", 1, "not explained"), ("extra", 3, "crash")]


def test_tombstones_that_production_does_not_write(warehouse):
    inputs = [(b"a", b"1", 1), (b"a", None, 2), (b"b", b"2", 3)]

    found = compared(warehouse, forwarded(), inputs, [inputs[0], inputs[2]])

    assert [(each.verdict, each.cause) for each in found.first] == [("missing", "tombstones")]


def test_what_retention_deleted_and_what_was_compacted_is_told_by_offsets(warehouse):
    inputs = [(b"a", b"1", 1), (b"b", b"2", 2), (b"c", b"3", 3), (b"b", b"4", 4)]
    plant(warehouse, "in", [LandedRecord(0, *row) for row in inputs], partitions=1)
    plant(warehouse, "expired", [LandedRecord(0, *row) for row in inputs[2:]], partitions=1, first_offset=2)
    list(replay(warehouse, forwarded(), pipeline="p", runner=LocalRunner()))

    found = compare(warehouse, forwarded(), "out", with_topic="expired", pipeline="p")

    assert found.causes == {"retention": 2}
    assert found.first[0].sentence == "expired: partition 0 of expired begins at offset 2, what was before is gone"


def test_rows_that_are_later_than_all_of_the_other_side_are_not_there_yet(warehouse):
    inputs = [(b"a", b"1", 1), (b"a", b"2", 2), (b"a", b"3", 3)]

    found = compared(warehouse, forwarded(), inputs, inputs[:2])

    assert [(each.verdict, each.cause) for each in found.first] == [("missing", "not yet")]


def test_bytes_that_the_serde_does_not_read_are_extra(warehouse):
    found = compared(warehouse, forwarded(Serde.long()), [(b"a", long(1), 1)], [(b"a", b"one", 1)])

    assert [(each.verdict, each.cause) for each in found.first] == [("other value", "unreadable")]
    assert found.first[0].theirs["value"] == b"one"


def test_rows_of_several_tasks_have_no_order_among_them_behind_a_repartition(tmp_path):
    """
    Both keys are regrouped into one partition: which task's records come first is not determined. One task sends them
    in one order.
    """
    builder = StreamsBuilder()
    records = builder.stream("in", Consumed(Serde.string(), Serde.json("to string")))
    records.select_key("to").group_by_key().aggregate(n=fold.count()).to_stream().to("out")
    x, y = [name for name in "abcdefgh" if murmur2(name.encode()) % 2 == 0][:2]
    inputs = [LandedRecord(p, b"a", f'{{"to": "{name}"}}'.encode(), p + 1) for p, name in enumerate((x, y))]
    live = [LandedRecord(0, name.encode(), b'{"n":1}', time_ms) for name, time_ms in ((y, 2), (x, 1))]
    causes = {}
    for tasks in (1, 2):
        own = Warehouse(str(tmp_path / str(tasks)))
        plant(own, "in", [record._replace(partition=record.partition % tasks) for record in inputs], partitions=tasks)
        plant(own, "live", live, partitions=tasks)
        list(replay(own, builder.build(), pipeline="p", runner=LocalRunner(), idle="proceed"))
        found = compare(own, builder.build(), "out", with_topic="live", pipeline="p", form="events")
        causes[tasks] = [(each.verdict, each.cause) for each in found.first]

    assert causes == {1: [("other order", "not explained")], 2: [("other order", "interleaving")]}


def test_an_output_or_topic_that_is_not_there_is_refused(warehouse):
    compared(warehouse, forwarded(), [(b"a", b"1", 1)], [(b"a", b"1", 1)])
    words = {"with_topic": "live", "pipeline": "p"}
    with pytest.raises(ConfigError, match=r"expected one of out, got 'none'"):
        compare(warehouse, forwarded(), "none", **words)
    with pytest.raises(ConfigError, match=r"expected a landed topic, got landed topics \['in', 'live'\]"):
        compare(warehouse, forwarded(), "out", with_topic="dead", pipeline="p")
    with pytest.raises(ConfigError, match=r"expected changelog or events, got 'table'"):
        compare(warehouse, forwarded(), "out", form="table", **words)
