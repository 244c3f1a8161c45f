"""The increments of a backfill: first those that warm up, which keep state only, then those of the range.

Owns what of an increment's rows is kept. Rule: a row belongs to the range `[from, to)` when its own record time lies in
it; outputs, drops and dead letters have such rows alone, repartition tables none, state all. An output below a
repartition names no cause: its offset would be of a table that nobody has.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...state.tables.names import TableName
from ...state.tables.warehouse import Warehouse
from ..code_changes.upstream_lineage import nodes_upstream
from ..execution.kept_range import KeptRange, Range
from ..execution.task_description import Runner
from ..graph.nodes import SinkNode
from ..replay.increment_report import IncrementReport
from ..replay.pipeline_run import PipelineRun
from ..replay.run_settings import OnStep, ReplaySettings
from ..topology.topology import Topology


@dataclass(frozen=True)
class RangeRun:
    """A branch at work. ``keeps``: rows of which range stay; None: none, while it warms up. ``kafka_version``: as of
    ``replay``.
    """

    warehouse: Warehouse
    topology: Topology
    branch: str
    runner: Runner
    max_records: int | None
    on_step: OnStep
    keeps: Range | None = None
    kafka_version: str | None = None

    def run(self, until_ms: int) -> Iterator[IncrementReport]:
        """Read what is before the cut of a time."""
        settings = ReplaySettings(
            max_records=self.max_records, idle="proceed", until_ms=until_ms, on_step=self.on_step, kept=self._kept,
            kafka_version=self.kafka_version,
        )  # fmt: skip
        pipeline = PipelineRun(self.warehouse, self.topology, self.branch, self.runner, settings)
        for plan in pipeline.plans():
            yield pipeline.run(plan)

    @property
    def _kept(self) -> KeptRange:
        below = [sink for sink in self.topology.sinks() if is_below_repartition(self.topology, sink)]
        without_cause = frozenset(TableName.output(sink.topic) for sink in below)
        return KeptRange(self.keeps, without_cause)

    def keeping(self, keeps: Range) -> "RangeRun":
        """The same branch, when it has come to the range."""
        return replace(self, keeps=keeps)


def is_below_repartition(topology: Topology, sink: SinkNode) -> bool:
    """Whether records of an output come from a topic of the topology's own, which has other offsets on a branch."""
    return any(node.is_source and node.landed_topic is None for node in nodes_upstream(topology.graph, sink))
