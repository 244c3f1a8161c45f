"""The tape of a task with several landed topics: read as it is taken, in one order whatever the size of a piece."""

import numpy as np
import pyarrow as pa
import pytest

from kstreams_replay.jobs.tape import landed_reader
from kstreams_replay.jobs.tape.input_queues import Queue
from kstreams_replay.jobs.tape.landed_slice import Slice, slice_of
from kstreams_replay.jobs.tape.task_input import INPUT_COLUMNS
from kstreams_replay.jobs.tape.task_tape import TaskTape
from kstreams_replay.state.tables.parquet_writer import TaskFile

NOTHING = pa.table({name: pa.array([], kind) for name, kind in INPUT_COLUMNS.items()})


def landed(folder, times, *, arrivals=None, rows_a_file=1 << 20):
    """The slice of a partition with records of these times, keyed by their offsets, in files of so many."""
    files = []
    for begin in range(0, len(times), rows_a_file):
        offset = np.arange(begin, min(begin + rows_a_file, len(times)))
        keys = pa.array([b"key %d" % number for number in offset], pa.binary())
        columns = {"offset": offset, "timestamp": np.array(times, np.int64)[offset], "key": keys, "value": keys}
        if arrivals is not None:
            columns["arrival"] = np.array(arrivals, np.int64)[offset]
        file = TaskFile(str(folder), partition=0, name=f"{begin:08d}")
        file.write(pa.table(columns))
        files.append(file.close())
    return slice_of(str(folder), files, 0, 0, len(times))


def tape_of(*queues, order="time"):
    """``queues``: (source, slice)."""
    sources = 1 + max(source for source, _ in queues)
    names = [f"source {number}" for number in range(sources)]
    found = [Queue(source, slice_) for source, slice_ in queues]
    return TaskTape(found, names, order, 0, 0, 0, -1, empty=(NOTHING,) * sources)


def taken(tape, records, *, position=0):
    """(source, offset, timestamp, key) of every row, in the order of the tape, whose first has this position."""
    rows = []
    for chunk, places in tape.chunks(records):
        first = position + len(rows)
        assert places.columns["cause_offset"].tolist() == list(range(first, first + len(chunk)))
        left = [iter(table.select(["offset", "timestamp", "key"]).to_pylist()) for table in chunk.tables]
        rows += [(source, *next(left[source]).values()) for source in chunk.source.tolist()]
        assert [next(rest, None) for rest in left] == [None] * len(left)
    return rows


def by_time(*slices):
    """Rows of (source, times), none of which is another's, as a tape takes them."""
    rows = [(source, n, time, b"key %d" % n) for source, times in slices for n, time in enumerate(times)]
    return sorted(rows, key=lambda row: row[2])


@pytest.fixture(params=[1, 7, 1 << 19])
def piece_rows(request, monkeypatch):
    monkeypatch.setattr(landed_reader, "_PIECE_ROWS", request.param)


@pytest.mark.usefixtures("piece_rows")
@pytest.mark.parametrize("records", [1, 10, 1000])
def test_topics_meet_by_time_whatever_is_read_at_once(tmp_path, records):
    clicks, users = list(range(0, 300, 5)), list(range(1, 120, 3))
    tape = tape_of(
        (0, landed(tmp_path / "clicks", clicks, rows_a_file=13)), (1, landed(tmp_path / "users", users, rows_a_file=8))
    )

    assert taken(tape, records) == by_time((0, clicks), (1, users))


@pytest.mark.usefixtures("piece_rows")
@pytest.mark.parametrize("records", [1, 10, 1000])
def test_partitions_of_one_source_are_taken_in_the_order_of_the_tape(tmp_path, records):
    """
    As a global table's, all of whose partitions one task reads.
    """
    clicks, first, second = list(range(0, 300, 5)), list(range(1, 200, 5)), list(range(2, 90, 10))
    slices = [landed(tmp_path / name, times) for name, times in (("c", clicks), ("0", first), ("1", second))]
    tape = tape_of((0, slices[0]), (1, slices[1]), (1, slices[2]))

    assert taken(tape, records) == by_time((0, clicks), (1, first), (1, second))


