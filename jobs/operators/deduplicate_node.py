"""The node of a deduplication (KIP-655): how it is configured, and what it says of itself."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...state.buffers import only_chunk
from ...state.promises import Deduplicated, Promise
from ...state.records.batches import Batch
from ...state.tables.names import TableName
from ..functions.expressions import Call, Expression
from ..graph.graph import Graph, Node
from ..graph.observations import Observation
from ..graph.store_rows import TIME, StoreRowSchema
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

    def store_rows(self, graph: Graph) -> StoreRowSchema:
        parts = {"key": self.shape.key.arrow_type}
        if self.id_selector is not None:
            parts["id"] = self.id_selector.result.arrow_type
        row_key = identity_columns(self.by)
        return StoreRowSchema(identity_schema({name: parts[name] for name in row_key}), row_key)

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

    def records_kept(self, rows: pa.Table) -> tuple[pa.Table, ...]:
        """Those that it forwarded, each with its coordinates."""
        parts = {"key": self.shape.key, "id": None if self.id_selector is None else self.id_selector.result}
        coded = [serde.encode(only_chunk(rows, name)) for name, serde in parts.items() if name in self._names and serde]
        columns = {"timestamp": rows["record_time_ms"], "key": _joined(coded)}
        return (pa.table({**columns, "context_topic": rows["context_topic"], "context_offset": rows["value"]}),)

    def record_keys(self, batch: Batch) -> pa.Array:
        """Their identities."""
        coded = [super().record_keys(batch)] if "key" in self._names else []
        if self.id_selector is not None:
            coded.append(self.id_selector.result.encode(self.id_selector.evaluate(batch)))
        return _joined(coded)

    @property
    def _names(self) -> tuple[str, ...]:
        return identity_columns(self.by)

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


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    """Serialized parts of identities as one, null where one is."""
    first, *second = (part.cast(pa.binary()) for part in parts)
    if not second:
        return first
    length = pc.binary_length(first).cast(pa.string()).cast(pa.binary())
    return pc.binary_join_element_wise(length, first, *second, pa.scalar(b":", pa.binary()))


def identity_columns(by: str) -> tuple[str, ...]:
    """Columns that make two records one, of "key", "key-value" or "id"."""
    return {"key": ("key",), "key-value": ("key", "id"), "id": ("id",)}[by]


def identity_schema(identity: Mapping[str, pa.DataType]) -> pa.Schema:
    """Identities, each with the time and the context of the record that was forwarded. ``identity``: type by column."""
    parts = [pa.field(name, kind) for name, kind in identity.items()]
    return pa.schema([*parts, TIME, pa.field("context_topic", pa.string()), pa.field("context_offset", pa.int64())])
