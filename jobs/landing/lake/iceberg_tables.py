"""Iceberg tables: their files and rows as of a snapshot, and what snapshots between two did.

Owns the way from Iceberg's metadata to ``LakeTable``. PyIceberg reads catalogs, manifests and delete files. Rule: only
data files that are Parquet are read; equality deletes, by which writers upsert, are refused by their name.
"""

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import NoSuchTableError, RESTError
from pyiceberg.io.pyarrow import _read_deletes, schema_to_pyarrow
from pyiceberg.manifest import DataFile, FileFormat, ManifestContent, ManifestEntryStatus
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.name_mapping import MappedField
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, PrimitiveType, StringType

from ....state.distinct_numbers import distinct
from ....state.errors import LandingError
from ....state.tables.object_stores import is_remote, remember_options
from .iceberg_catalogs import open_catalog
from .kept_paths import name_and_root, plain, refuse_elsewhere
from .lake_table import Bounds, LakeChanges, LakeFile, LakeTable
from .table_columns import TableColumn, TableColumns

_ID = b"PARQUET:field_id"
_store_of = attrgetter("io")
"""What opens a table's files; written out, it would look like the address of a machine."""
_UPSERTS = {"write.upsert.enabled": "true"}
"""Of Flink."""
_STORE_WORDS = {
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "s3.region": "aws_region",
    "s3.endpoint": "aws_endpoint",
}
"""PyIceberg's word to Delta's."""
_DATA_PATHS = "write.data.path", "write.object-storage.path", "write.folder-storage.path"
"""Properties that name a folder for data, the first of them that a table has."""


def open_iceberg(name: str, properties: Mapping[str, str], snapshot: int | None) -> LakeTable:
    """The table ``name`` (catalog.namespace.table) as of ``snapshot`` (None: the current one). Raises LandingError
    where there is none, for a snapshot that has expired, and for files and deletes that are not read here.
    """
    table = _loaded(name, properties)
    options = {word: table.io.properties[given] for given, word in _STORE_WORDS.items() if given in table.io.properties}
    if "://" in table.location() and options:
        remember_options(table.location(), options)
    current = table.current_snapshot() if snapshot is None else table.snapshot_by_id(snapshot)
    if current is None and snapshot is not None:
        known = [each.snapshot_id for each in table.snapshots()]
        got = f"{len(known)} snapshots, the newest {known[-1]}" if known else "none"
        next_step = "leave --snapshot out, or name one that has not expired"
        raise LandingError(f"Iceberg table {name}", f"snapshot {snapshot}", got, next_step)
    schema = table.schema()
    if snapshot is not None and current is not None and current.schema_id is not None:
        schema = table.schemas()[current.schema_id]
    roots = _roots(table, name)
    files = () if current is None else tuple(_files(table, name, schema, current, roots))
    return LakeTable(
        format="Iceberg",
        place=name,
        root=roots[0],
        id=str(table.metadata.table_uuid),
        version=0 if current is None else current.snapshot_id,
        columns=_columns(table, schema),
        files=files,
        # Ids of snapshots are random, so one of the same id has the same files.
        since=lambda before, _: _changes(table, schema, current, before, roots),
        upserts=lambda: _upserts(table, schema),
        is_before=lambda later: _is_before(table, current, later),
        other_roots=roots[1:],
    )


def _loaded(name: str, properties: Mapping[str, str]) -> Table:
    catalog, _, rest = name.partition(".")
    try:
        return open_catalog(catalog, properties).load_table(rest)
    except NoSuchTableError:
        next_step = "correct the name: catalog.namespace.table"
        raise LandingError(f"Iceberg table {name}", "a table", "none", next_step) from None
    except (RESTError, ValueError, OSError, KeyError, TypeError) as error:
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        next_step = f"configure the catalog {catalog} as PyIceberg does (.pyiceberg.yaml, PYICEBERG_CATALOG__…)"
        raise LandingError(f"Iceberg table {name}", "a catalog that answers", text, next_step) from error


