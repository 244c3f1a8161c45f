"""A processor looks into the store of a windowed aggregate and puts into it, as in Kafka Streams: it finds what all
records before it have made, and the aggregate finds what it has put.
"""

import subprocess
from pathlib import Path

import pytest

from kstreams_replay import (
    Consumed,
    Materialized,
    Processor,
    Serde,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    ValueAndTimestamp,
    Warehouse,
    Windowed,
    fold,
    replay,
)
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_changelog, read_table
from kstreams_replay.state.errors import TaskFailed, TopologyError
from tests.jvm.streams import STREAMS, TEST_UTILS, compiled
from tests.planted import LandedRecord, plant

TEXT = Serde.string()
WINDOWS = [
    *(("a", "x", 1), ("a", "x", 2), ("a", "put:0:10:3", 3), ("b", "x", 12), ("a", "x", 4), ("a", "del:0", 13)),
    *(("a", "x", 5), ("a", "put:20:7:25", 14), ("a", "x", 22), ("a", "put:100:9:100", 24), ("a", "put:50:9:50", 25)),
    *(("a", "x", 90), ("a", "x", 26), ("a", "del:100", 101), ("a", "x", 102)),
]
SESSIONS = [
    *(("a", "x", 1), ("a", "x", 3), ("a", "put:1:4:10", 4), ("a", "x", 5), ("b", "x", 9), ("a", "put:20:22:5", 10)),
    *(("a", "x", 11), ("a", "del:20:22", 12), ("a", "x", 24), ("b", "put:90:95:2", 25), ("a", "x", 26)),
    *(("a", "put:30:31:3", 27), ("b", "del:90:95", 93), ("b", "x", 96), ("a", "x", 97)),
]
TAPES = {"windows": WINDOWS, "sessions": SESSIONS}
KINDS = [(what, store) for what in TAPES for store in ("in_memory", "persistent")]


def said(key, value) -> str:
    name, start_ms, end_ms = key
    return f"{name}@{start_ms}/{end_ms}={'null' if value is None else value}"


class OfWindows(Processor):
    def process(self, record):
        counts = self.context.store("counts")
        seen = [said(key, f"{count.value},{count.timestamp_ms}") for key, count in counts.all()]
        self.context.forward(record.with_value(" ".join(seen)))
        what, *asked = record.value.split(":")
        if what == "put":
            start_ms, count, time_ms = map(int, asked)
            counts.put(record.key, ValueAndTimestamp(count, time_ms), start_ms)
        elif what == "del":
            counts.put(record.key, None, int(asked[0]))


class OfSessions(Processor):
    def process(self, record):
        counts = self.context.store("counts")
        seen = [said(key, count) for key, count in counts.find_sessions("a", "z", 0, 2**62)]
        self.context.forward(record.with_value(" ".join(seen)))
        what, *asked = record.value.split(":")
        if what == "put":
            start_ms, end_ms, count = map(int, asked)
            counts.put(Windowed(record.key, start_ms, end_ms), count)
        elif what == "del":
            counts.remove(Windowed(record.key, *map(int, asked)))


def counting(what: str, store: str) -> Topology:
    """The topology of tests/jvm/WrittenWindows.java."""
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(TEXT, TEXT))
    windows = TimeWindows.of_size(10, grace=20)
    if what == "sessions":
        windows = SessionWindows.with_inactivity_gap(5, grace=20)
    grouped = stream.group_by_key().windowed_by(windows)
    grouped.count(Materialized.as_("counts", store=store, retention=40)).to_stream().to("updates")
    stream.process(OfWindows if what == "windows" else OfSessions, ["counts"]).to("seen")
    return builder.build()


def played(made: Topology, tape, **options) -> TopologyTestDriver:
    driver = TopologyTestDriver(made, **options)
    for key, value, time_ms in tape:
        driver.pipe_input("in", key, value, timestamp_ms=time_ms)
    return driver


def lines(driver: TopologyTestDriver) -> list[str]:
    updates = driver.read_outputs("updates")
    return [
        *(f"seen {one.value}" for one in driver.read_outputs("seen")),
        *(f"update {said((one.key, *one.window), one.value)} {one.timestamp_ms}" for one in updates),
    ]


@pytest.mark.jvm
def test_a_processor_and_the_aggregate_see_what_they_do_in_kafka_streams():
    asked = []
    for what, store in KINDS:
        tape = (" ".join(map(str, record)) for record in TAPES[what])
        asked += [f"{what} {'memory' if store == 'in_memory' else store}", *tape, "end"]
    program = Path(__file__).parents[2] / "jvm" / "WrittenWindows.java"
    with compiled(program, packages=(STREAMS, TEST_UTILS)) as command:
        text = "\n".join(asked) + "\n"
        answer = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", check=False)
    assert answer.returncode == 0, answer.stderr
    theirs = [one.strip().split("\n") for one in answer.stdout.split("end\n")[:-1]]

    for kind, expected in zip(KINDS, theirs, strict=True):
        made = [line.strip() for line in lines(played(counting(*kind), TAPES[kind[0]]))]
        assert made == [line.strip() for line in expected], kind


