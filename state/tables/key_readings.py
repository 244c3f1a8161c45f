"""What a key is in other tables: the values that its bytes say, and all forms in which a serde writes these values.

Owns the reading of a key that is given as bytes, without the topologies that read it. Rule: a reading is sure where
nothing else is likely to have these bytes. Such are text, JSON, UUIDs, and a string that is alone in Avro or in a
message of Protobuf; also behind the head of a schema registry. What may be by chance is doubtful: it is reported where
a table has it, and never erased. Bytes that have no reading may be fields or anything else (``is_read``).
"""

import json
import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

import pyarrow as pa

from ..serdes import Serde
from ..serdes.confluent_head import GUID_HEAD_BYTES, HEAD_BYTES, varint, zigzag

LONG_BYTES, UUID_BYTES = 8, 16
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a character, which JSON can spell and no text of a table has."""
_DIGITS = re.compile(r"0|-?[1-9][0-9]{0,18}")
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,39})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?")
_FIRST = (0x00, 0xFF, 0x3F, 0x40, 0xBF, 0xC0)
"""First bytes of numbers that are likely: of small integers, and of doubles that are neither huge nor tiny."""
_STRING = 2
"""Of Protobuf, in the tag of a field: its value has a length."""
_FIELDS = range(1, 16)
"""Fields of Protobuf with a tag of one byte."""


@dataclass(frozen=True)
class KeyReadings:
    """Of some ``keys``."""

    keys: tuple[bytes, ...]

    @cached_property
    def values(self) -> list[Any]:
        """What they surely are: texts, numbers, objects and arrays of JSON; the keys themselves are not here."""
        return _each_once(value for key in self.keys for value in _values(key))

    @cached_property
    def doubtful(self) -> list[Any]:
        """What they may be."""
        return _each_once(value for key in self.keys for value in _doubtful_values(key))

    @property
    def texts(self) -> list[str]:
        """Of their values; a UUID in small letters and in capitals."""
        return [text for value in self.values if isinstance(value, str) for text in _spellings(value)]

    @property
    def unique(self) -> list[bytes]:
        """Bytes of their values that nothing else has, wherever they are: of UUIDs."""
        return [data for value in self.values if isinstance(value, str) for data in _uuid_bytes(value)]

    @property
    def objects(self) -> list[Any]:
        """Of their values, those with parts."""
        return [value for value in self.values if isinstance(value, dict | list)]

    @cached_property
    def forms(self) -> tuple[bytes, ...]:
        """All bytes that surely are one of them, but for those behind a head."""
        texts = [form for value in self.values for form in _text_forms(value)]
        # A number's bytes that are printable may as well be the text of another key.
        numbers = [form for form in self._number_forms if printable(form) is None]
        return tuple(dict.fromkeys([*self.keys, *texts, *numbers]))

    @cached_property
    def payloads(self) -> tuple[bytes, ...]:
        """All bytes that are one of them behind the head of a schema registry."""
        bare = [key[head:] for key in self.keys if (head := _head(key)) and len(key) != LONG_BYTES]
        return tuple(dict.fromkeys([*bare, *(form for value in self.values for form in _payloads(value))]))

    def has(self, key: bytes) -> bool:
        """Whether these bytes surely are one of them."""
        head = _head(key)
        return key in self.forms or (head > 0 and key[head:] in self.payloads)

    @cached_property
    def doubtful_forms(self) -> tuple[bytes, ...]:
        """Bytes that may be one of them, or another key."""
        said = [*self._number_forms, *(form for value in self.doubtful for form in _text_forms(value))]
        return tuple(dict.fromkeys(form for form in said if form not in self.forms))

    @property
    def _number_forms(self) -> list[bytes]:
        return [form for number in self.numbers for form in _bytes_of(number)]

    @property
    def numbers(self) -> list[int | float]:
        """Of their values."""
        return [value for value in self.values if isinstance(value, int | float)]

    @property
    def doubtful_numbers(self) -> list[int | float]:
        """What they may be."""
        return [value for value in self.doubtful if isinstance(value, int | float)]


def is_read(key: bytes) -> bool:
    """Whether it is known what a serde reads in these bytes: text, a number, or one that is alone in them."""
    is_number = len(key) in (2, 4, LONG_BYTES) and key[0] in _FIRST
    return is_number or next(_values(key), None) is not None


def printable(data: bytes) -> str | None:
    """The text that these bytes are; None: they are none, or have control characters, but for tabs and ends of lines
    within it.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    is_text = bool(text) and text.strip("\t\n\r") == text and _CONTROL.search(text) is None
    return text if is_text else None


