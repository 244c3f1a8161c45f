"""Names that a translator gives, topics that two pipelines share, and places that are environment variables."""

import pickle
from types import SimpleNamespace

import cloudpickle
import dagster as dg
import pytest

from kstreams_replay.jobs.landing.landing import FileSource, LakeSource
from kstreams_replay.jobs.topology import Materialized, StreamsBuilder, Suppressed, TimeWindows
from kstreams_replay.orchestration.definitions import replay_definitions
from kstreams_replay.orchestration.pipeline import Pipeline
from kstreams_replay.orchestration.resources import LocalEngine
from kstreams_replay.orchestration.settings.connections import (
    FilesResource,
    KafkaResource,
    LakeResource,
    LandedBy,
    WarehouseResource,
)
from kstreams_replay.orchestration.settings.topology_loading import load_topology
from kstreams_replay.orchestration.settings.translator import ReplayTranslator
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.clicks import CLICKS, final_page_counts
from tests.dagster import shop
from tests.dagster.conftest import told, versions

pytestmark = pytest.mark.sampled

WEB = ReplayTranslator(
    key_prefix=("prod",),
    group="web",
    owners=("team:web", "ann@example.test"),
    tags={"tier": "gold"},
    kinds=("kafkastreams",),
    descriptions={"pages": "How often each page was seen.", "landed/clicks": "Clicks of the shop."},
)


def nodes_of(definitions: dg.Definitions) -> dict[str, dg.AssetSpec]:
    return {spec.key.to_user_string(): spec for spec in definitions.resolve_all_asset_specs()}


def test_a_translator_says_key_group_owners_tags_kinds_and_words(tmp_path):
    specs = nodes_of(shop.definitions(tmp_path, translator=WEB))

    pages = specs["prod/shop/outputs/pages"]
    assert pages.description == "How often each page was seen."
    assert pages.group_name == "web"
    assert list(pages.owners) == ["team:web", "ann@example.test"]
    assert pages.tags["tier"] == "gold"
    assert pages.kinds == {"python", "deltalake", "kafkastreams"}
    assert [dep.asset_key.to_user_string() for dep in pages.deps] == ["prod/shop/state/held-pages-store"]
    assert specs["prod/shop/landed/clicks"].description == "Clicks of the shop."
    assert all(name.startswith("prod/shop/") for name in specs)


def test_stores_that_the_topology_does_not_name_stand_in_a_group_of_their_own_with_their_step(tmp_path):
    builder = StreamsBuilder()
    pages = builder.stream("clicks", CLICKS).group_by("page").windowed_by(TimeWindows.of_size("1h"))
    pages.count(Materialized.as_("hours")).suppress(Suppressed.until_window_closes()).to("counts")
    translator = ReplayTranslator(group="web", internal_group="inside")

    specs = nodes_of(shop.definitions(tmp_path, topology=builder.build(), translator=translator))

    inside = {key: spec for key, spec in specs.items() if spec.group_name == "inside"}
    (key,) = inside
    assert key.startswith("shop/state/KTABLE-SUPPRESS-STATE-STORE-")
    assert {spec.group_name for key, spec in specs.items() if key not in inside} == {"web"}
    said = "Kafka Streams gave the name; the step is `suppress`, of state/hours."
    assert [spec.description for spec in specs.values() if said in (spec.description or "")] == [
        spec.description for spec in inside.values()
    ]


def test_without_a_group_for_them_all_tables_stand_together(tmp_path):
    specs = nodes_of(shop.definitions(tmp_path, topology=shop.final_counts_by_page()))

    assert {spec.group_name for spec in specs.values()} == {"shop"}


def test_a_translated_pipeline_runs_and_its_checks_find_their_assets(small_shop):
    definitions = shop.definitions(small_shop.root, check_engine="plain", translator=WEB)

    result = small_shop.run(definitions)

    assert result.success
    assert "prod/shop/outputs/pages" in told(result)
    checked = {each.asset_key.to_user_string() for each in result.get_asset_check_evaluations()}
    assert {"prod/shop/outputs/pages", "prod/shop/landed/clicks"} <= checked
    assert told(small_shop.run(definitions)) == {}  # what was told is found again under the translated keys


class Flat(ReplayTranslator):
    """Every table by its last name alone."""

    def get_asset_key(self, pipeline, table):
        return dg.AssetKey(["shop", "tables" if table.startswith("state/") else table])


def test_two_tables_of_one_key_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="shop/tables for state/open-sessions, state/held-sessions-store"):
        shop.definitions(tmp_path, translator=Flat())


def pages_alone():
    """Another pipeline over the shop's clicks."""
    builder = StreamsBuilder()
    final_page_counts(builder.stream("clicks", CLICKS), store="open-pages", held="held-pages").to("pages")
    return builder.build()


