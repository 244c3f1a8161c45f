"""Assets in process, without Java: what is materialized, what it says, and that nothing is said twice or lost."""

import json

import dagster as dg
import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_changelog
from kstreams_replay.orchestration.definitions import replay_definitions
from kstreams_replay.orchestration.resources import LocalEngine
from kstreams_replay.state.errors import TaskFailed
from tests.dagster import shop
from tests.dagster.conftest import Shop, numbers, observed, passed, told, versions

pytestmark = pytest.mark.sampled

SUB_TOPOLOGY_0 = [
    "shop/state/open-sessions",
    "shop/state/held-sessions-store",
    "shop/outputs/sessions",
    "shop/repartition/open-pages-repartition",
]
SUB_TOPOLOGY_1 = ["shop/state/open-pages", "shop/state/held-pages-store", "shop/outputs/pages"]
REFUSALS = ["shop/dropped", "shop/dead_letter"]
TABLES = [*SUB_TOPOLOGY_0, *SUB_TOPOLOGY_1, *REFUSALS]
FIRST, SECOND = "increment-1-epoch-0", "increment-2-epoch-0"


def keys(names):
    return [dg.AssetKey(name.split("/")) for name in names]


def test_one_run_lands_replays_and_materializes_every_table_of_one_increment(small_shop):
    result = small_shop.run()

    assert result.success
    assert versions(result) == {name: [FIRST] for name in ["shop/landed/clicks", *TABLES]}
    got = read_changelog(small_shop.warehouse, "shop", "pages").select(["key", "window_start_ms", "value"]).to_pylist()
    want = [
        {"key": "cart", "window_start_ms": 90, "value": 1},
        {"key": "home", "window_start_ms": 90, "value": 2},
    ]
    assert got == want


def test_lineage_is_the_graph_of_tables_and_a_pipeline_is_one_multi_asset():
    graph = replay_definitions(shop.topology(), pipeline="shop", warehouse="w", engine=LocalEngine())
    nodes = {node.key.to_user_string(): node for node in graph.resolve_asset_graph().asset_nodes}

    got = {name: sorted(key.to_user_string() for key in node.parent_keys) for name, node in nodes.items()}

    want = {
        "shop/landed/clicks": [],
        "shop/state/open-sessions": ["shop/landed/clicks"],
        "shop/state/held-sessions-store": ["shop/state/open-sessions"],
        "shop/outputs/sessions": ["shop/state/held-sessions-store"],
        "shop/repartition/open-pages-repartition": ["shop/landed/clicks"],
        "shop/state/open-pages": ["shop/repartition/open-pages-repartition"],
        "shop/state/held-pages-store": ["shop/state/open-pages"],
        "shop/outputs/pages": ["shop/state/held-pages-store"],
        "shop/dropped": ["shop/landed/clicks"],
        "shop/dead_letter": ["shop/landed/clicks"],
    }
    assert got == want
    (step,) = {each.node_def.name for each in graph.assets if isinstance(each, dg.AssetsDefinition)}
    assert step == "shop_increments"
    assert {node.group_name for node in nodes.values()} == {"shop"}
    assert nodes["shop/outputs/pages"].kinds == {"python", "deltalake"}
    assert nodes["shop/state/open-pages"].description == (
        "Rows of store `open-pages`: typed columns, one row a change, the newest of a key counts. "
        "Operator `KSTREAM-AGGREGATE-0000000005`, time windows: size 30 ms, advance 30 ms, grace 10 ms. "
        "Sub-topology 1, a task for each partition of open-pages-repartition."
    )


