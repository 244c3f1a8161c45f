"""Outputs as Iceberg tables over the same Parquet files: `CATALOG.<namespace>.<output>`, and `…_current`.

Owns Iceberg's metadata for them. Rule: a table of the catalog lists the files that the output has as of the last done
increment, neither more nor fewer, in one snapshot that names the increment; nothing is copied. Files that the catalog
lists are compared with those, so the next publication makes up for one that died. Of two at once the later one looks
again at what there is. Kafka's partition is in no file but in the folder's name, so it is an identity partition of the
table, whose value Iceberg keeps beside each file.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    ResolveError,
    RESTError,
    TableAlreadyExistsError,
    ValidationError,
)
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table import Table, TableProperties
from pyiceberg.typedef import Record

from ...state.errors import CommitLost, ConfigError
from ...state.tables.branch_files import current_tables, table_files, table_names, table_parts
from ...state.tables.data_files import DataFile, live_files, open_table
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.names import OUTPUTS, TableName
from ...state.tables.object_stores import is_remote, open_filesystem
from ...state.tables.warehouse import PipelineTables, Warehouse
from ..landing.lake import iceberg_catalogs
from .committed_tables import done_row

INCREMENT = "replay.increment"
"""Property of a snapshot: the increment as of which it is."""
_PARTITION = "partition"
_BOUNDED = ("offset", "increment", "record_time_ms", "window_start_ms", "window_end_ms")
"""Columns of which Iceberg keeps bounds; of keys and values it keeps none, so that its metadata has none of them."""
_METRICS = "write.metadata.metrics"
_ATTEMPTS = 5
"""So many times a publication is begun, where others publish at the same time."""


@dataclass(frozen=True)
class Published:
    """A table of the catalog after it was published: how many files came and went."""

    table: str
    increment: int
    added: int
    removed: int


def publish_iceberg(
    warehouse: Warehouse,
    pipeline: str,
    catalog: str,
    *,
    properties: Mapping[str, str] | None = None,
    namespace: str | None = None,
) -> list[Published]:
    """Publish every output of ``pipeline``, and current values that are kept, as of the last done increment, in
    ``catalog``, as PyIceberg is configured for it or by ``properties``. ``namespace``: None is the pipeline's name.

    Raises ConfigError for a catalog that does not answer, and where an output has the name that another one's current
    values get there. Raises LedgerError for a pipeline of which nothing is done, CommitLost where others always commit
    first.
    """
    opened = open_catalog(catalog, properties or {})
    published: list[Published] | None = None
    refused = ""
    for _ in range(_ATTEMPTS):
        row = done_row(warehouse, pipeline)
        try:
            published = _published(warehouse, pipeline, row, opened, namespace)
        except CommitFailedException as error:
            refused = str(error)
            continue  # the tables are others now, and so may be the last increment
        if done_row(warehouse, pipeline).increment == row.increment:
            break
    if published is None:
        next_step = "publish again when nobody else does (the next run does it, too)"
        raise CommitLost(f"catalog {catalog}", "a commit", f"others before each of {_ATTEMPTS} ({refused})", next_step)
    return published


def _published(
    warehouse: Warehouse, pipeline: str, row: LedgerRow[DoneRow], opened: Catalog, namespace: str | None
) -> list[Published]:
    """As of ``row``. Raises CommitFailedException where somebody else commits meanwhile."""
    own = warehouse.pipeline(pipeline)
    outputs = [table for table in table_names(row.content) if TableName(table).kind == OUTPUTS]
    kept = {f"{TableName(table).name}_current": table for table in current_tables(own.root)}
    _refuse_same_name(own, outputs, kept)
    into = pipeline if namespace is None else namespace
    opened.create_namespace_if_not_exists((into,))
    published = []
    for table in outputs:
        path, version, _ = table_parts(warehouse, pipeline, row.content, table)[-1]
        there = open_table(path, version=version)
        assert there is not None, f"{path}: in the ledger, yet not there"
        files = table_files(warehouse, pipeline, row.content, table)
        target = _Target(opened, (into, TableName(table).name), own.table(table), has_partitions=True)
        published.append(target.publish(pa.schema(there.schema().to_arrow()), files, row.increment))
    for name, table in kept.items():
        there = open_table(own.table(table))
        assert there is not None, f"{own.table(table)}: was listed, yet is not there"
        target = _Target(opened, (into, name), own.table(table), has_partitions=False)
        published.append(target.publish(pa.schema(there.schema().to_arrow()), live_files(there), row.increment))
    return published


def _refuse_same_name(own: PipelineTables, outputs: Sequence[str], kept: Mapping[str, str]) -> None:
    for table in outputs:
        if (current := kept.get(TableName(table).name)) is not None:
            place, expected = f"pipeline {own.name!r}", "outputs whose tables have names of their own in the catalog"
            got = f"the output {TableName(table).name!r} beside kept current values of {TableName(current).name!r}"
            next_step = f"rename the output, or keep no current values of that one and delete {own.table(current)}"
            raise ConfigError(place, expected, got, next_step)


def open_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    """As PyIceberg is configured for it, or by ``properties``. Raises ConfigError for one that does not answer."""
    try:
        return iceberg_catalogs.open_catalog(name, properties)
    except (RESTError, ValueError, OSError, KeyError, TypeError) as error:
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        next_step = f"configure the catalog {name} as PyIceberg does (.pyiceberg.yaml, PYICEBERG_CATALOG__…)"
        raise ConfigError(f"catalog {name}", "a catalog that answers", text, next_step) from error


@dataclass(frozen=True)
class _Target:
    catalog: Catalog
    name: tuple[str, str]
    root: str
    has_partitions: bool

    def publish(self, schema: pa.Schema, files: Sequence[DataFile], increment: int) -> Published:
        table = self._table(schema)
        wanted = {_address(file.root or self.root, file.path): file for file in files if file.records}
        listed = [task.file for task in table.scan().plan_files()]
        times = Counter(file.file_path for file in listed)
        # Earlier versions of this package could list a file twice, where two of them published at once.
        added = [file for address, file in wanted.items() if times[address] != 1]
        there = {file.file_path: file for file in listed}
        removed = [file for address, file in there.items() if address not in wanted or times[address] > 1]
        snapshot = table.current_snapshot()
        if added or removed or snapshot is None:
            self._commit(table, added, removed, increment)
        return Published(".".join(self.name), increment, len(added), len(removed))

    def _commit(self, table: Table, added: Sequence[DataFile], removed: Sequence[IcebergFile], increment: int) -> None:
        said = {INCREMENT: str(increment)}
        # PyIceberg would repeat the commit behind that of another publisher, and list files twice that both have added.
        properties = {**table.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
        table.metadata = table.metadata.model_copy(update={"properties": properties})
        with table.transaction() as transaction:
            update = transaction.update_snapshot(snapshot_properties=said)
            # A fast append lists new files in a manifest of their own and rewrites none, but cannot take files out.
            with update.overwrite() if removed else update.fast_append() as snapshot:
                for gone in removed:
                    snapshot.delete_data_file(gone)
                for file in added:
                    snapshot.append_data_file(self._described(table, file))

    def _table(self, schema: pa.Schema) -> Table:
        """The table with all columns of ``schema``; it is made where there is none."""
        try:
            table = self.catalog.load_table(self.name)
        except NoSuchTableError:
            bounded = {f"{_METRICS}.column.{name}": "full" for name in _BOUNDED if name in schema.names}
            try:
                table = self.catalog.create_table(
                    self.name, schema, properties={f"{_METRICS}.default": "counts", **bounded}
                )
            except TableAlreadyExistsError:  # another one was quicker
                table = self.catalog.load_table(self.name)
        self._refuse_code(table)
        # Fields of structs too; where the table has all of them this commits nothing.
        try:
            with table.update_schema() as update:
                update.union_by_name(schema)
        except (ValidationError, ResolveError) as error:
            expected, next_step = "a table with columns of the output's types", "publish into another --namespace"
            raise ConfigError(f"Iceberg table {'.'.join(self.name)}", expected, str(error), next_step) from error
        # Only once the table is there: a spec names its columns by the field ids that the catalog gives.
        if self.has_partitions and not table.spec().fields:
            with table.update_spec() as spec:
                spec.add_identity(_PARTITION)
        # Our Parquet files have no field ids, by which Iceberg finds columns: readers find them by this mapping of
        # names.
        mapping = table.schema().name_mapping.model_dump_json()
        if table.properties.get(TableProperties.DEFAULT_NAME_MAPPING) != mapping:
            with table.transaction() as transaction:
                transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
        return table

    def _refuse_code(self, table: Table) -> None:
        # PyIceberg imports the class that this property names, and calls it with the table's location.
        if (code := TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL) in table.properties:
            place, expected = f"Iceberg table {'.'.join(self.name)}", "a table whose metadata name no code"
            next_step = "take the property away, or publish into another --namespace"
            raise ConfigError(place, expected, f"its property {code}", next_step)

    def _described(self, table: Table, file: DataFile) -> IcebergFile:
        """Iceberg's entry of a file, with its counts and bounds from the footer."""
        root, schema = file.root or self.root, table.schema()
        filesystem, path = open_filesystem(f"{root}/{file.path}")
        with filesystem.open_input_file(path) as source:
            footer = pq.read_metadata(source)
        statistics = data_file_statistics_from_parquet_metadata(
            parquet_metadata=footer,
            stats_columns=compute_statistics_plan(schema, table.properties),
            parquet_column_mapping=parquet_path_to_id_mapping(schema),
        )
        return IcebergFile.from_args(
            content=DataFileContent.DATA,
            file_path=_address(root, file.path),
            file_format=FileFormat.PARQUET,
            partition=Record(file.partition) if self.has_partitions else Record(),
            file_size_in_bytes=file.bytes,
            sort_order_id=None,
            spec_id=table.metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )


def _address(root: str, path: str) -> str:
    """As readers open it: they decode no percent signs. PyIceberg ends a URI at its ? or #, but not a plain path."""
    if is_remote(root):
        return f"{root}/{path}"
    folder = open_filesystem(root)[1]
    return f"{folder}/{path}" if {*"?#"} & {*folder} else f"file://{folder}/{path}"
