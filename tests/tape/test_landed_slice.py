"""Slices of landed topics: the first record of one is found without a step for every record before it, keys that come
again are read once, headers where there are any.
"""

import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.jobs.tape import landed_slice
from kstreams_replay.jobs.tape.landed_slice import Slice, slice_of
from kstreams_replay.jobs.tape.shared_reads import sharing_reads
from kstreams_replay.state.tables import key_dictionaries, parquet_writer
from kstreams_replay.state.tables.data_files import read_files
from kstreams_replay.state.tables.key_dictionaries import concatenated
from kstreams_replay.state.tables.parquet_writer import TaskFile
from kstreams_replay.state.tables.warehouse import HEADERS, Warehouse
from tests.laws.pipelines import PIPELINES, drive
from tests.laws.whole import first_difference
from tests.planted import LandedRecord, plant

RECORDS = 5_000


def landed(warehouse, records):
    plant(warehouse, "clicks", records, partitions=1)
    path = warehouse.landed("clicks")
    return lambda begin, end: slice_of(path, read_files(path), 0, begin, end)


def test_the_first_record_of_a_slice_is_that_of_its_begin_and_there_is_none_at_the_end(warehouse):
    part = landed(warehouse, [LandedRecord(0, b"k", b"v", 10 * offset) for offset in range(RECORDS)])

    got = [part(begin, RECORDS).first() for begin in (0, 1, RECORDS - 1, RECORDS)]

    assert got == [(0, 0), (1, 10), (RECORDS - 1, 10 * (RECORDS - 1)), None]


def test_the_first_record_costs_no_step_for_each_record_before_it_in_its_file(warehouse, monkeypatch):
    """
    One file, one row group: what is before the slice is read as well, but in one piece.
    """
    part = landed(warehouse, [LandedRecord(0, b"k", b"v", offset) for offset in range(RECORDS)])
    pieces: list[int] = []
    iter_batches = pq.ParquetFile.iter_batches

    def counted(self, *arguments, **options):
        for batch in iter_batches(self, *arguments, **options):
            pieces.append(len(batch))
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    got = part(RECORDS - 1, RECORDS).first()

    assert got == (RECORDS - 1, RECORDS - 1)
    assert pieces == [RECORDS]


# --- reads that replays share ------------------------------------------------------------------------------------


def opened_files(monkeypatch):
    """Names of the files that are opened from now on."""
    names: list[str] = []
    open_file = landed_slice.open_file

    def counted(path, file):
        names.append(file.path)
        return open_file(path, file)

    monkeypatch.setattr(landed_slice, "open_file", counted)
    return names


def offsets(read):
    return [offset for chunk in read.chunks(700) for offset in chunk["offset"].to_pylist()]


def test_replays_that_share_reads_open_a_file_once_and_read_the_same_rows(warehouse, monkeypatch):
    part = landed(warehouse, [LandedRecord(0, b"k", b"v", 10 * offset) for offset in range(RECORDS)])
    alone = list(part(1_000, 4_000).chunks(700))
    opened = opened_files(monkeypatch)

    with sharing_reads():
        shared = list(part(1_000, 4_000).chunks(700))
        got = [offsets(part(begin, end)) for begin, end in ((0, 10), (990, 3_000), (4_999, RECORDS))]

    assert pa.concat_tables(shared).equals(pa.concat_tables(alone))
    assert got == [list(range(10)), list(range(990, 3_000)), [4_999]]
    assert len(opened) == 1


def test_what_is_larger_than_the_room_for_shared_reads_is_read_again_and_nothing_stays_afterwards(
    warehouse, monkeypatch
):
    part = landed(warehouse, [LandedRecord(0, b"k", b"v", 10 * offset) for offset in range(RECORDS)])
    opened = opened_files(monkeypatch)

    with sharing_reads(bytes_max=1_000):
        assert [offsets(part(0, 20)) for _ in range(2)] == [list(range(20))] * 2
    with sharing_reads(bytes_max=1_000_000):
        assert offsets(part(0, 20)) == list(range(20))
    assert offsets(part(7, 9)) == [7, 8]

    assert len(opened) == 4


# --- keys as a dictionary ----------------------------------------------------------------------------------------