def test_a_materialization_says_what_the_increment_did_to_the_table_and_its_sub_topology(small_shop):
    result = told(small_shop.run())

    (pages,) = result["shop/outputs/pages"]
    want = {
        "increment": 1,
        "epoch": 0,
        "records_read": 6,
        "records_applied": 5,
        "records_left_out": 0,
        "records_dropped": 1,
        "records_dropped/expired-window": 1,
        "records_undecodable": 0,
        "windows_refused": 0,
        "records_emitted": 2,
        "lateness_avg_ms": 16.5,
        "lateness_max_ms": 99,
        "lateness_avg": "16 ms",
        "lateness_max": "99 ms",
        "lateness_p50_ms": 0,
        "lateness_p90_ms": 99,  # of six records one is late, so that it is the sixth of 5.4
        "lateness_p99": "99 ms",
        "stream_time_ms": 210,
        "stream_time": 0.21,
        "records_waiting": 0,
        "table_version": 1,
        "dagster/row_count": 2,
    }
    assert numbers(pages, *want) == want
    assert "seconds/task_compute" in pages.metadata
    assert not {"seconds/plan", "seconds/compute", "seconds/commit"} & set(pages.metadata)  # of the whole increment
    assert pages.metadata["dagster/table_name"].value == f"{small_shop.warehouse.root}/shop/outputs/pages"
    columns = {column.name: column.type for column in pages.metadata["dagster/column_schema"].value.columns}
    assert columns["window_end_ms"] == "int64"
    assert columns["key"] == "string"
    assert pages.metadata["memory_max"].value == f"{pages.metadata['memory_bytes_max'].value / 2**20:,.0f} MiB"
    above = pages.metadata["dagster/column_lineage"].value.deps_by_column["window_end_ms"]
    assert above == [dg.TableColumnDep(dg.AssetKey(["shop", "state", "held-pages-store"]), "window_end_ms")]
    cut = [record.data for record in pages.metadata["cut"].records]
    assert cut == [{"topic": "clicks", "partition": 0, "from": 0, "to": 6}]

    (held,) = result["shop/state/held-pages-store"]
    want = {"results_emitted": 2, "buffer_count": 2, "buffer_count_max": 3}
    assert numbers(held, *want) == want

    (landed,) = result["shop/landed/clicks"]
    want = {"increment": 1, "records_read": 6, "partitions": 1, "dagster/row_count": 6}
    assert numbers(landed, *want) == want


def test_a_run_with_nothing_new_materializes_nothing_and_its_checks_are_made(small_shop):
    checks = passed(small_shop.run())

    result = small_shop.run()

    assert result.success
    assert told(result) == {}
    assert sorted(observed(result)) == sorted(["shop/landed/clicks", *TABLES])
    for observation in observed(result).values():
        assert numbers(observation, "nothing_new", "increment", "table_version", "records_read") == {
            "nothing_new": True,
            "increment": 1,
            "table_version": 1,
        }
    assert passed(result) == checks
    assert checks == dict.fromkeys(checks, True) | {"dropped: few_records_are_dropped": False}  # warned of
    pages = small_shop.instance.get_latest_materialization_event(dg.AssetKey(["shop", "outputs", "pages"]))
    assert numbers(pages.asset_materialization, "records_read")["records_read"] == 6  # the last real numbers stay
    assert small_shop.replay() == []


def with_readers(definitions):
    """Somebody's own assets, which read the pages and the clicks."""

    @dg.asset(deps=[dg.AssetKey(["shop", "outputs", "pages"]), dg.AssetKey(["shop", "landed", "clicks"])])
    def report():
        return dg.MaterializeResult()

    job = dg.define_asset_job("everything", dg.AssetSelection.all(), executor_def=dg.in_process_executor)
    return dg.Definitions.merge(definitions, dg.Definitions(assets=[report], jobs=[job]))


def test_who_reads_a_table_runs_when_it_has_something_new_and_only_then(small_shop):
    job = with_readers(shop.definitions(small_shop.root, check_engine="plain")).resolve_job_def("everything")

    runs = [job.execute_in_process(instance=small_shop.instance) for _ in range(2)]

    assert [("report" in told(run)) for run in runs] == [True, False]


def test_a_quiet_topic_holds_up_neither_the_tables_nor_their_checks(small_shop):
    """Two topics are landed: one has something new, the other has not."""
    shop.drop_files(small_shop.root / "visits", "1-morning", shop.MORNING)
    sources = {name: shop.source(small_shop.root / name) for name in ("clicks", "visits")}
    definitions = shop.definitions(small_shop.root, sources=sources, check_engine="plain")
    checks = passed(small_shop.run(definitions))
    small_shop.drop("2-evening", shop.EVENING)

    result = small_shop.run(definitions)

    assert result.success
    assert versions(result) == {name: [SECOND] for name in ["shop/landed/clicks", *TABLES]}
    assert sorted(observed(result)) == ["shop/landed/visits"]
    assert passed(result) == checks | {"dropped: few_records_are_dropped": True}  # the evening has no late click
    assert len(checks) == 22


