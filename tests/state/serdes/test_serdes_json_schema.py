"""A JSON Schema document names the columns that a JSON value has."""

import json
from typing import Any

import pyarrow as pa
import pytest

from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.serdes import Serde

ORDER = {
    "$schema": "draft-07",
    "type": "object",
    "required": ["item"],
    "properties": {
        "item": {"type": "string", "minLength": 1},
        "amount": {"oneOf": [{"type": "null"}, {"type": "integer"}]},
        "price": {"type": ["null", "number"]},
        "paid": {"type": "boolean"},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "photo": {"type": "string", "contentEncoding": "base64"},
        "state": {"enum": ["NEW", "PAID"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "place": {"$ref": "#/$defs/Place"},
    },
    "$defs": {"Place": {"properties": {"city": {"type": "string"}}}},
}
SAME = Serde.json(
    "item string, amount long, price double, paid boolean, day date, at timestamp, photo binary, state string, "
    "tags array<string>, place struct<city string>"
)


def test_a_document_is_the_serde_of_its_types(tmp_path):
    (tmp_path / "order.json").write_text(json.dumps(ORDER))

    assert Serde.json_schema(ORDER) == SAME
    assert Serde.json_schema(json.dumps(ORDER)) == SAME
    assert Serde.json_schema(tmp_path / "order.json") == SAME


def test_values_are_read_by_it_and_what_does_not_fit_is_bad():
    decoded = Serde.json_schema(ORDER).decode(
        pa.array([b'{"item":"tea","amount":2,"place":{"city":"Rome"}}', b'{"item":5}'], pa.binary())
    )

    assert decoded.values[0].as_py()["place"] == {"city": "Rome"}
    assert decoded.bad.tolist() == [False, True]


def test_an_object_of_any_names_is_a_map():
    serde = Serde.json_schema({"type": "object", "additionalProperties": {"type": "integer"}})

    assert serde.arrow_type == pa.map_(pa.string(), pa.int64())


REFUSED: dict[str, tuple[Any, str]] = {
    "two types": ({"type": ["string", "integer"]}, 'got ["string", "integer"]'),
    "two branches": ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "expected one type, and null perhaps"),
    "inside itself": (
        {"$ref": "#/$defs/N", "$defs": {"N": {"properties": {"next": {"$ref": "#/$defs/N"}}}}},
        "document.next: expected schemas that end, as columns do, got #/$defs/N inside itself",
    ),
    "a reference to another document": ({"$ref": "place.json"}, "expected a reference into the document"),
    "no type": ({}, "expected one type of"),
    "an object of anything": ({"type": "object"}, "expected an object with properties"),
    "no JSON": ("{", "expected a JSON Schema document"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_schema_of_columns_is_refused(case):
    schema, said = REFUSED[case]

    with pytest.raises(ConfigError) as refused:
        Serde.json_schema(schema)

    assert said in str(refused.value)
