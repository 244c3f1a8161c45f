"""How far an output has been published to a topic: the value of the record that is in every transaction.

Owns the record's text. Rule: a position names the rows that a reader has: all of the increments up to ``through``, and
the first ``rows`` of the one that follows. It needs no version of a table that may be gone later.
"""

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...state.errors import PublishError

FORMAT = 1
NUMBERS = ("partitions", "as_of", "through", "increment", "rows")


@dataclass(frozen=True, slots=True)
class Corrections:
    """Corrections at work: they lead to what the output had as of the increment ``to``.

    ``sent``: how many are published. ``tombstones``: whether keys that are gone get one.
    """

    to: int
    sent: int
    tombstones: bool


@dataclass(frozen=True, slots=True)
class Position:
    """``ledger``: the id of the pipeline's ledger, which no other warehouse has. ``topic_id``, ``partitions``: of the
    topic. ``as_of``: the increment as of which rows were read last; what was taken back later was published.
    ``increment``, ``rows``: the increment of which some rows are published, and how many; 0, 0: none is.
    """

    pipeline: str
    output: str
    ledger: str
    topic_id: str
    partitions: int
    as_of: int
    through: int
    increment: int = 0
    rows: int = 0
    corrections: Corrections | None = None

    def to_bytes(self) -> bytes:
        """JSON, with its format."""
        return json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, text: bytes, place: str) -> "Position":
        """The reverse of ``to_bytes``. Raises PublishError for what this version did not write; ``place`` says where it
        was found.
        """
        try:
            fields = json.loads(text)
            text_format = fields.pop("format")
            if text_format != FORMAT:
                raise ValueError(f"a position of format {text_format}")
            corrections = fields.pop("corrections")
            _refuse_no_numbers(fields, NUMBERS)
            if corrections is not None:
                _refuse_no_numbers(corrections, ("to", "sent"))
            return cls(**fields, corrections=None if corrections is None else Corrections(**corrections))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            expected = f"a position that `replay publish` wrote, of format {FORMAT}"
            next_step = "name another topic for positions (--position-topic), or use the version that wrote it"
            raise PublishError(place, expected, f"{type(error).__name__}: {error}", next_step) from error

    @property
    def newest(self) -> int:
        """The newest increment of which a reader has rows; 0: none."""
        return self.increment or self.through

    def finished(self, increment: int, as_of: int) -> "Position":
        """When all of ``increment`` is published, read as of ``as_of``."""
        return replace(self, as_of=as_of, through=increment, increment=0, rows=0, corrections=None)

    def within(self, increment: int, rows: int, as_of: int) -> "Position":
        """When ``rows`` rows of ``increment`` are."""
        return replace(self, as_of=as_of, increment=increment, rows=rows)

    def correcting(self, corrections: Corrections) -> "Position":
        """When some corrections are. All else stays, since they are found again from it."""
        return replace(self, corrections=corrections)


def _refuse_no_numbers(fields: dict[str, Any], names: Collection[str]) -> None:
    for name in names:
        if type(fields[name]) is not int or fields[name] < 0:
            raise ValueError(f"{name} {fields[name]!r}, which is no number from 0 on")
