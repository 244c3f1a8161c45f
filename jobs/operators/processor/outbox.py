"""What a processor forwards in one chunk, on its way to a batch.

Rule: a record is what it was when it was forwarded (state/serdes/handed_over.py), and one that the serdes cannot carry
is refused there. Records go in the order in which they were forwarded; those of a punctuation are behind everything
else of their cause, by the time at which their schedule was due. Of two processors with schedules that are due at one
time the one that was added first to the topology goes first, as in jobs/task/record_run.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ....state.buffers import is_valid
from ....state.errors import ConfigError, TaskFailed
from ....state.records.batches import NO_OFFSET, OF_CAUSE, Batch, Values
from ....state.records.keys import Keys
from ....state.serdes import Serde
from ....state.serdes.codec import refused_part
from ....state.serdes.handed_over import HandOver
from ....state.serdes.windowed_codec import Windowed
from ....state.tables.warehouse import HEADERS
from ....state.times import UNBOUNDED
from ...functions.processor_api import Headers
from ...functions.record_headers import own_headers
from ..base.single_records import Context, Made, Single
from .process_node import ProcessNode

BEHIND = UNBOUNDED
"""First column of the path of what a punctuation forwards: no other record of the cause is behind it."""
_NO_ROW, _NO_CAUSE, _NO_PLACE, _NO_TOPIC = -1, -1, -1, -1


@dataclass(frozen=True, slots=True)
class Handing:
    """How keys and values of ``node``'s shape are taken when they are forwarded."""

    key: HandOver
    value: HandOver

    @classmethod
    def of(cls, node: ProcessNode) -> "Handing":
        return cls(HandOver(node.shape.key.codec), HandOver(node.shape.value.codec))


class Outbox:
    """``node``: whose shape the records must have; ``handing``: of it; ``number``: its place in the topology."""

    def __init__(self, node: ProcessNode, keys: Keys, handing: Handing, number: int = 0) -> None:
        self.node, self.keys, self.number = node, keys, number
        self._take_key, self._take_value = handing.key.take, handing.value.take
        self._is_windowed = node.shape.window is not None
        self._origins: list[tuple[int, int, int, int]] = []
        self._keys: list[Any] = []
        self._values: list[Any] = []
        self._times: list[int] = []
        self._headers: list[Headers] = []
        self._children: list[str | None] = []
        self._now = _NO_ROW, _NO_CAUSE, 0, 0

    def at_row(self, row: int) -> None:
        """What comes is caused by that row of the batch."""
        self._now = row, _NO_CAUSE, 0, 0

    def at_punctuation(self, cause: int, due_ms: int) -> None:
        """What comes is forwarded by a schedule, after the record ``cause`` of the chunk."""
        _, before, _, number = self._now
        self._now = _NO_ROW, cause, due_ms, number + 1 if before == cause else 0

    def put(self, key: Any, value: Any, time_ms: int, headers: Headers, child: str | None) -> None:
        """``child``: the name of the only node that gets it; None: all below do. Raises TaskFailed for a key
        or a value that cannot be forwarded, ConfigError for headers.
        """
        own_key, own_value, own = self._own(key, value, headers)
        self._children.append(child)
        self._origins.append(self._now)
        self._keys.append(own_key)
        self._values.append(own_value)
        self._times.append(time_ms)
        self._headers.append(own)

    def _own(self, key: Any, value: Any, headers: Headers) -> tuple[Any, Any, Headers]:
        """What counts of a record that is forwarded."""
        plain = self._inner(key) if self._is_windowed else key
        try:
            own_key = self._take_key(plain)
        except ConfigError as error:
            raise self._misfit(self.node.shape.key, error, "key", plain) from error
        try:
            own_value = self._take_value(value)
        except ConfigError as error:
            raise self._misfit(self.node.shape.value, error, "value", plain) from error
        own = own_headers(headers, self.node.name, "forwarded headers") if headers else ()
        return own_key if plain is key else key._replace(key=own_key), own_value, own

    def _inner(self, key: Any) -> Any:
        """The key without its window."""
        if not isinstance(key, Windowed):
            expected, next_step = (
                "a forwarded key that is a Windowed, as the stream is windowed",
                "correct the processor",
            )
            raise TaskFailed(self.node.name, expected, repr(key), next_step)
        return key.key

    def _misfit(self, serde: Serde, error: ConfigError, what: str, key: Any) -> TaskFailed:
        expected, got = f"a forwarded {what} of {serde}", f"{refused_part(error)} with key {key!r}"
        next_step = "correct the processor, or the serdes in returns_key and returns"
        if what == "key" and isinstance(key, Windowed):
            size_ms = key.window_end_ms - key.window_start_ms
            got = f"{key!r}, a window of {size_ms} ms"
            if not serde.codec.is_windowed:
                next_step = (
                    "write process_values, which keeps the key, or "
                    f"returns_key=Serde.time_windowed({serde}, {size_ms}); "
                    f"of sessions it is Serde.session_windowed({serde})"
                )
        return TaskFailed(self.node.name, expected, got, next_step)

    def addressed(self) -> np.ndarray | None:
        """Of every record the child that it goes to alone, None where all get it; None when all get all."""
        return np.array(self._children, object) if any(self._children) else None

    def batch(self, taken: Batch) -> Batch:
        """All of it. ``taken``: the batch that was processed."""
        rows, causes, due_ms, numbers = np.array(self._origins, np.int64).reshape(-1, 4).T
        is_due = rows == _NO_ROW
        own = np.where(is_due, 0, rows)
        context = None
        if taken.context is not None or is_due.any():
            sources, offsets = taken.context or (None, None)
            context = _pick(sources, own, is_due, OF_CAUSE, _NO_TOPIC), _pick(offsets, own, is_due, OF_CAUSE, NO_OFFSET)
        return Batch(
            cause=_pick(taken.cause, own, is_due, 0, causes).astype(np.int32),
            time_ms=np.array(self._times, np.int64),
            path=self._path(taken, own, is_due, (due_ms, self.number, numbers)),
            context=context,
            **self._columns(self._keys, self._values, self._headers),
        )

    def _columns(self, keys: list[Any], values: list[Any], headers: list[Headers]) -> dict[str, Any]:
        """Keys, values and headers as a batch has them."""
        start_ms = end_ms = None
        if self._is_windowed:
            start_ms = np.array([windowed.window_start_ms for windowed in keys], np.int64)
            end_ms = np.array([windowed.window_end_ms for windowed in keys], np.int64)
            keys = [windowed.key for windowed in keys]
        value = self.node.shape.value.from_python(values)
        return {
            "key": self.keys.intern(self.node.shape.key.encode(self.node.shape.key.from_python(keys))),
            "keys": self.keys,
            "valid": is_valid(value),
            "value": Values(value),
            "window_start_ms": start_ms,
            "window_end_ms": end_ms,
            "headers": _all_headers(headers),
        }

    def _path(
        self, taken: Batch, own: np.ndarray, is_due: np.ndarray, own_levels: tuple[int | np.ndarray, ...]
    ) -> tuple[np.ndarray, ...]:
        if not is_due.any():
            return tuple(column[own] for column in taken.path)
        due: list[int | np.ndarray] = [BEHIND, *own_levels]
        own_path = [*taken.path, *[None] * (len(due) - len(taken.path))]
        behind = [*due, *[0] * (len(own_path) - len(due))]
        return tuple(_pick(column, own, is_due, _NO_PLACE, last) for column, last in zip(own_path, behind, strict=True))


