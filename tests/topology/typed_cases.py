"""A value of each type by each serde: its bytes, as a Kafka client writes them, and what Python, steps and tables see.

All of it is written by hand. ``TypedCase.data`` are the bytes of Kafka's serializers, of Avro's and Protocol Buffers'
specifications, or JSON text.
"""

import datetime as dt
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

from kstreams_replay.jobs.functions.expressions import Windowed
from kstreams_replay.jobs.topology import Serde

STRING = Serde.string()
_SAME: Any = object()


@dataclass(frozen=True)
class TypedCase:
    """``value``: in Python; ``seen``: what an expression gives of it; ``stored``: what a table and SQL have.

    ``field``: what an expression calls it, ``value`` where it is the whole value, "" where that has fields of its own.
    """

    serde: Serde
    data: bytes | None
    value: Any
    seen: Any = _SAME
    stored: Any = _SAME
    field: str = "value"

    def of(self, name: str) -> Any:
        found = getattr(self, name)
        return found if found is not _SAME else self.value if name == "seen" else self.of("seen")

    def folded(self) -> tuple[str, Any]:
        """A step of it for a fold, and what that gives."""
        if self.field:
            return self.field, self.of("seen")
        return next(iter(self.value.items())) if isinstance(self.value, dict) else ("value", self.of("stored"))


ONE = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
ONE_TEXT = b"01234567-89ab-cdef-0123-456789abcdef"
DAY = dt.date(2026, 11, 24)
AT, AT_MICROS = dt.time(1, 2, 3, 4), 3_723_000_004
AT_MS, AT_MS_MICROS = dt.time(1, 2, 3, 4000), 3_723_004_000
LOCAL = dt.datetime(2026, 11, 24, 1)
INSTANT = LOCAL.replace(tzinfo=dt.UTC)
A_AND_B = {"a": 1, "b": None}
PAIRS = [("a", 1), ("b", None)]

JSON: dict[str, tuple[str, bytes, Any, Any]] = {  # type: its text, repr() of the value, the value, what a table has
    "string": ('"ä"', "'ä'".encode(), "ä", _SAME),
    "byte": ("-7", b"-7", -7, _SAME),
    "short": ("-300", b"-300", -300, _SAME),
    "int": ("70000", b"70000", 70_000, _SAME),
    "long": ("1099511627776", b"1099511627776", 2**40, _SAME),
    "float": ("0.5", b"0.5", 0.5, _SAME),
    "double": ("0.1", b"0.1", 0.1, _SAME),
    "decimal(10,2)": ("-1.50", b"Decimal('-1.50')", Decimal("-1.50"), _SAME),
    "boolean": ("true", b"True", True, _SAME),
    "binary": ('"AP8="', rb"b'\x00\xff'", b"\x00\xff", _SAME),
    "date": ('"2026-11-24"', b"datetime.date(2026, 11, 24)", DAY, _SAME),
    "time": ('"01:02:03.000004"', b"datetime.time(1, 2, 3, 4)", AT, AT_MICROS),
    "timestamp": (
        '"2026-11-24T01:00:00Z"',
        b"datetime.datetime(2026, 11, 24, 1, 0, tzinfo=zoneinfo.ZoneInfo(key='UTC'))",
        INSTANT,
        _SAME,
    ),
    "timestamp_ntz": ('"2026-11-24T01:00:00"', b"datetime.datetime(2026, 11, 24, 1, 0)", LOCAL, _SAME),
    "array<date>": ('["2026-11-24",null]', b"[datetime.date(2026, 11, 24), None]", [DAY, None], _SAME),
    "map<string, int>": ('{"a":1,"b":null}', b"{'a': 1, 'b': None}", A_AND_B, PAIRS),
    "struct<a int, b time>": ('{"a":1,"b":null}', b"{'a': 1, 'b': None}", A_AND_B, _SAME),
}