def json_of(data: bytes) -> Any:
    """The value of a JSON text; None for what is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def spelled(text: str) -> list[bytes]:
    """As it is, and as the text of JSON has it."""
    forms = (json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode() for ascii_only in (False, True))
    return list(dict.fromkeys((text.encode(), *forms)))


def with_length(text: str) -> list[bytes]:
    """Behind its length, as Avro and Protobuf write it."""
    data = text.encode()
    return [zigzag(len(data)) + data, varint(len(data)) + data]


# --- the values of a key -----------------------------------------------------------------------------------------


def _values(key: bytes) -> Iterator[Any]:
    text = printable(key)
    if text is not None:
        yield from _of_text(text)
        yield from _of_json(key)
    elif len(key) == UUID_BYTES:
        yield str(UUID(bytes=key))
    yield from _alone(key)
    head = _head(key)
    # A long may have the same eight bytes.
    if head and len(key) != LONG_BYTES:
        yield from _of_payload(key[head:])


def _doubtful_values(key: bytes) -> Iterator[Any]:
    head = _head(key)
    if len(key) == LONG_BYTES and head:
        yield from _of_payload(key[head:])
    if len(key) in (2, 4, LONG_BYTES) and printable(key) is None:
        yield int.from_bytes(key, "big", signed=True)
    for data in (key, key[head:]) if head else (key,):
        number, end = _read_varint(data)
        if end == len(data) and (head or printable(data) is None):
            yield (number >> 1) ^ -(number & 1)


def _of_payload(data: bytes) -> Iterator[Any]:
    yield from _alone(data)
    if data[:1] == b"\0":  # of Protobuf: the first message of its file
        yield from _alone(data[1:])
    if len(data) == UUID_BYTES and printable(data) is None:
        yield str(UUID(bytes=data))
    yield from _of_json(data)


def _of_text(text: str) -> Iterator[str | int | float]:
    yield text
    uuid = Serde.uuid().decode(pa.array([text.encode()], pa.binary())).values[0].as_py()
    if uuid is not None:
        yield uuid
    if _DIGITS.fullmatch(text):
        yield int(text)
    if _DECIMAL.fullmatch(text):
        yield float(text)


def _of_json(data: bytes) -> Iterator[Any]:
    value = json_of(data)
    if isinstance(value, str) and value:
        yield from [] if _SURROGATE.search(value) else _of_text(value)
    elif isinstance(value, dict | list) and value:
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _of_text(data.decode().strip())


def _alone(data: bytes) -> Iterator[str | int | float]:
    """The text of a string of Avro, or of a message of Protobuf with one field, that is all of ``data``."""
    number, end = _read_varint(data)
    texts = [data[end:]] if end and number == 2 * (len(data) - end) else []
    if data and data[0] & 7 == _STRING and data[0] >> 3 in _FIELDS:
        number, end = _read_varint(data[1:])
        texts += [data[1 + end :]] if end and number == len(data) - 1 - end else []
    for text in map(printable, texts):
        if text is not None:
            yield from _of_text(text)


def _head(key: bytes) -> int:
    """So many bytes of a schema's id, or of its GUID, may be before a value; 0: none are."""
    for first, head in ((b"\0", HEAD_BYTES), (b"\1", GUID_HEAD_BYTES)):
        if key.startswith(first) and len(key) > head:
            return head
    return 0


# --- the forms of a value ----------------------------------------------------------------------------------------


def _spellings(text: str) -> list[str]:
    return [text, text.upper()] if _uuid_bytes(text) else [text]


def _uuid_bytes(text: str) -> list[bytes]:
    """Of a UUID, as it is canonical; [] of another text."""
    try:
        uuid = UUID(text)
    except ValueError:
        return []
    return [uuid.bytes] if str(uuid) == text else []


def _text_forms(value: Any) -> list[bytes]:
    """Of objects and arrays none: their texts are compared as JSON."""
    if isinstance(value, str):
        strings = [form for text in _spellings(value) for form in _strings(text)]
        return [*strings, *_fields(value), *_uuid_bytes(value)]
    return [str(value).encode()] if isinstance(value, int) else []


def _payloads(value: Any) -> list[bytes]:
    if isinstance(value, str):
        strings = [form for text in _spellings(value) for form in _strings(text)[1:]]
        return [*strings, *(b"\0" + field for field in _fields(value)), *_uuid_bytes(value)]
    return [str(value).encode(), zigzag(value)] if isinstance(value, int) else []


def _strings(text: str) -> list[bytes]:
    """First its bytes, then as Avro and JSON write it."""
    quoted = [b'"' + form + b'"' for form in spelled(text)]
    return [text.encode(), with_length(text)[0], *quoted]


def _fields(text: str) -> list[bytes]:
    """As the one field of a message of Protobuf."""
    return [bytes([number << 3 | _STRING]) + with_length(text)[1] for number in _FIELDS]


def _bytes_of(number: float) -> list[bytes]:
    """As Kafka's serializers write a number, and Avro one that is whole."""
    forms = [zigzag(number)] if isinstance(number, int) else []
    for code in "hiq" if isinstance(number, int) else "fd":
        with suppress(struct.error, OverflowError):
            form = struct.pack(f">{code}", number)
            forms += [form] if struct.unpack(f">{code}", form) == (number,) else []
    return forms


def _read_varint(data: bytes) -> tuple[int, int]:
    """The number, and where it ends; 0 where none does within ten bytes."""
    number = 0
    for at, byte in enumerate(data[:10]):
        number |= (byte & 127) << 7 * at
        if byte < 128:
            return number, at + 1
    return 0, 0


def _each_once(values: Iterable[Any]) -> list[Any]:
    """A number and a text that look the same are two."""
    return list({(type(value), repr(value)): value for value in values}.values())