class SendingOutbox(Outbox):
    """Each record continues to ``send`` at once."""

    def __init__(
        self, node: ProcessNode, keys: Keys, handing: Handing, send: Callable[[Single, str | None], None]
    ) -> None:
        super().__init__(node, keys, handing)
        self._send = send
        self._cause = 0
        self._context: Context | None = None

    def at(self, one: Single) -> None:
        """What comes is caused by that record."""
        self._cause, self._context = one.cause, one.context

    def at_punctuation(self, cause: int, due_ms: int) -> None:
        self._cause, self._context = cause, (_NO_TOPIC, NO_OFFSET)

    def put(self, key: Any, value: Any, time_ms: int, headers: Headers, child: str | None) -> None:
        own_key, own_value, own_headers = self._own(key, value, headers)
        try:
            self._send(Made(self, self._cause, own_key, own_value, time_ms, own_headers, self._context), child)
        except TaskFailed as error:  # which is not of the record that is processed
            error.is_decided = True
            raise

    def made(self, records: Sequence[Made]) -> Batch:
        """Records that were sent, as columns, in order."""
        context = None
        if any(one.context is not None for one in records):
            own = [one.context or (OF_CAUSE, OF_CAUSE) for one in records]
            sources, offsets = np.array(own, np.int64).T
            context = sources, offsets
        return Batch(
            cause=np.array([one.cause for one in records], np.int32),
            time_ms=np.array([one.time_ms for one in records], np.int64),
            context=context,
            **self._columns(
                [one.key for one in records], [one.value for one in records], [one.headers for one in records]
            ),
        )


def _all_headers(every: list[Headers]) -> pa.Array | None:
    if not any(every):
        return None
    return pa.array([[{"key": key, "value": value} for key, value in headers] or None for headers in every], HEADERS)


def _pick(
    column: np.ndarray | None, rows: np.ndarray, is_due: np.ndarray, own: int, due: int | np.ndarray
) -> np.ndarray:
    """``column`` of ``rows``, or ``own`` without one; ``due`` where a punctuation forwards."""
    if column is None or len(column) == 0:
        return np.where(is_due, due, own)
    return np.where(is_due, due, column[rows])
