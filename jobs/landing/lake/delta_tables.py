"""Delta tables: their files and rows as of a version, and what commits between two versions did.

Owns the way from Delta's log to ``LakeTable``. Delta-rs replays the log (checkpoints, deletion vectors). Single commits
are read here, since only their files distinguish rows that came from rows that only moved (``dataChange``). Rule: a
reader feature that is not known here is refused by its name.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow import fs

from ....state.errors import LandingError
from ....state.tables.data_files import OpenedTable
from ....state.tables.delta_log import entry_name
from ....state.tables.object_stores import open_filesystem, refuse_encoded
from .kept_paths import name_and_root
from .lake_table import Bounds, LakeChanges, LakeFile, LakeTable, digest_of
from .table_columns import TableColumn, TableColumns

READER_FEATURES = (
    "columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint",
    "vacuumProtocolCheck",
)  # fmt: skip
_VECTORS = "deletionVectors"
_HISTORY = 200
"""So many of the newest commits are looked at for statements that change rows."""


def open_delta(uri: str, version: int | None) -> LakeTable:
    """The table at ``uri`` as of ``version`` (None: the newest). Raises LandingError where there is none, where the
    log does not go back so far, and for a reader feature that is not known; ConfigError for a path that Delta misreads.
    """
    refuse_encoded(f"Delta table {uri}", uri)
    table = _opened(uri, version)
    features = table.protocol().reader_features or []
    if unknown := [name for name in features if name not in READER_FEATURES]:
        raise _unknown(uri, ", ".join(unknown))
    columns = _columns(table)
    return LakeTable(
        format="Delta",
        place=uri,
        root=uri,
        id=str(table.metadata().id),
        version=table.version(),
        columns=columns,
        files=tuple(_files(table, columns, uri, has_vectors=_VECTORS in features)),
        since=lambda before, known: _changes(uri, columns, table.version(), before, known),
        upserts=lambda: _upserts(table),
        is_before=lambda later: version is not None and version < later,
    )


def _opened(uri: str, version: int | None) -> DeltaTable:
    with _sentences(uri, version):
        table = OpenedTable(uri)
        if version is not None and version > table.version():
            got = f"newest version {table.version()}"
            raise LandingError(f"Delta table {uri}", f"version {version}", got, "leave --version out, or correct it")
        if version is not None and version != table.version():
            table = OpenedTable(uri, version=version)
        return table


@contextmanager
def _sentences(uri: str, version: int | None) -> Iterator[None]:
    try:
        yield
    except TableNotFoundError:
        next_step = "correct the path, or name the folder that has _delta_log"
        raise LandingError(f"Delta table {uri}", "a Delta table", "none", next_step) from None
    except (DeltaError, OSError, ValueError) as error:
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if "nsupported" in text:
            raise _unknown(uri, text) from error
        expected = "a Delta log that can be read" if version is None else f"version {version} in its log"
        next_step = "read the table with another engine; where its log is cleaned up, a later version is there"
        raise LandingError(f"Delta table {uri}", expected, text, next_step) from error


def _unknown(uri: str, got: str) -> LandingError:
    return LandingError(
        f"Delta table {uri}",
        f"reader features that are known here ({', '.join(READER_FEATURES)})",
        got,
        "write its rows to a table without that feature, and land that one: read without it, rows could be wrong",
    )


def _columns(table: DeltaTable) -> TableColumns:
    schema = pa.schema(table.schema().to_arrow())
    mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    return TableColumns(tuple(map(_column, schema)), by_id=mode == "id")


def _column(field: pa.Field) -> TableColumn:
    metadata = {name.decode(): value.decode() for name, value in (field.metadata or {}).items()}
    number = metadata.get("delta.columnMapping.id")
    kind = field.type
    within: tuple[TableColumn, ...] = ()
    if pa.types.is_struct(kind):
        within = tuple(_column(kind.field(index)) for index in range(kind.num_fields))
        kind = pa.struct([(child.name, child.kind) for child in within])
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        within = (_column(kind.value_field),)
        kind = pa.list_(within[0].kind)
    physical = metadata.get("delta.columnMapping.physicalName", field.name)
    return TableColumn(field.name, (physical,), None if number is None else int(number), kind, within)


def _files(table: DeltaTable, columns: TableColumns, uri: str, *, has_vectors: bool) -> Iterator[LakeFile]:
    actions = pa.table(table.get_add_actions(flatten=True))
    deleted = _deleted(table) if has_vectors else {}
    root = unquote(table.table_uri).rstrip("/")
    paths = dict(_leaves(columns.columns))
    for row in actions.to_pylist():
        path = unquote(row["path"])
        bounds: dict[str, tuple[Any, Any]] = {}
        for column, physical in paths.items():
            least, most = row.get(f"min.{physical}"), row.get(f"max.{physical}")
            # Of times only where every row has one, which is what footers do not say of 96 bits.
            kinds = (int, str, datetime) if row.get(f"null_count.{physical}") == 0 else (int, str)
            if isinstance(least, kinds) and isinstance(most, kinds):
                bounds[column] = least, most
        prefix = "partition."
        constants = {key.removeprefix(prefix): value for key, value in row.items() if key.startswith(prefix)}
        bounds |= {key: (value, value) for key, value in constants.items() if isinstance(value, int | str)}
        vector = deleted.get(path if "://" in path else f"{root}/{path}")
        yield LakeFile(_name(uri, row["path"]), row["size_bytes"], row["num_records"], constants, vector, bounds)


def _name(uri: str, path: str) -> str:
    """Of a file, of its ``path`` in the log: percent-encoded, and of shallow clones a whole one."""
    return name_and_root(unquote(path), (uri,))[0]


def _leaves(columns: tuple[TableColumn, ...], name: str = "", physical: str = "") -> Iterator[tuple[str, str]]:
    """(a.b, its path in statistics) of columns of integers, text and times."""
    for column in columns:
        kind = column.kind
        if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_timestamp(kind):
            yield f"{name}{column.name}", f"{physical}{column.physical[0]}"
        elif pa.types.is_struct(kind):
            yield from _leaves(column.within, f"{name}{column.name}.", f"{physical}{column.physical[0]}.")


def _deleted(table: DeltaTable) -> dict[str, np.ndarray]:
    """URI of a file to the numbers of its deleted rows."""
    numbers = {}
    for batch in table.deletion_vectors():
        vectors = pa.record_batch(batch)
        for uri, kept in zip(vectors["filepath"].to_pylist(), vectors["selection_vector"], strict=True):
            mask = np.asarray(kept.values.to_numpy(zero_copy_only=False), np.bool_)
            numbers[unquote(uri)] = np.flatnonzero(~mask)
    return numbers


def _upserts(table: DeltaTable) -> str | None:
    for name, value in sorted(table.metadata().configuration.items()):
        if value.lower() == "upsert":
            return f"its property {name} is {value}"
    for commit in table.history(_HISTORY):
        parameters = commit.get("operationParameters") or {}
        if commit.get("operation") == "MERGE" and parameters.get("matchedPredicates") not in (None, "[]"):
            return f"version {commit.get('version')} is a MERGE that changes matched rows"
    return None


def _changes(uri: str, columns: TableColumns, version: int, before: int, known: str | None) -> LakeChanges:
    """What the commits after ``before`` did, up to ``version``. ``known``: the digest of the files that it had."""
    # Whoever puts an older copy of a table in its place, and appends to it, writes the same numbers for other rows.
    if version < before:
        why = f"its newest version is {version}, and version {before} has landed"
        return LakeChanges(unknown=why, is_other_table=True)
    try:
        older = tuple(_files(_opened(uri, before), columns, uri, has_vectors=False))
        if known not in (None, digest_of(older)):
            why = f"its version {before} has other files than when it landed"
            return LakeChanges(unknown=why, is_other_table=True)
        old_files = {file.name: file.bounds for file in older}
        commits = [(number, _commit(uri, number)) for number in range(before + 1, version + 1)]
    except (LandingError, FileNotFoundError):
        return LakeChanges(unknown=f"its log does not go back to version {before} any more")
    paths = dict(_leaves(columns.columns))
    came: dict[str, bool] = {}
    bounds = dict(old_files)
    passed: list[Bounds] = []
    touched: list[Bounds] = []
    did: list[str] = []
    for number, actions in commits:
        took = False
        for action in actions:
            if (remove := action.get("remove")) is not None:
                name = _name(uri, remove["path"])
                if remove.get("dataChange", True):
                    touched.append(bounds.get(name, {}))
                    took = True
                elif came.get(name):
                    passed.append(bounds[name])
        for action in actions:
            if (add := action.get("add")) is not None:
                name = _name(uri, add["path"])
                bounds.setdefault(name, _bounds_of(add, paths))
                is_new = bool(add.get("dataChange", True))
                if is_new or name not in old_files:
                    came[name] = is_new or came.get(name, False)
        if took:
            words = next((a["commitInfo"].get("operation") for a in actions if "commitInfo" in a), None)
            did.append(f"{words or 'a commit'} in version {number}")
    added = frozenset(name for name, is_new in came.items() if is_new)
    return LakeChanges(added, frozenset(came) - added, tuple(passed), tuple(touched), tuple(did))


def _commit(uri: str, number: int) -> list[dict[str, Any]]:
    """Actions of one commit. FileNotFoundError: it was cleaned up."""
    filesystem, root = open_filesystem(uri)
    path = f"{root}/_delta_log/{entry_name(number)}"
    if filesystem.get_file_info(path).type != fs.FileType.File:
        raise FileNotFoundError(path)
    with filesystem.open_input_stream(path) as file:
        return [json.loads(line) for line in file.read().splitlines() if line.strip()]


def _bounds_of(add: Mapping[str, Any], paths: Mapping[str, str]) -> Bounds:
    stats = json.loads(add.get("stats") or "{}")
    bounds: dict[str, tuple[Any, Any]] = {}
    for column, physical in paths.items():
        least, most = (_at(stats.get(end) or {}, physical) for end in ("minValues", "maxValues"))
        if isinstance(least, int | str) and isinstance(most, int | str):
            bounds[column] = least, most
        elif physical in (add.get("partitionValues") or {}):
            text = add["partitionValues"][physical]
            if text is not None:
                value = int(text) if text.lstrip("-").isdecimal() else text
                bounds[column] = value, value
    return bounds


def _at(values: Any, path: str) -> Any:
    for part in path.split("."):
        values = values.get(part) if isinstance(values, dict) else None
    return values
