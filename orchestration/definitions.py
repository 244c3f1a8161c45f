"""From a topology to Dagster: assets, checks, a job and a schedule.

Owns how they are connected; all of it is here. Rule: building definitions reads no table and starts nothing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

import dagster as dg

from ..expectations.suites.data_docs import DataDocs
from ..jobs.landing.landing import LandingRules
from ..jobs.publish.kafka_target import KafkaTarget
from ..jobs.publish.publishing import PublishSettings
from ..jobs.topology import Topology
from ..state.argument_types import checked_types
from ..state.errors import ConfigError
from ..state.kafka_version import replayed_version
from ..state.tables.refused_shares import RefusedLimit
from ..state.tables.warehouse import Warehouse
from ..state.times import Duration, duration_ms
from .assets import replay_assets
from .automation.lag_sensor import LagSensor, lag_sensor
from .automation.operator_jobs import jobs_of_operators
from .checks import replay_checks
from .partitioned.assets import partitioned_assets
from .partitioned.output_reading import ReplayIOManager
from .partitioned.range_job import backfill_job
from .partitioned.stale import stale_checks
from .pipeline import Pipeline
from .published_assets import published_assets
from .quality.cuts_check import cuts_checks
from .quality.freshness import refuse_policy
from .quality.pipeline_suites import suites_of
from .quality.production_check import production_checks
from .resources import Engine, SparkEngine
from .schedules import freshness_job, freshness_schedule, landing_job, replay_job, replay_schedule
from .settings.connections import (
    KafkaTargetResource,
    LandedBy,
    Source,
    SourceResource,
    WarehouseResource,
    warehouse_of,
)
from .settings.translator import ReplayTranslator

CHECK_ENGINES = ("gx", "plain")


@checked_types
def replay_definitions(
    topology: Topology,
    *,
    pipeline: str,
    warehouse: Warehouse | WarehouseResource | str | Path,
    sources: Mapping[str, Source | SourceResource | LandedBy] | None = None,
    landing: LandingRules | None = None,
    engine: Engine | None = None,
    max_records: int | None = None,
    increments: int | None = None,
    idle: str = "wait",
    kafka_version: str | None = None,
    check_engine: str = "gx",
    refused: RefusedLimit | None = None,
    expectations: str | Path | None = None,
    data_docs: DataDocs | str | Path | None = None,
    cron: str | None = None,
    cron_timezone: str | None = None,
    retry_policy: dg.RetryPolicy | None = None,
    max_runtime: Duration | None = "1d",
    partitions: dg.PartitionsDefinition | None = None,
    idle_after: Duration | Mapping[str, Duration] | None = None,
    sensor: LagSensor | None = None,
    fresh_within: Duration | None = None,
    freshness_policy: bool = False,
    verify_increments: int | None = None,
    production: Mapping[str, str] | None = None,
    publish: Mapping[str, KafkaTarget | KafkaTargetResource] | None = None,
    publish_settings: PublishSettings | None = None,
    operator_jobs: bool = False,
    translator: ReplayTranslator | None = None,
) -> dg.Definitions:
    """Definitions of one pipeline; ``dg.Definitions.merge`` puts several together.

    ``warehouse``, ``sources``, ``engine`` may be resources, whose settings may be ``dg.EnvVar`` (``WarehouseResource``,
    ``FilesResource``, ``KafkaResource``, ``SparkEngine``). ``sources``: topic → where it is landed from; a topic
    without one is an external asset. One that the topology does not read is landed all the same. One that is
    ``LandedBy`` another pipeline is the other's asset. ``landing``: how a landing handles bad input, None for its
    defaults. ``engine``: None for ``SparkEngine()``. ``max_records``, ``increments``, ``idle``,
    ``kafka_version``: as ``kstreams_replay.replay`` takes them; by default a run is one increment of all that has
    landed. ``check_engine``: "gx" (Great Expectations) or "plain". ``refused``: up to which share records may be
    refused without an alarm, and whether that is an error; None: a warning above 1 %. ``expectations``, ``data_docs``:
    folders of suites of your own and for Great Expectations' pages (docs/quality.md); None: none. ``cron``: None for no
    schedule, else when, in the zone ``cron_timezone``, such as "Europe/Berlin"; None: in that of ``partitions``, else
    in UTC. ``retry_policy``: of the step that lands and replays; only for errors that may be gone at a second try.
    ``max_runtime``: of a run, after which the schedule waits for it no more, and Dagster's run monitoring ends it where
    it is on (examples/dagster.yaml); None: no limit. ``partitions``: daily, hourly, weekly … ones: the tables run
    partition by partition, each up to its end in record time, and topics are landed by a job of their own
    (orchestration/README.md). With ``cron`` each tick lands, and runs the next partition once it has landed whole.
    ``idle_after``: of all topics or by topic, after which a partition waits no more for a quiet Kafka partition, in
    record time; None: it waits until somebody records that nothing comes.
    ``translator``: asset keys, groups, owners, tags, kinds and descriptions; None: the pipeline's name before each
    table's. ``sensor``: starts runs by what is new (``LagSensor()``); None: there is none. ``fresh_within``: a check of
    each output warns when its stream time is further behind the clock, and a schedule makes it; None: there is none.
    ``freshness_policy``: each output has Dagster's freshness policy too, which fails when nothing new came within that.
    ``verify_increments``: a check runs so many increments again; None: there is none. ``production``: output → the
    landed topic that a live application wrote, with which a check compares it. ``publish``: output → the topic of
    Kafka to which an asset publishes it, behind the output's checks; ``publish_settings``: how, None for the defaults
    (docs/publish.md). ``operator_jobs``: jobs to plan changed code, promote, restore and vacuum. Raises ConfigError.
    """
    given = _tables_and_topics(warehouse, sources or {})
    topology = topology.reading(lambda: {*(sources or {}), *warehouse_of(given["storage"]).topics()})
    settings = Pipeline(
        name=pipeline, topology=topology, **given,
        engine=engine or SparkEngine(), landing=landing or LandingRules(),
        max_records=max_records, increments=increments, idle=idle, kafka_version=kafka_version,
        refused=refused or RefusedLimit(),
        **_judged_by(check_engine, expectations, data_docs, topology),
        retry_policy=retry_policy,
        max_runtime_ms=None if max_runtime is None else duration_ms(max_runtime, "max_runtime"),
        partitions=_by_time(partitions),
        idle_after_ms=_idle_after(idle_after, partitions, topology),
        fresh_within_ms=None if fresh_within is None else duration_ms(fresh_within, "fresh_within"),
        freshness_policy=freshness_policy,
        verify_increments=verify_increments,
        production=production or {},
        publish=publish or {},
        publish_settings=publish_settings or PublishSettings(),
        translator=translator or ReplayTranslator(),
    )  # fmt: skip
    return _definitions(settings, cron, cron_timezone, sensor, operator_jobs=operator_jobs)


def _tables_and_topics(
    warehouse: Warehouse | WarehouseResource | str | Path, sources: Mapping[str, Source | SourceResource | LandedBy]
) -> dict[str, Any]:
    """Where a pipeline's tables are, and its topics."""
    return {
        "storage": warehouse if isinstance(warehouse, Warehouse | WarehouseResource) else Warehouse(str(warehouse)),
        "sources": {topic: source for topic, source in sources.items() if not isinstance(source, LandedBy)},
        "landed_by": {topic: source.pipeline for topic, source in sources.items() if isinstance(source, LandedBy)},
    }


