"""What librdkafka's messages hold, as columns of numbers, and the bytes that they point to, copied.

Rule: a message is a struct of WORDS words (``rd_kafka_message_t``, which librdkafka keeps as it is): error, topic,
partition, value, its length, key, its length, offset, private. An address of 0 is null.

Arrays: ``messages`` int64 (n,), addresses; ``words`` int64 (n, WORDS); ``times``, ``kinds`` and ``headers`` int64
(n,): ms, librdkafka's number of the timestamp type, address of the headers; ``counts`` int64 (n,) of headers;
``scratch`` int64 (3,), at ``scratch_at``. ``cells`` int64 (headers, 4): name, its length, value, its length. ``ends``
int64 (n + 1,).
"""

from ..compilation.kernel_compilation import kernel
from .c_interface import CFunction

WORDS = 9
ERROR, PARTITION, VALUE, VALUE_LENGTH, KEY, KEY_LENGTH, OFFSET = 0, 2, 3, 4, 5, 6, 7
"""Columns of ``words``."""
LOW_HALF = 0xFFFFFFFF
"""Of a word that is an int in C."""

_memcpy, _strlen = CFunction("memcpy"), CFunction("strlen")
_timestamp, _headers = CFunction("rd_kafka_message_timestamp"), CFunction("rd_kafka_message_headers")
_header_count, _header = CFunction("rd_kafka_header_cnt"), CFunction("rd_kafka_header_get_all")
_destroy = CFunction("rd_kafka_message_destroy")


@kernel
def describe(messages, words, words_at, times, kinds, headers, counts, scratch, scratch_at):  # type: ignore[no-untyped-def]
    """Fill the columns. A message with an error (the end of a partition, too) has no time and no headers."""
    for i in range(len(messages)):
        message = messages[i]
        _memcpy(words_at + i * 72, message, 72)
        times[i] = kinds[i] = headers[i] = counts[i] = 0
        if words[i, 0] & 0xFFFFFFFF != 0:
            continue
        times[i] = _timestamp(message, scratch_at)
        kinds[i] = scratch[0] & 0xFFFFFFFF
        if _headers(message, scratch_at) == 0:
            headers[i] = scratch[0]
            counts[i] = _header_count(scratch[0])


@kernel
def describe_headers(headers, counts, cells, scratch, scratch_at):  # type: ignore[no-untyped-def]
    """Fill ``cells``, message after message."""
    row = 0
    for i in range(len(headers)):
        for index in range(counts[i]):
            _header(headers[i], index, scratch_at, scratch_at + 8, scratch_at + 16)
            cells[row, 0], cells[row, 1] = scratch[0], _strlen(scratch[0])
            cells[row, 2], cells[row, 3] = scratch[1], scratch[2]
            row += 1


@kernel
def gather(addresses, ends, into_at):  # type: ignore[no-untyped-def]
    """Copy what is at each address, as long as ``ends`` says, one behind the other."""
    for i in range(len(addresses)):
        length = ends[i + 1] - ends[i]
        if length > 0:
            _memcpy(into_at + ends[i], addresses[i], length)


@kernel
def destroy(messages):  # type: ignore[no-untyped-def]
    """Give them back to librdkafka. Each once."""
    for i in range(len(messages)):
        _destroy(messages[i])