def test_nothing_landed_at_all_is_no_increment_and_no_error(tmp_path, small_shop):
    (small_shop.root / "clicks" / "1-morning.jsonl").write_text("")

    result = small_shop.run()

    assert result.success
    assert versions(result) == {"shop/landed/clicks": [FIRST]}  # the first landing fixes the partitions
    assert numbers(observed(result)["shop/outputs/pages"], "nothing_new", "increment") == {
        "nothing_new": True,
        "increment": 0,
    }


def test_two_warehouses_with_a_pipeline_of_one_name_are_told_apart(small_shop):
    """Their assets have the same keys in one Dagster instance."""
    other = Shop(small_shop.root / "other", small_shop.instance)
    other.drop("1-morning", shop.MORNING)
    small_shop.run()
    small_shop.drop("2-evening", shop.EVENING)
    small_shop.run()

    first, again = other.run(), other.run()
    back = small_shop.run()

    assert versions(first) == {name: [FIRST] for name in ["shop/landed/clicks", *TABLES]}
    assert (versions(again), versions(back)) == ({}, {})
    pages = "pages: the_books_balance"
    checked = [evaluation_of(run, pages) for run in (first, again, back)]
    assert [numbers(each, "increment")["increment"] for each in checked] == [1, 1, 2]


def evaluation_of(result, name):
    return next(
        each for each in result.get_asset_check_evaluations() if f"{each.asset_key.path[-1]}: {each.check_name}" == name
    )


def test_every_increment_of_a_run_is_one_materialization(small_shop):
    result = small_shop.run(shop.definitions(small_shop.root, check_engine="plain", max_records=4))

    assert versions(result) == {"shop/landed/clicks": [FIRST]} | {name: [FIRST, SECOND] for name in TABLES}
    read = [numbers(each, "records_read")["records_read"] for each in told(result)["shop/outputs/sessions"]]
    assert read == [4, 2]


def test_a_bounded_run_runs_so_many_increments_however_many_sub_topologies_there_are(small_shop):
    bounded = shop.definitions(small_shop.root, check_engine="plain", max_records=2, increments=1)

    assert versions(small_shop.run(bounded))["shop/outputs/pages"] == [FIRST]
    assert versions(small_shop.run(bounded))["shop/outputs/pages"] == [SECOND]


def test_increments_that_the_command_line_ran_are_told_once_by_the_next_run(small_shop):
    small_shop.run()
    small_shop.drop("2-evening", shop.EVENING)
    small_shop.run(asset_selection=keys(["shop/landed/clicks"]))
    assert [report.increment for report in small_shop.replay(max_records=1)] == [2, 3]

    result = small_shop.run()

    assert versions(result) == {name: [SECOND, "increment-3-epoch-0"] for name in TABLES}
    assert sorted(observed(result)) == ["shop/landed/clicks"]


def test_history_from_before_dagster_looked_stays_in_the_ledger(small_shop):
    small_shop.run(asset_selection=keys(["shop/landed/clicks"]))
    assert len(small_shop.replay(max_records=2)) == 3

    assert versions(small_shop.run())["shop/outputs/pages"] == ["increment-3-epoch-0"]


def test_a_part_of_the_assets_runs_the_increment_whole_and_the_rest_tells_it_later(small_shop):
    small_shop.run()
    small_shop.drop("2-evening", shop.EVENING)

    part = small_shop.run(asset_selection=keys(["shop/landed/clicks", *SUB_TOPOLOGY_1]))
    rest = small_shop.run(asset_selection=keys(SUB_TOPOLOGY_0))

    assert versions(part) == {"shop/landed/clicks": [SECOND]} | {name: [SECOND] for name in SUB_TOPOLOGY_1}
    assert versions(rest) == {name: [SECOND] for name in SUB_TOPOLOGY_0}
    assert numbers(told(rest)["shop/outputs/sessions"][0], "records_read", "records_emitted") == {
        "records_read": 2,
        "records_emitted": 2,
    }