MANY = 1 << 17


def key_file(folder, keys, *, rows_a_group=1 << 20):
    """A file of these keys and their offsets, as tasks and landings write it, and the slice that it is."""
    file = TaskFile(str(folder), partition=0, name="1")
    for begin in range(0, len(keys), rows_a_group):
        part = keys[begin : begin + rows_a_group]
        numbers = pa.array(range(begin, begin + len(part)), pa.int64())
        columns = {"offset": numbers, "timestamp": numbers, "key": pa.array(part, pa.binary())}
        file.write(pa.table(columns | {"value": pa.nulls(len(part), pa.binary())}))
    written = file.close()
    assert written is not None
    return slice_of(str(folder), [written], 0, 0, len(keys))


@pytest.fixture
def a_group_a_write(monkeypatch):
    """Files have a row group for every table that was written."""
    monkeypatch.setattr(parquet_writer, "_GROUP_ROWS", 1)


def users(numbers):
    return [b"user-%d" % n for n in numbers]


def kinds(chunks):
    return [pa.types.is_dictionary(chunk.schema.field("key").type) for chunk in chunks]


@pytest.mark.slow
@pytest.mark.usefixtures("a_group_a_write")
@pytest.mark.parametrize(
    ("make_keys", "rows_a_group", "is_dictionary"),
    [
        (lambda: users(random.Random(1).choices(range(100_000), k=8 * MANY)), 8 * MANY, True),  # 1.4 MB
        (lambda: users(range(2 * MANY)), 2 * MANY, False),
        (lambda: users(random.Random(1).choices(range(20_000), k=250_000)), 50_000, True),
        (lambda: users(random.Random(1).choices(range(50_000), k=250_000)), 50_000, False),  # 32,000 of them
        (lambda: users(n % 1_000 for n in range(2 * MANY)), 1 << 12, False),
        (lambda: [None] * MANY, MANY, True),
    ],
    ids=["some come again", "all are different", "as streams append", "few come again", "tiny row groups", "null"],
)
def test_keys_are_a_dictionary_where_many_come_again_in_a_large_row_group(
    tmp_path, make_keys, rows_a_group, is_dictionary
):
    keys = make_keys()
    part = key_file(tmp_path, keys, rows_a_group=rows_a_group)

    plain, words = list(part.chunks(MANY)), list(part.chunks(MANY, dictionary_keys=True))

    assert kinds(plain) == [False] * len(plain)
    assert kinds(words) == [is_dictionary] * len(words)
    assert concatenated(plain)["key"].to_pylist() == keys
    assert concatenated(words)["key"].to_pylist() == keys


@pytest.mark.usefixtures("a_group_a_write")
def test_a_chunk_has_keys_of_one_kind_and_one_dictionary(tmp_path):
    kept = [b"user-%d" % (n % 1_000) for n in range(MANY)]
    other = [b"page-%d" % (n % 1_000) for n in range(MANY - 10)]
    parts = [key_file(tmp_path, [*kept, *kept[:10], *other], rows_a_group=MANY), key_file(tmp_path, kept[:10])]
    part = slice_of(str(tmp_path), [*parts[0].files], 0, 5, 2 * MANY)

    chunks = list(part.chunks(MANY, dictionary_keys=True))

    assert kinds(chunks) == [True] * len(chunks)
    assert [chunk["key"].num_chunks for chunk in chunks] == [1] * len(chunks)
    assert concatenated(chunks)["offset"].to_pylist() == list(range(5, 2 * MANY))
    assert (
        concatenated([*chunks, *parts[1].chunks(MANY)])["key"].to_pylist()
        == [*kept, *kept[:10], *other][5 : 2 * MANY] + kept[:10]
    )


def test_keys_of_several_files_are_what_most_rows_have(tmp_path):
    """
    So that the record that closes all windows, in a file of its own, does not undo the dictionary of those before it.
    """
    keys = [b"user-%d" % (n % 1_000) for n in range(MANY)]
    many, one = key_file(tmp_path, keys), key_file(tmp_path, [b"user-5", None])
    words, plain = (list(part.chunks(MANY, dictionary_keys=True)) for part in (many, one))
    halves = [chunk.slice(0, 1) for chunk in words]

    assert (kinds([concatenated([*words, *plain])]), kinds([concatenated([*halves, *plain])])) == ([True], [False])
    assert concatenated([*words, *plain])["key"].combine_chunks().cast(pa.binary()).to_pylist() == [
        *keys,
        b"user-5",
        None,
    ]
    assert concatenated([*halves, *plain])["key"].to_pylist() == [b"user-0", b"user-5", None]


