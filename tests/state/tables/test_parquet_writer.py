"""Files of tables, written piece by piece; keys that a task has interned are not hashed once more."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.state.records.keys import Keys
from kstreams_replay.state.serdes import Serde
from kstreams_replay.state.tables import parquet_writer
from kstreams_replay.state.tables.parquet_writer import TaskFile, stored_as
from kstreams_replay.state.tables.warehouse import HEADERS

ROWS = pa.table({"offset": [0, 1, 2, 3], "timestamp": [50, 10, 40, 20], "key": ["a", "b", None, "a"]})


@pytest.mark.parametrize(
    ("rows", "size", "groups"),
    [(1 << 18, 16 << 20, [12]), (8, 16 << 20, [8, 4]), (5, 16 << 20, [8, 4]), (1 << 18, 1, [4, 4, 4])],
)
def test_pieces_wait_until_they_make_a_row_group(tmp_path, monkeypatch, rows, size, groups):
    monkeypatch.setattr(parquet_writer, "_GROUP_ROWS", rows)
    monkeypatch.setattr(parquet_writer, "_GROUP_BYTES", size)
    file = TaskFile(str(tmp_path), partition=2, name="7")
    for begin in (0, 4, 8):
        file.write(ROWS.set_column(0, "offset", pa.array(range(begin, begin + 4), pa.int64())))
        file.write(ROWS.slice(0, 0))
    written = file.close()

    parquet = pq.ParquetFile(tmp_path / written.path)
    assert [parquet.metadata.row_group(number).num_rows for number in range(parquet.num_row_groups)] == groups
    assert parquet.read(["offset", "key"]).to_pylist() == [
        {"offset": offset, "key": ("a", "b", None, "a")[offset % 4]} for offset in range(12)
    ]
    assert (written.records, written.partition, written.min_offset, written.max_offset) == (12, 2, 0, 11)
    assert written.bounds == {"offset": (0, 11), "timestamp": (10, 50)}


def test_nothing_is_written_without_rows(tmp_path):
    file = TaskFile(str(tmp_path), partition=0, name="7")
    file.write(ROWS.slice(0, 0))

    assert file.close() is None
    assert list(tmp_path.iterdir()) == []


# --- keys as words ---------------------------------------------------------------------------------------------


def written(tmp_path, pieces: list[list[str | None]]) -> pq.ParquetFile:
    """A file of these keys, a piece each, and their numbers."""
    keys, file, offset = Keys(Serde.string()), TaskFile(str(tmp_path), partition=0, name="7"), 0
    for piece in pieces:
        codes = keys.intern(pa.array(piece, pa.string()).cast(pa.binary()))
        offsets = pa.array(range(offset, offset + len(piece)), pa.int64())
        file.write(
            pa.table({"offset": offsets, "key": keys.as_dictionary(codes), "headers": pa.nulls(len(piece), HEADERS)})
        )
        offset += len(piece)
    return pq.ParquetFile(tmp_path / file.close().path)


def words_of(folder, group: int) -> list[str]:
    """What the dictionary of a row group has in the one file below ``folder``."""
    (path,) = folder.rglob("*.parquet")
    with pq.ParquetFile(path, read_dictionary=["key"]) as file:
        return file.read_row_group(group)["key"].chunk(0).dictionary.to_pylist()


def row_groups(file: pq.ParquetFile) -> list[int]:
    return [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]


def is_by_dictionary(file: pq.ParquetFile) -> bool:
    return "RLE_DICTIONARY" in file.metadata.row_group(0).column(1).encodings


PIECES = [["b", "a", None, "b"], ["c", "a"], [None], ["d", "b", "d"]]


def test_keys_come_back_as_text_whatever_was_met_before(tmp_path):
    read = written(tmp_path, PIECES).read()

    assert read.schema.types == [pa.int64(), pa.string(), HEADERS]
    assert read["key"].to_pylist() == [key for piece in PIECES for key in piece]
    assert read["offset"].to_pylist() == list(range(10))


def test_a_row_group_keeps_the_words_that_its_rows_name(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_writer, "_GROUP_ROWS", 4)

    file = written(tmp_path, [*PIECES, ["a"]])

    assert row_groups(file) == [4, 6, 1]
    assert [words_of(tmp_path, group) for group in range(3)] == [["b", "a"], ["b", "a", "c", "d"], ["a"]]


def test_keys_that_hardly_come_again_have_no_dictionary(tmp_path):
    rows = parquet_writer._SAMPLE
    often, seldom = (written(tmp_path, [[f"key {row % n}" for row in range(rows)]]) for n in (rows // 2, rows))

    assert (is_by_dictionary(often), is_by_dictionary(seldom)) == (True, False)
    assert seldom.read()["key"].to_pylist() == [f"key {row}" for row in range(rows)]


def test_a_row_group_whose_words_are_too_many_becomes_more(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_writer, "_GROUP_ROWS", 10)
    monkeypatch.setattr(parquet_writer, "_DICTIONARY_BYTES", 30)  # five words of a letter, with their offsets
    many = [f"{number}" for number in range(10)]

    file = written(tmp_path, [["0", "1"] * 5, many])

    assert row_groups(file) == [10, 5, 5]
    assert file.read()["key"].to_pylist() == ["0", "1"] * 5 + many


def test_how_many_keys_the_task_has_met_does_not_end_a_row_group(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_writer, "_GROUP_BYTES", 2_000)
    met = [f"{number:08d}" for number in range(1_000)]

    assert row_groups(written(tmp_path, [met, *[["a"]] * 5])) == [1_000, 5]


def test_only_keys_have_no_bounds_and_it_is_known_that_no_row_has_headers(tmp_path):
    metadata = written(tmp_path, PIECES).metadata.row_group(0)
    columns = {metadata.column(place).path_in_schema: metadata.column(place) for place in range(metadata.num_columns)}

    assert [path for path, column in columns.items() if not column.is_stats_set] == ["key"]
    assert (columns["offset"].statistics.min, columns["offset"].statistics.max) == (0, 9)
    assert columns["headers.list.element.key"].statistics.null_count == 10


def test_rows_have_the_stored_columns_and_types_and_keys_stay_words():
    keys = Keys(Serde.string())
    words = keys.as_dictionary(keys.intern(pa.array([b"a", b"b"])))
    rows = pa.table({"more": [1, 2], "key": words, "cause": pa.array([0, 1], pa.int32())})

    stored = stored_as(rows, pa.schema([("cause", pa.int64()), ("key", pa.string())]))

    assert stored.column_names == ["cause", "key"]
    assert stored.schema.types == [pa.int64(), words.type]
    assert stored["key"].to_pylist() == ["a", "b"]
