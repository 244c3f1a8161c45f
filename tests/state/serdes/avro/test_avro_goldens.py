"""Bytes and values are those of Apache Avro's Java library, 1.12.1 (tests/jvm/avro_goldens.py asks it)."""

import datetime
import json
import struct
import uuid
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.serdes import Serde
from kstreams_replay.state.serdes.avro.avro_codec import AvroCodec, program, schema_text
from kstreams_replay.state.serdes.avro.decoding import unreadable

GOLDENS = [
    json.loads(line) for line in Path(__file__).with_name("goldens.jsonl").read_text(encoding="utf-8").splitlines()
]
REFUSED = {"a decimal of no bytes"}
"""Java's reader gives the bytes, of which its DecimalConversion then makes an error."""
UNLIKE = {
    "a decimal behind a sign's bytes": "it has more bytes than its number needs, as BigDecimal never writes",
    "a decimal of no bytes": "it is none",
    "null out of a union": "a null is a tombstone, which has no bytes",
    "a recursive field that the reader does not want": "no column can hold what was written",
}
"""What no value of ours is written as."""
_EXACT = Context(prec=60)
_EPOCH = datetime.datetime(1970, 1, 1)


def seen(value: Any, schema: Any, names: dict[str, Any]) -> Any:
    """Avro's JSON encoding of a value as a callable of the DSL sees it."""
    if isinstance(schema, str) and schema in names:
        schema = names[schema]
    if isinstance(schema, list):
        return _branch(value, schema, names)
    kind = schema if isinstance(schema, str) else schema["type"]
    if isinstance(kind, dict | list):
        return seen(value, kind, names)
    if isinstance(schema, dict) and "name" in schema:
        names[_full(schema)] = names[schema["name"]] = schema
    if kind == "record":
        return {field["name"]: seen(value[field["name"]], field["type"], names) for field in schema["fields"]}
    if kind == "array":
        return [seen(one, schema["items"], names) for one in value]
    if kind == "map":
        return {key: seen(one, schema["values"], names) for key, one in value.items()}
    if kind == "float":
        return float(np.float32(value))
    return _logical(value, kind, schema if isinstance(schema, dict) else {})


def _full(schema: dict[str, Any]) -> str:
    return f"{schema['namespace']}.{schema['name']}" if "namespace" in schema else str(schema["name"])


def _branch(value: Any, schema: list[Any], names: dict[str, Any]) -> Any:
    branches = {}
    for one in schema:
        if isinstance(one, str):
            branches[one] = one
        elif "name" in one:
            branches[_full(one)] = one
        else:
            branches[one["type"]] = one
    branches.pop("null", None)
    if value is None:
        return None
    ((tag, inner),) = value.items()
    found = seen(inner, branches[tag], names)
    if len(branches) == 1:
        return found
    short = {name: name.rpartition(".")[2] for name in branches}
    are_unique = len(set(short.values())) == len(short)
    return {short[name] if are_unique else name: found if name == tag else None for name in branches}


def _logical(value: Any, kind: str, schema: dict[str, Any]) -> Any:
    logical = schema.get("logicalType")
    if kind in ("bytes", "fixed"):
        value = value.encode("latin-1")
    if logical == "decimal":
        return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-schema["scale"], _EXACT)
    if logical == "duration":
        return dict(zip(("months", "days", "millis"), struct.unpack("<III", value), strict=True))
    if logical == "uuid" and kind == "fixed":
        return str(uuid.UUID(bytes=value))
    if logical == "date":
        return (_EPOCH + datetime.timedelta(days=value)).date()
    if logical is None or logical == "uuid":
        return value
    moment = _EPOCH + datetime.timedelta(microseconds=value * (1000 if logical.endswith("millis") else 1))
    if logical.startswith("time-"):
        return moment.time()
    return moment if logical.startswith("local") else moment.replace(tzinfo=datetime.UTC)


def test_every_golden_is_read_as_java_reads_it():
    different = []
    for golden in GOLDENS:
        got, is_refused = _read(golden), "error" in golden or golden["name"] in REFUSED
        want = "refused" if is_refused else seen(golden["value"], golden["reader"], {})
        if got != want:
            different.append(f"{golden['name']}: got {got!r}, want {want!r}: {json.dumps(golden)}")

    assert different == []


def _read(golden: dict[str, Any]) -> Any:
    reader, writer = schema_text(golden["reader"]), schema_text(golden["writer"])
    if unreadable(program(writer, reader)) is not None:
        with pytest.raises(ConfigError):
            AvroCodec(reader, writer)
        return "refused"
    codec = AvroCodec(reader, writer)
    decoded = codec.decode(pa.array([bytes.fromhex(golden["bytes"])], pa.binary()))
    decoded.values.validate(full=True)
    return "refused" if decoded.bad[0] else codec.to_python(decoded.values)[0]


def test_every_golden_is_written_as_java_writes_it():
    different = []
    for golden in GOLDENS:
        if "datum" not in golden or golden["name"] in UNLIKE:
            continue
        serde = Serde.avro(golden["writer"])
        value = seen(golden["datum"], golden["writer"], {})
        got = serde.encode(serde.from_python([value]))[0].as_py().hex()
        if got != golden["bytes"]:
            different.append(f"{golden['name']}: got {got}, want {golden['bytes']}")

    assert different == []
