"""A pipeline, as all its definitions see it: topology, tables, settings, and the names they go by in Dagster.

Owns names. Rule: an asset key is the pipeline's name and then the table's name as the warehouse spells it
(`flights/outputs/hourly`, `flights/landed/departures`), so each name gives the other. A translator may choose other
keys (settings/translator.py).
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

import dagster as dg

from ..expectations.suites.data_docs import DataDocs
from ..expectations.suites.project_suites import ProjectSuite
from ..jobs.code_changes.state_migration import MigrationOptions
from ..jobs.landing.landing import LandingRules
from ..jobs.publish.kafka_target import KafkaTarget
from ..jobs.publish.publishing import PublishSettings
from ..jobs.topology import SubTopology, Topology
from ..state.errors import ConfigError
from ..state.tables.ledger import LandingLedger, Ledger
from ..state.tables.names import DEAD_LETTER, DROPPED, LANDED, OUTPUTS, REPARTITION, STATE, TableName
from ..state.tables.refused_shares import DEFAULT_LIMIT, RefusedLimit
from ..state.tables.warehouse import PipelineTables, Warehouse
from .lineage import Table, tables_of
from .resources import Engine
from .settings.connections import (
    KafkaTargetResource,
    Source,
    SourceResource,
    WarehouseResource,
    known_root,
    source_of,
    warehouse_of,
)
from .settings.run_settings import RequestedRun
from .settings.translator import ReplayTranslator

PUBLISHED = "published"
"""What asset keys of published outputs have in the place of the folder of a table."""
REFUSALS = (DROPPED, DEAD_LETTER)
"""Tables of what had no effect, of the whole pipeline."""


@dataclass(frozen=True)
class Pipeline:
    """``storage``: where its tables are, which ``warehouse`` gives. ``sources``: topic → where it is landed from;
    ``landed_by``: topic → the pipeline of the same warehouse that lands it.

    ``production``: output → the landed topic that a live application wrote. ``publish``: output → the topic to which it
    is published, as ``publish_settings`` say.

    ``refused``: up to which share records are refused without an alarm. ``suites``: of the user's project, which checks
    judge too; ``data_docs``: where pages are built, None: nowhere.
    ``landing``: how a landing handles bad input. ``max_records``, ``increments``, ``idle``,
    ``kafka_version``: as ``kstreams_replay.replay`` takes them. ``idle_after_ms``: topics of which a partition waits
    for no Kafka partition that another one is ahead of by so long. Of one run alone: ``flush``, whether history is
    closed, and ``wanted``, what to do with the state of changed code.
    """

    name: str
    topology: Topology
    storage: Warehouse | WarehouseResource
    engine: Engine
    sources: Mapping[str, Source | SourceResource] = field(default_factory=dict)
    landed_by: Mapping[str, str] = field(default_factory=dict)
    landing: LandingRules = field(default_factory=LandingRules)
    max_records: int | None = None
    increments: int | None = None
    idle: str = "wait"
    kafka_version: str | None = None
    check_engine: str = "gx"
    refused: RefusedLimit = DEFAULT_LIMIT
    suites: tuple[ProjectSuite, ...] = ()
    data_docs: DataDocs | None = None
    retry_policy: dg.RetryPolicy | None = None
    max_runtime_ms: int | None = None
    partitions: dg.TimeWindowPartitionsDefinition | None = None
    idle_after_ms: Mapping[str, int] = field(default_factory=dict)
    fresh_within_ms: int | None = None
    freshness_policy: bool = False
    verify_increments: int | None = None
    production: Mapping[str, str] = field(default_factory=dict)
    publish: Mapping[str, KafkaTarget | KafkaTargetResource] = field(default_factory=dict)
    publish_settings: PublishSettings = field(default_factory=PublishSettings)
    translator: ReplayTranslator = field(default_factory=ReplayTranslator)
    flush: bool = False
    wanted: MigrationOptions | None = None

    @property
    def warehouse(self) -> Warehouse:
        """Where its tables are now. Raises ConfigError for an environment variable that is not set."""
        return warehouse_of(self.storage)

    @property
    def known_root(self) -> str | None:
        """Where its tables are, as far as it is known while definitions load."""
        return known_root(self.storage)

    @property
    def word(self) -> str:
        """The name in the letters that Dagster takes for ops, jobs and groups."""
        return _word(self.name)

    @property
    def engine_key(self) -> str:
        """The engine's resource key: one a pipeline, so that definitions of several can be merged."""
        return f"{self.word}_engine"

    @property
    def tables_key(self) -> str:
        """The resource key of what loads its outputs for other assets."""
        return f"{self.word}_tables"

    @property
    def resources(self) -> dict[str, dg.ConfigurableResource[Any]]:
        """By key: the engine, and what of warehouse and sources was given as a resource; one key a pipeline each."""
        resources: dict[str, dg.ConfigurableResource[Any]] = {self.engine_key: self.engine}
        if isinstance(self.storage, WarehouseResource):
            resources[f"{self.word}_warehouse"] = self.storage
        return resources | dict(self._source_resources.values()) | dict(self._target_resources.values())

    @property
    def resource_keys(self) -> set[str]:
        """What a step asks Dagster for."""
        return set(self.resources)

    def in_run(self, resources: Any) -> "Pipeline":
        """Itself, with the resources as a run's config has them (``context.resources``). Raises ConfigError for a
        source that cannot be, or an environment variable that is not set.
        """
        storage: Warehouse | WarehouseResource = self.storage
        if isinstance(storage, WarehouseResource):
            storage = getattr(resources, f"{self.word}_warehouse").warehouse()
        given = {topic: getattr(resources, key) for topic, (key, _) in self._source_resources.items()}
        sources = {topic: source_of(given.get(topic, source)) for topic, source in self.sources.items()}
        targets = {output: getattr(resources, key) for output, (key, _) in self._target_resources.items()}
        return replace(self, storage=storage, sources=sources, publish={**self.publish, **targets})

    def target(self, output: str) -> KafkaTarget:
        """Where an output is published now. Raises ConfigError for an environment variable that is not set."""
        target = self.publish[output]
        return target.target() if isinstance(target, KafkaTargetResource) else target

    def with_settings(self, asked: RequestedRun) -> "Pipeline":
        """Itself, with the settings of one run."""
        return replace(
            self, max_records=asked.max_records, increments=asked.increments, idle=asked.idle, flush=asked.flush,
            wanted=asked.wanted,
        )  # fmt: skip

    @property
    def _source_resources(self) -> dict[str, tuple[str, SourceResource]]:
        """Topic → its resource key and the resource, of sources that were given as resources."""
        given = {topic: source for topic, source in self.sources.items() if isinstance(source, SourceResource)}
        words = _distinct_words(given)
        return {topic: (f"{self.word}_source_{words[topic]}", source) for topic, source in given.items()}

    @property
    def _target_resources(self) -> dict[str, tuple[str, KafkaTargetResource]]:
        """Output → its resource key and the resource, of targets that were given as resources."""
        given = {name: target for name, target in self.publish.items() if isinstance(target, KafkaTargetResource)}
        words = _distinct_words(given)
        return {name: (f"{self.word}_target_{words[name]}", target) for name, target in given.items()}

    def key(self, table: str) -> dg.AssetKey:
        """Asset key of a table, given as "outputs/x", "state/y", "repartition/z", "landed/topic", "dropped" …"""
        kind, _, name = table.partition("/")
        owner = self.landed_by.get(name, self.name) if kind == LANDED else self.name
        return self.translator.get_asset_key(owner, str(table))

    def refuse_equal_keys(self) -> None:
        """ConfigError when a translator gives two tables one key."""
        tables = [
            *(str(table.name) for _, table in self.all_tables()),
            *REFUSALS,
            *map(TableName.landed, self.topics()),
            *(f"{PUBLISHED}/{output}" for output in self.publish),
        ]
        counts = Counter(map(self.key, tables))
        for key, count in counts.items():
            if count > 1:
                same = ", ".join(str(table) for table in tables if self.key(table) == key)
                raise ConfigError(
                    f"pipeline {self.name!r}, translator", "an asset key for each table",
                    f"{key.to_user_string()} for {same}", "correct its get_asset_key",
                )  # fmt: skip

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
        return Ledger(self.own.ledger)

    def landing_ledger(self, topic: str) -> LandingLedger:
        return LandingLedger(self.warehouse.landing_ledger(topic))

    def path(self, table: str) -> str:
        """Where the table lies."""
        tables = self.own
        if table in REFUSALS:
            return tables.table(table)
        kind, name = table.split("/", 1)
        if kind == LANDED:
            return self.warehouse.landed(name)
        return {OUTPUTS: tables.output, STATE: tables.state, REPARTITION: tables.repartition}[kind](name)


def _word(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def _distinct_words(names: Iterable[str]) -> dict[str, str]:
    """Each name in Dagster's letters. Where several come to one word, those that are not it have a checksum after it.
    This depends on no other name, so run config that names a key stays right when a topic is added or moved.
    """
    words = {name: _word(name) for name in names}
    counts = Counter(words.values())
    return {
        name: word if word == name or counts[word] == 1 else f"{word}_{crc32(name.encode()):08x}"
        for name, word in words.items()
    }
