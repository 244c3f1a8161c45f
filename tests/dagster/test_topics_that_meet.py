"""Assets of a pipeline in which topics meet: several landed topics, tables, joins, foreign keys that come back."""

import dagster as dg

from orchestration.definitions import replay_definitions
from orchestration.lineage import tables_of
from orchestration.resources import LocalEngine
from tests.dagster.conftest import numbers, passed, told, versions
from tests.laws.joined import PARTITIONS, TOPICS, joined, tapes
from tests.planted import plant

FIRST = "increment-1-epoch-0"


def test_every_part_is_told_in_one_run_and_what_comes_back_stands_below_what_was_asked(warehouse):
    for topic, records in tapes(4, 40).items():
        plant(warehouse, topic, records, partitions=PARTITIONS)
    definitions = replay_definitions(
        joined(), pipeline="meet", warehouse=warehouse, engine=LocalEngine(), check_engine="plain", idle="proceed"
    )

    with dg.DagsterInstance.ephemeral() as instance:
        result = definitions.resolve_job_def("meet_replay").execute_in_process(instance=instance)

    topology = joined()
    tables = [f"meet/{table.name}" for sub in topology.sub_topologies for table in tables_of(topology, sub)]
    assert versions(result) == dict.fromkeys(tables, [FIRST])
    assert {f"meet/landed/{topic}" for topic in TOPICS} == {
        observation.asset_key.to_user_string() for observation in result.get_asset_observation_events_of_run()
    }
    assert passed(result) == {}
