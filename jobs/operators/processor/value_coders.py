"""How stores of Python processors write keys and values: as bytes, with times and headers where their kind keeps them.

Rule: the bytes that a kind adds come before the value, as Kafka's serializer of that kind writes it.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa

from ....state.errors import ConfigError
from ....state.serdes import Serde
from ....state.serdes.confluent_head import zigzag
from ....state.serdes.single_values import SingleValues
from ....state.tables.warehouse import HEADERS
from ....state.times import NO_TIMESTAMP_MS, whole_ms
from ...functions.processor_api import (
    AggregationWithHeaders,
    Headers,
    KeyValues,
    ValueAndTimestamp,
    ValueTimestampHeaders,
)
from ...functions.record_headers import own_headers
from ...functions.state_stores import (
    SESSION_WITH_HEADERS,
    TIMESTAMPED,
    TIMESTAMPED_WINDOW,
    TIMESTAMPED_WINDOW_WITH_HEADERS,
    TIMESTAMPED_WITH_HEADERS,
)

_Tuples = tuple[type[tuple[Any, ...]], ...]

_ROW = ", row 0"
"""What a column function calls the only value that it is given."""


class Coder:
    """Single values of ``serde``. What is decoded is the caller's own: to change it changes nothing here."""

    with_more: ClassVar[_Tuples] = ()
    """Tuples whose first item is a value, with what its kind keeps beside it."""

    def __init__(self, serde: Serde, place: str) -> None:
        self.serde, self.place = serde, place
        self._values = SingleValues(serde)

    def encode(self, value: Any) -> bytes:
        """Raises ConfigError, which names the store, for a value that is not of the serde's type."""
        try:
            data = self._values.encode(value)
        except ConfigError as error:
            raise misfit_in(self.place, error) from error
        assert data is not None, "stores and their callers keep null away from coders"
        return data

    def encode_put(self, value: Any) -> bytes | None:
        """None for what deletes: no value, or nothing beside its time or headers."""
        deletes = value is None or (isinstance(value, self.with_more) and value[0] is None)
        return None if deletes else self.encode(value)

    def decode(self, data: bytes) -> Any:
        """Raises ConfigError for bytes that are none of the serde's, as a serde of the user's own may find them."""
        value = self._values.decode(data)
        if value is None and (reasons := self.serde.decode(pa.array([data], pa.binary())).reasons):
            next_step = "correct the functions of the serde: decode reads what encode wrote"
            got = f"some that it does not ({reasons[0]})"
            raise ConfigError(self.place, f"bytes that {self.serde} reads", got, next_step)
        return value

    def logged(self, value: bytes, time_ms: int, headers: Sequence[tuple[str, bytes | None]]) -> bytes:
        """The stored bytes of ``value`` in a record of the store's changelog."""
        return value

    def parted(self, data: bytes) -> tuple[bytes, int, Headers]:
        """The reverse of ``logged``; NO_TIMESTAMP_MS where its kind keeps no time."""
        return data, NO_TIMESTAMP_MS, ()

    def columns(self, data: Sequence[bytes]) -> dict[str, pa.Array]:
        """The values of ``data`` as a store shows them."""
        return {"value": self.serde.decode(pa.array(data, pa.binary())).values}


def misfit_in(place: str, error: ConfigError) -> ConfigError:
    """What a serde says of a value that it cannot carry, as of the store that is called ``place``."""
    return ConfigError(f"{place}, {error.place.replace(_ROW, '')}", error.expected, error.got, error.next_step)


class KeyCoder(Coder):
    """Of keys, which are never null."""

    def encode(self, value: Any) -> bytes:
        """Raises ConfigError for None, too."""
        if value is None:
            raise ConfigError(self.place, "a key", "None", "leave records without a key alone")
        return super().encode(value)


def prefix_bytes(prefix: Any, serde: Serde, place: str) -> bytes:
    """What keys begin with that ``prefix_scan`` looks for. Raises ConfigError for no prefix, and for one that ``serde``
    does not write.
    """
    if not isinstance(serde, Serde):
        raise ConfigError(place, "the serde of the prefix", repr(serde), "write prefix_scan(prefix, Serde.string())")
    return KeyCoder(serde, place).encode(prefix)


def after_prefix(prefix: bytes) -> bytes | None:
    """The first bytes behind all that begin with ``prefix``; None where there are none (Bytes.increment)."""
    whole = prefix.rstrip(b"\xff")
    return whole[:-1] + bytes([whole[-1] + 1]) if whole else None


class TimestampedCoder(Coder):
    """Values with their times: eight bytes of the time, then those of the value (ValueAndTimestampSerializer)."""

    with_more: ClassVar[_Tuples] = (ValueAndTimestamp,)

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, ValueAndTimestamp):
            next_step = "write ValueAndTimestamp(value, timestamp_ms)"
            raise ConfigError(self.place, "a ValueAndTimestamp, as it is a timestamped store", repr(value), next_step)
        time_ms = whole_ms(value.timestamp_ms, self.place, earliest=NO_TIMESTAMP_MS)
        return time_ms.to_bytes(8, "big", signed=True) + super().encode(value.value)

    def decode(self, data: bytes) -> Any:
        return ValueAndTimestamp(super().decode(data[8:]), _time_of(data))

    def logged(self, value: bytes, time_ms: int, headers: Sequence[tuple[str, bytes | None]]) -> bytes:
        return time_ms.to_bytes(8, "big", signed=True) + value

    def parted(self, data: bytes) -> tuple[bytes, int, Headers]:
        return data[8:], _time_of(data), ()

    def columns(self, data: Sequence[bytes]) -> dict[str, pa.Array]:
        times = pa.array([_time_of(one) for one in data], pa.int64())
        return super().columns([one[8:] for one in data]) | {"record_time_ms": times}


