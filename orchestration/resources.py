"""Where increments run: in Spark, or in this process.

Owns the only settings of machine and cluster. Rule: nothing starts before the first step asks for it, so loading
definitions needs no Java; a cluster is a setting (`spark.master`), never another code path.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import dagster as dg

from ..jobs.execution.auto_runner import SMALL_RECORDS, AutoRunner
from ..jobs.execution.spark_master import named_master
from ..jobs.execution.task_description import Runner
from ..jobs.execution.task_run import LocalRunner
from ..jobs.landing.landing import (
    FileSource,
    KafkaSource,
    LakeSource,
    LandingReport,
    LandingRules,
    land_files,
    land_kafka,
    land_lake,
)
from ..state.runs.local_copies import default_cache
from ..state.tables.warehouse import Warehouse
from .placement.choice import placement_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..jobs.landing.files.spark_tasks import Spark


class Engine(dg.ConfigurableResource["Engine"], ABC):
    """Runs the tasks of a replay and lands topics."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """Dagster's kind of what it materializes."""

    @abstractmethod
    def session(self) -> "SparkSession | None":
        """Spark, started on the first call; None when there is none to be had."""

    @abstractmethod
    def lands_with(self) -> "Spark | None":
        """Spark, or what starts it for large files; None: this process."""

    @abstractmethod
    def runner(self, kafka_version: str | None = None) -> Runner:
        """What ``kstreams_replay.jobs.replay.pipeline_run`` runs tasks with; ``kafka_version``: whose assignor places
        them.
        """

    def land(
        self,
        warehouse: Warehouse,
        topic: str,
        source: FileSource | LakeSource | KafkaSource,
        rules: LandingRules | None = None,
    ) -> LandingReport:
        """Land what is new. Raises what landing raises."""
        if isinstance(source, FileSource):
            return land_files(self.lands_with(), warehouse, topic, source, rules=rules)
        if isinstance(source, LakeSource):
            return land_lake(self.lands_with(), warehouse, topic, source, rules=rules)
        return land_kafka(None, warehouse, topic, source, rules=rules)


class LocalEngine(Engine):
    """This process, one task after the other, without Java: for small data, tests and a first look."""

    @property
    def kind(self) -> str:
        return "python"

    def session(self) -> None:
        return None

    def lands_with(self) -> None:
        return None

    def runner(self, kafka_version: str | None = None) -> Runner:
        return LocalRunner(default_cache())


class SparkEngine(Engine):
    """Spark. ``master`` None: the environment's REPLAY_SPARK_MASTER, else all cores here (see
    jobs/execution/spark_session.py).

    ``settings``: of Spark, over those of jobs/execution/spark_session.py; a ``spark.master`` among them counts where
    ``master`` is None. ``placement`` and what follows it: which worker of a cluster runs which task, see
    jobs/placement/settings.py; None: as the environment says. ``records_in_process``: where nobody names a master,
    increments of at most so many landed records run in this process, since Spark would take longer to start; 0: none.
    """

    master: str | None = None
    app_name: str = "replay"
    settings: dict[str, str] = {}  # noqa: RUF012  (pydantic copies it)
    records_in_process: int = SMALL_RECORDS
    placement: str | None = None
    num_standby_replicas: int | None = None
    max_warmup_replicas: int | None = None
    acceptable_recovery_lag_bytes: int | None = None
    rack_aware_assignment_tags: list[str] | None = None
    rack_aware_assignment_strategy: str | None = None

    @property
    def kind(self) -> str:
        return "spark"

    @property
    def _is_named(self) -> bool:
        return named_master(self.master or self.settings.get("spark.master")) is not None

    def lands_with(self) -> "Spark | None":
        return self.session() if self._is_named else self.session

    def session(self) -> "SparkSession":
        from ..jobs.execution.spark_session import open_spark  # here, so that definitions load without looking for jars

        settings = dict(self.settings)
        master = self.master or settings.pop("spark.master", None)
        return open_spark(master, app_name=self.app_name, extra=settings)

    def runner(self, kafka_version: str | None = None) -> Runner:
        from ..jobs.execution.spark_runner import SparkRunner

        placement = placement_of(
            self.placement, self.num_standby_replicas, self.max_warmup_replicas, self.acceptable_recovery_lag_bytes,
            self.rack_aware_assignment_tags, self.rack_aware_assignment_strategy, kafka_version,
        )  # fmt: skip
        cache = default_cache()
        if self._is_named or placement is not None or self.records_in_process == 0:
            return SparkRunner(self.session(), cache, placement)
        return AutoRunner(lambda: SparkRunner(self.session(), cache), cache, records=self.records_in_process)
