"""The node of a deduplication (KIP-655): how it is configured, and what it says of itself."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ...state.promises import Deduplicated, Promise
from ...state.tables.names import TableName
from ..functions.expressions import Call, Expression
from ..graph.graph import Graph, Node
from ..graph.observations import Observation
from ..graph.store_rows import TIME, StoreRows
from ..graph.wording import Wording
from .base.promised_tables import input_of, outputs_of


@dataclass(frozen=True, eq=False, kw_only=True)
class DeduplicateNode(Node):
    """KIP-655. ``by``: "key", "key-value" or "id"; ``id_selector`` for the latter two. The interval is inclusive.

    ``semantics``: "kafka", by the letter of the KIP, or "kip": records that one input record caused are not taken for
    one record that is processed again.
    """

    store: str
    by: str
    interval_ms: int
    id_selector: Expression | Call | None = None
    semantics: str = "kafka"

    operator = ".deduplicate:build"

    @property
    def identity(self) -> Expression | Call | None:
        return self.id_selector

    def store_rows(self, graph: Graph) -> StoreRows:
        parts = {"key": self.shape.key.arrow_type}
        if self.id_selector is not None:
            parts["id"] = self.id_selector.result.arrow_type
        row_key = identity_columns(self.by)
        return StoreRows(identity_schema({name: parts[name] for name in row_key}), row_key)

    def store_settings(self, graph: Graph) -> Mapping[str, Any]:
        return {"id": self.id_selector}

    def promises(self, graph: Graph) -> Iterable[Promise]:
        """What it keeps of a key is further apart than the interval."""
        yield from super().promises(graph)
        given, outputs = input_of(graph, self.inputs[0]), outputs_of(graph, self, unchanged=False)
        why_not = ""
        if self.by != "key":
            why_not = "its identities are computed by a step, and are in no table beside the records"
        elif given is None:
            why_not = "no table has what it reads by key and time"
        elif not outputs:
            why_not = "no output has all that it keeps"
        for output in outputs if not why_not else (TableName.state(self.store),):
            yield Deduplicated(output, given, self.interval_ms, why_not)

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        said, passed = [], {row.coordinates for row in seen.forwarded}
        for number, row in enumerate(seen.rows):
            identity: dict[str, Any] = {} if self.by == "id" else {"key": row.key}
            identity |= {} if self.by == "key" else {"id": seen.ids[number]}
            named = " and ".join(f"{name} {value!r}" for name, value in identity.items())
            first = next((e for e in seen.shown if identity.items() <= e.items()), None)
            if row.coordinates in passed:
                is_named = all(value is not None for value in identity.values())
                first_of = f"the first of {named} within {self.interval_ms} ms"
                said.append(f"passes: {first_of if is_named else f'{named} is never a duplicate'}")
            elif first is not None:
                apart = abs(row.record_time_ms - first["record_time_ms"])
                said.append(
                    f"duplicate of {first['context_topic']} offset {first['value']}, which has {named} too: "
                    f"{apart} ms apart, the interval is {self.interval_ms} ms"
                )
        return said


def identity_columns(by: str) -> tuple[str, ...]:
    """Columns that make two records one, of "key", "key-value" or "id"."""
    return {"key": ("key",), "key-value": ("key", "id"), "id": ("id",)}[by]


def identity_schema(identity: Mapping[str, pa.DataType]) -> pa.Schema:
    """Identities, each with the time and the context of the record that was forwarded. ``identity``: type by column."""
    parts = [pa.field(name, kind) for name, kind in identity.items()]
    return pa.schema([*parts, TIME, pa.field("context_topic", pa.string()), pa.field("context_offset", pa.int64())])
