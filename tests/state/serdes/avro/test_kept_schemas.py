"""Schemas of a registry, asked by its own client over HTTP, and kept so that a replay needs no registry."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.serdes import Serde
from kstreams_replay.state.serdes.avro import keep_schemas, kept_schemas

MONEY = '{"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "long"}]}'
OLD = '{"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}]}'
NEW = (
    '{"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}, '
    '{"name": "price", "type": ["null", "Money"], "default": null}]}'
)
SUBJECTS: dict[str, list[dict[str, Any]]] = {
    "money": [{"id": 4, "schema": MONEY}],
    "orders-value": [
        {"id": 7, "schema": OLD},
        {"id": 12, "schema": NEW, "references": [{"name": "Money", "subject": "money", "version": 1}]},
    ],
    "orders-key": [{"id": 2, "schema": '"string"'}],
    "carts-value": [{"id": 30, "schema": "message Cart {}", "schemaType": "PROTOBUF"}],
}


def answer(path: str, subjects: dict[str, list[dict[str, Any]]]) -> Any:
    """What a registry says of the paths that are asked here; None: it does not know."""
    parts = path.partition("?")[0].strip("/").split("/")
    if parts[:2] == ["schemas", "ids"]:
        known = [one for versions in subjects.values() for one in versions if one["id"] == int(parts[2])]
        return known[0] if known else None
    versions = subjects.get(parts[1], [])
    if len(parts) == 3:
        return list(range(1, len(versions) + 1))
    return versions[int(parts[3]) - 1] | {"subject": parts[1], "version": int(parts[3])}


@contextmanager
def registry(subjects: dict[str, list[dict[str, Any]]]) -> Iterator[SchemaRegistryClient]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answer(self.path, subjects)
            said = json.dumps({"error_code": 40403, "message": "Schema not found"} if found is None else found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield SchemaRegistryClient({"url": f"http://127.0.0.1:{server.server_port}"})
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_topics_schemas_are_kept_with_what_they_name_and_read_without_the_registry(tmp_path):
    with registry(SUBJECTS) as client:
        keep_schemas(client, tmp_path / "schemas", subjects=["orders-key", "orders-value"])
        keep_schemas(client, tmp_path / "schemas", ids=[4])

    kept = kept_schemas(tmp_path / "schemas")
    serde = Serde.confluent_avro(kept[12], ids=kept)
    decoded = serde.decode(pa.array([b"\0\0\0\0\x07\x06tea", b"\0\0\0\0\x0c\x06tea\x02\x04"], pa.binary()))

    assert sorted(kept) == [2, 4, 7, 12]
    assert decoded.values.to_pylist() == [{"item": "tea", "price": None}, {"item": "tea", "price": {"cents": 2}}]


@pytest.mark.slow
def test_an_id_of_another_schema_is_of_another_registry(tmp_path):
    with registry(SUBJECTS) as client:
        keep_schemas(client, tmp_path, subjects=["money"])
    other = {"money": [{"id": 4, "schema": OLD}]}

    with registry(other) as client, pytest.raises(ConfigError, match="keep each registry's schemas in a folder of its"):
        keep_schemas(client, tmp_path, subjects=["money"])


def test_an_id_that_the_registry_has_not_and_a_schema_that_is_no_avro_are_refused(tmp_path):
    with registry(SUBJECTS) as client:
        with pytest.raises(SchemaRegistryError):
            keep_schemas(client, tmp_path, ids=[99])
        with pytest.raises(ConfigError, match="schema 30: expected a schema of Avro, got PROTOBUF"):
            keep_schemas(client, tmp_path, subjects=["carts-value"])


@pytest.mark.parametrize("text", ["{", "{}", '{"format": "kept-schema 2", "id": 7}'])
def test_a_file_that_is_no_kept_schema_is_named(tmp_path, text):
    (tmp_path / "7.json").write_text(text)

    with pytest.raises(ConfigError, match=r"7\.json: expected a schema that keep_schemas\(\) wrote"):
        kept_schemas(tmp_path)


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="kept schemas: expected a folder"):
        kept_schemas(tmp_path / "none")


@pytest.mark.slow
def test_what_was_kept_stays_as_it_is(tmp_path: Path):
    with registry(SUBJECTS) as client:
        keep_schemas(client, tmp_path, subjects=["orders-value"])
        before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()}
        keep_schemas(client, tmp_path, subjects=["orders-value"])

    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()} == before
