"""Cases for Avro's Java library, written by hand: one rule of resolution, one form of bytes each."""

from typing import Any

Case = dict[str, Any]


def _record(*fields: dict[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)} | more


def _field(kind: Any, name: str = "v", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind} | more


def _plain(kind: Any, datum: Any, reader: Any = None) -> Case:
    return {"writer": kind, "reader": kind if reader is None else reader, "datum": datum}


def _bad(kind: Any, text: str) -> Case:
    return {"writer": kind, "reader": kind, "bytes": text}


_ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
_FIXED = {"type": "fixed", "name": "F", "size": 2}
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 3}
_WIDE = {"type": "fixed", "name": "W", "size": 20, "logicalType": "decimal", "precision": 30, "scale": 2}
_DURATION = {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}
_UUID = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
_LIST = _record(_field("int"), _field(["null", "Node"], "next"), name="Node")

CASES: dict[str, Case] = {
    "a record": _plain(_record(_field("int"), _field("string", "w")), {"v": -1, "w": "ü"}),
    "a null branch": _plain(_record(_field(["null", "int"])), {"v": None}),
    "a branch after null": _plain(_record(_field(["null", "int"])), {"v": {"int": 7}}),
    "null as the second branch": _plain(_record(_field(["int", "null"])), {"v": None}),
    "three branches": _plain(_record(_field(["null", "string", "long"])), {"v": {"long": 3}}),
    "an array of arrays": _plain({"type": "array", "items": {"type": "array", "items": "int"}}, [[1, 2], [], [3]]),
    "a map": _plain({"type": "map", "values": ["null", "double"]}, {"a": {"double": 0.5}, "b": None}),
    "an enum": _plain(_ENUM, "B"),
    "a fixed": _plain(_FIXED, "\x00\xff"),
    "a decimal": _plain(_DECIMAL, "\x01\x00"),
    "a decimal below zero": _plain(_DECIMAL, "\xff"),
    "a decimal of 16 bytes": _plain(_DECIMAL, "\x4b" + "\x00" * 15),
    "a decimal behind a sign's bytes": _plain(_DECIMAL, "\xff" * 18 + "\x80"),
    "a decimal in a fixed wider than 16 bytes": _plain(_WIDE, "\xff" * 15 + "\xfe\x00\x00\x00\x00"),
    "a duration": _plain(_DURATION, "\x01\x00\x00\x00\x00\x00\x00\x80\xff\xff\xff\xff"),
    "a uuid in a fixed": _plain(_UUID, "".join(map(chr, range(16)))),
    "a uuid": _plain({"type": "string", "logicalType": "uuid"}, "0f8fad5b-d9cb-469f-a165-70867728950e"),
    "a float": _plain("float", 0.1),
    "a double": _plain("double", 0.1),
    "the least long": _plain("long", -(2**63)),
    "an int as a long": _plain("int", -5, "long"),
    "an int as a float": _plain("int", 16777217, "float"),
    "a long as a double": _plain("long", 2**53 + 1, "double"),
    "a float as a double": _plain("float", 0.1, "double"),
    "a long as an int": _plain("long", 5, "int"),
    "a string as bytes": _plain("string", "ü", "bytes"),
    "bytes as a string": _plain("bytes", "ab", "string"),
    "an int as a string": _plain("int", 5, "string"),
    "a field that the reader does not want": _plain(
        _record(_field({"type": "map", "values": {"type": "array", "items": _ENUM}}, "w"), _field("int")),
        {"w": {"k": ["A", "B"]}, "v": 5},
        _record(_field("int")),
    ),
    "a recursive field that the reader does not want": _plain(
        _record(_field(_LIST, "list"), _field("int")),
        {"list": {"v": 1, "next": {"Node": {"v": 2, "next": None}}}, "v": 5},
        _record(_field("int")),
    ),
    "a field with a default": _plain(
        _record(_field("int")), {"v": 5}, _record(_field("int"), _field("string", "w", default="né")),
    ),
    "a field without one": _plain(_record(_field("int")), {"v": 5}, _record(_field("int"), _field("string", "w"))),
    "a default of every kind": _plain(
        _record(_field("int")),
        {"v": 5},
        _record(
            _field("int"), _field("float", "f", default=0.1), _field("double", "d", default=1),
            _field("bytes", "b", default="\x00\xff"), _field(["null", "int"], "n", default=None),
            _field(["int", "null"], "m", default=3), _field({"type": "array", "items": "int"}, "a", default=[1, 2]),
            _field({"type": "map", "values": "string"}, "p", default={"k": "x"}), _field(_ENUM, "e", default="B"),
            _field(_FIXED, "x", default="\x01\x02"), _field("boolean", "t", default=True),
            _field(_record(_field("long", "q", default=9), name="Inner"), "r", default={}),
        ),
    ),
    "a field by its alias": _plain(
        _record(_field("int", "old")), {"old": 5}, _record(_field("int", "now", aliases=["old"])),
    ),
    "a field by its alias in a record of another name": _plain(
        _record(_field("int", "old")), {"old": 5}, _record(_field("int", "now", aliases=["old"], default=1), name="S"),
    ),
    "a record by its alias": _plain(
        _record(_field("int", "old")), {"old": 5},
        _record(_field("int", "now", aliases=["old"]), name="S", aliases=["R"]),
    ),
    "a record of another name": _plain(_record(_field("int")), {"v": 5}, _record(_field("int"), name="S")),
    "an enum of another name": _plain(_ENUM, "B", _ENUM | {"name": "G"}),
    "an enum of another namespace": _plain(_ENUM, "B", _ENUM | {"namespace": "x"}),
    "a fixed of another size": _plain(_FIXED, "ab", _FIXED | {"size": 3}),
    "a symbol that the reader lacks": _plain(_ENUM, "B", _ENUM | {"symbols": ["A"]}),
    "a symbol that the reader lacks, with a default": _plain(
        _ENUM, "B", _ENUM | {"symbols": ["A", "Z"], "default": "Z"},
    ),
    "symbols in another order": _plain(_ENUM, "B", _ENUM | {"symbols": ["B", "A"]}),
    "a value into a union": _plain("int", 5, ["null", "int"]),
    "a value into a union by promotion": _plain("int", 5, ["null", "string", "double", "long"]),
    "a value out of a union": _plain(["null", "int"], {"int": 5}, "int"),
    "null out of a union": _plain(["null", "int"], None, "int"),
    "a union in another order": _plain(["null", "int", "string"], {"int": 5}, ["string", "int", "null"]),
    "a branch that the reader lacks": _plain(["null", "int", "string"], {"string": "x"}, ["null", "int"]),
    "another branch than the reader lacks": _plain(["null", "int", "string"], {"int": 5}, ["null", "int"]),
    "a record into a union of two": _plain(
        _record(_field("int")), {"v": 5},
        [_record(_field("int", "w"), name="S"), _record(_field("long"), name="T"), "null"],
    ),
    "a record into a union by its full name": _plain(
        _record(_field("int"), namespace="a"), {"v": 5},
        [_record(_field("long"), name="S"), _record(_field("int"), namespace="a")],
    ),
    "a record into a union of its short name and its full name": _plain(
        _record(_field("int"), namespace="a"), {"v": 5},
        [_record(_field("long"), namespace="b"), _record(_field("int"), namespace="a")],
    ),
    "a record into a union by its short name": _plain(
        _record(_field("int"), namespace="a"), {"v": 5},
        [_record(_field("long"), name="S"), _record(_field("int"), namespace="b")],
    ),
    "blocks with their size": _bad({"type": "array", "items": "int"}, "0304020400"),
    "several blocks": _bad({"type": "array", "items": "int"}, "02020404060a00"),
    "the end in a string": _bad("string", "086162"),
    "the end in a number": _bad("long", "ff"),
    "nothing": _bad("int", ""),
    "a length below zero": _bad("string", "03616263"),
    "a branch below zero": _bad(["null", "string"], "0106616263"),
    "a branch too many": _bad(["null", "string"], "0406616263"),
    "a symbol too many": _bad(_ENUM, "04"),
    "a symbol below zero": _bad(_ENUM, "01"),
    "an int of six bytes": _bad("int", "808080808001"),
    "an int whose fifth byte is wide": _bad("int", "ffffffff7f"),
    "a long of eleven bytes": _bad("long", "ff" * 10 + "01"),
    "a number in more bytes than it needs": _bad("int", "8200"),
    "bytes behind the value": _bad("int", "0204"),
    "a decimal of no bytes": _bad(_DECIMAL, "00"),
    "a double that is cut": _bad("double", "0000"),
    "an array that is cut": _bad({"type": "array", "items": "string"}, "0402"),
    "an item count of the largest long": _bad({"type": "array", "items": "int"}, "feffffffffffffffff01"),
}  # fmt: skip
