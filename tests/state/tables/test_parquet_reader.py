"""A data file is what was written, or a DamagedFile that names the difference, and what to do."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.state.errors import DamagedFile
from kstreams_replay.state.tables.data_files import DataFile, read_rows
from kstreams_replay.state.tables.footer_seal import KEY, token_of
from kstreams_replay.state.tables.parquet_reader import how_to_restore, open_file, refuse_missing
from kstreams_replay.state.tables.parquet_writer import write_task_file

ROWS = pa.table(
    {
        "offset": pa.array(range(100, 140)),
        "key": pa.array([f"k{number % 5}" for number in range(40)]),
        "value": pa.array([None if number % 3 == 0 else number for number in range(40)], pa.int64()),
    }
)


@pytest.fixture
def written(tmp_path) -> tuple[str, DataFile]:
    """A table's folder, and a file of it."""
    table = f"{tmp_path}/p/state/counts"
    return table, write_task_file(table, ROWS, partition=0, name="00000003-0_0")


def path_of(written: tuple[str, DataFile]) -> Path:
    return Path(written[0], written[1].path)


def read(written: tuple[str, DataFile]) -> pa.Table:
    return read_rows(written[0], [written[1]], ROWS.schema)


def test_no_flipped_bit_changes_a_row(written):
    """
    One bit of every byte: of pages, their headers, the footer, its length. A file with a flipped bit
    gives the rows that were written (a page's statistics are not read), or an error.
    """
    whole, damaged = path_of(written).read_bytes(), 0
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << (place % 8)
        path_of(written).write_bytes(flipped)
        try:
            assert read(written).equals(ROWS), f"byte {place}: other rows, and nobody says so"
        except DamagedFile:
            damaged += 1

    assert damaged > len(whole) / 2


