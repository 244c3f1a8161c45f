"""A replay that goes as far as a pipeline went, and no further: to run its past again.

Owns the bound. Rule: of each topic no more has landed than the last increment of the range has read, records and
recorded times, whatever has come since.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import Cut, DoneRow
from ...state.tables.warehouse import Warehouse
from ..replay.pipeline_run import Pipeline
from ..replay.plan import Plan
from ..replay.planner import Planner
from ..topology.topology import Topology

if TYPE_CHECKING:
    from ..execution.task_description import Runner


class BoundPipeline(Pipeline):
    """``last``: the done row at which the range ends. ``until_ms``: as of ``replay``."""

    def __init__(
        self,
        warehouse: Warehouse,
        topology: Topology,
        name: str,
        runner: "Runner",
        order: str,
        last: DoneRow,
        *,
        until_ms: int | None = None,
    ) -> None:
        super().__init__(warehouse, topology, name, runner, order, lambda step: None, until_ms=until_ms)
        self._last = last

    def _planner(self, idle: str) -> Planner:
        planner = super()._planner(idle)
        cut_to, taken = self._last.cut_to, self._last.recorded_to or {}
        for topic, landed in planner.landed.items():
            ends = cut_to.get(topic, {})
            recorded = {p: times[: taken.get(topic, {}).get(p, 0)] for p, times in landed.recorded.items()}
            planner.landed[topic] = replace(landed, ends=dict(ends), recorded=recorded)
            planner.begin[topic] = _of(ends, planner.begin, topic)
        return planner

    def all_at_once(self, before: LedgerRow[DoneRow] | None) -> Plan | None:
        """The plan of one increment from where ``before`` (None: nothing) ended to the end of the range; None when
        there is nothing in between. It is for ``compute_again``: nobody writes it down.
        """
        self.previous = DoneRow() if before is None else before.content
        self.increment = 0 if before is None else before.increment
        return next(self._planner("proceed").plans(None), None)


def _of(ends: dict[str, int], begin: Cut, topic: str) -> dict[str, int]:
    return {p: begin[topic].get(p, 0) for p in ends}