def test_two_pipelines_that_share_a_landed_topic_have_one_asset_of_it(small_shop):
    second = replay_definitions(
        pages_alone(), pipeline="report", warehouse=small_shop.warehouse, engine=LocalEngine(), check_engine="plain",
        sources={"clicks": LandedBy("shop")},
    )  # fmt: skip
    first = shop.definitions(small_shop.root, check_engine="plain")

    merged = dg.Definitions.merge(first, second)

    graph = merged.resolve_asset_graph()
    landed = [key.to_user_string() for key in graph.get_all_asset_keys() if "landed" in key.path]
    assert landed == ["shop/landed/clicks"]
    children = {key.to_user_string() for key in graph.get(dg.AssetKey(["shop", "landed", "clicks"])).child_keys}
    assert {"report/repartition/open-pages-repartition", "shop/repartition/open-pages-repartition"} <= children
    assert small_shop.run(merged).success
    job = merged.resolve_job_def("report_replay")
    result = job.execute_in_process(instance=small_shop.instance)
    assert versions(result)["report/outputs/pages"] == ["increment-1-epoch-0"]
    assert not [name for name in versions(result) if "landed" in name]


def test_places_are_read_from_the_environment_when_a_run_begins(small_shop, monkeypatch):
    for name in ("SHOP_WAREHOUSE", "SHOP_CLICKS"):
        monkeypatch.delenv(name, raising=False)
    definitions = replay_definitions(
        shop.topology(), pipeline="shop", warehouse=WarehouseResource(root=dg.EnvVar("SHOP_WAREHOUSE")),
        sources={"clicks": FilesResource(path=dg.EnvVar("SHOP_CLICKS"), format="jsonl", timestamp="ms", key="user")},
        engine=LocalEngine(), check_engine="plain", cron="0 4 * * *",
    )  # fmt: skip
    assert {"shop_engine", "shop_warehouse", "shop_source_clicks"} <= set(definitions.resources)
    assert nodes_of(definitions)["shop/landed/clicks"].kinds == {"python", "deltalake", "json"}

    monkeypatch.setenv("SHOP_WAREHOUSE", small_shop.warehouse.root)
    monkeypatch.setenv("SHOP_CLICKS", str(small_shop.root / "clicks"))
    result = small_shop.run(definitions)

    assert result.success
    assert told(result)["shop/outputs/pages"][0].metadata["dagster/table_name"].value == (
        f"{small_shop.warehouse.root}/shop/outputs/pages"
    )
    assert small_shop.replay() == []  # it is the same warehouse


def test_a_runs_config_may_name_another_folder(small_shop):
    elsewhere = FilesResource(path=str(small_shop.root / "nowhere"), format="jsonl", timestamp="ms", key="user")
    definitions = shop.definitions(small_shop.root, check_engine="plain", sources={"clicks": elsewhere})
    here = {"path": str(small_shop.root / "clicks"), "format": "jsonl", "timestamp": "ms", "key": "user"}

    result = small_shop.run(definitions, run_config={"resources": {"shop_source_clicks": {"config": here}}})

    assert result.success
    assert told(result)["shop/landed/clicks"][0].metadata["records_read"].value == 6


def test_a_resource_says_all_that_its_source_says():
    files = FilesResource(path="in", timestamp="ms", value=["page", "user"], types={"ms": "long"}, nulls=["-"])
    assert files.source() == FileSource(
        "in", timestamp="ms", value=("page", "user"), types={"ms": "long"}, nulls=("-",)
    )
    assert FilesResource(path="in", timestamp="ms", value=["page"]).source().value == "page"
    of_a_serde = {"json_types", "key_json_types"}  # the serdes say it (jobs/landing/serde_mapping.py)
    assert set(FilesResource.model_fields) == set(FileSource.__dataclass_fields__) - of_a_serde
    lake = LakeResource(iceberg="c.ns.t", value=["page"], catalog={"uri": "u"})
    assert lake.source() == LakeSource(iceberg="c.ns.t", value="page", catalog={"uri": "u"})
    assert set(LakeResource.model_fields) == set(LakeSource.__dataclass_fields__)


def test_a_variable_that_is_not_set_is_named(monkeypatch):
    monkeypatch.delenv("SHOP_BROKER", raising=False)
    kafka = KafkaResource(bootstrap_servers=dg.EnvVar("SHOP_BROKER"))

    with pytest.raises(ConfigError, match="a value of the environment variable SHOP_BROKER, got none; set SHOP_BROKER"):
        kafka.source()
    monkeypatch.setenv("SHOP_BROKER", "broker:9092")
    assert kafka.source().bootstrap_servers == "broker:9092"


