"""Who judges increments: of one pipeline or branch, as its topology and its project want it.

Owns what is asked: the guarantees with the limit of refused records, and the suites of the project. Rule: the command
`check` and the job that promotes ask the same. Of a backfill, only what it makes is judged.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...expectations.facts import ReplayFacts
from ...expectations.suites.data_docs import DataDocs
from ...expectations.suites.project_suites import ProjectSuite
from ...expectations.verdicts import Engine, Verdict, check_increments
from ...jobs.branches.range_part import range_part
from ...jobs.branches.second_run import SecondRun
from ...jobs.history.output_diff import outputs_left_out
from ...jobs.topology import Topology
from ...state.node_rows import ROWS_MAX
from ...state.tables.names import TableName
from ...state.tables.refused_shares import RefusedLimit
from ...state.tables.warehouse import Warehouse
from ..facts import replay_facts, second_run


@dataclass(frozen=True)
class Judge:
    """``topology``: what made the rows; ``again`` runs increments again where no table has the evidence."""

    warehouse: Warehouse
    pipeline: str
    topology: Topology
    facts: ReplayFacts
    suites: Sequence[ProjectSuite]
    engine: Engine
    again: SecondRun

    @classmethod
    def of(
        cls, warehouse: Warehouse, pipeline: str, topology: Topology, *, refused: RefusedLimit,
        suites: Sequence[ProjectSuite], engine: Engine, increment: int | None = None, rows_max: int = ROWS_MAX,
    ) -> "Judge":  # fmt: skip
        """Of increments up to ``increment``, None: the last one. The others as ``replay_facts``, ``suites_of`` and
        ``second_run`` take them.
        """
        # A backfill makes no output that depends on a processor, so checks of such outputs would have no table.
        left_out = {TableName.output(name) for name in outputs_left_out(warehouse, pipeline, increment)}
        made = range_part(topology).topology if left_out else topology
        return cls(
            warehouse, pipeline, made, replay_facts(made, refused),
            [suite for suite in suites if suite.table not in left_out], engine,
            second_run(warehouse, pipeline, made, rows_max),
        )  # fmt: skip

    def verdicts(self, increments: Sequence[int], docs: DataDocs | None = None) -> Iterator[Verdict]:
        """On ``increments``, in order; ``docs``: where Great Expectations builds its pages, None: nowhere."""
        judged = check_increments(
            self.warehouse, self.pipeline, self.facts, increments, engine=self.engine, suites=self.suites, docs=docs,
            again=self.again,
        )  # fmt: skip
        for verdicts in judged:
            yield from verdicts
