"""Topics of a test driver as objects of their own, with serdes and a time that continues (Kafka's TestInputTopic and
TestOutputTopic).

Rule: a record that is piped without a time gets the topic's, which then continues by ``auto_advance``; one that has a
time leaves the topic's as it is.
"""

from collections.abc import Iterable
from typing import Any, Protocol, overload

import pyarrow as pa

from ...state.errors import ConfigError
from ...state.serdes import Serde
from ...state.serdes.handed_over import own_copy
from ...state.times import Duration, Instant
from ..functions.call_names import Hinting
from ..functions.expressions import Shape, Windowed
from ..functions.processor_api import NOT_GIVEN
from ..functions.record_headers import own_headers
from .driver_inputs import encoded
from .driver_records import AutoTime, Headers, OutputRecord, TestRecord, record_time_ms


class Driver(Protocol):
    """What topics need of the test driver that made them."""

    def pipe_bytes(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int, *, headers: Headers = ()
    ) -> None: ...
    def read_output(self, topic: str) -> OutputRecord | None: ...
    def read_outputs(self, topic: str) -> list[OutputRecord]: ...
    def queue_size(self, topic: str) -> int: ...
    def produced_topic_names(self) -> set[str]: ...


class TestInputTopic(Hinting):
    """Pipes records into the topic ``name``; ``TopologyTestDriver.create_input_topic`` makes it for its ``driver``.

    ``start_timestamp`` and ``advance``: time of the first record of a list, and how much later each next one is.
    Each method raises ConfigError for a key or a value that is not of the topic's serdes, and for a time below 0.
    """

    __test__ = False  # no test class for pytest

    def __init__(self, driver: Driver, name: str, key: Serde, value: Serde, time: AutoTime) -> None:
        self._driver, self._name, self._key, self._value, self._time = driver, name, key, value, time

    def advance_time(self, advance: Duration) -> None:
        """Records that are piped without a time are later by ``advance``, 0 ms or more, from here on."""
        self._time.advance(advance)

    @overload
    def pipe_input(self, record: TestRecord, /) -> None: ...

    @overload
    def pipe_input(self, value: Any, /, *, timestamp_ms: Instant | None = None, headers: Headers = ()) -> None: ...

    @overload
    def pipe_input(self, key: Any, value: Any, timestamp_ms: Instant | None = None, headers: Headers = ()) -> None: ...

    @overload
    def pipe_input(self, *, value: Any, timestamp_ms: Instant | None = None, headers: Headers = ()) -> None: ...

    def pipe_input(
        self,
        key: Any = NOT_GIVEN,
        value: Any = NOT_GIVEN,
        timestamp_ms: Instant | None = None,
        headers: Headers = (),
    ) -> None:
        """Pipe one record: a ``TestRecord``, a value alone (its key is null), or a key and a value.

        Example: ``clicks.pipe_input("ann", 5)``, ``clicks.pipe_input("ann", 5, timestamp_ms=1_000)``,
        ``clicks.pipe_input(TestRecord("ann", 5, headers=[("trace", b"a")]))``.
        """
        if value is NOT_GIVEN and isinstance(key, TestRecord):
            if timestamp_ms is not None or headers:
                got = "a TestRecord and more"
                raise ConfigError("pipe_input", "a TestRecord alone", got, "give it its time and headers itself")
            self.pipe_record_list([key])
            return
        if value is NOT_GIVEN:
            key, value = None, key
        if value is NOT_GIVEN:
            raise ConfigError("pipe_input", "a record, a value, or a key and a value", "nothing", "give a value")
        self.pipe_record_list([TestRecord(None if key is NOT_GIVEN else key, value, timestamp_ms, headers)])

    def pipe_record_list(self, records: Iterable[TestRecord]) -> None:
        """Pipe records in order; those without a time get the topic's. Each is what it was when ``records`` gave it."""
        place = f"topic {self._name!r}"
        given = [
            TestRecord(own_copy(one.key), own_copy(one.value), one.timestamp_ms, own_headers(one.headers, place))
            for one in records
        ]
        for (key, value), record in zip(self._written([(one.key, one.value) for one in given]), given, strict=True):
            asked = record.timestamp_ms
            time_ms = self._time.take() if asked is None else record_time_ms(asked, "timestamp_ms")
            self._driver.pipe_bytes(self._name, key, value, time_ms, headers=record.headers)

    def _written(self, pairs: list[tuple[Any, Any]]) -> list[tuple[bytes | None, bytes | None]]:
        """Keys and values as bytes. All are made before the first is piped: if one is refused, nothing is piped and the
        topic's time stays.
        """
        keys = encoded(self._key, (key for key, _ in pairs))
        values = encoded(self._value, (value for _, value in pairs))
        return list(zip(keys, values, strict=True))

    def pipe_key_value_list(
        self, key_values: Iterable[tuple[Any, Any]], start_timestamp: Instant | None = None, advance: Duration = 0
    ) -> None:
        """Pipe ``key_values``, (key, value) pairs, in order, at ``start_timestamp``, ``start_timestamp + advance`` and
        so on; without a start at the topic's time.
        """
        pairs = [own_copy((key, value)) for key, value in key_values]
        written = self._written(pairs)
        times = self._time.times(len(pairs), start_timestamp, advance)
        for (key, value), time_ms in zip(written, times, strict=True):
            self._driver.pipe_bytes(self._name, key, value, time_ms)

    def pipe_value_list(
        self, values: Iterable[Any], start_timestamp: Instant | None = None, advance: Duration = 0
    ) -> None:
        """Pipe values with null keys in order; times as of ``pipe_key_value_list``."""
        self.pipe_key_value_list(((None, value) for value in values), start_timestamp, advance)

    pipe_values = pipe_value_list
    """As the driver's own short form is called."""

    def __repr__(self) -> str:
        return f"TestInputTopic[topic={self._name!r}, key={self._key}, value={self._value}]"


