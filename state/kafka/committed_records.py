"""Committed records of a topic's partitions, from one offset to another, as columns.

Owns the reading. Rule: a partition ends when a record at or behind its end has come, or the broker has said that there
is none before it. So offsets without a record (compaction, markers and records of aborted transactions) are passed, and
silence is an error. Records come in the order of their offsets.
"""

import ctypes
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ..compilation.kernel_compilation import interpreted
from .c_interface import let_kernels_find_it, librdkafka
from .connection import unknown_setting
from .message_kernel import (
    ERROR,
    KEY,
    KEY_LENGTH,
    LOW_HALF,
    OFFSET,
    PARTITION,
    VALUE,
    VALUE_LENGTH,
    WORDS,
    describe,
    describe_headers,
    destroy,
    gather,
)

BATCH = 16_384
"""Messages that are taken at once, at most."""
PARTITIONS_AT_ONCE = 16
"""So many are read at the same time, which bounds the memory of whoever writes them."""
_COMPILED_FROM = 50_000
"""Offsets from which on it pays to load Numba."""
_WAIT_S = 0.1
_CONSUMER, _ERROR_ROOM = 1, 512
_END_OF_PARTITION = np.uint32(-191 & LOW_HALF)
"""RD_KAFKA_RESP_ERR__PARTITION_EOF, as an unsigned int."""
# Offsets are never reset: where the broker has deleted the next one, that is an error and no jump over records. Ends
# of partitions are messages, since compaction and aborted transactions leave offsets without a record.
_OWN = {
    "group.id": "replay-land", "enable.auto.commit": "false", "enable.auto.offset.store": "false",
    "isolation.level": "read_committed", "enable.partition.eof": "true", "auto.offset.reset": "error", "log_level": "0",
    "check.crcs": "true",
}  # fmt: skip
_QUICK = {
    "queued.min.messages": "1000000",
    "queued.max.messages.kbytes": "131072",
    "fetch.message.max.bytes": "4194304",
}
"""Unless the user says otherwise."""
_KINDS = ("NoTimestampType", "CreateTime", "LogAppendTime")


class ReadFailedError(Exception):
    """The broker did not give what was asked for; librdkafka's words."""


@dataclass(frozen=True)
class Records:
    """Of one partition: ``offset`` and ``time_ms`` int64, ``kind``: names of timestamp types; ``key``, ``value``:
    binary; ``headers``: lists of name and value, empty ones where there are none.
    """

    partition: int
    offset: np.ndarray
    time_ms: np.ndarray
    kind: pa.Array
    key: pa.Array
    value: pa.Array
    headers: pa.Array