@pytest.mark.parametrize("records", [1, 2, 100])
def test_a_tape_goes_on_where_the_increment_before_ended(tmp_path, records):
    """
    Heads of one time, three queues of three: the heap gives 0 2 0 2 0 2 1 1 1 (tests/kernels/test_partition_group.py).
    """
    slices = [landed(tmp_path / str(number), [5] * 3) for number in range(3)]
    cut = [1, 0, 0]
    before = TaskTape(
        [Queue(n, slices[n].part(0, cut[n]), beyond_ms=5) for n in range(3)], "abc", "time", 0, 0, 0, -1,
        empty=(NOTHING,) * 3,
    )  # fmt: skip
    first = taken(before, records)
    after = TaskTape(
        [Queue(n, slices[n].part(cut[n], 3)) for n in range(3)], "abc", "time", 0, 0, before.position,
        before.tape_time_ms, before.heap, (NOTHING,) * 3,
    )  # fmt: skip

    assert [row[:2] for row in [*first, *taken(after, records, position=1)]] == [
        (0, 0), (2, 0), (0, 1), (2, 1), (0, 2), (2, 2), (1, 0), (1, 1), (1, 2),
    ]  # fmt: skip


@pytest.mark.parametrize("records", [1, 4, 100])
def test_the_time_of_a_tape_is_the_largest_so_far(tmp_path, records):
    """
    By their heads the records come as 8 | 10 3 4 | 12 1; the increments before had reached 9.
    """
    tape = tape_of((0, landed(tmp_path / "a", [10, 3, 4])), (1, landed(tmp_path / "b", [8, 12, 1])))
    tape.tape_time_ms = 9

    places = [place for _, place in tape.chunks(records)]

    assert np.concatenate([place.columns["cause_time_ms"] for place in places]).tolist() == [9, 10, 10, 10, 12, 12]
    assert tape.tape_time_ms == 12


def test_a_topic_that_meets_another_is_read_no_further_than_the_tape_has_come(tmp_path, monkeypatch):
    monkeypatch.setattr(landed_reader, "_PIECE_ROWS", 10)
    pieces = []
    chunks = Slice.chunks

    def counted(self, *arguments, **options):
        for piece in chunks(self, *arguments, **options):
            pieces.append((self.path[-1], piece["offset"][0].as_py()))
            yield piece

    monkeypatch.setattr(Slice, "chunks", counted)
    tape = tape_of((0, landed(tmp_path / "a", range(0, 2000, 2))), (1, landed(tmp_path / "b", range(1, 2000, 2))))

    taken_now = tape.chunks(30)

    assert len(next(taken_now)[0]) == 19, "where a piece ends, since that is more than half"
    assert sorted(pieces) == [("a", 0), ("b", 0)]
    assert len(next(taken_now)[0]) == 20
    assert sorted(pieces) == [("a", 0), ("a", 10), ("b", 0), ("b", 10)]


def test_a_partition_whose_arrivals_fall_is_taken_by_offset_all_the_same(tmp_path):
    """
    A record is behind those of lower offsets, whatever its number says: 1 comes after 4, 2 after 5.
    """
    one = landed(tmp_path / "a", [0] * 3, arrivals=[0, 4, 1])
    other = landed(tmp_path / "b", [0] * 3, arrivals=[3, 5, 2])

    order = [(row["source"], row["offset"]) for row in by_arrival(tape_of((0, one), (1, other), order="arrival"))]

    assert order == [(0, 0), (1, 0), (0, 1), (0, 2), (1, 1), (1, 2)]


def by_arrival(tape):
    for chunk, _ in tape.chunks(100):
        offsets = [iter(table["offset"].to_pylist()) for table in chunk.tables]
        yield from ({"source": source, "offset": next(offsets[source])} for source in chunk.source.tolist())
