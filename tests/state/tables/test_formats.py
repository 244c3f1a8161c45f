"""A table names the versions that can read it: a newer format is refused, an older one is read and raised by who
writes.
"""

import tomllib
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema

from kstreams_replay.state.errors import NewerFormat
from kstreams_replay.state.tables import formats
from kstreams_replay.state.tables.commit import commit_files, create_table
from kstreams_replay.state.tables.data_files import open_table, read_files
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.ledger_rows import DoneRow, PlanRow
from kstreams_replay.state.tables.parquet_writer import write_task_file
from kstreams_replay.state.tables.warehouse import LEDGER_SCHEMA

SCHEMA = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("increment", pa.int64())])
MORE = SCHEMA.append(pa.field("key", pa.string()))


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "table")


def commit(path: str, increment: int, schema: pa.Schema = SCHEMA, **options) -> int:
    rows = pa.table({"offset": [increment], "increment": [increment]})
    file = write_task_file(path, rows, partition=0, name=f"{increment:08d}")
    return commit_files(path, schema, [file], app_id="p/t/0", increment=increment, **options)


def described(path: str) -> str | None:
    return DeltaTable(path).metadata().description


def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """This version becomes a later one, of another format."""
    monkeypatch.setattr(formats, "FORMAT", 2)
    monkeypatch.setattr(formats, "VERSION", "0.9.0")


def test_the_version_is_that_of_the_package():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())

    assert project["project"]["version"] == formats.VERSION


def test_a_table_and_a_ledger_say_their_format_and_keep_it(path):
    commit(path, 1)
    commit(path, 2, MORE, may_grow=True)
    commit(path, 3, MORE, replaces=True)
    Ledger(f"{path}-ledger").plan(1, PlanRow(), written_at_ms=0)

    want = "kafka-streams-replay 0.1.0, format 1"
    assert (described(path), described(f"{path}-ledger")) == (want, want)


def test_a_newer_format_is_refused_with_the_version_that_can_read_it(path, monkeypatch):
    with monkeypatch.context() as patch:
        later(patch)
        commit(path, 1)
        Ledger(f"{path}-ledger").plan(1, PlanRow(), written_at_ms=0)

    want = (
        "{}: expected format 1 or an earlier one, got format 2; "
        "use kafka-streams-replay 0.9.0, which can read it, or a later version"
    )
    for call, place in (
        (lambda: open_table(path), path),
        (lambda: read_files(path, version=0), path),
        (lambda: commit(path, 2), path),
        (Ledger(f"{path}-ledger").rows, f"{path}-ledger"),
        (lambda: Ledger(f"{path}-ledger").done(1, DoneRow(), written_at_ms=0), f"{path}-ledger"),
    ):
        with pytest.raises(NewerFormat) as caught:
            call()
        assert str(caught.value) == want.format(place)


def test_a_table_that_becomes_newer_while_it_is_open_is_refused(path, monkeypatch):
    opened: dict[str, DeltaTable] = {}
    commit(path, 1, opened=opened)
    with monkeypatch.context() as patch:
        later(patch)
        commit(path, 2)

    with pytest.raises(NewerFormat):
        commit(path, 3, opened=opened)


def test_a_table_of_before_is_read_as_it_is_and_raised_by_the_first_who_writes(path, monkeypatch):
    """
    Tables of the first versions say nothing.
    """
    DeltaTable.create(path, Schema.from_arrow(SCHEMA), partition_by=["partition"])
    commit(path, 1)
    assert described(path) is None
    later(monkeypatch)

    assert len(read_files(path)) == 1
    assert described(path) is None
    commit(path, 2)
    assert described(path) == "kafka-streams-replay 0.9.0, format 2"
    assert len(read_files(path)) == 2


def test_two_writers_may_raise_a_table_at_once(path, monkeypatch):
    create_table(path, LEDGER_SCHEMA)
    one, other = DeltaTable(path), DeltaTable(path)
    later(monkeypatch)

    formats.raise_format(one, path)
    formats.raise_format(other, path)

    assert one.metadata().description == other.metadata().description == "kafka-streams-replay 0.9.0, format 2"