@dataclass
class CommittedRecords:
    """``settings``: of librdkafka. ``ranges``: (from, to) of every partition that is read. ``patience_s``: how long the
    broker may give nothing. Use it in a ``with``. Raises ConfigError for settings that librdkafka does not know.
    """

    settings: Mapping[str, str]
    topic: str
    ranges: Mapping[int, tuple[int, int]]
    patience_s: float
    _following: dict[int, int] = field(default_factory=dict)
    _client: int | None = None
    _queue: int | None = None

    def __enter__(self) -> "CommittedRecords":
        self._lib = librdkafka()
        said = ctypes.create_string_buffer(_ERROR_ROOM)
        conf = self._lib.rd_kafka_conf_new()
        # The reading relies on ``_OWN``, so these count before what the user says.
        for name, value in {**_QUICK, **self.settings, **_OWN}.items():
            if self._lib.rd_kafka_conf_set(conf, name.encode(), value.encode(), said, _ERROR_ROOM):
                self._lib.rd_kafka_conf_destroy(conf)
                raise unknown_setting(said.value.decode(errors="replace"))
        self._client = self._lib.rd_kafka_new(_CONSUMER, conf, said, _ERROR_ROOM)
        if self._client is None:
            self._lib.rd_kafka_conf_destroy(conf)
            raise unknown_setting(said.value.decode(errors="replace"))
        self._lib.rd_kafka_poll_set_consumer(self._client)
        self._queue = self._lib.rd_kafka_queue_get_consumer(self._client)
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            # In this order: librdkafka wants every reference to the consumer's queue given back before it is closed.
            self._lib.rd_kafka_queue_destroy(self._queue)
            self._lib.rd_kafka_consumer_close(self._client)
            self._lib.rd_kafka_destroy(self._client)
            self._client = None

    def __iter__(self) -> Iterator[Records]:
        """All records of the ranges, a batch of one partition after the other. Raises ReadFailedError."""
        waiting = [p for p in sorted(self.ranges) if self.ranges[p][0] < self.ranges[p][1]]
        self._following = {}
        heard = time.monotonic()
        offsets = sum(self.ranges[p][1] - self.ranges[p][0] for p in waiting)
        is_small = offsets < _COMPILED_FROM
        if not is_small:
            let_kernels_find_it()
        while waiting or self._following:
            if added := waiting[: PARTITIONS_AT_ONCE - len(self._following)]:
                self._assign(added)
                del waiting[: len(added)]
            # Of each partition one message more than records: that it has ended.
            most = sum(self.ranges[p][1] - begin for p, begin in self._following.items()) + len(self._following)
            with interpreted(is_on=is_small):
                batch = self._batch(min(BATCH, most))
            if batch:
                heard = time.monotonic()
            elif time.monotonic() > heard + self.patience_s:
                p, begin = next(iter(self._following.items()))
                raise ReadFailedError(f"nothing for {self.patience_s:g} s, next offset {begin} of partition {p}")
            yield from batch or ()

    def _assign(self, partitions: Sequence[int]) -> None:
        self._change(self._lib.rd_kafka_incremental_assign, {p: self.ranges[p][0] for p in partitions})
        self._following |= {p: self.ranges[p][0] for p in partitions}

    def _change(self, change: Any, offsets: Mapping[int, int]) -> None:
        """Of what is read."""
        topic, listed = self.topic.encode(), self._lib.rd_kafka_topic_partition_list_new(len(offsets))
        for p, offset in offsets.items():
            self._lib.rd_kafka_topic_partition_list_add(listed, topic, p)
            self._lib.rd_kafka_topic_partition_list_set_offset(listed, topic, p, offset)
        error = change(self._client, listed)
        self._lib.rd_kafka_topic_partition_list_destroy(listed)
        if error is not None:
            said = self._lib.rd_kafka_error_string(error).decode()
            self._lib.rd_kafka_error_destroy(error)
            raise ReadFailedError(said)

    def _batch(self, most: int) -> list[Records] | None:
        """What has come; None: nothing has."""
        messages = np.zeros(most, np.int64)
        wait_ms = int(_WAIT_S * 1000)
        count = self._lib.rd_kafka_consume_batch_queue(self._queue, wait_ms, messages.ctypes.data, most)
        if count <= 0:
            return None
        messages = messages[:count]
        try:
            return self._taken(messages)
        finally:
            destroy(messages)

    def _taken(self, messages: np.ndarray) -> list[Records]:
        n, scratch = len(messages), np.zeros(3, np.int64)
        words = np.zeros((n, WORDS), np.int64)
        times, kinds, headers, counts = (np.zeros(n, np.int64) for _ in range(4))
        describe(messages, words, words.ctypes.data, times, kinds, headers, counts, scratch, scratch.ctypes.data)
        error, partition = (words[:, column] & LOW_HALF for column in (ERROR, PARTITION))
        offset = words[:, OFFSET]
        records: list[Records] = []
        for p in np.unique(partition).tolist():
            if p not in self._following:
                continue  # was ended; what librdkafka had fetched before goes
            end = self.ranges[p][1]
            mine = partition == p
            failed = np.flatnonzero(mine & (error != 0) & (error != _END_OF_PARTITION))
            if len(failed):
                said = self._lib.rd_kafka_message_errstr(int(messages[failed[0]])).decode(errors="replace")
                raise ReadFailedError(f"{said}, partition {p}, next offset {self._following[p]}")
            rows = np.flatnonzero(mine & (error == 0) & (offset < end) & (offset >= self._following[p]))
            if len(rows):
                records.append(_records(p, rows, words, times, kinds, headers, counts, scratch))
                assert np.all(np.diff(offset[rows]) > 0), f"partition {p}: not in the order of offsets"
                self._following[p] = int(offset[rows[-1]]) + 1
            if self._following[p] >= end or bool((offset[mine] >= end).any()):
                self._change(self._lib.rd_kafka_incremental_unassign, {p: 0})
                del self._following[p]
        failed = np.flatnonzero((partition == LOW_HALF) & (error != 0))
        if len(failed) and not records:
            said = self._lib.rd_kafka_message_errstr(int(messages[failed[0]])).decode(errors="replace")
            raise ReadFailedError(said)
        return records


def _records(
    partition: int, rows: np.ndarray, words: np.ndarray, times: np.ndarray, kinds: np.ndarray, headers: np.ndarray,
    counts: np.ndarray, scratch: np.ndarray,
) -> Records:  # fmt: skip
    words, kind = words[rows], kinds[rows]
    return Records(
        partition,
        words[:, OFFSET].copy(),
        times[rows],
        _kinds(kind),
        _binary(words[:, KEY], words[:, KEY_LENGTH], pa.binary()),
        _binary(words[:, VALUE], words[:, VALUE_LENGTH], pa.binary()),
        _headers(headers[rows], counts[rows], scratch),
    )


def _kinds(kind: np.ndarray) -> pa.Array:
    if len(kind) and (kind == kind[0]).all():
        return pa.repeat(_KINDS[kind[0]], len(kind))
    return pa.array(_KINDS).take(pa.array(kind))


def _binary(addresses: np.ndarray, lengths: np.ndarray, kind: pa.DataType) -> pa.Array:
    """What is at the addresses; 0 is null."""
    ends = np.zeros(len(addresses) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    assert ends[-1] < 1 << 31, f"{ends[-1]:,} bytes in one batch"
    into = np.empty(ends[-1], np.uint8)
    gather(np.ascontiguousarray(addresses), ends, into.ctypes.data)
    is_null = addresses == 0
    valid = pa.array(~is_null).buffers()[1] if is_null.any() else None
    buffers = [valid, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(into)]
    return pa.Array.from_buffers(kind, len(addresses), buffers, null_count=int(is_null.sum()))


def _headers(headers: np.ndarray, counts: np.ndarray, scratch: np.ndarray) -> pa.Array:
    ends = np.zeros(len(headers) + 1, np.int32)
    np.cumsum(counts, out=ends[1:])
    cells = np.zeros((int(ends[-1]), 4), np.int64)
    if len(cells):
        describe_headers(headers, counts, cells, scratch, scratch.ctypes.data)
    names = _text(_binary(cells[:, 0], cells[:, 1], pa.binary()))
    pairs = pa.StructArray.from_arrays([names, _binary(cells[:, 2], cells[:, 3], pa.binary())], ["key", "value"])
    return pa.ListArray.from_arrays(pa.array(ends), pairs)


def _text(names: pa.Array) -> pa.Array:
    """Bytes that are no UTF-8 are what Java's clients make of them."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.as_py().decode(errors="replace") for name in names], pa.string())
