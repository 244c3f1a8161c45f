"""An increment as OpenLineage's event: which landed topics its tables were made from, column by column.

Owns the names of jobs, runs and datasets. Rule: an event is made of the ledger and the topology alone. So an
increment has the same event, with the same run, whenever it is asked for, and who sends it twice adds nothing.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import NAMESPACE_URL, uuid5

from openlineage.client import event_v2, facet_v2

from ..jobs.topology import Topology
from ..state.tables.ledger import LedgerRow
from ..state.tables.ledger_rows import DoneRow
from ..state.tables.names import LANDED, TableName
from ..state.tables.warehouse import Warehouse
from ..state.version import DISTRIBUTION
from .lineage import Table, column_lineage, table_types, tables_of

_columns = facet_v2.column_lineage_dataset
_schema = facet_v2.schema_dataset
_version = facet_v2.dataset_version_dataset


def event_of(warehouse: Warehouse, pipeline: str, topology: Topology, done: LedgerRow[DoneRow]) -> event_v2.RunEvent:
    """The event COMPLETE of a committed increment.

    Job: the pipeline, in the namespace of the warehouse. Run: made of warehouse, pipeline, epoch and increment. Inputs:
    the landed topics. Outputs: every table that the increment wrote, by its name in the ledger, with its Delta version.
    """
    namespace = warehouse.root if "://" in warehouse.root else f"file://{warehouse.root}"
    run = uuid5(NAMESPACE_URL, f"{namespace}/{pipeline}/{done.epoch}/{done.increment}")
    tables = [table for sub in topology.sub_topologies for table in tables_of(topology, sub)]
    written = [table for table in tables if table.name in done.content.versions]
    return event_v2.RunEvent(
        eventType=event_v2.RunState.COMPLETE,
        eventTime=datetime.fromtimestamp(done.written_at_ms / 1000, UTC).isoformat(),
        producer=DISTRIBUTION,
        run=event_v2.Run(runId=str(run)),
        job=event_v2.Job(namespace=namespace, name=pipeline),
        inputs=[_topic(namespace, name) for name in sorted(_topics(tables))],
        outputs=[_output(namespace, pipeline, topology, table, done.content.versions) for table in written],
    )


def _topics(tables: list[Table]) -> set[str]:
    return {name for table in tables for name in table.upstream if TableName(name).kind == LANDED}


def _topic(namespace: str, name: str) -> event_v2.InputDataset:
    return event_v2.InputDataset(namespace=namespace, name=name)


def _output(
    namespace: str, pipeline: str, topology: Topology, table: Table, versions: dict[str, int]
) -> event_v2.OutputDataset:
    made_of = {
        column: _columns.Fields(inputFields=list(_fields(namespace, pipeline, sources)))
        for column, sources in column_lineage(topology, table).items()
    }
    return event_v2.OutputDataset(
        namespace=namespace,
        name=f"{pipeline}/{table.name}",
        facets={
            "schema": _schema_facet(table_types(topology, table.name)),
            "columnLineage": _columns.ColumnLineageDatasetFacet(fields=made_of),
            "version": _version.DatasetVersionDatasetFacet(datasetVersion=str(versions[table.name])),
        },
    )


def _fields(namespace: str, pipeline: str, sources: list[tuple[str, str]]) -> Iterator[_columns.InputField]:
    """Columns that a column is made from; a landed topic is of no pipeline."""
    for table, column in sources:
        name = table if TableName(table).kind == LANDED else f"{pipeline}/{table}"
        yield _columns.InputField(namespace=namespace, name=name, field=column)


def _schema_facet(types: dict[str, str]) -> _schema.SchemaDatasetFacet:
    fields = [_schema.SchemaDatasetFacetFields(name=name, type=kind) for name, kind in types.items()]
    return _schema.SchemaDatasetFacet(fields=fields)