def test_every_flipped_bit_of_a_footer_is_an_error(written):
    whole = path_of(written).read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little")
    for place in range(len(whole) - 8 - footer, len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << (place % 8)
        path_of(written).write_bytes(flipped)
        with pytest.raises(DamagedFile):
            read(written)


def test_the_error_names_table_file_and_increment_and_the_way_back(written):
    path_of(written).write_bytes(b"x" * written[1].bytes)
    with pytest.raises(DamagedFile) as raised:
        read(written)

    root = written[0].removesuffix("/p/state/counts")
    assert str(raised.value) == (
        f"{path_of(written)}, of increment 3: expected the file as it was committed, got an end that is not Parquet's; "
        f"put it back from a copy of the warehouse, or go back with `replay restore --warehouse {root} --pipeline p "
        "--to 2` and run again, or replay the landed topics under another pipeline name"
    )


def test_the_way_back_is_that_of_the_table():
    assert "land topic clicks again" in how_to_restore("w/landed/clicks", 2)
    assert "land topic clicks again" in how_to_restore("w/landed_dead_letter/clicks", 2)
    assert "land topic clicks again" in how_to_restore("w/landing/clicks/recorded_time", 2)
    assert "nothing else can make it again" in how_to_restore("w/p/ledger", 2)
    assert "restore" not in how_to_restore("w/p/outputs/counts", 2)
    command = "`replay restore --warehouse w --pipeline p --to 1` and run again"
    for table in ("dropped", "dead_letter", "state/counts-store", "repartition/by-page-repartition"):
        assert f"or go back with {command}, or replay the landed topics" in how_to_restore(f"w/p/{table}", 2)


def test_the_command_of_the_way_back_can_be_pasted_wherever_the_warehouse_is():
    assert "`replay restore --warehouse 's3://my bucket/w' --pipeline p --to 0`" in how_to_restore(
        "s3://my bucket/w/p/dropped", 1
    )
    assert "`replay restore --warehouse /data/w --pipeline p --to 6`" in how_to_restore("/data/w/p/state/x", 7)


@pytest.mark.parametrize(
    ("content", "got"), [(None, "no file"), (b"", "0 bytes instead of"), (b"PAR1" * 1000, "4000 bytes instead of")]
)
def test_a_file_that_is_gone_or_of_another_length_is_an_error(written, content, got):
    if content is None:
        path_of(written).unlink()
    else:
        path_of(written).write_bytes(content)
    with pytest.raises(DamagedFile, match=got):
        read(written)
    with pytest.raises(DamagedFile, match=got):
        refuse_missing(written[0], [written[1]])


def test_a_footer_of_another_file_is_an_error(written):
    """
    Both have the same rows and lengths, and differ by their tokens alone.
    """
    other = write_task_file(written[0], ROWS, partition=0, name="00000003-0_0")
    assert other.bytes == written[1].bytes
    path_of((written[0], other)).rename(path_of(written))

    with pytest.raises(DamagedFile, match="the digest with which it was sealed"):
        read(written)


def test_a_seal_that_cannot_be_found_is_an_error(written):
    whole = path_of(written).read_bytes()
    path_of(written).write_bytes(whole.replace(KEY.encode(), KEY.upper().encode()))

    with pytest.raises(DamagedFile, match="the digest with which it was sealed"):
        read(written)


def test_a_copy_whose_name_ends_as_that_of_its_file_is_whole(written):
    name = path_of(written).name
    copy = replace(written[1], path=f"partition=0/00000009-restored-{name}")
    Path(written[0], copy.path).write_bytes(path_of(written).read_bytes())

    assert token_of(copy.path) == token_of(written[1].path)
    assert read((written[0], copy)).equals(ROWS)


def test_a_file_without_seal_and_checksums_is_read_as_it_is(tmp_path):
    """
    As versions before wrote them, and Spark's landing does.
    """
    pq.write_table(ROWS, tmp_path / "part-00000-c000.snappy.parquet")
    size = (tmp_path / "part-00000-c000.snappy.parquet").stat().st_size
    file = DataFile("part-00000-c000.snappy.parquet", size, 40, -1, 100, 139)

    assert read_rows(str(tmp_path), [file], ROWS.schema).equals(ROWS)


def test_a_long_footer_is_read_whole(tmp_path):
    wide = pa.table({f"column {number}": pa.array([number]) for number in range(1500)})
    file = write_task_file(str(tmp_path), wide, partition=-1, name="1")
    with open_file(str(tmp_path), file) as opened:
        assert opened.metadata.serialized_size > 1 << 16
        got = opened.rows().read()

    assert got.equals(wide)


def test_pages_are_checked_piece_by_piece_too(written):
    whole = bytearray(path_of(written).read_bytes())
    with open_file(*written) as opened:
        place = opened.metadata.row_group(0).column(1).data_page_offset
    whole[place + 40] ^= 4
    path_of(written).write_bytes(whole)

    with pytest.raises(DamagedFile), open_file(*written) as opened:
        list(opened.rows().iter_batches(10, columns=["key"]))


def test_what_the_machine_refuses_is_not_called_damage(written, monkeypatch):
    def refused(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    class FilesOfHistory:
        open_input_file = staticmethod(refused)

    monkeypatch.setattr(
        "kstreams_replay.state.tables.parquet_reader.open_filesystem", lambda path: (FilesOfHistory(), path)
    )
    with pytest.raises(PermissionError):
        read(written)


@pytest.mark.parametrize(
    "error",
    [
        OSError("When reading information for key 'x' in bucket 'b': AWS Error NETWORK_CONNECTION during GetObject"),
        OSError("AWS Error ACCESS_DENIED during PutObject operation: denied"),  # of another file, written meanwhile
        pa.ArrowMemoryError("malloc of size 64 failed"),
        ValueError("what the reader makes of its rows"),
    ],
)
def test_what_is_no_fault_of_the_file_is_not_called_damage(written, error):
    with pytest.raises(type(error)) as raised, open_file(*written):
        raise error

    assert raised.value is error


@pytest.mark.parametrize(
    "error", [OSError("AWS Error NO_SUCH_KEY during GetObject"), OSError("CRC checksum verification failed")]
)
def test_what_is_the_files_own_is_damage_though_the_system_has_no_number_for_it(written, error):
    with pytest.raises(DamagedFile), open_file(*written):
        raise error
