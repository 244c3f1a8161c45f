"""A REST catalog of Iceberg for tests: routes of its specification, answered from a catalog that is one file.

Rule: requests are parsed and answers are written by PyIceberg's models, and nothing else is done here.
Iceberg's own client in Java is asked to read from it too, so it is not PyIceberg alone that understands it.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

from pyiceberg.catalog.rest import TableResponse
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, Table

Answer = tuple[int, str]
_CODES = {
    NoSuchNamespaceError: 404,
    NoSuchTableError: 404,
    NamespaceAlreadyExistsError: 409,
    TableAlreadyExistsError: 409,
    CommitFailedException: 409,
}


@dataclass
class RestCatalog:
    """``uri``, and the ``token`` without which nobody gets an answer; ``kept``: what it answers from."""

    uri: str
    token: str
    kept: SqlCatalog

    @property
    def properties(self) -> dict[str, str]:
        """Of PyIceberg, for this catalog."""
        return {"type": "rest", "uri": self.uri, "token": self.token}

    def answer(self, method: str, path: str, body: bytes) -> Answer:
        """Status and body."""
        match method, [unquote(part) for part in path.strip("/").split("/")[1:]]:
            case "GET", ["config"]:
                return 200, json.dumps({"defaults": {}, "overrides": {}})
            case "POST", ["namespaces"]:
                given = json.loads(body)
                self.kept.create_namespace(tuple(given["namespace"]))
                return 200, json.dumps({"namespace": given["namespace"], "properties": {}})
            case "GET", ["namespaces", namespace]:
                properties = self.kept.load_namespace_properties(namespace)
                return 200, json.dumps({"namespace": [namespace], "properties": properties})
            case "POST", ["namespaces", namespace, "tables"]:
                given = json.loads(body)
                schema = Schema.model_validate(given["schema"])
                name = namespace, given["name"]
                return _answer_of(self.kept.create_table(name, schema, properties=given["properties"]))
            case "GET", ["namespaces", namespace, "tables", table]:
                return _answer_of(self.kept.load_table((namespace, table)))
            case "POST", ["namespaces", namespace, "tables", table]:
                change = CommitTableRequest.model_validate_json(body)
                there = self.kept.load_table((namespace, table))
                done = self.kept.commit_table(there, change.requirements, change.updates)
                return 200, done.model_dump_json(by_alias=True)
            case "POST", ["namespaces", _, "tables", _, "metrics"]:
                return 204, ""
        return 404, _error(404, "NoSuchRouteException", f"{method} {path}")


@contextmanager
def rest_catalog(folder: Path, token: str = "let-me-in") -> Iterator[RestCatalog]:
    """One on a free port, whose tables' metadata are in ``folder``."""
    folder.mkdir()
    kept = SqlCatalog("kept", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = urlsplit(self.path).path
            if self.headers.get("Authorization") != f"Bearer {token}":
                code, text = 401, _error(401, "NotAuthorizedException", "no such token")
            else:
                code, text = _guarded(lambda: catalog.answer(self.command, path, sent))
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        catalog = RestCatalog(f"http://127.0.0.1:{server.server_port}", token, kept)
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield catalog
        finally:
            server.shutdown()
            kept.engine.dispose()


def _guarded(answer: Callable[[], Answer]) -> Answer:
    try:
        return answer()
    except tuple(_CODES) as error:
        return _CODES[type(error)], _error(_CODES[type(error)], type(error).__name__, str(error))


def _answer_of(table: Table) -> Answer:
    answer = TableResponse(metadata=table.metadata, **{"metadata-location": table.metadata_location})
    return 200, answer.model_dump_json(by_alias=True, exclude_none=True)


def _error(code: int, kind: str, message: str) -> str:
    return json.dumps({"error": {"code": code, "type": kind, "message": message}})