def test_what_is_put_is_counted_on_and_what_is_deleted_begins_again():
    driver = played(counting("windows", "in_memory"), [*WINDOWS[:5], ("a", "del:0", 13), ("a", "x", 6)])

    assert lines(driver)[-3:] == ["update a@0/10=11 4", "update a@10/20=1 13", "update a@0/10=1 6"]


@pytest.mark.sampled("kind")
@pytest.mark.parametrize("kind", KINDS, ids="-".join)
@pytest.mark.parametrize("max_records", [None, 1, 4])
def test_a_replay_gives_what_the_driver_gives_wherever_the_tape_is_cut(tmp_path, kind, max_records):
    made, tape = counting(*kind), TAPES[kind[0]]
    driver = played(made, tape)
    expected = lines(driver)
    refused = [(row.reason, row.node, row.window, row.offset) for row in driver.dropped]
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "in", [LandedRecord(0, k.encode(), v.encode(), t) for k, v, t in tape], partitions=1)

    reports = list(replay(warehouse, made, pipeline="p", runner=LocalRunner(), max_records=max_records))

    seen = [f"seen {row['value']}" for row in read_changelog(warehouse, "p", "seen").to_pylist()]
    updates = read_changelog(warehouse, "p", "updates").to_pylist()
    bounds = ("window_start_ms", "window_end_ms")
    found = [
        *seen,
        *(
            f"update {said((row['key'], *(row[one] for one in bounds)), row['value'])} {row['record_time_ms']}"
            for row in updates
        ),
    ]
    assert found == expected
    dropped = read_table(warehouse, "p", "dropped").to_pylist()
    assert sorted((row["reason"], row["node"], row["window_start_ms"], row["offset"]) for row in dropped) == sorted(
        (reason, node, window[0], offset) for reason, node, window, offset in refused
    )
    assert all(report.books.balance for report in reports)


def test_a_put_that_the_store_has_given_up_is_a_row_of_dropped():
    driver = played(counting("windows", "in_memory"), WINDOWS)
    driver.run()

    expired = [(row.offset, row.window, row.limit_ms) for row in driver.dropped if row.reason == "expired-in-store"]
    assert expired[-1] == (10, (50, 60), 60)


def test_puts_of_a_processor_are_in_the_changelog():
    driver = TopologyTestDriver(counting("windows", "in_memory"))
    driver.read_outputs("counts-changelog")
    for key, value, time_ms in [("a", "x", 1), ("a", "put:20:7:25", 2), ("a", "del:20", 12)]:
        driver.pipe_input("in", key, value, timestamp_ms=time_ms)

    found = [(one.window[0], one.value, one.timestamp_ms) for one in driver.read_outputs("counts-changelog")]

    assert sorted(found, key=repr) == sorted([(0, 1, 1), (0, 2, 2), (20, 7, 25), (10, 1, 12), (20, None, 12)], key=repr)


def test_sessions_that_overlap_are_refused():
    made = counting("sessions", "in_memory")

    with pytest.raises(TaskFailed, match="sessions of a key that are apart, got one that overlaps that from 1 to 5 ms"):
        played(made, [("a", "x", 1), ("a", "x", 4), ("a", "put:2:3:5", 5)]).run()


class Asking(Processor):
    def process(self, record):
        found = self.context.store("counts").fetch_range(record.key, 0, 100)
        self.context.forward(record.with_value(str([(start, count.value) for start, count in found])))
        one = self.context.store("counts").fetch(record.key, 10)
        self.context.forward(record.with_value(str(one)))


def test_windows_are_found_by_key_and_start():
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(TEXT, TEXT))
    stream.group_by_key().windowed_by(TimeWindows.of_size(10, grace=20)).count(Materialized.as_("counts"))
    stream.process(Asking, ["counts"]).to("seen")

    driver = played(builder.build(), [("a", "x", 1), ("b", "x", 11), ("a", "x", 12)])

    assert [one.value for one in driver.read_outputs("seen")] == [
        *("[(0, 1)]", "None", "[(10, 1)]", "ValueAndTimestamp(value=1, timestamp_ms=11)"),
        *("[(0, 1), (10, 1)]", "ValueAndTimestamp(value=1, timestamp_ms=12)"),
    ]


class Resetting(Processor):
    def process(self, record):
        self.context.store("means").put(record.key, ValueAndTimestamp({"mean": 1.0}, 0), 0)


def test_a_fold_that_keeps_more_than_it_shows_takes_no_put():
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(TEXT, Serde.json("n long")))
    grouped = stream.group_by_key().windowed_by(TimeWindows.of_size(10, grace=20))
    grouped.aggregate(Materialized.as_("means"), mean=fold.mean("n"))
    stream.process(Resetting, ["means"]).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", {"n": 1}, timestamp_ms=1)

    with pytest.raises(TaskFailed, match="store 'means': expected a put into an aggregate whose folds show all"):
        driver.run()


def test_windows_whose_close_decides_are_not_for_processors():
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(TEXT, TEXT))
    windows = stream.group_by_key().windowed_by(TimeWindows.of_size(10, grace=20))
    windows.emit_strategy("on_window_close").count(Materialized.as_("counts"))

    with pytest.raises(TopologyError, match="or that of TimeWindows or SessionWindows emitted on update, got a store"):
        stream.process(OfWindows, ["counts"]).to("seen")
