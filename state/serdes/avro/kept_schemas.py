"""A registry's schemas, kept as files, so that a replay needs no registry.

Owns the folder, ``schemas`` of the warehouse by custom: a file an id, ``7.json``, with the schema's text and those that
it names. Rule: an id is one schema for ever, so a file is written once; one that says something else is of another
registry, and refused.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...errors import ConfigError
from .avro_codec import schema_text

_FORMAT = "kept-schema 1"


def keep_schemas(
    client: Any, folder: Path | str, *, subjects: Iterable[str] = (), ids: Iterable[int] = ()
) -> dict[int, str]:
    """Ask a registry for all versions of ``subjects``, and for ``ids``, and keep what is not kept yet; all that is kept
    then, as ``kept_schemas``.

    ``client``: confluent-kafka's ``SchemaRegistryClient``. Raises ConfigError for a schema that is no Avro, and for an
    id that is kept as another schema; the client's errors go through.

        keep_schemas(SchemaRegistryClient({"url": url}), warehouse / "schemas", subjects=["orders-key", "orders-value"])
    """
    schemas: dict[int, Any] = {one: client.get_schema(one) for one in ids}
    for subject in subjects:
        for version in client.get_versions(subject):
            registered = client.get_version(subject, version)
            schemas[registered.schema_id] = registered.schema
    kept = Path(folder)
    kept.mkdir(parents=True, exist_ok=True)
    for one, schema in sorted(schemas.items()):
        if (schema.schema_type or "AVRO") != "AVRO":
            raise ConfigError(f"schema {one}", "a schema of Avro", schema.schema_type, "leave its subject out")
        _keep(kept, one, {"schema": schema.schema_str, "references": referenced_texts(client, schema)})
    return kept_schemas(kept)


def referenced_texts(client: Any, schema: Any) -> list[str]:
    """Texts of the schemas that it names, each once and after those that it names itself."""
    texts: list[str] = []
    for one in schema.references or []:
        named = client.get_version(one.subject, one.version).schema
        texts += [text for text in (*referenced_texts(client, named), named.schema_str) if text not in texts]
    return texts


def _keep(folder: Path, one: int, content: dict[str, Any]) -> None:
    schema_text(content["schema"], tuple(content["references"]))
    path = folder / f"{one}.json"
    if path.exists():
        if (known := _read(path)) != _text(content):
            got, next_step = (
                f"{_text(content)}, but {path} has {known}",
                "keep each registry's schemas in a folder of its own",
            )
            raise ConfigError(f"schema {one}", "the schema that is kept by this id", got, next_step)
        return
    # Renamed when it is whole: ``kept_schemas`` in another process reads every ``*.json`` of the folder.
    written = path.with_suffix(f".{os.getpid()}.part")
    written.write_text(json.dumps({"format": _FORMAT, "id": one} | content, indent=1), encoding="utf-8")
    written.replace(path)


def kept_schemas(folder: Path | str) -> dict[int, str]:
    """Schemas that are kept, by id: what ``Serde.confluent_avro`` takes as ``ids``. Raises ConfigError for a folder
    that is not there, and for a file that is no kept schema.

        Serde.confluent_avro(Path("order.avsc"), ids=kept_schemas("warehouse/schemas"))
    """
    kept = Path(folder)
    if not kept.is_dir():
        raise ConfigError("kept schemas", "a folder", f"{folder}, which is none", "keep_schemas() makes one")
    return {int(path.stem): _read(path) for path in sorted(kept.glob("*.json"), key=lambda path: path.name)}


def _read(path: Path) -> str:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["format"] != _FORMAT or path.name != f"{kept['id']}.json":
            raise ValueError(f"{kept['format']}, id {kept['id']}")
        return _text(kept)
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ConfigError(f"{path}", "a schema that keep_schemas() wrote", f"{error}", "keep it again") from error


def _text(content: dict[str, Any]) -> str:
    return schema_text(content["schema"], tuple(content["references"]))
