"""A quiet topic, or one empty Kafka partition: a check says that it stops all days, and a setting lets them run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.landing.landing import FileSource
from kstreams_replay.jobs.landing.recorded_time import record_time
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.orchestration.definitions import replay_definitions
from kstreams_replay.orchestration.resources import LocalEngine
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.dagster import shop
from tests.dagster.days import DAY, DAYS, FOUR, JANUARY, ONE, THREE, TWO
from tests.planted import tables_of

HELD_UP = "holds_up_no_partition"


def topology() -> Topology:
    """Clicks with the names of their users."""
    builder = StreamsBuilder()
    json = Consumed(Serde.string(), Serde.json("page string, ms long"))
    users = builder.table("users", json)
    builder.stream("clicks", json).left_join(users, page="left.page", who="right.page").to("named")
    return builder.build()


class Site:
    """Clicks of six days, in two Kafka partitions or one, and a user of the first day."""

    def __init__(self, root: Path, instance: dg.DagsterInstance) -> None:
        self.root, self.instance, self.warehouse = root, instance, Warehouse(root / "warehouse")
        shop.drop_files(root / "users", "1", [("ann", "Ann", JANUARY + 1_000)])
        shop.drop_files(root / "clicks", "1", [("ann", "home", JANUARY + day * DAY + 2_000) for day in range(6)])

    def definitions(self, partitions: int = 1, **settings: Any) -> dg.Definitions:
        def source(topic: str) -> FileSource:
            return FileSource(str(self.root / topic), format="jsonl", timestamp="ms", key="user", partitions=partitions)

        return replay_definitions(
            topology(), pipeline="shop", warehouse=self.warehouse, engine=LocalEngine(), check_engine="plain",
            sources={topic: source(topic) for topic in ("users", "clicks")}, partitions=DAYS, **settings,
        )  # fmt: skip

    def launch(self, job: str, definitions: dg.Definitions, **more: Any) -> dg.ExecuteInProcessResult:
        found = definitions.resolve_job_def(job)
        return found.execute_in_process(instance=self.instance, raise_on_error=False, **more)

    def cuts(self) -> list[tuple[int, int]]:
        """Clicks and users, all partitions, that each increment has read up to."""
        rows = Ledger(self.warehouse.pipeline("shop").ledger).done_rows()
        return [tuple(sum(row.content.cut_to[topic].values()) for topic in ("clicks", "users")) for row in rows]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with dg.DagsterInstance.local_temp() as instance:
        yield Site(tmp_path, instance)


def verdict(result: dg.ExecuteInProcessResult, topic: str) -> tuple[bool, str]:
    (found,) = [
        each
        for each in result.get_asset_check_evaluations()
        if each.check_name == HELD_UP and each.asset_key.path[-1] == topic
    ]
    assert found.severity is dg.AssetCheckSeverity.WARN
    return found.passed, found.description or ""


def test_a_landing_warns_of_a_topic_that_stops_all_days(site):
    landed = site.launch("shop_land", site.definitions())

    assert verdict(landed, "clicks")[0]
    assert verdict(landed, "users") == (
        False,
        "Partition 2026-01-01, and all after it, wait: users, partition 0, has come to 2026-01-01 00:00:01, while "
        "others have come to 2026-01-06 00:00:02. What to do: nothing, if more of users comes: run it after the next "
        'landing; where nothing more comes, `replay advance users --to "2026-01-02 00:00:00" '
        f"--warehouse {site.warehouse.root}` records that, and idle_after in the definitions does so from then on",
    )
    record_time(site.warehouse, "users", JANUARY + 4 * DAY)
    assert verdict(site.launch("shop_land", site.definitions()), "users")[0], "what it says to do helps"


def test_days_go_on_without_a_topic_that_may_be_idle(site):
    definitions = site.definitions(idle_after={"users": "12h"})
    landed = site.launch("shop_land", definitions)
    assert verdict(landed, "users")[0]

    result = site.launch("shop_replay", definitions, tags=range_of(ONE, FOUR))

    assert result.success
    assert site.cuts() == [(1, 1), (2, 1), (3, 1), (4, 1)]
    list(replay(site.warehouse, topology(), pipeline="whole", runner=LocalRunner(), until_ms=JANUARY + 4 * DAY))
    assert tables_of(site.warehouse, "shop", topology()) == tables_of(site.warehouse, "whole", topology())


def test_one_empty_kafka_partition_is_passed_over(site):
    definitions = site.definitions(partitions=2, idle_after="12h")
    assert site.launch("shop_land", definitions).success

    assert site.launch("shop_replay", definitions, tags=range_of(ONE, THREE)).success

    assert site.cuts() == [(1, 1), (2, 1), (3, 1)]


def test_a_topic_is_waited_for_until_others_are_ahead_by_what_is_allowed(site):
    definitions = site.definitions(idle_after={"users": "5d"}, cron="0 4 * * *")
    assert site.launch("shop_land", definitions).success
    assert next_tick(site, definitions) == "partition 2026-01-01 has not landed whole"

    shop.drop_files(site.root / "clicks", "2", [("ann", "home", JANUARY + 6 * DAY)])
    assert site.launch("shop_land", definitions).success

    assert next_tick(site, definitions) == ONE
    assert site.launch("shop_replay", definitions, partition_key=ONE).success
    assert next_tick(site, definitions) == "partition 2026-01-02 has not landed whole"
    refused = site.launch("shop_replay", definitions, partition_key=TWO)
    assert not refused.success


def next_tick(site: Site, definitions: dg.Definitions) -> str:
    """The day that a tick asks for, or the begin of what it says."""
    context = dg.build_schedule_context(instance=site.instance, repository_def=definitions.get_repository_def())
    found = definitions.resolve_schedule_def("shop_schedule").evaluate_tick(context)
    asked = [str(request.partition_key) for request in found.run_requests or ()]
    return asked[0] if asked else str(found.skip_message).partition(":")[0]


def range_of(first: str, last: str) -> dict[str, str]:
    return {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"partitions": None, "idle_after": "1h"}, "idle_after: expected partitions beside it"),
        ({"idle_after": {"orders": "1h"}}, "idle_after: expected topics that the topology reads, users, clicks"),
        ({"idle_after": "soon"}, "idle_after, topic 'users': expected a duration"),
    ],
)
def test_what_cannot_be_is_refused_when_definitions_load(tmp_path, settings, words):
    with pytest.raises(ConfigError) as error:
        replay_definitions(
            topology(), pipeline="shop", warehouse=tmp_path, engine=LocalEngine(), **{"partitions": DAYS} | settings
        )

    assert str(error.value).startswith(words)
