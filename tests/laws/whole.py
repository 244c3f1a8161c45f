"""Are the tables of a pipeline those of the run that nobody disturbed?

Rule: everything counts: the plan and the done row of every increment, the files of every table as of every increment,
and every row in its order. Only times of the wall clock, Delta's version numbers and the tokens in file names may
differ.
"""

import functools
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from kstreams_replay.jobs.execution.table_schemas import table_schema
from kstreams_replay.jobs.topology import Topology
from kstreams_replay.state.tables.data_files import DataFile, read_files, read_rows
from kstreams_replay.state.tables.ledger import DONE, Ledger, LedgerRow
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.pipelines import NAME

OF_THE_RUN = frozenset(
    {"seconds", "seconds_by_sub_topology", "rss_bytes_max", "spark_tasks", "requests", "versions", "digests"}
)
"""Fields of a done row about the run that wrote it, not about the tables."""


def first_difference(got: Warehouse, want: Warehouse, topology: Topology, *, since: int, until: int) -> str | None:
    """Where the tables of ``got`` are not those of ``want`` as of increment ``until``; None: nowhere.

    Ledger rows and lists of files are compared from increment ``since`` + 1 on.
    """
    return next(_differences(got, want, topology, since, until), None)


def _differences(got: Warehouse, want: Warehouse, topology: Topology, since: int, until: int) -> Iterator[str]:
    rows, wanted = _ledger(got), _ledger(want)
    numbers = sorted({row.increment for row in rows})
    if numbers != list(range(1, until + 1)) or len(rows) != 2 * until:
        yield f"ledger: increments {numbers}, {len(rows)} rows, instead of {until} with two each"
        return
    wanted = wanted[: 2 * until]
    for row, other in zip(rows[2 * since :], wanted[2 * since :], strict=True):
        place = f"ledger, increment {row.increment} {row.phase}"
        yield from _unequal(place, (row.increment, row.epoch, row.phase), (other.increment, other.epoch, other.phase))
        mine, others = row.content.to_json(), other.content.to_json()
        for name in sorted(mine.keys() | others.keys()):
            if name not in OF_THE_RUN:
                yield from _unequal(f"{place}: {name}", mine.get(name), others.get(name))
    for row, other in zip(rows[2 * since :], wanted[2 * since :], strict=True):
        if row.phase == DONE:
            yield from _tables(got, want, topology, row, other, is_last=row.increment == until)


def _tables(
    got: Warehouse, want: Warehouse, topology: Topology, row: LedgerRow, other: LedgerRow, *, is_last: bool
) -> Iterator[str]:
    """Lists of files as of an increment; of the last one the rows too."""
    versions, others = row.content.versions, other.content.versions
    yield from _unequal(f"tables of increment {row.increment}", sorted(versions), sorted(others))
    for table in versions:
        files, wanted = _files(got, table, versions[table]), _kept_files(want, table, others[table])
        place = f"{table} as of increment {row.increment}"
        yield from _unequal(f"{place}: files", list(map(_described, files)), list(map(_described, wanted)))
        if is_last:
            yield from _rows(got, want, topology, table, list(zip(files, wanted, strict=True)))


def _rows(
    got: Warehouse, want: Warehouse, topology: Topology, table: str, pairs: list[tuple[DataFile, DataFile]]
) -> Iterator[str]:
    """File by file; a file of one name is one file, since no file is written twice."""
    pairs = [(file, other) for file, other in pairs if file.path != other.path]
    if pairs:
        schema = table_schema(topology, table)
        for file, other in pairs:
            rows = read_rows(_path(got, table), [file], schema), read_rows(_path(want, table), [other], schema)
            yield from _unequal_rows(f"{table}, {file.path}", *rows)


def _ledger(warehouse: Warehouse) -> list[LedgerRow]:
    return Ledger(warehouse.pipeline(NAME).ledger).rows()


def _path(warehouse: Warehouse, table: str) -> str:
    return f"{warehouse.pipeline(NAME).root}/{table}"


def _files(warehouse: Warehouse, table: str, version: int) -> list[DataFile]:
    found = read_files(_path(warehouse, table), version=version)
    return sorted(found, key=_described)


@functools.cache
def _kept_files(warehouse: Warehouse, table: str, version: int) -> list[DataFile]:
    """Of the undisturbed run, which is asked again and again."""
    return _files(warehouse, table, version)


def _described(file: DataFile) -> tuple[Any, ...]:
    """A file without its token."""
    return re.sub(r"-[0-9a-f]{16}(\.sealed)?\.parquet$", "", file.path), file.records, sorted(file.bounds.items())


def _unequal(place: str, got: Any, want: Any) -> Iterator[str]:
    if got != want:
        yield f"{place}: {got!r} instead of {want!r}"


def _unequal_rows(place: str, got: pa.Table, want: pa.Table) -> Iterator[str]:
    if got.equals(want):
        return
    rows, wanted = got.to_pylist(), want.to_pylist()
    number = next((i for i, pair in enumerate(zip(rows, wanted, strict=False)) if repr(pair[0]) != repr(pair[1])), None)
    if number is not None:
        yield f"{place}, row {number}: {rows[number]!r} instead of {wanted[number]!r}"
    elif len(rows) != len(wanted):
        yield f"{place}: {len(rows)} rows instead of {len(wanted)}"