def _judged_by(
    engine: str, expectations: str | Path | None, docs: DataDocs | str | Path | None, topology: Topology
) -> dict[str, Any]:
    """What judges a pipeline's increments, and where its pages are built."""
    if docs is not None and engine != "gx":
        raise ConfigError("data_docs", 'check_engine="gx", which builds them', repr(engine), "leave one of both out")
    return {
        "check_engine": engine,
        "suites": suites_of(expectations, topology, engine),
        "data_docs": docs if docs is None or isinstance(docs, DataDocs) else DataDocs(str(docs)),
    }


def _refuse(check_engine: str, idle: str, increments: int | None, partitions: dg.PartitionsDefinition | None) -> None:
    if check_engine not in CHECK_ENGINES:
        raise ConfigError("check_engine", " or ".join(map(repr, CHECK_ENGINES)), repr(check_engine), "choose one")
    if partitions is not None and increments is not None:
        raise ConfigError(
            "increments", "none beside partitions", str(increments), "a partition runs whole: leave it out"
        )
    if idle not in ("wait", "proceed"):
        raise ConfigError("idle", '"wait" or "proceed"', repr(idle), "choose one")


def _idle_after(
    given: Duration | Mapping[str, Duration] | None, partitions: dg.PartitionsDefinition | None, topology: Topology
) -> dict[str, int]:
    """In ms, by topic."""
    topics = topology.source_topics()
    if given is not None and partitions is None:
        raise ConfigError(
            "idle_after", "partitions beside it", "none",
            'leave it out: without partitions idle="proceed" continues, and `replay land --idle-after` closes windows',
        )  # fmt: skip
    by_topic = given if isinstance(given, Mapping) else {} if given is None else dict.fromkeys(topics, given)
    unknown = sorted(set(by_topic) - set(topics))
    if unknown:
        raise ConfigError(
            "idle_after", f"topics that the topology reads, {', '.join(topics)}", ", ".join(unknown), "correct them"
        )
    return {topic: duration_ms(duration, f"idle_after, topic {topic!r}") for topic, duration in by_topic.items()}