KAFKAS: dict[str, tuple[Serde, bytes, bytes]] = {  # type: serde, its bytes, those of a list of the value and null
    "string": (Serde.string(), b"\xc3\xa4", b"\x01\0\0\0\2\0\0\0\2\xc3\xa4\xff\xff\xff\xff"),
    "short": (Serde.short(), b"\xfe\xd4", b"\0\0\0\0\1\0\0\0\1\0\0\0\2\xfe\xd4"),
    "int": (Serde.int(), b"\x00\x01\x11\x70", b"\0\0\0\0\1\0\0\0\1\0\0\0\2\x00\x01\x11\x70"),
    "long": (Serde.long(), b"\0\0\1\0\0\0\0\0", b"\0\0\0\0\1\0\0\0\1\0\0\0\2\0\0\1\0\0\0\0\0"),
    "float": (Serde.float(), b"\x3f\0\0\0", b"\0\0\0\0\1\0\0\0\1\0\0\0\2\x3f\0\0\0"),
    "double": (
        Serde.double(),
        b"\x3f\xb9\x99\x99\x99\x99\x99\x9a",
        b"\0\0\0\0\1\0\0\0\1\0\0\0\2\x3f\xb9\x99\x99\x99\x99\x99\x9a",
    ),
    "boolean": (Serde.boolean(), b"\1", b"\x01\0\0\0\2\0\0\0\1\1\xff\xff\xff\xff"),
    "binary": (Serde.byte_buffer(), b"\x00\xff", b"\x01\0\0\0\2\0\0\0\2\x00\xff\xff\xff\xff\xff"),
}


def written(value: Any) -> bytes:
    return repr(value).encode()


def read(data: bytes) -> Any:
    return eval(data, {"datetime": dt, "Decimal": Decimal, "zoneinfo": __import__("zoneinfo")})


def in_field(text: str) -> bytes:
    return b'{"x":' + text.encode() + b"}"


def json_cases() -> dict[str, TypedCase]:
    found = {}
    for kind, (text, own, value, stored) in JSON.items():
        found[f"{kind} by json"] = TypedCase(Serde.json(f"x {kind}"), in_field(text), {"x": value}, value, stored, "x")
        is_fields = kind.startswith("struct")
        declared = kind[len("struct<") : -1] if is_fields else kind
        field = "" if is_fields else "value"
        own_serde = Serde.of(written, read, type=declared)
        found[f"{kind} by a serde of one's own"] = TypedCase(own_serde, own, value, stored=stored, field=field)
        alone = TypedCase(Serde.json(declared), text.encode(), value, stored=stored, field=field)
        found[f"{kind} by json alone"] = alone
        if kind in KAFKAS:
            serde, data, listed = KAFKAS[kind]
            found[f"{kind} by Kafka's"] = TypedCase(serde, data, value)
            found[f"{kind} by list"] = TypedCase(Serde.list(serde), listed, [value, None])
    return found


def other_kafka_cases() -> dict[str, TypedCase]:
    window, session = Windowed("ä", 5, 15), Windowed("ä", 5, 7)
    as_struct = {"key": "ä", "window_start_ms": 5, "window_end_ms": 15}
    uuids = b"\0\0\0\0\1\0\0\0\0\0\0\0\2" + ONE_TEXT
    return {
        "uuid by Kafka's": TypedCase(Serde.uuid(), ONE_TEXT, ONE, str(ONE)),
        "uuid by list": TypedCase(Serde.list(Serde.uuid()), uuids, [None, ONE], [None, str(ONE)]),
        "void by Kafka's": TypedCase(Serde.void(), None, None),
        "key of a window by time_windowed": TypedCase(
            Serde.time_windowed(STRING, 10), b"\xc3\xa4\0\0\0\0\0\0\0\5", window, stored=as_struct, field=""
        ),
        "key of a session by session_windowed": TypedCase(
            Serde.session_windowed(STRING),
            b"\xc3\xa4\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0\5",
            session,
            stored=as_struct | {"window_end_ms": 7},
            field="",
        ),
    }


