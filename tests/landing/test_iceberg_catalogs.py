"""What the metadata of an Iceberg table may not decide: code that is imported, and where a catalog's credentials go."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.published_iceberg import publish_iceberg
from kstreams_replay.jobs.landing.lake.iceberg_catalogs import open_catalog
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.landing.lake_tables import in_order, land, records_of, redpanda_rows, rows
from tests.landing.rest_catalog import rest_catalog
from tests.landing.test_lake_iceberg import Lake
from tests.planted import LandedRecord, plant

CODE = "planted_in_metadata"
HOSTILE = {
    "py-io-impl": f"{CODE}.Planted", "write.py-location-provider.impl": f"{CODE}.Planted",
    "s3.endpoint": "http://localhost:1", "gcs.service.host": "http://localhost:1",
}  # fmt: skip


@pytest.fixture(autouse=True)
def planted(tmp_path, monkeypatch) -> None:
    """A module that Python finds, and that nothing may import."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / f"{CODE}.py").write_text("class Planted:\n    def __init__(self, *given): pass\n")
    monkeypatch.syspath_prepend(str(tmp_path / "path"))
    monkeypatch.delitem(sys.modules, CODE, raising=False)


def say_in_metadata(table: Table, **said: str) -> None:
    """As somebody does who may write the table's folder, and has no part in its catalog."""
    file = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(file.read_text())
    metadata.setdefault("properties", {}).update(said)
    file.write_text(json.dumps(metadata))


def test_a_table_whose_metadata_name_code_lands_and_nothing_is_imported(tmp_path):
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    with Lake(tmp_path / "lake", warehouse) as lake:
        say_in_metadata(lake.create(redpanda_rows(rows(0, 10))), **HOSTILE)

        lake.land()

    assert records_of(warehouse) == in_order(rows(0, 10))
    assert CODE not in sys.modules


def test_metadata_do_not_say_to_whom_a_catalogs_credentials_are_sent(tmp_path):
    own = {"s3.endpoint": "http://localhost:2", "gcs.oauth2.token": "a token"}
    with Lake(tmp_path / "lake", Warehouse(str(tmp_path / "warehouse"))) as lake:
        say_in_metadata(lake.create(redpanda_rows(rows(0, 10))), **HOSTILE)
        opened: Catalog = open_catalog("lake", {**lake.properties, **own})

        got = opened.load_table("shop.clicks").io.properties

    assert {name: value for name, value in got.items() if name not in lake.properties} == own


def test_a_rest_catalog_that_hands_on_such_a_table_imports_nothing_either(tmp_path, monkeypatch):
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    with rest_catalog(tmp_path / "rest") as rest:
        rest.kept.create_namespace("shop")
        table = redpanda_rows(rows(0, 10))
        rest.kept.create_table("shop.clicks", schema=table.schema).append(table)
        answer = rest.answer

        def hostile(*asked: Any) -> tuple[int, str]:
            code, text = answer(*asked)
            said = json.loads(text)
            if "metadata" in said:
                said["metadata"]["properties"] |= HOSTILE
            return code, json.dumps(said)

        monkeypatch.setattr(rest, "answer", hostile)
        land(warehouse, iceberg="lake.shop.clicks", catalog=rest.properties)

    assert records_of(warehouse) == in_order(rows(0, 10))
    assert CODE not in sys.modules


def test_into_a_table_whose_metadata_name_code_nothing_is_published(tmp_path):
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serde.string(), Serde.string())).to("out")
    plant(warehouse, "in", [LandedRecord(0, b"a", b"x", 1)], partitions=1)
    list(replay(warehouse, builder.build(), pipeline="p", runner=LocalRunner()))
    with Lake(tmp_path / "lake", warehouse) as lake:
        publish_iceberg(warehouse, "p", "lake", properties=lake.properties)
        say_in_metadata(lake.catalog.load_table("p.out"), **HOSTILE)

        with pytest.raises(ConfigError) as caught:
            publish_iceberg(warehouse, "p", "lake", properties=lake.properties)

    assert str(caught.value) == (
        "Iceberg table p.out: expected a table whose metadata name no code, got its property "
        "write.py-location-provider.impl; take the property away, or publish into another --namespace"
    )
    assert CODE not in sys.modules
