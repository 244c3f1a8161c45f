"""An increment as OpenLineage's event: which landed topics its tables were made from, column by column.

Owns the names of jobs, runs and datasets. Rule: an event is made of the ledgers and the topology alone. So an
increment has the same event, with the same run, whenever it is asked for, and who sends it twice adds nothing.
Records that were read in somebody else's table come from that table, under the name that OpenLineage gives its place.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote
from uuid import NAMESPACE_URL, uuid5

from openlineage.client import event_v2, facet_v2

from ..jobs.topology import Topology
from ..state.tables.ledger import LandingLedger, Ledger, LedgerRow
from ..state.tables.ledger_rows import DoneRow, LandingPlanRow, PlanRow
from ..state.tables.names import DEAD_LETTER, DROPPED, LANDED, TableName
from ..state.tables.parquet_reader import DataFile
from ..state.tables.warehouse import Warehouse
from ..state.version import DISTRIBUTION
from .lineage import Table, column_lineage, table_types, tables_of

_columns = facet_v2.column_lineage_dataset
_error = facet_v2.error_message_run
_schema = facet_v2.schema_dataset
_version = facet_v2.dataset_version_dataset


@dataclass(frozen=True)
class Dataset:
    """``columns``: of a landed record to its own, where they are others; without some, nothing is known of these.
    ``version``: of somebody else's table.
    """

    namespace: str
    name: str
    columns: Mapping[str, str] | None = field(default=None, compare=False)
    version: str | None = field(default=None, compare=False)

    def column(self, name: str) -> str | None:
        """Its own name of the column ``name``."""
        return name if self.columns is None else self.columns.get(name)


Source = tuple[Dataset, str]
"""A dataset and a column of it."""


def event_of(warehouse: Warehouse, pipeline: str, topology: Topology, done: LedgerRow[DoneRow]) -> event_v2.RunEvent:
    """The event COMPLETE of a committed increment.

    Job: the pipeline, in the namespace of the warehouse. Run: made of warehouse, pipeline, epoch and increment. Inputs:
    the landed topics, or tables of a lake in which the increment's records lie; of a promote, the tables of its branch;
    of a restore or an erase, none, since they read no others. Outputs: every table that the increment wrote, by its
    name in the ledger, with its Delta version.
    """
    namespace, content, tables = _namespace(warehouse), done.content, _tables(topology)
    written = [table for table in tables if table.name in content.versions]
    refusals = [name for name in (DROPPED, DEAD_LETTER) if name in content.versions]
    topics, inputs = dict[str, list[Dataset]](), list[Dataset]()
    if content.kind is None:
        planned = Ledger(warehouse.pipeline(pipeline).ledger).rows_of(done.increment).planned
        topics = _read_from(warehouse, planned, tables)
        inputs = [dataset for read in topics.values() for dataset in read]
    elif content.branch is not None:
        inputs = [Dataset(namespace, f"{content.branch}/{table.name}") for table in written]
    return event_v2.RunEvent(
        eventType=event_v2.RunState.COMPLETE,
        **_names(namespace, pipeline, done, {}),
        inputs=[_input(dataset) for dataset in inputs],
        outputs=[
            *(
                _output(
                    namespace,
                    pipeline,
                    topology,
                    table.name,
                    content,
                    _made_of(namespace, pipeline, topology, table, content, topics),
                )
                for table in written
            ),
            *(_output(namespace, pipeline, topology, name, content, {}) for name in refusals),
        ],
    )


def failure_of(
    warehouse: Warehouse, pipeline: str, topology: Topology, planned: LedgerRow[PlanRow]
) -> event_v2.RunEvent:
    """The event FAIL of an increment that is planned and not done, and at which nobody is at work. When it is done
    later, that is the same run.
    """
    message = f"increment {planned.increment} was planned and is not done; the next run does it again"
    tables = [] if planned.content.restates is not None else _tables(topology)
    read = _read_from(warehouse, planned, tables)
    facets: dict[str, facet_v2.RunFacet] = {
        "errorMessage": _error.ErrorMessageRunFacet(message=message, programmingLanguage="Python")
    }
    return event_v2.RunEvent(
        eventType=event_v2.RunState.FAIL,
        **_names(_namespace(warehouse), pipeline, planned, facets),
        inputs=[_input(dataset) for datasets in read.values() for dataset in datasets],
    )


def _namespace(warehouse: Warehouse) -> str:
    return warehouse.root if "://" in warehouse.root else f"file://{warehouse.root}"


def _names(namespace: str, pipeline: str, row: LedgerRow[Any], facets: dict[str, facet_v2.RunFacet]) -> dict[str, Any]:
    """Of an event: when it was, and its job and run, which has ``facets``."""
    run = uuid5(NAMESPACE_URL, f"{namespace}/{pipeline}/{row.epoch}/{row.increment}")
    return {
        "eventTime": datetime.fromtimestamp(row.written_at_ms / 1000, UTC).isoformat(),
        "producer": DISTRIBUTION,
        "run": event_v2.Run(runId=str(run), facets=facets),
        "job": event_v2.Job(namespace=namespace, name=pipeline),
    }


def _tables(topology: Topology) -> list[Table]:
    return [table for sub in topology.sub_topologies for table in tables_of(topology, sub)]


def _read_from(
    warehouse: Warehouse, planned: LedgerRow[PlanRow] | None, tables: list[Table]
) -> dict[str, list[Dataset]]:
    """By landed table, where the records lay that an increment read of it. ``planned``: None where no plan is kept."""
    topics = {name for table in tables for name in table.upstream if TableName(name).kind == LANDED}
    return {topic: _read_of_topic(warehouse, planned, topic) for topic in sorted(topics)}


def _read_of_topic(warehouse: Warehouse, planned: LedgerRow[PlanRow] | None, table: str) -> list[Dataset]:
    """In the landed ``table``, in tables of a lake, or both."""
    own, topic = Dataset(_namespace(warehouse), table), TableName(table).name
    if planned is None:
        return [own]
    landing = LandingLedger(warehouse.landing_ledger(topic))
    done = landing.done_rows()
    begin, end = (cut.get(topic, {}) for cut in (planned.content.cut_from, planned.content.cut_to))
    numbers = {row.increment for row in done}
    plans = [row.content for row in landing.plans() if row.increment in numbers]
    read = [plan for plan in plans if _holds(plan, begin, end)]
    # An increment may read nothing of a topic: then where its records lay so far.
    lay = read or [plan for plan in plans if _holds(plan, {}, end)][-1:]
    found = {_in_place(plan) if plan.registers else own for plan in reversed(lay)} or {own}
    return sorted(found, key=lambda each: (each.namespace, each.name))


def _holds(plan: LandingPlanRow, begin: Mapping[str, int], end: Mapping[str, int]) -> bool:
    """Whether it has landed records of ``[begin, end)``."""
    first, last = plan.cut_from, plan.cut_to
    spans = ((max(begin.get(each, 0), first.get(each, 0)), min(end[each], last.get(each, 0))) for each in end)
    return any(low < high for low, high in spans)


def _in_place(plan: LandingPlanRow) -> Dataset:
    """The table whose files a landing has registered, as OpenLineage names the place of files."""
    file, lake = DataFile.from_dict((plan.registers or [])[-1]), plan.source["lake"]
    assert file.in_place is not None
    scheme, is_uri, rest = (place := file.root or lake["place"]).partition("://")
    if not is_uri or scheme == "file":
        namespace, name = "file", unquote(rest) if is_uri else os.path.abspath(place)
    else:
        bucket, _, key = rest.partition("/")
        namespace, name = f"{scheme}://{bucket}", key.strip("/")
    return Dataset(namespace, name, file.in_place.columns, str(lake["version"]))


def _input(dataset: Dataset) -> event_v2.InputDataset:
    facets: dict[str, facet_v2.DatasetFacet] = {}
    if dataset.version is not None:
        facets["version"] = _version.DatasetVersionDatasetFacet(datasetVersion=dataset.version)
    return event_v2.InputDataset(namespace=dataset.namespace, name=dataset.name, facets=facets)


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
                    _columns.InputField(namespace=dataset.namespace, name=dataset.name, field=name)
                    for dataset, name in sources
                ]
            )
            for column, sources in made_of.items()
        }
        facets["columnLineage"] = _columns.ColumnLineageDatasetFacet(fields=fields)
    return event_v2.OutputDataset(namespace=namespace, name=f"{pipeline}/{table}", facets=facets)


def _made_of(
    namespace: str,
    pipeline: str,
    topology: Topology,
    table: Table,
    content: DoneRow,
    topics: Mapping[str, list[Dataset]],
) -> dict[str, list[Source]]:
    """Columns that each column is made from; of a promote, those of the branch. ``topics``: by landed table, where its
    records were read.
    """
    if content.branch is not None:
        branch = Dataset(namespace, f"{content.branch}/{table.name}")
        return {column: [(branch, column)] for column in table_types(topology, table.name)}
    if content.kind is not None:
        return {}
    return {
        column: [
            (dataset, own)
            for above, name in sources
            for dataset in topics.get(above, [Dataset(namespace, f"{pipeline}/{above}")])
            if (own := dataset.column(name)) is not None
        ]
        for column, sources in column_lineage(topology, table).items()
    }


def _schema_facet(types: dict[str, str]) -> _schema.SchemaDatasetFacet:
    fields = [_schema.SchemaDatasetFacetFields(name=name, type=kind) for name, kind in types.items()]
    return _schema.SchemaDatasetFacet(fields=fields)