def _time_of(data: bytes) -> int:
    return int.from_bytes(data[:8], "big", signed=True)


class TimestampHeadersCoder(TimestampedCoder):
    """Values with their times and headers: the length of the headers, these, then as a timestamped store's
    (ValueTimestampHeadersSerializer).
    """

    with_more = (ValueAndTimestamp, ValueTimestampHeaders)

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, ValueTimestampHeaders):
            next_step = "write ValueTimestampHeaders(value, timestamp_ms, headers)"
            raise ConfigError(self.place, "a ValueTimestampHeaders, as its store keeps headers", repr(value), next_step)
        timed = super().encode(ValueAndTimestamp(value.value, value.timestamp_ms))
        return _with_headers(value.headers, timed, self.place)

    def decode(self, data: bytes) -> Any:
        headers, rest = _parted(data)
        timed = super().decode(rest)
        return ValueTimestampHeaders(timed.value, timed.timestamp_ms, headers)

    def logged(self, value: bytes, time_ms: int, headers: Sequence[tuple[str, bytes | None]]) -> bytes:
        return _with_headers(headers, super().logged(value, time_ms, headers), self.place)

    def parted(self, data: bytes) -> tuple[bytes, int, Headers]:
        headers, rest = _parted(data)
        return rest[8:], _time_of(rest), headers

    def columns(self, data: Sequence[bytes]) -> dict[str, pa.Array]:
        headers, rest = _all_parted(data)
        return super().columns(rest) | {"headers": headers}


class AggregationHeadersCoder(Coder):
    """Aggregates of sessions with headers: the length of the headers, these, then the aggregate
    (AggregationWithHeadersSerializer).
    """

    with_more = (AggregationWithHeaders,)

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, AggregationWithHeaders):
            next_step = "write AggregationWithHeaders(aggregation, headers)"
            raise ConfigError(
                self.place, "an AggregationWithHeaders, as its store keeps headers", repr(value), next_step
            )
        return _with_headers(value.headers, super().encode(value.aggregation), self.place)

    def decode(self, data: bytes) -> Any:
        headers, rest = _parted(data)
        return AggregationWithHeaders(super().decode(rest), headers)

    def logged(self, value: bytes, time_ms: int, headers: Sequence[tuple[str, bytes | None]]) -> bytes:
        return _with_headers(headers, value, self.place)

    def parted(self, data: bytes) -> tuple[bytes, int, Headers]:
        headers, rest = _parted(data)
        return rest, NO_TIMESTAMP_MS, headers

    def columns(self, data: Sequence[bytes]) -> dict[str, pa.Array]:
        headers, rest = _all_parted(data)
        return super().columns(rest) | {"headers": headers}


_OF_KIND: dict[str, type[Coder]] = {
    TIMESTAMPED: TimestampedCoder,
    TIMESTAMPED_WINDOW: TimestampedCoder,
    TIMESTAMPED_WITH_HEADERS: TimestampHeadersCoder,
    TIMESTAMPED_WINDOW_WITH_HEADERS: TimestampHeadersCoder,
    SESSION_WITH_HEADERS: AggregationHeadersCoder,
}


def coder_of(spec: KeyValues, place: str) -> Coder:
    """Of the values of the store ``spec``; ``place``: named in errors."""
    return _OF_KIND.get(spec.settings.get("kind", ""), Coder)(spec.value, place)


# --- headers -------------------------------------------------------------------------------------------------


def _with_headers(headers: Any, value: bytes, place: str) -> bytes:
    """``value`` behind the length of its headers and these (HeadersSerializer)."""
    headers = own_headers(headers, place)
    parts = [zigzag(len(headers))] if headers else []
    for name, content in headers:
        coded = name.encode()
        parts += [zigzag(len(coded)), coded, zigzag(-1) if content is None else zigzag(len(content)) + content]
    written = b"".join(parts)
    return zigzag(len(written)) + written + value


def _parted(data: bytes) -> tuple[Headers, bytes]:
    """The headers, and what is behind them."""
    length, at = _read_varint(data, 0)
    end = at + length
    count, at = _read_varint(data, at) if length else (0, at)
    headers = []
    for _ in range(count):
        size, at = _read_varint(data, at)
        name, at = data[at : at + size].decode(), at + size
        size, at = _read_varint(data, at)
        headers.append((name, None if size < 0 else data[at : at + size]))
        at += max(size, 0)
    return tuple(headers), data[end:]


def _all_parted(data: Sequence[bytes]) -> tuple[pa.Array, list[bytes]]:
    parted = list(map(_parted, data))
    headers = [[{"key": name, "value": content} for name, content in pairs] for pairs, _ in parted]
    return pa.array(headers, HEADERS), [rest for _, rest in parted]


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins ``at``, and where it ends."""
    number, shift = 0, 0
    while data[at] > 0x7F:
        number |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    number |= data[at] << shift
    return (number >> 1) ^ -(number & 1), at + 1
