"""The output that is published: its rows as the records that the topology's sink writes in Kafka Streams.

Owns bytes and partitions. Rule: a sink without a partitioner puts a record where the murmur2 of its key says, of a
windowed key without the window (Kafka's BuiltInPartitioner and WindowedStreamPartitioner). A record without a key,
which Kafka's producer puts anywhere, stays with its task. A sink with a partitioner has chosen already.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.buffers import is_valid
from ...state.errors import ConfigError, PublishError
from ...state.records.murmur2 import murmur2_partitions
from ...state.serdes import Serde
from ...state.serdes.windowed_codec import WindowedCodec
from ...state.tables.data_files import open_table
from ...state.tables.schema_evolution import other_types
from ...state.tables.warehouse import HEADERS, WINDOW
from ..topology.named_output import NamedOutput

Headers = list[tuple[str, bytes | None]]


OutgoingRecord = tuple[int, bytes | None, bytes | None, int, Headers | None]
"""Partition, key, value, time in ms (above 0) and headers."""


@dataclass(frozen=True, eq=False)
class OutgoingRows:
    """Rows as the topic has them, in their order; columns of one length.

    ``partition`` int32; ``key``, ``value`` binary, null for none; ``time_ms`` int64; ``headers`` lists, null for none.
    """

    partition: np.ndarray
    key: pa.BinaryArray
    value: pa.BinaryArray
    time_ms: np.ndarray
    headers: pa.ListArray

    def __len__(self) -> int:
        return len(self.partition)

    def part(self, first: int, end: int) -> "OutgoingRows":
        """Rows ``[first, end)``."""
        rows = slice(first, end)
        return OutgoingRows(
            *(column[rows] for column in (self.partition, self.key, self.value, self.time_ms, self.headers))
        )

    def records(self) -> Iterator[OutgoingRecord]:
        """One by one, as Python has them."""
        headers: list[Any] = [None] * len(self)
        if self.headers.null_count < len(self):
            headers = [_pairs(each) for each in self.headers.to_pylist()]
        columns = self.partition.tolist(), self.key.to_pylist(), self.value.to_pylist(), self.time_ms.tolist(), headers
        return zip(*columns, strict=True)


def _pairs(headers: list[dict[str, Any]] | None) -> Headers | None:
    return [(each["key"], each["value"]) for each in headers] if headers else None


@dataclass(frozen=True)
class PublishedOutput(NamedOutput):
    """The output ``name`` of ``topology``, which is published. ``serdes``: gives those of key and value, without
    windows, once there are rows; None: those of the topology. Raises as NamedOutput.
    """

    serdes: Callable[[], tuple[Serde, Serde]] | None = None
    verb: ClassVar[str] = "publish"

    @property
    def task_partitions(self) -> str | None:
        """The sub-topology whose tasks the topic must have partitions for, as the ledger names it; None: any number is
        right, since the key decides.
        """
        return str(self.sub_topology.id) if self._has_chosen else None

    @cached_property
    def _has_chosen(self) -> bool:
        """Whether ``to`` names a partitioner or a number of partitions: then each has a task that writes its rows."""
        own = [node for node in self.sub_topology.repartition_sources if node.topic == self.name]
        return any(node.has_partitioner or node.partitions is not None for node in own)

    @property
    def schema(self) -> pa.Schema:
        """Columns of its table that records are made of, and their places."""
        shape = self.sink.shape
        windows = [(name, pa.int64()) for name in (() if shape.window is None else WINDOW)]
        return pa.schema([
            ("partition", pa.int32()), ("offset", pa.int64()), ("increment", pa.int64()), ("key", shape.key.arrow_type),
            *windows, ("value", shape.value.arrow_type), ("record_time_ms", pa.int64()), ("headers", HEADERS),
        ])  # fmt: skip

    def refuse_other_types(self, path: str, version: int) -> None:
        """Raises ConfigError where its table, at a version, has rows of other types than the topology's sink writes."""
        opened = open_table(path, version=version)
        assert opened is not None, f"{path}: in the ledger, yet not there"
        different = other_types(opened, self.schema)
        if different:
            expected, got = "the topology with which the rows were made", f"another type of {', '.join(different)}"
            raise ConfigError(f"output {self.name!r}", expected, got, "give that topology")

    def outgoing(self, rows: pa.Table, partitions: int) -> OutgoingRows:
        """Rows with the columns of ``schema`` as a topic of so many partitions gets them. Raises PublishError for a
        record time that the client cannot send, and as ``serdes``.
        """
        keys = _whole(rows, "key")
        own, times = _integers(rows, "partition").astype(np.int32), _integers(rows, "record_time_ms")
        self._refuse_times(rows, times)
        key, value = self._written_serdes
        plain = key.encode(keys)
        encoded = plain
        if self.windows is not None:
            columns, windowed = [keys, *(_whole(rows, name) for name in WINDOW)], self.windowed(key)
            encoded = windowed.encode(pa.StructArray.from_arrays(columns, fields=list(windowed.arrow_type)))
        elif isinstance(key.codec, WindowedCodec):
            plain = key.codec.inner.encode(keys.flatten()[0])
        return OutgoingRows(
            self._partitions(own, plain, partitions), _binary(encoded),
            _binary(value.encode(_whole(rows, "value"))), times, _whole(rows, "headers"),
        )  # fmt: skip

    @cached_property
    def _written_serdes(self) -> tuple[Serde, Serde]:
        return (self.sink.shape.key, self.sink.shape.value) if self.serdes is None else self.serdes()

    def _partitions(self, own: np.ndarray, keys: pa.Array, partitions: int) -> np.ndarray:
        if self._has_chosen:
            return own
        by_key: np.ndarray = murmur2_partitions(keys, partitions)
        return np.where(is_valid(keys), by_key, own % partitions).astype(np.int32)

    def _refuse_times(self, rows: pa.Table, times: np.ndarray) -> None:
        """librdkafka sends the wall clock's time in the place of 0; Kafka has no record times below it."""
        if len(times) and times.min() <= 0:
            at = int(np.argmin(times))
            place = f"output {self.name!r}, partition {rows['partition'][at]}, offset {rows['offset'][at]}"
            expected = "record times from 1 ms on, since the client cannot send others"
            raise PublishError(place, expected, f"{times[at]} ms", "leave the record out (replay exclude)")


def _binary(values: pa.Array) -> pa.BinaryArray:
    return values if values.type == pa.binary() else values.cast(pa.binary())


def _whole(rows: pa.Table, column: str) -> pa.Array:
    values = rows[column].combine_chunks()
    if isinstance(values, pa.Array):
        return values
    return pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)


def _integers(rows: pa.Table, column: str) -> np.ndarray:
    numbers: np.ndarray = pc.fill_null(_whole(rows, column), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers
