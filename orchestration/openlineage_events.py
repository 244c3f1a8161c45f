"""An increment as OpenLineage's event: which landed topics its tables were made from, column by column.

Owns the names of jobs, runs and datasets. Rule: an event is made of the ledger and the topology alone. So an
increment has the same event, with the same run, whenever it is asked for, and who sends it twice adds nothing.
"""

from datetime import UTC, datetime
from uuid import NAMESPACE_URL, uuid5

from openlineage.client import event_v2, facet_v2

from ..jobs.topology import Topology
from ..state.tables.ledger import LedgerRow
from ..state.tables.ledger_rows import DoneRow
from ..state.tables.names import DEAD_LETTER, DROPPED, LANDED, TableName
from ..state.tables.warehouse import Warehouse
from ..state.version import DISTRIBUTION
from .lineage import Table, column_lineage, table_types, tables_of

Source = tuple[str, str]
"""A dataset and a column of it."""

_columns = facet_v2.column_lineage_dataset
_schema = facet_v2.schema_dataset
_version = facet_v2.dataset_version_dataset


def event_of(warehouse: Warehouse, pipeline: str, topology: Topology, done: LedgerRow[DoneRow]) -> event_v2.RunEvent:
    """The event COMPLETE of a committed increment.

    Job: the pipeline, in the namespace of the warehouse. Run: made of warehouse, pipeline, epoch and increment. Inputs:
    the landed topics; of a promote, the tables of its branch; of a restore or an erase, none, since they read no
    others. Outputs: every table that the increment wrote, by its name in the ledger, with its Delta version.
    """
    namespace = warehouse.root if "://" in warehouse.root else f"file://{warehouse.root}"
    run = uuid5(NAMESPACE_URL, f"{namespace}/{pipeline}/{done.epoch}/{done.increment}")
    content = done.content
    tables = [table for sub in topology.sub_topologies for table in tables_of(topology, sub)]
    written = [table for table in tables if table.name in content.versions]
    refusals = [name for name in (DROPPED, DEAD_LETTER) if name in content.versions]
    if content.kind is None:
        inputs = sorted(_topics(tables))
    else:
        inputs = [f"{content.branch}/{table.name}" for table in written] if content.branch is not None else []
    return event_v2.RunEvent(
        eventType=event_v2.RunState.COMPLETE,
        eventTime=datetime.fromtimestamp(done.written_at_ms / 1000, UTC).isoformat(),
        producer=DISTRIBUTION,
        run=event_v2.Run(runId=str(run)),
        job=event_v2.Job(namespace=namespace, name=pipeline),
        inputs=[event_v2.InputDataset(namespace=namespace, name=name) for name in inputs],
        outputs=[
            *(
                _output(
                    namespace, pipeline, topology, table.name, content, _made_of(pipeline, topology, table, content)
                )
                for table in written
            ),
            *(_output(namespace, pipeline, topology, name, content, {}) for name in refusals),
        ],
    )


def _topics(tables: list[Table]) -> set[str]:
    return {name for table in tables for name in table.upstream if TableName(name).kind == LANDED}


def _output(
    namespace: str, pipeline: str, topology: Topology, table: str, content: DoneRow, made_of: dict[str, list[Source]]
) -> event_v2.OutputDataset:
    """``made_of``: of each column, the columns of other tables; {}: nothing is known of any."""
    facets: dict[str, facet_v2.DatasetFacet] = {
        "schema": _schema_facet(table_types(topology, table)),
        "version": _version.DatasetVersionDatasetFacet(datasetVersion=str(content.versions[table])),
    }
    if made_of:
        fields = {
            column: _columns.Fields(
                inputFields=[
                    _columns.InputField(namespace=namespace, name=name, field=field) for name, field in sources
                ]
            )
            for column, sources in made_of.items()
        }
        facets["columnLineage"] = _columns.ColumnLineageDatasetFacet(fields=fields)
    return event_v2.OutputDataset(namespace=namespace, name=f"{pipeline}/{table}", facets=facets)


def _made_of(pipeline: str, topology: Topology, table: Table, content: DoneRow) -> dict[str, list[Source]]:
    """Columns that each column is made from; a landed topic is of no pipeline. Of a promote, those of the branch."""
    if content.branch is not None:
        return {column: [(f"{content.branch}/{table.name}", column)] for column in table_types(topology, table.name)}
    if content.kind is not None:
        return {}
    return {
        column: [
            (above if TableName(above).kind == LANDED else f"{pipeline}/{above}", field) for above, field in sources
        ]
        for column, sources in column_lineage(topology, table).items()
    }


def _schema_facet(types: dict[str, str]) -> _schema.SchemaDatasetFacet:
    fields = [_schema.SchemaDatasetFacetFields(name=name, type=kind) for name, kind in types.items()]
    return _schema.SchemaDatasetFacet(fields=fields)