class TestOutputTopic(Hinting):
    """Reads the records of the output ``name``; ``TopologyTestDriver.create_output_topic`` makes it for its ``driver``.

    A key of a windowed output is a ``Windowed`` one. A record that was read is gone, for everybody who reads the
    output. ``shape``: serdes of the output. ``key``, ``value``: serdes that read the bytes as another consumer would;
    None for the output's own.
    """

    __test__ = False  # no test class for pytest

    def __init__(self, driver: Driver, name: str, shape: Shape, key: Serde | None, value: Serde | None) -> None:
        self._driver, self._name, self._shape = driver, name, shape
        self._key, self._value = key or shape.key, value or shape.value

    def read_record(self) -> TestRecord:
        """The next record. Raises ConfigError when there is none."""
        record = self._driver.read_output(self._name)
        if record is None:
            is_new = self._name not in self._driver.produced_topic_names()
            got = "none: nothing was written to it" if is_new else "none: all of its records were read"
            raise ConfigError(f"output {self._name!r}", "a record to read", got, "ask is_empty() before")
        return self._as_read([record])[0]

    def read_key_value(self) -> tuple[Any, Any]:
        """Key and value of the next record. Raises ConfigError when there is none."""
        record = self.read_record()
        return record.key, record.value

    def read_value(self) -> Any:
        """Value of the next record. Raises ConfigError when there is none."""
        return self.read_record().value

    def read_records_to_list(self) -> list[TestRecord]:
        """All records that were not read yet, in order."""
        return self._as_read(self._driver.read_outputs(self._name))

    def read_key_values_to_list(self) -> list[tuple[Any, Any]]:
        """(key, value) of all records that were not read yet, in order."""
        return [(record.key, record.value) for record in self.read_records_to_list()]

    def read_key_values_to_map(self) -> dict[Any, Any]:
        """The last value of every key among the records that were not read yet; None where that is a tombstone.

        Raises ConfigError for a null key, and for keys that cannot be looked up (dicts and lists).
        """
        last_values: dict[Any, Any] = {}
        for key, value in self.read_key_values_to_list():
            place, next_step = "read_key_values_to_map", "use read_key_values_to_list"
            if key is None:
                raise ConfigError(place, "records with keys", "a null key", next_step)
            try:
                last_values[key] = value
            except TypeError as error:
                raise ConfigError(place, "keys that can be looked up", repr(key), next_step) from error
        return last_values

    def read_values_to_list(self) -> list[Any]:
        """Values of all records that were not read yet, in order."""
        return [record.value for record in self.read_records_to_list()]

    def get_queue_size(self) -> int:
        """Records that were not read yet."""
        return self._driver.queue_size(self._name)

    def is_empty(self) -> bool:
        """Whether every record was read."""
        return self.get_queue_size() == 0

    def _as_read(self, records: list[OutputRecord]) -> list[TestRecord]:
        keys = self._again([record.key for record in records], "key", self._shape.key, self._key)
        values = self._again([record.value for record in records], "value", self._shape.value, self._value)
        return [
            TestRecord(
                key if record.window is None else Windowed(key, *record.window),
                value,
                record.timestamp_ms,
                record.headers,
            )
            for key, value, record in zip(keys, values, records, strict=True)
        ]

    def _again(self, given: list[Any], what: str, written: Serde, read: Serde) -> list[Any]:
        """Python values that were written by one serde, as another one reads their bytes."""
        if written == read:
            return given
        decoded = read.decode(pa.array(encoded(written, given), pa.binary()))
        if decoded.reasons:
            place, got = f"output {self._name!r} {what}", f"bytes of {written}: {next(iter(decoded.reasons.values()))}"
            raise ConfigError(place, f"bytes that {read} reads", got, f"read it with {written}")
        return read.to_python(decoded.values)

    def __repr__(self) -> str:
        size = self.get_queue_size()
        return f"TestOutputTopic[topic={self._name!r}, key={self._key}, value={self._value}, size={size}]"