@pytest.mark.parametrize("other", [FilesResource, FileSource])
def test_topics_whose_names_differ_in_a_dash_alone_are_each_landed_from_their_own_folder(tmp_path, other):
    sources = {
        "orders-eu": FilesResource(path="/in/dash", timestamp="ms"),
        "orders_eu": other(path="/in/underscore", timestamp="ms"),
        "orders.eu": FilesResource(path="/in/dot", timestamp="ms"),
    }
    pipeline = Pipeline(
        "shop", topology=shop.topology(), storage=Warehouse(tmp_path), engine=LocalEngine(), sources=sources
    )

    ran = pipeline.in_run(SimpleNamespace(**pipeline.resources))

    assert {topic: source.path for topic, source in ran.sources.items()} == {
        "orders-eu": "/in/dash", "orders_eu": "/in/underscore", "orders.eu": "/in/dot",
    }  # fmt: skip
    assert ("shop_source_orders_eu" in pipeline.resources) == (other is FilesResource)


PAGES = """\
from kstreams_replay import Consumed, Serde, StreamsBuilder

SERDES = Consumed(Serde.string(), Serde.json("page string, ms long"))


def homes(clicks):
    return clicks.filter(
        "page = 'home'"
    )


def topology():
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", SERDES)
    (
        homes(clicks)
        .map_values("page", returns=Serde.string())
        .to("homes")
    )
    clicks.group_by_key().count().to_stream().to("counts")
    return builder.build()
"""


@pytest.fixture
def pages_file(tmp_path):
    file = tmp_path / "flows" / "pages.py"
    file.parent.mkdir()
    file.write_text(PAGES)
    return file


def lines_of(file, *words):
    """Numbers of the lines that have ``words``."""
    lines = file.read_text().splitlines()
    return [1 + next(number for number, line in enumerate(lines) if word in line) for word in words]


def code_of(definitions, table):
    """Dagster's code references of an asset, as file and line."""
    references = nodes_of(definitions)[f"shop/{table}"].metadata["dagster/code_references"].code_references
    return [(reference.file_path, reference.line_number) for reference in references]


def test_an_asset_leads_to_the_calls_that_make_it_and_to_their_functions(tmp_path, pages_file):
    definitions = shop.definitions(tmp_path, topology=load_topology(f"{pages_file}:topology"))

    got = {table: code_of(definitions, table) for table in ("outputs/homes", "landed/clicks", "dropped")}

    to, map_values, filter_, begin, homes = lines_of(
        pages_file, '.to("homes")', ".map_values", "clicks.filter", "def topology", "def homes"
    )
    (stream,) = lines_of(pages_file, "builder.stream")
    want = {
        "outputs/homes": [to, map_values, filter_, begin, homes],
        "landed/clicks": [stream, begin],
        "dropped": [begin, homes],
    }
    assert got == {table: [(str(pages_file), line) for line in lines] for table, lines in want.items()}


def test_dagster_links_the_code_to_the_lines_in_git(tmp_path, pages_file):
    definitions = shop.definitions(tmp_path, topology=load_topology(f"{pages_file}:topology"))
    place = dg.AnchorBasedFilePathMapping(pages_file, "flows/pages.py")

    linked = dg.link_code_references_to_git(
        list(definitions.assets or ()), "http://localhost/shop", "main", place, platform="github"
    )

    specs = nodes_of(dg.Definitions(assets=linked, resources=definitions.resources))
    links = specs["shop/outputs/counts"].metadata["dagster/code_references"].code_references
    (line,) = lines_of(pages_file, '.to("counts")')
    assert links[0].url == f"http://localhost/shop/tree/main/flows/pages.py#L{line}"


def test_a_topology_that_came_from_another_process_has_no_code_to_lead_to(tmp_path):
    elsewhere = pickle.loads(cloudpickle.dumps(shop.topology()))

    specs = nodes_of(shop.definitions(tmp_path, topology=elsewhere))

    assert not [key for key, spec in specs.items() if "dagster/code_references" in spec.metadata]


def test_two_outputs_whose_names_differ_in_case_are_two_assets(small_shop):
    """Where the file system keeps such names apart (docs/limits.md)."""
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", CLICKS)
    clicks.filter("page = 'help'").to("b1")
    clicks.filter("page <> 'help'").to("B1")

    result = small_shop.run(shop.definitions(small_shop.root, topology=builder.build(), check_engine="plain"))

    emitted = {key: each.metadata["records_emitted"].value for key, (each,) in told(result).items() if "outputs" in key}
    assert emitted == {"shop/outputs/b1": 1, "shop/outputs/B1": 5}
    checked = {each.asset_key.path[-1] for each in result.get_asset_check_evaluations() if each.passed}
    assert {"b1", "B1"} <= checked