SCHEMA_TYPES: dict[str, tuple[dict[str, Any], str, Any, Any]] = {  # of JSON Schema: document, text, value, stored
    "string": ({"type": "string"}, '"ä"', "ä", _SAME),
    "enum": ({"enum": ["NEW", "PAID"]}, '"PAID"', "PAID", _SAME),
    "integer": ({"type": "integer"}, "1099511627776", 2**40, _SAME),
    "number": ({"type": "number"}, "0.1", 0.1, _SAME),
    "boolean": ({"type": "boolean"}, "true", True, _SAME),
    "date": ({"type": "string", "format": "date"}, '"2026-11-24"', DAY, _SAME),
    "date-time": ({"type": "string", "format": "date-time"}, '"2026-11-24T01:00:00Z"', INSTANT, _SAME),
    "base64": ({"type": "string", "contentEncoding": "base64"}, '"AP8="', b"\x00\xff", _SAME),
    "array": ({"type": "array", "items": {"type": "integer"}}, "[1,null]", [1, None], _SAME),
    "object of any names": ({"type": "object", "additionalProperties": {"type": "integer"}},
                            '{"a":1,"b":null}', A_AND_B, PAIRS),
}  # fmt: skip


OF_X = {"type": "object"}


def json_schema_cases() -> dict[str, TypedCase]:
    found = {}
    for kind, (document, text, value, stored) in SCHEMA_TYPES.items():
        serde = Serde.json_schema({"type": "object", "properties": {"x": document}})
        found[f"{kind} by json_schema"] = TypedCase(serde, in_field(text), {"x": value}, value, stored, "x")
        confluent, data = (
            Serde.confluent_json_schema(OF_X | {"properties": {"x": document}}, write_id=7),
            in_field(text),
        )
        found[f"{kind} by confluent_json_schema"] = TypedCase(
            confluent, b"\0\0\0\0\x07" + data, {"x": value}, value, stored, "x"
        )
    fields = {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
    found["object by json_schema"] = TypedCase(Serde.json_schema(fields), b'{"a":1,"b":null}', A_AND_B, field="")
    return found


def logical(kind: str, logical_type: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical_type, **more}


FIELDS = [{"name": "a", "type": "int"}, {"name": "b", "type": ["null", "string"]}]
BRANCHES = {"int": None, "string": "ä"}
MONTHS = {"months": 1, "days": 2, "millis": 3}
AVRO: dict[str, tuple[Any, bytes, Any, Any]] = {  # type: schema, bytes, value, what a table has
    "boolean": ("boolean", b"\x01", True, _SAME),
    "int": ("int", b"\xe0\xc5\x08", 70_000, _SAME),
    "long": ("long", b"\x80\x80\x80\x80\x80\x40", 2**40, _SAME),
    "float": ("float", b"\0\0\0\x3f", 0.5, _SAME),
    "double": ("double", b"\x9a\x99\x99\x99\x99\x99\xb9\x3f", 0.1, _SAME),
    "bytes": ("bytes", b"\x04\x00\xff", b"\x00\xff", _SAME),
    "string": ("string", b"\x04\xc3\xa4", "ä", _SAME),
    "enum": ({"type": "enum", "name": "E", "symbols": ["NEW", "PAID"]}, b"\x02", "PAID", _SAME),
    "fixed": ({"type": "fixed", "name": "F", "size": 2}, b"\x00\xff", b"\x00\xff", _SAME),
    "array": ({"type": "array", "items": ["null", logical("int", "date")]},
              b"\x04" b"\x02\xda\xc4\x02" b"\x00" b"\x00", [DAY, None], _SAME),
    "map": ({"type": "map", "values": ["null", "int"]}, b"\x04" b"\x02a\x02\x02" b"\x02b\x00" b"\x00", A_AND_B, PAIRS),
    "record": ({"type": "record", "name": "R", "fields": FIELDS}, b"\x02\x00", A_AND_B, _SAME),
    "union with null": (["null", "int"], b"\x02\x0e", 7, _SAME),
    "union": (["int", "string"], b"\x02\x04\xc3\xa4", BRANCHES, _SAME),
    "decimal": (logical("bytes", "decimal", precision=10, scale=2), b"\x04\xff\x6a", Decimal("-1.50"), _SAME),
    "decimal of fixed": (logical("fixed", "decimal", name="M", size=3, precision=5, scale=2),
                         b"\xff\xff\x6a", Decimal("-1.50"), _SAME),
    "date": (logical("int", "date"), b"\xda\xc4\x02", DAY, _SAME),
    "time-millis": (logical("int", "time-millis"), b"\xf8\xbb\xc6\x03", AT_MS, AT_MS_MICROS),
    "time-micros": (logical("long", "time-micros"), b"\x88\xe3\xc3\xde\x1b", AT, AT_MICROS),
    "timestamp-millis": (logical("long", "timestamp-millis"), b"\x80\xea\x88\xb1\xc1\x68", INSTANT, _SAME),
    "timestamp-micros": (logical("long", "timestamp-micros"), b"\x80\x90\xfc\xac\xe7\xbe\xb0\x06", INSTANT, _SAME),
    "local-timestamp-millis": (logical("long", "local-timestamp-millis"), b"\x80\xea\x88\xb1\xc1\x68", LOCAL, _SAME),
    "local-timestamp-micros": (logical("long", "local-timestamp-micros"),
                               b"\x80\x90\xfc\xac\xe7\xbe\xb0\x06", LOCAL, _SAME),
    "uuid": (logical("string", "uuid"), b"\x48" + ONE_TEXT, str(ONE), _SAME),
    "uuid of fixed": (logical("fixed", "uuid", name="U", size=16), ONE.bytes, str(ONE), _SAME),
    "duration": (logical("fixed", "duration", name="D", size=12), b"\1\0\0\0\2\0\0\0\3\0\0\0", MONTHS, _SAME),
}  # fmt: skip
ONE_OF_EACH = {"record", "union", "duration"}
"""Types whose values have fields of their own."""


def avro_cases() -> dict[str, TypedCase]:
    """A record of one field has its field's bytes; Confluent's format has five more before them."""
    found = {}
    for kind, (schema, data, value, stored) in AVRO.items():
        of_field = {"type": "record", "name": "Of", "fields": [{"name": "x", "type": schema}]}
        found[f"{kind} by avro"] = TypedCase(Serde.avro(of_field), data, {"x": value}, value, stored, "x")
        confluent = Serde.confluent_avro(of_field, ids={7: of_field})
        found[f"{kind} by confluent_avro"] = TypedCase(
            confluent, b"\0\0\0\0\x07" + data, {"x": value}, value, stored, "x"
        )
        field = "" if kind in ONE_OF_EACH else "value"
        found[f"{kind} by avro alone"] = TypedCase(Serde.avro(schema), data, value, stored=stored, field=field)
    return found


PROTOBUF: dict[str, tuple[str, bytes, Any, Any]] = {  # type: the descriptor's word, bytes, value, what a table has
    "int32": ("INT32", b"\x08\xf9\xff\xff\xff\xff\xff\xff\xff\xff\x01", -7, _SAME),
    "sint32": ("SINT32", b"\x08\xd7\x04", -300, _SAME),
    "sfixed32": ("SFIXED32", b"\x0d\xf9\xff\xff\xff", -7, _SAME),
    "int64": ("INT64", b"\x08\x80\x80\x80\x80\x80\x20", 2**40, _SAME),
    "sint64": ("SINT64", b"\x08\xff\xff\xff\xff\xff\x3f", -(2**40), _SAME),
    "sfixed64": ("SFIXED64", b"\x09\0\0\0\0\0\x01\0\0", 2**40, _SAME),
    "uint32": ("UINT32", b"\x08\xff\xff\xff\xff\x0f", 2**32 - 1, _SAME),
    "fixed32": ("FIXED32", b"\x0d\0\0\0\x80", 2**31, _SAME),
    "uint64": ("UINT64", b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", Decimal(2**64 - 1), _SAME),
    "fixed64": ("FIXED64", b"\x09\0\0\0\0\0\0\0\x80", Decimal(2**63), _SAME),
    "float": ("FLOAT", b"\x0d\0\0\0\x3f", 0.5, _SAME),
    "double": ("DOUBLE", b"\x09\x9a\x99\x99\x99\x99\x99\xb9\x3f", 0.1, _SAME),
    "bool": ("BOOL", b"\x08\x01", True, _SAME),
    "string": ("STRING", b"\x0a\x02\xc3\xa4", "ä", _SAME),
    "bytes": ("BYTES", b"\x0a\x02\x00\xff", b"\x00\xff", _SAME),
    "enum": ("ENUM", b"\x08\x01", "PAID", _SAME),
    "repeated int32": ("repeated INT32", b"\x0a\x04\xf0\xa2\x04\x01", [70_000, 1], _SAME),
    "map": ("map", b"\x0a\x05" + b"\x0a\x01a" + b"\x10\x01", {"a": 1}, [("a", 1)]),
    "message": ("MESSAGE", b"\x0a\x06" + b"\x08\x01" + b"\x12\x02\xc3\xa4", {"a": 1, "b": "ä"}, _SAME),
    "optional int32": ("optional INT32", b"\x08\x00", 0, _SAME),
}


def message(name: str, word: str) -> DescriptorProto:
    """A message with the field x."""
    found = DescriptorProto(name=name)
    *labels, kind = word.split()
    type_name = {"ENUM": ".t.State", "MESSAGE": ".t.Inner", "map": f".t.{name}.XEntry"}.get(kind)
    if kind == "map":
        entry = found.nested_type.add(name="XEntry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=FieldDescriptorProto.TYPE_STRING, label=1)
        entry.field.add(name="value", number=2, type=FieldDescriptorProto.TYPE_INT32, label=1)
        labels, kind = ["repeated"], "MESSAGE"
    x = found.field.add(name="x", number=1, label=3 if "repeated" in labels else 1, type_name=type_name)
    x.type = getattr(FieldDescriptorProto, f"TYPE_{kind}")
    if "optional" in labels:
        found.oneof_decl.add(name="_x")
        x.proto3_optional, x.oneof_index = True, 0
    return found


def protobuf_cases() -> dict[str, TypedCase]:
    file = FileDescriptorProto(name="types.proto", package="t", syntax="proto3")
    state = file.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=1)
    inner = file.message_type.add(name="Inner")
    inner.field.add(name="a", number=1, type=FieldDescriptorProto.TYPE_INT32, label=1)
    inner.field.add(name="b", number=2, type=FieldDescriptorProto.TYPE_STRING, label=1)
    for number, (word, *_) in enumerate(PROTOBUF.values()):
        file.message_type.append(message(f"Of{number}", word))
    descriptor = FileDescriptorSet(file=[file]).SerializeToString()
    found = {}
    for number, (kind, (_, data, value, stored)) in enumerate(PROTOBUF.items()):
        plain, name = Serde.protobuf(descriptor, f"t.Of{number}"), f"t.Of{number}"
        found[f"{kind} by protobuf"] = TypedCase(plain, data, {"x": value}, value, stored, "x")
        confluent = Serde.confluent_protobuf(descriptor, name, write_id=7)
        head = b"\0\0\0\0\x07" + bytes([2, 2 * (number + 1)])  # one index, behind the message Inner
        found[f"{kind} by confluent_protobuf"] = TypedCase(confluent, head + data, {"x": value}, value, stored, "x")
    return found


CASES = json_cases() | other_kafka_cases() | json_schema_cases() | avro_cases() | protobuf_cases()
