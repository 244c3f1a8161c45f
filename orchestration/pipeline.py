"""A pipeline, as all its definitions see it: topology, tables, settings, and the names they go by in Dagster.

Owns names. Rule: an asset key is the pipeline's name and then the table's name as the warehouse spells it
(`flights/outputs/hourly`, `flights/landed/departures`), so who knows the one finds the other.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import dagster as dg

from ..jobs.landing.landing import FileSource, KafkaSource, LandingRules
from ..jobs.topology import SubTopology, Topology
from ..state.tables.ledger import LandingLedger, Ledger
from ..state.tables.names import DEAD_LETTER, DROPPED, LANDED, OUTPUTS, REPARTITION, STATE
from ..state.tables.warehouse import PipelineTables, Warehouse
from .lineage import Table, tables_of
from .resources import Engine

REFUSALS = (DROPPED, DEAD_LETTER)
"""Tables of what had no effect, of the whole pipeline."""


@dataclass(frozen=True)
class Pipeline:
    """``sources``: topic → where it is landed from.

    ``landing``: what a landing does with what is wrong. ``max_records``, ``increments``, ``idle``: as
    ``kstreams_replay.replay`` takes them.
    """

    name: str
    topology: Topology
    warehouse: Warehouse
    engine: Engine
    sources: Mapping[str, FileSource | KafkaSource] = field(default_factory=dict)
    landing: LandingRules = field(default_factory=LandingRules)
    max_records: int | None = None
    increments: int | None = None
    idle: str = "wait"
    check_engine: str = "gx"
    retry_policy: dg.RetryPolicy | None = None
    max_runtime_ms: int | None = None
    partitions: dg.TimeWindowPartitionsDefinition | None = None
    fresh_within_ms: int | None = None

    @property
    def word(self) -> str:
        """The name in the letters that Dagster takes for ops, jobs and groups."""
        return re.sub(r"[^A-Za-z0-9_]", "_", self.name)

    @property
    def engine_key(self) -> str:
        """The engine's resource key: one a pipeline, so that definitions of several can be merged."""
        return f"{self.word}_engine"

    @property
    def tables_key(self) -> str:
        """The resource key of what loads its outputs for other assets."""
        return f"{self.word}_tables"

    def key(self, table: str) -> dg.AssetKey:
        """Asset key of a table, given as "outputs/x", "state/y", "repartition/z", "landed/topic", "dropped" …"""
        return dg.AssetKey([self.name, *table.split("/", 1)])

    def tables(self, sub: SubTopology) -> list[Table]:
        """Tables of one sub-topology, each after those it is made from."""
        return tables_of(self.topology, sub)

    def all_tables(self) -> list[tuple[SubTopology, Table]]:
        """All tables that an increment writes, sub-topology by sub-topology."""
        return [(sub, table) for sub in self.topology.sub_topologies for table in self.tables(sub)]

    def topics(self) -> list[str]:
        """Topics that are read, then those that are landed only."""
        return list(dict.fromkeys([*self.topology.source_topics(), *self.sources]))

    @property
    def own(self) -> PipelineTables:
        """Paths of its own tables."""
        return self.warehouse.pipeline(self.name)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.own.ledger, self.warehouse.storage_options)

    def landing_ledger(self, topic: str) -> LandingLedger:
        return LandingLedger(self.warehouse.landing_ledger(topic), self.warehouse.storage_options)

    def path(self, table: str) -> str:
        """Where the table lies."""
        tables = self.own
        if table in REFUSALS:
            return tables.table(table)
        kind, name = table.split("/", 1)
        if kind == LANDED:
            return self.warehouse.landed(name)
        return {OUTPUTS: tables.output, STATE: tables.state, REPARTITION: tables.repartition}[kind](name)