def _roots(table: Table, name: str) -> tuple[str, ...]:
    """Folders that its files may be below: its location, and the one for data that its properties name. Raises
    LandingError for one of this machine where the metadata are in a store: whoever writes there names no files here.
    """
    named = [table.properties[each] for each in _DATA_PATHS if table.properties.get(each)]
    roots = (plain(table.location()), *map(plain, named[:1]))
    if is_remote(plain(table.metadata_location or "")):
        for root in roots:
            if not is_remote(root):
                next_step = "correct the table's location, or its property write.data.path"
                raise LandingError(f"Iceberg table {name}", "folders in a store, as of its metadata", root, next_step)
    return roots


def _columns(table: Table, schema: Schema) -> TableColumns:
    mapped = table.name_mapping()
    fields = {} if mapped is None else {each.field_id: each for each in mapped.root}
    arrow = schema_to_pyarrow(schema)
    columns = tuple(_column(arrow.field(index), fields) for index in range(len(arrow.names)))
    return TableColumns(columns, by_id=True, names_too=mapped is not None)


def _column(field: pa.Field, mapped: Mapping[int | None, MappedField]) -> TableColumn:
    number = int((field.metadata or {})[_ID])
    known = mapped.get(number)
    below = {} if known is None else {each.field_id: each for each in known.fields}
    kind = field.type
    within: tuple[TableColumn, ...] = ()
    if pa.types.is_struct(kind):
        within = tuple(_column(kind.field(index), below) for index in range(kind.num_fields))
        kind = pa.struct([(child.name, child.kind) for child in within])
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        within = (_column(kind.value_field, below),)
        kind = pa.list_(within[0].kind)
    names = (field.name,) if known is None else tuple(known.names)
    return TableColumn(field.name, names, number, kind, within)


def _files(table: Table, name: str, schema: Schema, snapshot: Snapshot, roots: tuple[str, ...]) -> Iterator[LakeFile]:
    place = f"Iceberg table {name}"
    if int(_summary(snapshot).get("total-equality-deletes", 0)):
        raise _equality(place, "equality deletes")
    try:
        tasks = list(table.scan(snapshot_id=snapshot.snapshot_id).plan_files())
    except ValueError as error:
        raise _equality(place, str(error)) from error
    deletes: dict[str, dict[str, pa.ChunkedArray]] = {}
    for task in tasks:
        file = task.file
        if file.file_format != FileFormat.PARQUET:
            got, next_step = f"{file.file_format} ({file.file_path})", "write the table again as Parquet"
            raise LandingError(place, "data files that are Parquet", str(got), next_step)
        for deleting in task.delete_files:
            refuse_elsewhere(place, roots, *name_and_root(deleting.file_path, roots))
        own, root = name_and_root(file.file_path, roots)
        yield LakeFile(
            own,
            file.file_size_in_bytes,
            file.record_count,
            _constants(table, schema, file),
            _deleted(table, task, deletes),
            _bounds(schema, file),
            root,
        )


def _equality(place: str, got: str) -> LandingError:
    return LandingError(
        place,
        "a table with every record of the topic",
        f"{got}, by which a writer upserts: it keeps the last value of a key",
        "land the topic from where all its records are",
    )


def _summary(snapshot: Snapshot) -> Mapping[str, str]:
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def _deleted(table: Table, task: FileScanTask, read: dict[str, dict[str, pa.ChunkedArray]]) -> np.ndarray | None:
    """Numbers of rows that delete files and deletion vectors take away; ``read``: of those that were read."""
    held = []
    for file in task.delete_files:
        if file.file_path not in read:
            read[file.file_path] = _read_deletes(_store_of(table), file)
        if task.file.file_path in read[file.file_path]:
            held.append(np.asarray(read[file.file_path][task.file.file_path].combine_chunks(), np.int64))
    return distinct(np.concatenate(held)) if held else None


def _constants(table: Table, schema: Schema, file: DataFile) -> dict[str, Any]:
    """Columns that a file may lack: those of its partition, and those with a default from before they were there."""
    constants: dict[str, Any] = {}
    for column in schema.fields:
        if (default := getattr(column, "initial_default", None)) is not None:
            constants[column.name] = default
    spec = table.specs()[file.spec_id]
    for index, field in enumerate(spec.fields):
        if isinstance(field.transform, IdentityTransform):
            name = schema.find_column_name(field.source_id)
            if name is not None and "." not in name:
                constants[name] = file.partition[index]
    return constants