# --- headers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "is_read"),
    [
        ([None, None], False),
        ([[], None], False),
        ([None, [{"key": "h", "value": None}]], True),
        ([[{"key": "h", "value": b"v"}, {"key": "h", "value": None}], []], True),
    ],
)
def test_headers_are_read_where_a_record_of_the_file_has_some(tmp_path, headers, is_read):
    numbers = pa.array([0, 1], pa.int64())
    words = pa.array([b"k", b"k"], pa.binary())
    columns = {"offset": numbers, "timestamp": numbers, "key": words, "value": words}
    file = TaskFile(str(tmp_path), partition=0, name="1")
    file.write(pa.table(columns | {"headers": pa.array(headers, HEADERS)}))
    part = slice_of(str(tmp_path), [file.close()], 0, 0, 2)

    (chunk,) = part.chunks(10)

    assert chunk.column_names == [*columns, *(["headers"] if is_read else [])]
    assert not is_read or chunk["headers"].to_pylist() == headers


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["everything", "joined"])
def test_a_replay_does_not_depend_on_how_keys_are_read(name, tmp_path, monkeypatch):
    pipeline = PIPELINES[name]
    warehouses = []
    for rows, key_bytes in ((key_dictionaries._DICTIONARY_ROWS, key_dictionaries._KEY_BYTES), (1, 1 << 20)):
        monkeypatch.setattr(key_dictionaries, "_DICTIONARY_ROWS", rows)
        monkeypatch.setattr(key_dictionaries, "_KEY_BYTES", key_bytes)
        warehouses.append(Warehouse(str(tmp_path / str(rows))))
        for topic, records in pipeline.tapes(1, 80).items():
            plant(warehouses[-1], topic, records, partitions=pipeline.partitions)
        drive(warehouses[-1], pipeline.topology, 3)

    plain, words = warehouses
    assert first_difference(words, plain, pipeline.topology, since=0, until=3) is None


# --- the largest time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("begin", "end"), [(0, 30), (5, 30), (0, 11), (25, 30), (11, 12), (10, 20), (30, 30)])
@pytest.mark.parametrize("is_bounded", [True, False])
def test_the_largest_time_is_that_of_the_records_in_the_slice(tmp_path, begin, end, is_bounded):
    """
    Three files of ten; the largest time of each is at its third record.
    """
    times = [1000 * (offset // 10) + (500 if offset % 10 == 2 else offset % 10) for offset in range(30)]
    part = timed_files(tmp_path, times, is_bounded=is_bounded).part(begin, end)

    assert part.latest_ms() == max(times[begin:end], default=-1)


def test_the_largest_time_is_found_without_a_look_at_files_that_are_not_cut(tmp_path, monkeypatch):
    part = timed_files(tmp_path, list(range(30)), is_bounded=True).part(5, 30)
    opened: list[str] = []
    read = Slice._read

    def counted(self, *arguments, **options):
        opened.extend(file.path for file in self.files)
        return read(self, *arguments, **options)

    monkeypatch.setattr(Slice, "_read", counted)

    assert part.latest_ms() == 29
    assert opened == [part.files[0].path]


def timed_files(folder, times, *, is_bounded):
    """Files of ten records with these times, each with its largest, or without (as another writer may leave it)."""
    written_files = []
    for begin in range(0, len(times), 10):
        offset = pa.array(range(begin, begin + 10), pa.int64())
        file = TaskFile(str(folder), partition=0, name=str(begin))
        file.write(pa.table({"offset": offset, "timestamp": pa.array(times[begin : begin + 10], pa.int64())}))
        written = file.close()
        written_files.append(written if is_bounded else replace(written, bounds={}))
    return slice_of(str(folder), written_files, 0, 0, len(times))
