"""What one stage hands to the next: every row in its order, the columns that are asked for."""

import pyarrow as pa
import pytest

from kstreams_replay.jobs.tape.exchange_files import ExchangeFile, read_exchange_file, rows_in

PIECES = [
    pa.table({"key": [b"a", None, b"a"], "send": [4, 0, 1], "value": [{"x": 1}, None, {"x": None}]}),
    pa.table({"key": [b""], "send": [2], "value": [{"x": 9}]}),
]


@pytest.fixture
def path(tmp_path):
    file = ExchangeFile(f"{tmp_path}/of/increment", "topic-0-from-1_2", PIECES[0].schema)
    for piece in PIECES:
        file.write(piece)
    file.close()
    return file.path


def test_rows_come_back_in_the_order_in_which_they_were_written(path):
    assert read_exchange_file(path).to_pylist() == [row for piece in PIECES for row in piece.to_pylist()]


def test_columns_come_in_the_order_in_which_they_are_asked_for(path):
    found = read_exchange_file(path, ["value", "key"])

    assert found.column_names == ["value", "key"]
    assert found["key"].to_pylist() == [b"a", None, b"a", b""]


def test_a_file_knows_how_many_rows_it_has(path):
    assert rows_in(path) == 4
