"""The tasks of one increment: what each reads, and their stages, one after the other.

Owns the descriptions of tasks. Rule: a description has all that its task needs: the plan, what has landed, the done row
before, and what earlier stages have written.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...state.runs.local_copies import StateFile
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.names import TableName, TaskId
from ...state.tables.warehouse import Warehouse
from ...state.tracing import span
from ..execution.kept_range import KeptRange
from ..execution.task_description import Runner, TaskDescription, TaskReport
from ..execution.task_stores import ImportedStore, of_partition
from ..tape.input_queues import Queue
from ..task.dataflow import dataflows
from ..topology.topology import SubTopology, Topology
from .increment_tables import written_tables
from .planned_inputs import PlannedInputs
from .progress import Meter
from .stage_exchange import Exchange, discard


@dataclass(frozen=True, kw_only=True)
class IncrementTasks:
    """``previous``: the done row that the increment continues from; ``state``: files of every store as of it, oldest
    first. ``exchange``: folder for what stages hand to one another. ``kept``: as of TaskDescription.
    """

    warehouse: Warehouse
    pipeline: str
    topology: Topology
    runner: Runner
    order: str
    inputs: PlannedInputs
    previous: DoneRow
    state: Mapping[str, list[StateFile]]
    exchange: str
    meter: Meter = field(default_factory=Meter)
    kept: KeptRange | None = None

    def run(self) -> list[TaskReport]:
        """Run the stages one after the other: a sub-topology runs when all that write its repartition tables have run.

        All stages run again where an early one cannot know yet what a later one sends. By arrival they do until every
        stage has taken its records in Kafka's order, and with a loop until a run writes the rows that it has read. Runs
        before the last one are trials: a function may fail in them on a record that does not exist in the end. If
        something failed in the last trial, the same records run once more, and that failure ends the run.
        """
        exchange = Exchange(self.order, self.topology, self.inputs.plan.row.partitions)
        exchange.take_unread(self.warehouse, self.previous)
        tables = written_tables(self.topology, self.warehouse.pipeline(self.pipeline))
        reports = self._run_stages(exchange, is_trial=exchange.may_run_again)
        while not (is_settled := exchange.is_settled) or any(report.has_failed for report in reports):
            discard(tables, reports)
            exchange.again(is_settled=is_settled)
            reports = self._run_stages(exchange, is_trial=not is_settled)
        return reports

    def _run_stages(self, exchange: Exchange, *, is_trial: bool) -> list[TaskReport]:
        reports: list[TaskReport] = []
        for sub in self.topology.sub_topologies:
            partitions = range(self.inputs.plan.row.partitions[str(sub.id)])
            described = (self._describe(sub, partition, exchange, is_trial=is_trial) for partition in partitions)
            descriptions = [description for description in described if description is not None]
            stage: list[TaskReport] = []
            if descriptions:
                with (
                    span("stage", sub_topology=sub.id, tasks=len(descriptions), is_trial=is_trial),
                    self.meter.stage(sub, descriptions, self.exchange) as tasks,
                    self.topology.graph.naming_calls(),
                ):
                    stage = self.runner.run(self.topology, tasks)
            exchange.add(sub, stage)
            reports += stage
        return reports

    def _describe(
        self, sub: SubTopology, partition: int, exchange: Exchange, *, is_trial: bool
    ) -> TaskDescription | None:
        """The task, or None when it has nothing to read."""
        queues = self._queues(sub, partition, exchange)
        if not any(queue.has_rows for queue in queues):
            return None
        plan = self.inputs.plan
        return TaskDescription(
            warehouse=self.warehouse,
            pipeline=self.pipeline,
            increment=plan.increment,
            sub_topology=sub.id,
            partition=partition,
            exchange=self.exchange,
            queues=tuple(queues),
            order=self.order,
            state={store: of_partition(self.state[store], partition) for store in sub.stores},
            imported=self._imported(sub, partition),
            globals={table.name: self.inputs.read_before(table.topic) for table in sub.globals},
            repartitions={
                node.topic: plan.row.partitions[TableName.repartition(node.topic)] for node in sub.repartitions
            },
            before=self.previous.task(TaskId(sub.id, partition)),
            # The check calls the user's functions once more over the first records, and holds the rows of all stores
            # meanwhile. So it is made only where the code is new to the pipeline.
            checks_purity=plan.row.changes is not None or not self.previous.tasks,
            is_trial=is_trial,
            kept=self.kept,
        )

    def _queues(self, sub: SubTopology, partition: int, exchange: Exchange) -> list[Queue]:
        """Of its sources, then of what earlier parts of the sub-topology hand on, then of global tables."""
        queues = [
            self.inputs.of_source(number, source.topic, partition)
            if source.landed_topic is not None
            else exchange.queue(number, source.topic, partition, sub)
            for number, source in enumerate(sub.sources)
        ]
        for imported in dataflows(self.topology)[sub.id].imports:
            queues.append(exchange.queue(len(queues), imported.name, partition, sub))
        first = len(queues)
        for number, table in enumerate(sub.globals, first):
            queues += self.inputs.of_global_table(number, table.topic)
        return queues

    def _imported(self, sub: SubTopology, partition: int) -> dict[str, ImportedStore]:
        """Stores of earlier parts of the sub-topology that nodes of this part read."""
        stores = {}
        for name in {imported.node for imported in dataflows(self.topology)[sub.id].imports if imported.when}:
            store = self.topology.graph.store_of(self.topology.graph.nodes[name])
            earlier = None if store is None else self.topology.sub_topology_of(store)
            if store is None or earlier is None:
                continue
            counters = self.previous.task(TaskId(earlier.id, partition)).counters.get(store)
            if counters is not None:
                files = of_partition(self.state[store], partition)
                stores[name] = ImportedStore(earlier.id, store, files, counters)
        return stores
