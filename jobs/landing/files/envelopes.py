"""Rows in envelopes of JSON, as Kafka Connect's converter with schemas and Debezium write them.

Owns what is in an envelope. Rule: what is in it is handed on as it is, its numbers with all their digits; names that
begin with ``__`` are fields of the envelope itself, as those are that Debezium's ExtractNewRecordState adds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_OWN = "__"


@dataclass(frozen=True, slots=True)
class Opened:
    """``row``: the row and, with ``__`` before their names, the envelope's own fields. ``value``: the row alone, None
    where it was deleted.
    """

    row: dict[str, Any]
    value: dict[str, Any] | None


class NoEnvelopeError(Exception):
    """The row is in none: what was ``expected``."""

    def __init__(self, expected: str) -> None:
        super().__init__(expected)
        self.expected = expected


def _connect(row: dict[str, Any]) -> Opened:
    if row.keys() != {"schema", "payload"} or not isinstance(row["payload"], dict | None):
        raise NoEnvelopeError("an object of a schema and a payload, which is an object or null")
    return _opened(row, row["payload"] or {}, is_deleted=row["payload"] is None)


def _debezium(row: dict[str, Any]) -> Opened:
    change = row["payload"] if row.keys() == {"schema", "payload"} else row
    if not isinstance(change, dict) or "op" not in change:
        raise NoEnvelopeError("a change of Debezium, which has op, before and after")
    is_deleted = change["op"] == "d"
    row_of_change = change.get("before" if is_deleted else "after")
    if not isinstance(row_of_change, dict):
        raise NoEnvelopeError("the row before it was deleted" if is_deleted else "the row after the change")
    return _opened(change, row_of_change, is_deleted=is_deleted)


def _opened(envelope: dict[str, Any], row: dict[str, Any], *, is_deleted: bool) -> Opened:
    own = {f"{_OWN}{name}": value for name, value in envelope.items()}
    return Opened(own | row, None if is_deleted else row)


ENVELOPES: Mapping[str, Callable[[dict[str, Any]], Opened]] = {"debezium": _debezium, "connect": _connect}
"""By the words of the command. Each raises NoEnvelopeError."""