class FailingEngine(LocalEngine):
    """Fails the first ``failures`` runs of tasks; the count lies in a file, since a retry is a new step."""

    counter: str
    failures: int

    def runner(self, kafka_version=None):
        return FailingRunner(self.counter, self.failures)


class FailingRunner(LocalRunner):
    def __init__(self, counter, failures):
        super().__init__()
        self.counter, self.failures = counter, failures

    def run(self, topology, descriptions):
        with open(self.counter, "a+") as file:
            file.seek(0)
            failed = len(file.read())
            if failed < self.failures:
                file.write("x")
                raise TaskFailed("task 0_0", "to run to its end", "a machine that went away", "run it again")
        return super().run(topology, descriptions)


def test_a_retry_runs_the_planned_increment_and_tells_it_once(small_shop):
    engine = FailingEngine(counter=str(small_shop.root / "failures"), failures=1)
    definitions = shop.definitions(
        small_shop.root, engine=engine, check_engine="plain", retry_policy=dg.RetryPolicy(max_retries=1)
    )

    result = small_shop.run(definitions)

    assert result.success
    assert result.retry_attempts_for_node("shop_increments") == 1
    assert versions(result) == {name: [FIRST] for name in ["shop/landed/clicks", *TABLES]}


def test_an_error_fails_the_step_with_its_sentence_and_no_number_is_told(small_shop):
    engine = FailingEngine(counter=str(small_shop.root / "failures"), failures=9)

    result = small_shop.run(shop.definitions(small_shop.root, engine=engine, check_engine="plain"))

    assert not result.success
    failure = result.failure_data_for_node("shop_increments")
    sentence = "task 0_0: expected to run to its end, got a machine that went away; run it again"
    assert failure.user_failure_data.description == sentence
    assert failure.user_failure_data.metadata["next step"].value == "run it again"
    assert failure.user_failure_data.metadata["what to do"].value.startswith("A task died")
    assert sorted(versions(result)) == ["shop/landed/clicks"]


def test_a_bad_file_fails_the_landing_and_nothing_is_replayed(small_shop):
    (small_shop.root / "clicks" / "2-broken.jsonl").write_text(json.dumps({"user": "ann"}) + "\n")

    result = small_shop.run()

    assert not result.success
    assert "2-broken.jsonl" in result.failure_data_for_node("shop_increments").user_failure_data.description
    assert told(result) == {}


def test_a_topic_without_a_source_is_external_and_is_observed_when_it_is_read(small_shop):
    small_shop.run(asset_selection=keys(["shop/landed/clicks"]))
    definitions = shop.definitions(small_shop.root, sources={}, check_engine="plain")

    result = small_shop.run(definitions)

    assert result.success
    assert not definitions.resolve_asset_graph().get(dg.AssetKey(["shop", "landed", "clicks"])).is_materializable
    assert sorted(versions(result)) == sorted(TABLES)
    (observation,) = [event.asset_observation_data.asset_observation for event in result.get_asset_observation_events()]
    assert observation.asset_key == dg.AssetKey(["shop", "landed", "clicks"])
    assert observation.tags["dagster/data_version"] == FIRST


def test_definitions_of_two_pipelines_on_one_topic_can_be_merged(tmp_path):
    shop.drop_files(tmp_path / "clicks", "1", shop.MORNING)
    settings = {"warehouse": tmp_path / "w", "sources": {"clicks": shop.source(tmp_path / "clicks")}}
    definitions = dg.Definitions.merge(
        replay_definitions(shop.topology(), pipeline="shop", **settings),
        replay_definitions(shop.topology(), pipeline="shop.two-b", cron="0 4 * * *", **settings),
    )

    dg.Definitions.validate_loadable(definitions)

    names = {job.name for job in definitions.resolve_all_job_defs() if not job.name.startswith("__")}
    assert names == {"shop_replay", "shop_two_b_replay"}
