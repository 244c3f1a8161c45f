"""Random Avro schemas, values of them in Avro's JSON encoding, and readers' schemas that have evolved."""

import copy
from random import Random
from typing import Any

_PRIMITIVES = ("boolean", "int", "long", "float", "double", "bytes", "string")
_LOGICAL = (
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
)
_PROMOTED = {
    "int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",), "string": ("bytes",),
    "bytes": ("string",),
}  # fmt: skip
_DEFAULTS: dict[str, Any] = {
    "boolean": True, "int": -7, "long": 2**40, "float": 0.5, "double": -2.25, "bytes": "ab", "string": "déjà",
}  # fmt: skip


class Schemas:
    """Schemas of one seed; ``names`` counts the named types."""

    def __init__(self, seed: int) -> None:
        self.random, self.names = Random(seed), 0

    def name(self) -> str:
        self.names += 1
        return f"N{self.names}"

    def record(self, depth: int) -> dict[str, Any]:
        fields = [{"name": f"f{at}", "type": self.schema(depth + 1)} for at in range(self.random.randint(1, 5))]
        return {"type": "record", "name": self.name(), "namespace": "t", "fields": fields}

    def schema(self, depth: int) -> Any:
        choice = self.random.random()
        if depth > 3 or choice < 0.4:
            return self.random.choice(_PRIMITIVES)
        if choice < 0.55:
            return copy.deepcopy(self.random.choice(_LOGICAL))
        if choice < 0.6:
            return {"type": "enum", "name": self.name(), "namespace": "t", "symbols": ["A", "B", "C"]}
        if choice < 0.65:
            return {"type": "fixed", "name": self.name(), "namespace": "t", "size": self.random.randint(1, 4)}
        if choice < 0.72:
            return {"type": "array", "items": self.schema(depth + 1)}
        if choice < 0.79:
            return {"type": "map", "values": self.schema(depth + 1)}
        if choice < 0.9:
            return self.union(depth)
        return self.record(depth)

    def union(self, depth: int) -> list[Any]:
        if self.random.random() < 0.6:
            inner = self.schema(depth + 1)
            return ["null", inner] if not isinstance(inner, list) else inner
        branches = self.random.sample(_PRIMITIVES, self.random.randint(1, 3))
        more = [self.record(depth)] if self.random.random() < 0.4 else []
        found = [*branches, *more, *(["null"] if self.random.random() < 0.5 else [])]
        self.random.shuffle(found)
        return found

    # --- values ----------------------------------------------------------------------------------------------

    def value(self, schema: Any) -> Any:
        """Of a union the branch is named, as Avro's JSON encoding does."""
        random = self.random
        if isinstance(schema, list):
            branch = random.choice(schema)
            return None if branch == "null" else {_tag(branch): self.value(branch)}
        kind = schema if isinstance(schema, str) else schema["type"]
        logical = None if isinstance(schema, str) else schema.get("logicalType")
        if kind == "record":
            return {field["name"]: self.value(field["type"]) for field in schema["fields"]}
        if kind == "array":
            return [self.value(schema["items"]) for _ in range(random.randint(0, 3))]
        if kind == "map":
            return {f"k{at}": self.value(schema["values"]) for at in range(random.randint(0, 3))}
        if kind == "enum":
            return random.choice(schema["symbols"])
        if kind == "fixed":
            return "".join(chr(random.randint(0, 127)) for _ in range(schema["size"]))
        if logical == "uuid":
            return "0f8fad5b-d9cb-469f-a165-70867728950e"
        if logical == "decimal":
            return "".join(chr(random.randint(0, 127)) for _ in range(random.randint(1, 4)))
        if logical is not None:
            return random.randint(0, 20_000 if kind == "int" else 80_000_000_000)
        return self.plain(kind)

    def plain(self, kind: str) -> Any:
        random = self.random
        whole = {"int": 31, "long": 63}
        if kind in whole:
            return random.choice([0, -1, 64, -65, 2 ** whole[kind] - 1, -(2 ** whole[kind]), random.randint(-999, 999)])
        choices: dict[str, list[Any]] = {
            "boolean": [True, False],
            "float": [0.0, 0.1, -3.5e20],
            "double": [0.0, 0.1, -1.7e308],
            "bytes": ["", "ab", "\x00\x7f"],
            "string": ["", "a", "ü€😀", "x" * 70],
        }
        return random.choice(choices[kind])

    # --- evolution -------------------------------------------------------------------------------------------

    def evolved(self, schema: Any) -> Any:
        """A reader's schema for what was written with ``schema``; sometimes one that cannot read it."""
        random = self.random
        if isinstance(schema, list):
            found = [now if not isinstance(now := self.evolved(one), list) else one for one in schema]
            if random.random() < 0.3:
                random.shuffle(found)
            kept = [one for one in found if one != "null"]
            is_double = len({_tag(one) for one in found if one != "null"}) != len(kept)
            return schema if is_double else kept[0] if random.random() < 0.2 else found
        if isinstance(schema, str) or "logicalType" in schema:
            return self.promoted(schema)
        schema = copy.deepcopy(schema)
        if schema["type"] == "record":
            self.evolve_fields(schema)
        elif schema["type"] == "array":
            schema["items"] = self.evolved(schema["items"])
        elif schema["type"] == "map":
            schema["values"] = self.evolved(schema["values"])
        elif schema["type"] == "enum" and random.random() < 0.5:
            schema["symbols"] = random.choice([["C", "B", "A"], ["B", "A"], ["A", "B", "C", "D"]])
            if random.random() < 0.5:
                schema["default"] = "B"
        return schema

    def promoted(self, schema: Any) -> Any:
        random = self.random
        if isinstance(schema, str) and schema in _PROMOTED and random.random() < 0.25:
            schema = random.choice(_PROMOTED[schema])
        if random.random() < 0.15 and schema != "null":
            return ["null", schema]
        return schema

    def evolve_fields(self, schema: dict[str, Any]) -> None:
        random = self.random
        fields = [
            one | {"type": self.evolved(one["type"]) if random.random() < 0.7 else one["type"]}
            for one in schema["fields"]
            if random.random() < 0.85
        ]
        for one in fields:
            if random.random() < 0.1:
                one["aliases"], one["name"] = [one["name"]], f"{one['name']}_now"
        while not fields or random.random() < 0.3:
            kind = random.choice(_PRIMITIVES)
            added: dict[str, Any] = {"name": f"new{len(fields)}", "type": kind}
            if random.random() < 0.9:
                added["default"] = _DEFAULTS[kind]
            if "default" in added and random.random() < 0.3:
                added |= {"type": ["null", kind], "default": None}
            fields.append(added)
        random.shuffle(fields)
        schema["fields"] = fields


def _tag(branch: Any) -> str:
    if isinstance(branch, str):
        return branch
    return f"t.{branch['name']}" if "name" in branch else str(branch["type"])