def _bounds(schema: Schema, file: DataFile) -> Bounds:
    bounds: dict[str, tuple[Any, Any]] = {}
    least, most = file.lower_bounds or {}, file.upper_bounds or {}
    for number in least.keys() & most.keys():
        name = schema.find_column_name(number)
        kind = None if name is None else schema.find_type(number)
        if name is not None and isinstance(kind, IntegerType | LongType | StringType):
            assert isinstance(kind, PrimitiveType)
            bounds[name] = from_bytes(kind, least[number]), from_bytes(kind, most[number])
    return bounds


def _upserts(table: Table, schema: Schema) -> str | None:
    for name, value in sorted(table.properties.items()):
        if value.lower() == "upsert" or _UPSERTS.get(name) == value.lower():
            return f"its property {name} is {value}"
    if schema.identifier_field_ids:
        names = ", ".join(sorted(schema.find_column_name(number) or "" for number in schema.identifier_field_ids))
        return f"its rows have identifier fields ({names})"
    return None


def _is_before(table: Table, asked: Snapshot | None, later: int) -> bool:
    """Whether the snapshot ``later`` is of the table's history and came after ``asked``. Ids have no order. Where the
    table was rolled back to ``asked``, ``later`` is not of its history any more.
    """
    ids = [snapshot.snapshot_id for snapshot in ancestors_of(table.current_snapshot(), table.metadata)]
    return asked is not None and later in ids and asked.snapshot_id in ids[ids.index(later) + 1 :]


def _changes(
    table: Table, schema: Schema, current: Snapshot | None, before: int, roots: tuple[str, ...]
) -> LakeChanges:
    """What the snapshots after ``before`` did, up to ``current``."""
    snapshots = []
    for snapshot in ancestors_of(current, table.metadata):
        if snapshot.snapshot_id == before:
            break
        snapshots.append(snapshot)
        oldest = snapshot
    else:
        # 0 is the table before its first snapshot: what came since is known where the oldest one has no parent.
        if before != 0 or (snapshots and oldest.parent_snapshot_id is not None):
            return LakeChanges(unknown=f"snapshot {before} has expired or is on no branch of it any more")
    added, moved = set[str](), set[str]()
    passed: list[Bounds] = []
    removed: list[Bounds] = []
    did: list[str] = []
    takes = False
    for snapshot in reversed(snapshots):
        operation = None if snapshot.summary is None else snapshot.summary.operation
        is_move = operation == Operation.REPLACE
        took = False
        for manifest in snapshot.manifests(_store_of(table)):
            # A snapshot lists all manifests that are live, most of which earlier ones wrote.
            if manifest.added_snapshot_id != snapshot.snapshot_id:
                continue
            for entry in manifest.fetch_manifest_entry(_store_of(table), discard_deleted=False):
                # Manifests are merged: one that is new may have entries of earlier snapshots (EXISTING).
                if entry.snapshot_id != snapshot.snapshot_id:
                    continue
                if manifest.content == ManifestContent.DELETES:
                    took = took or entry.status == ManifestEntryStatus.ADDED
                elif entry.status == ManifestEntryStatus.ADDED:
                    (moved if is_move else added).add(name_and_root(entry.data_file.file_path, roots)[0])
                elif entry.status == ManifestEntryStatus.DELETED:
                    if is_move and name_and_root(entry.data_file.file_path, roots)[0] in added:
                        passed.append(_bounds(schema, entry.data_file))
                    took = took or not is_move
                    removed.append(_bounds(schema, entry.data_file))
        if took:
            takes = True
            did.append(f"{operation.value if operation else 'a commit'} in snapshot {snapshot.snapshot_id}")
    if not takes:
        return LakeChanges(frozenset(added), frozenset(moved), tuple(passed))
    assert current is not None
    tasks = table.scan(snapshot_id=current.snapshot_id).plan_files()
    # Delete files take rows out of data files that stay, so any file that has some may have lost landed rows.
    hidden = [_bounds(schema, task.file) for task in tasks if task.delete_files]
    return LakeChanges(frozenset(added), frozenset(moved), tuple(passed), (*removed, *hidden), tuple(did))
