"""``ReplayPipelineComponent``: one pipeline, from its ``defs.yaml`` to its assets, checks, jobs and schedules.

Owns the way from attributes to ``replay_definitions``. Rule: paths are below the project's root; a topology's file is
looked for beside the ``defs.yaml`` first.
"""

from pathlib import Path
from typing import Annotated, Literal

import dagster as dg
from dagster.components.resolved.core_models import (
    DailyPartitionsDefinitionModel,
    HourlyPartitionsDefinitionModel,
    TimeWindowPartitionsDefinitionModel,
    WeeklyPartitionsDefinitionModel,
    resolve_partitions_def,
)
from pydantic import Field

from ...state.kafka_version import REPLAYED
from ...state.tables.refused_shares import RefusedLimit
from ...state.tables.warehouse import Warehouse
from ..definitions import replay_definitions
from ..settings.topology_loading import load_topology
from .attributes import (
    CheckAttributes,
    LandingAttributes,
    PublishAttributes,
    PublishSettingsAttributes,
    SensorAttributes,
    SourceAttributes,
    SparkAttributes,
    TranslatorAttributes,
    below,
    engine_of,
    said,
)
from .scaffolder import ReplayPipelineScaffolder

Partitions = Annotated[
    dg.TimeWindowPartitionsDefinition | None,
    dg.Resolver(
        resolve_partitions_def,
        model_field_type=HourlyPartitionsDefinitionModel
        | DailyPartitionsDefinitionModel
        | WeeklyPartitionsDefinitionModel
        | TimeWindowPartitionsDefinitionModel,
        description="The tables run partition by partition, each up to its end in record time.",
    ),
]


@dg.scaffold_with(ReplayPipelineScaffolder)
class ReplayPipelineComponent(dg.Component, dg.Model, dg.Resolvable):
    """A pipeline of kstreams_replay: topics land, a topology replays them as Kafka Streams would, checks prove it.

    Needed are `topology` and `warehouse`; `dg scaffold defs kstreams_replay.ReplayPipelineComponent clicks` writes an
    example that runs.
    """

    topology: str = Field(description="file.py:attribute (beside this file, or below the root) or module:attribute.")
    warehouse: str = Field(description="Folder of all tables, below the project's root, or a URI.")
    storage_options: dict[str, str] = said({}, "How the store of a URI is reached: AWS_REGION …")
    storage_timeout: str | None = said(None, 'How long a request that fails is made again: "5m"; default: 2 minutes.')
    pipeline: str | None = said(None, "Its name; default: that of the folder of this file.")
    sources: dict[str, SourceAttributes] = said({}, "Topic to where it is landed from.")
    landing: LandingAttributes = said(LandingAttributes(), "How it handles bad input.")
    engine: Literal["local", "spark"] = said("spark", "local: this process, without Java.")
    spark: SparkAttributes = said(SparkAttributes(), "Settings, where the engine is Spark.")
    schedule: str | None = said(None, 'When it runs, as cron: "0 4 * * *"; default: by hand.')
    cron_timezone: str | None = said(None, "Of the schedule, as Europe/Berlin; default: that of partitions, else UTC.")
    sensor: SensorAttributes | None = said(None, "Starts runs by what is new; default: there is none.")
    max_runtime: str | None = said("1d", "Of a run, after which the schedule waits for it no more.")
    operator_jobs: bool = said(False, "Jobs to plan changed code, promote, restore, vacuum, and make a range again.")
    partitions: Partitions = None
    idle_after: str | dict[str, str] | None = said(
        None, 'A partition waits no more for a Kafka partition that is behind the others by so long: "2h", or by topic.'
    )
    max_records: int | None = said(None, "Cut into increments of at most so many records.")
    idle: Literal["wait", "proceed"] = said("wait", "Whether records wait for a partition that lags.")
    # YAML reads 4.3 as a number.
    kafka_version: float | str | None = said(None, f"Whose rows are made: {' or '.join(REPLAYED)}.")
    checks: CheckAttributes = said(CheckAttributes(), "How guarantees are checked.")
    publish: dict[str, PublishAttributes] = said({}, "Output to the topic to which it is published.")
    publish_settings: PublishSettingsAttributes = said(PublishSettingsAttributes(), "How outputs are published.")
    translator: TranslatorAttributes = said(TranslatorAttributes(), "Names of its assets.")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Assets, checks, jobs and schedules. Raises ConfigError for attributes that cannot be."""
        folder = context.path if context.path.is_dir() else context.path.parent
        root = str(context.project_root)
        return replay_definitions(
            load_topology(self._topology(folder, root)),
            pipeline=self.pipeline or folder.name,
            warehouse=Warehouse(below(root, self.warehouse), self.storage_options or None, self.storage_timeout),
            sources={topic: source.source(topic, root) for topic, source in self.sources.items()},
            landing=self.landing.rules(),
            engine=engine_of(self.engine, self.spark),
            max_records=self.max_records,
            idle=self.idle,
            kafka_version=None if self.kafka_version is None else str(self.kafka_version),
            check_engine=self.checks.engine,
            refused=RefusedLimit(self.checks.refused_max, self.checks.refused_severity),
            expectations=None if self.checks.expectations is None else below(root, self.checks.expectations),
            data_docs=None if self.checks.data_docs is None else below(root, self.checks.data_docs),
            fresh_within=self.checks.fresh_within,
            freshness_policy=self.checks.freshness_policy,
            verify_increments=self.checks.verify_increments,
            production=self.checks.production,
            publish={output: target.target() for output, target in self.publish.items()},
            publish_settings=self.publish_settings.settings(),
            cron=self.schedule,
            cron_timezone=self.cron_timezone,
            sensor=None if self.sensor is None else self.sensor.sensor(),
            max_runtime=self.max_runtime,
            operator_jobs=self.operator_jobs,
            partitions=self.partitions,
            idle_after=self.idle_after,
            translator=self.translator.translator(),
        )

    def _topology(self, folder: Path, root: str) -> str:
        file, colon, attribute = self.topology.rpartition(":")
        if not colon:
            file, attribute = self.topology, ""
        if not file.endswith(".py"):
            return self.topology
        beside = folder / file
        return f"{beside if beside.is_file() else below(root, file)}{colon}{attribute}"
