"""The store of a table, as a processor sees and writes it (TimestampedKeyValueStore of Kafka Streams).

Rule: it shows what was put before, by whatever record, and gives ``ValueAndTimestamp``. What a processor puts into it
is in the table's own store at once, for everybody who looks into it, and for an aggregate whose store it is; no change
goes down because of it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ....state.buffers import is_valid
from ....state.errors import ConfigError
from ....state.records.batches import Batch, Chunk, Values
from ....state.records.keys import Keys
from ....state.serdes import Serde
from ....state.serdes.handed_over import HandOver
from ....state.stores.key_values import NO_REFERENCE
from ....state.times import NO_TIMESTAMP_MS, whole_ms
from ...functions.expressions import Shape
from ...functions.processor_api import KeyValueStore, ValueAndTimestamp
from ..base.operator import Links, Operator, TableView, WritableStore
from ..base.single_records import Made, Single
from ..tables.key_value_view import KeyValueView
from .value_coders import KeyCoder, misfit_in, prefix_bytes

_FEW = 32
"""So many new keys are put in order one by one, more of them by sorting all."""


@dataclass
class Writer:
    """The position of the running processor, which puts. ``links``: None where nobody else would see it."""

    chunk: Chunk | None = None
    links: Links | None = None
    cause: int = 0


class _Puts:
    """Makes rows of what is put into one table, whose keys are serialized already. ``keys``: code them; ``value``:
    serde of the table's values.
    """

    def __init__(self, keys: Keys, value: Serde) -> None:
        self._keys, self._value = keys, value

    def made(self, records: Sequence[Made]) -> Batch:
        value = self._value.from_python([one.value for one in records])
        return Batch(
            cause=np.array([one.cause for one in records], np.int32),
            key=self._keys.intern(pa.array([one.key for one in records], pa.binary())),
            keys=self._keys,
            time_ms=np.array([one.time_ms for one in records], np.int64),
            valid=is_valid(value),
            value=Values(value),
        )


class TableValues(KeyValueStore):
    """Of the table ``owner``, which has ``shape`` and whose rows ``operator`` keeps; None for a global table.

    ``view``: the processor's own look into it. ``place``: named in errors.
    """

    def __init__(
        self, name: str, owner: str, shape: Shape, view: TableView, operator: Operator | None, place: str
    ) -> None:
        assert isinstance(view, KeyValueView), "a table without windows and versions is looked at by its keys"
        self.store_name, self.owner, self.shape, self.place = name, owner, shape, f"{place}, store {name!r}"
        self.view, self.operator, self.writer = view, operator, Writer()
        self._key, self._table = KeyCoder(shape.key, self.place), view.table
        self._handing = HandOver(shape.value.codec)
        self._newest: dict[bytes, ValueAndTimestamp | None] = {}
        """What the table shows for keys that were put or asked for, of the chunk that runs."""
        self._puts: _Puts | None = None
        view.reader = self
        self._order: list[tuple[bytes, int]] = []
        """Keys that occurred, with their codes, in order."""
        self._known = 0

    @property
    def key(self) -> Serde:
        """Of its keys."""
        return self.shape.key

    @property
    def value(self) -> Serde:
        """Of its values, without their times."""
        return self.shape.value

    # --- read ------------------------------------------------------------------------------------------------

    def note(self, one: Single) -> bool:
        if not one.has_key:
            return True
        record = one.record(self.shape)
        if record.key is None:  # some serde's way to read a key that is there
            return False
        shown = None if record.value is None else ValueAndTimestamp(record.value, record.timestamp_ms)
        self._newest[self._bytes_of(one, record.key)] = shown
        return True

    def _bytes_of(self, one: Single, key: Any) -> bytes:
        maker = one.maker if isinstance(one, Made) else None
        return key if isinstance(maker, _Puts) else self._key.encode(key)

    def forget(self) -> None:
        self._newest = {}

    def get(self, key: Any) -> ValueAndTimestamp | None:
        data = self._key.encode(key)
        try:
            newest = self._newest[data]
        except KeyError:
            newest = self._newest[data] = self._look_up(data)
        return None if newest is None else ValueAndTimestamp(self._handing.give(newest.value), newest.timestamp_ms)

    def _look_up(self, key: bytes) -> ValueAndTimestamp | None:
        """What the view shows."""
        slots = self._table.slots
        (at,) = slots.find(np.array([self.view.keys.lookup(key)], np.int32), None, None).tolist()
        reference = int(slots.reference[at]) if at >= 0 else NO_REFERENCE
        if reference == NO_REFERENCE:
            return None
        (value,) = self.shape.value.to_python(self._table.heap.one(reference))
        return ValueAndTimestamp(value, int(slots.time[at]))

    def range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        return self._rows(self._between(first, last))

    def reverse_range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        return self._rows(self._between(first, last)[::-1])

    def prefix_scan(self, prefix: Any, serde: Serde) -> Iterator[tuple[Any, Any]]:
        begin = prefix_bytes(prefix, serde, self.place)
        return self._rows([entry for entry in self._between(None, None) if entry[0].startswith(begin)])

    def __len__(self) -> int:
        self.view.settle()
        return len(self._table.slots.live())

    # --- write -----------------------------------------------------------------------------------------------

    def put(self, key: Any, value: Any) -> None:
        """``value``: a ValueAndTimestamp, or None to delete."""
        owner = self._writable()
        if value is not None and not isinstance(value, ValueAndTimestamp):
            next_step = "write ValueAndTimestamp(value, timestamp_ms)"
            raise ConfigError(self.place, "a ValueAndTimestamp, as it is the store of a table", repr(value), next_step)
        one = self._one(owner, self._key.encode(key), value)
        assert self.writer.chunk is not None
        assert self.writer.links is not None
        try:
            owner.put_by_processor(one, self.writer.chunk)
        except ConfigError as error:
            raise ConfigError(self.place, error.expected, error.got, error.next_step) from error
        self.writer.links.show(self.owner, one)

    def delete(self, key: Any) -> Any:
        deleted = self.get(key)
        self.put(key, None)
        return deleted

    def _writable(self) -> WritableStore:
        if self.operator is None:
            next_step = "write to the topic of the global table"
            raise ConfigError(self.place, "the store of a global table to be read", "a put", next_step)
        assert isinstance(self.operator, WritableStore), f"{self.owner} keeps a key-value store"
        if self.writer.links is None:
            next_step = "put when a record comes, or into a store of the processor's own"
            raise ConfigError(self.place, "puts into a table because of records", "one by a recorded time", next_step)
        return self.operator

    def _one(self, owner: WritableStore, key: bytes, value: ValueAndTimestamp | None) -> Made:
        """A row as the table itself would put it."""
        if self._puts is None:
            self._puts = _Puts(owner.store_keys, self.shape.value)
        if value is None:
            return Made(self._puts, self.writer.cause, key, None, NO_TIMESTAMP_MS)
        time_ms = whole_ms(value.timestamp_ms, self.place, earliest=NO_TIMESTAMP_MS)
        try:
            own = self._handing.keep(value.value)
        except ConfigError as refused:
            try:
                self.shape.value.from_python([value.value])  # says what is wrong with it
            except ConfigError as error:
                raise misfit_in(self.place, error) from error
            raise misfit_in(self.place, refused) from refused
        return Made(self._puts, self.writer.cause, key, own, time_ms)

    # --- rows ------------------------------------------------------------------------------------------------

    def _shown(self, codes: list[int]) -> list[ValueAndTimestamp | None]:
        slots = self._table.slots
        at = slots.find(np.array(codes, np.int32), None, None)
        references = np.where(at >= 0, slots.reference[at], NO_REFERENCE)
        values = self.shape.value.to_python(self._table.heap.take(references))
        return [
            None if reference == NO_REFERENCE else ValueAndTimestamp(value, time_ms)
            for reference, value, time_ms in zip(references.tolist(), values, slots.time[at].tolist(), strict=True)
        ]

    def _rows(self, entries: list[tuple[bytes, int]]) -> Iterator[tuple[Any, Any]]:
        keys = self.shape.key.to_python(self.view.keys.typed(np.array([code for _, code in entries], np.int32)))
        rows = zip(keys, self._shown([code for _, code in entries]), strict=True)
        return ((key, value) for key, value in rows if value is not None)

    def _between(self, first: Any, last: Any) -> list[tuple[bytes, int]]:
        self.view.settle()
        self._take_new_keys()
        order = self._order
        low = 0 if first is None else bisect_left(order, (self._key.encode(first), -1))
        high = len(order) if last is None else bisect_right(order, (self._key.encode(last), len(self.view.keys)))
        return order[low:high]

    def _take_new_keys(self) -> None:
        """Take in the keys that came since."""
        codes = np.arange(self._known, len(self.view.keys), dtype=np.int32)
        self._known += len(codes)
        fresh = list(zip(self.view.keys.take(codes).cast(pa.binary()).to_pylist(), codes.tolist(), strict=True))
        if len(fresh) > _FEW:
            self._order = sorted([*self._order, *fresh])
            return
        for one in fresh:
            self._order.insert(bisect_left(self._order, one), one)