def _refuse_numbers(settings: Pipeline) -> None:
    """A number below one would fail each run, or have none of it checked."""
    for name in ("max_records", "increments", "verify_increments", "max_runtime_ms", "fresh_within_ms"):
        number = getattr(settings, name)
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            raise ConfigError(
                name.removesuffix("_ms"), "a whole number of 1 or more", repr(number), "correct it, or leave it out"
            )


def _refuse_zone(zone: str | None, cron: str | None) -> None:
    if zone is not None and zone not in available_timezones():
        raise ConfigError("cron_timezone", "the name of a time zone", repr(zone), 'write it as "Europe/Berlin"')
    if zone is not None and cron is None:
        raise ConfigError("cron_timezone", "cron beside it", "none", "set cron, or leave it out")


def _by_time(partitions: dg.PartitionsDefinition | None) -> dg.TimeWindowPartitionsDefinition | None:
    """Each partition continues the one before, so together they are all times from the first on. Raises ConfigError."""
    if partitions is None:
        return None
    if not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        raise ConfigError(
            "partitions", "partitions by time, as dg.DailyPartitionsDefinition", type(partitions).__name__,
            "give such ones, or leave it out and have your own assets with these partitions read the tables",
        )  # fmt: skip
    if partitions.exclusions:
        raise ConfigError(
            "partitions", "partitions without exclusions, since records of every time belong to one",
            f"{type(partitions).__name__} with {len(partitions.exclusions)} exclusions",
            'leave exclusions out; or end partitions where you want them, as a cron_schedule "0 0 * * 1-5" does, whose '
            "Friday reaches up to Monday",
        )  # fmt: skip
    return partitions


def _definitions(
    settings: Pipeline, cron: str | None, zone: str | None, sensor: LagSensor | None, *, operator_jobs: bool
) -> dg.Definitions:
    replayed_version(settings.kafka_version)
    _refuse_numbers(settings)
    _refuse(settings.check_engine, settings.idle, settings.increments, settings.partitions)
    Warehouse("w").pipeline(settings.name)  # refuses a name that no folder can have
    _refuse_zone(zone, cron)
    refuse_policy(settings)
    settings.refuse_equal_keys()
    has_partitions = settings.partitions is not None
    jobs = [replay_job(settings)]
    if has_partitions and settings.sources:
        jobs.insert(0, landing_job(settings))
    fresh = [] if settings.fresh_within_ms is None else [freshness_job(settings)]
    return dg.Definitions(
        assets=[
            *(partitioned_assets(settings) if has_partitions else replay_assets(settings)),
            *published_assets(settings),
        ],
        asset_checks=[
            *replay_checks(settings),
            *stale_checks(settings),
            *cuts_checks(settings),
            *production_checks(settings),
        ],
        jobs=[*jobs, *fresh, *((*jobs_of_operators(settings), backfill_job(settings)) if operator_jobs else ())],
        schedules=[
            *(replay_schedule(settings, job, cron, zone) for job in jobs if cron is not None),
            *map(freshness_schedule, fresh),
        ],
        sensors=[] if sensor is None else [lag_sensor(settings, sensor, jobs)],
        resources=settings.resources | {settings.tables_key: ReplayIOManager(settings)},
        executor=dg.in_process_executor,
    )
