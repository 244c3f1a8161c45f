"""The asset of an output that is published: behind the output, in the same job."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from kstreams_replay.jobs.publish.kafka_target import KafkaTarget
from kstreams_replay.orchestration.definitions import replay_definitions
from kstreams_replay.orchestration.resources import LocalEngine
from kstreams_replay.orchestration.settings.connections import KafkaTargetResource
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.kafka.published import forwarded, seen
from tests.planted import LandedRecord, plant

pytestmark = [pytest.mark.sampled, pytest.mark.jvm]

KEY = dg.AssetKey(["p", "published", "out"])


def definitions(root: Path, target: KafkaTarget | KafkaTargetResource, **settings: Any) -> dg.Definitions:
    return replay_definitions(
        forwarded(), pipeline="p", warehouse=Warehouse(str(root / "w")), engine=LocalEngine(), check_engine="plain",
        publish={"out": target}, **settings,
    )  # fmt: skip


def ran(found: dg.Definitions, instance: dg.DagsterInstance) -> dict[dg.AssetKey, Any]:
    """Metadata of what was materialized, by asset."""
    result = found.resolve_job_def("p_replay").execute_in_process(instance=instance)
    events = [event.materialization for event in result.get_asset_materialization_events()]
    return {each.asset_key: each.metadata for each in events}


@pytest.mark.every_run
def test_an_increment_is_published_behind_its_output(broker, topic, tmp_path, monkeypatch):
    monkeypatch.setenv("SHOP_KAFKA", broker.bootstrap_servers)
    target = KafkaTargetResource(bootstrap_servers=dg.EnvVar("SHOP_KAFKA"), topic=topic)
    warehouse = Warehouse(str(tmp_path / "w"))
    broker.create_topic(topic)
    with dg.DagsterInstance.ephemeral() as instance:
        for number in (1, 2):
            plant(warehouse, "in", [LandedRecord(0, b"a", str(number).encode(), number)], partitions=1)
            said = ran(definitions(tmp_path, target), instance)[KEY]
            assert (said["rows"].value, said["through_increment"].value) == (1, number)
        assert KEY not in ran(definitions(tmp_path, target), instance)

    assert [record.value for record in seen(broker, topic)] == [b"1", b"2"]


def test_an_output_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="expected outputs of out, got 'sums'"):
        replay_definitions(
            forwarded(), pipeline="p", warehouse=Warehouse(str(tmp_path / "w")), engine=LocalEngine(),
            publish={"sums": KafkaTarget("localhost:1", "sums")},
        )  # fmt: skip
