"""Serde: how keys and values of a topic are in bytes, as Kafka's clients write them.

Owns the choice of the format and the checks at the door; the formats are the other modules of this package.
Rule: ``decode(encode(values))`` gives ``values`` back, and bytes that a Kafka client could not have meant are never
a silent null: they are flagged, with a sentence, and end as dead letters.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..argument_types import checked_types
from ..errors import ConfigError
from ..near_names import did_you_mean
from ..times import Duration, duration_ms
from .boolean import BooleanCodec
from .codec import Codec, Decoded
from .computed_types import computed_type
from .confluent_head import message_indexes_of, with_head
from .fixed_width import FixedWidth
from .json_text import JsonCodec, parse_schema
from .kafka_types import ListCodec, UuidCodec, VoidCodec
from .own_codec import OwnCodec
from .text import BytesCodec, StringCodec
from .variant import VariantCodec
from .windowed_codec import WindowedCodec

PythonValues = list[Any]
"""A class that has a method ``list`` cannot say it."""
_Id = int


_KAFKA_NAMES = {
    "Integer": "int",
    "ByteArray": "bytes",
    "ListSerde": "list",
    "serdeFrom": "of",
    "timeWindowedSerdeFrom": "time_windowed",
    "sessionWindowedSerdeFrom": "session_windowed",
}
"""Methods of Kafka's Serdes whose names are not the same in small letters."""


class _SerdeNames(type):
    """The class itself, asked for a name that it does not have: ``Serde.String``."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            known = [one for one in dir(cls) if not one.startswith("_")]
            snake = _KAFKA_NAMES.get(name) or re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()
            near = f"write Serde.{snake}(…)" if snake in known else did_you_mean(snake, known, "")
            raise _refused_name(name, near)


def _refused_name(name: str, near: str) -> AttributeError:
    return AttributeError("; ".join(filter(None, (f"Serde has no {name!r}", near))))


@dataclass(frozen=True, slots=True)
class Serde(metaclass=_SerdeNames):
    """How a key or value is read from bytes and written. Frozen and picklable; two serdes are equal when they read and
    write the same bytes as the same type. ``codec``: what reads and writes; ``Serde.string()`` and so on choose it.
    """

    codec: Codec

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            is_half = name in ("serializer", "deserializer")
            raise _refused_name(name, "write the serde itself, which reads and writes" if is_half else "")

    @staticmethod
    def string() -> "Serde":
        """UTF-8 (StringSerializer). Other bytes are bad, where Kafka's deserializer puts U+FFFD in silence."""
        return Serde(StringCodec())

    @staticmethod
    def bytes() -> "Serde":
        """The bytes themselves (ByteArraySerializer); none are bad."""
        return Serde(BytesCodec())

    @staticmethod
    def int() -> "Serde":
        """4 bytes, big-endian (IntegerSerializer)."""
        return Serde(FixedWidth("int"))

    @staticmethod
    def long() -> "Serde":
        """8 bytes, big-endian (LongSerializer)."""
        return Serde(FixedWidth("long"))

    @staticmethod
    def double() -> "Serde":
        """8 bytes, big-endian IEEE 754 (DoubleSerializer)."""
        return Serde(FixedWidth("double"))

    @staticmethod
    @checked_types
    def json(schema: str) -> "Serde":
        """A JSON object with declared fields, such as ``"user string, ms long, tags array<string>"``, or a JSON value
        of one type, such as ``"array<string>"``.

        Types are all those of Spark's DDL: decimals, dates, times, timestamps, maps and binary too (docs/types.md). Bad
        texts are those of json_reader. Raises ConfigError for a schema it cannot read.
        """
        return Serde(JsonCodec(parse_schema(schema)))

    @staticmethod
    def short() -> "Serde":
        """2 bytes, big-endian (ShortSerializer)."""
        return Serde(FixedWidth("short"))

    @staticmethod
    def float() -> "Serde":
        """4 bytes, big-endian IEEE 754 (FloatSerializer). A Python float is rounded to the nearest one."""
        return Serde(FixedWidth("float"))

    @staticmethod
    def uuid() -> "Serde":
        """36 characters of text (UUIDSerializer): a ``uuid.UUID`` in Python, text in expressions and tables."""
        return Serde(UuidCodec())

    @staticmethod
    def void() -> "Serde":
        """Null and nothing else (VoidSerializer)."""
        return Serde(VoidCodec())

    @staticmethod
    def byte_buffer() -> "Serde":
        """The bytes themselves (ByteBufferSerializer): the same serde as ``bytes()``."""
        return Serde.bytes()

    @staticmethod
    def list(inner: "Serde") -> "Serde":
        """A list of what ``inner`` writes (ListSerializer); entries may be null. Raises ConfigError for no serde."""
        if not isinstance(inner, Serde):
            raise ConfigError("Serde.list", "the serde of an entry", repr(inner), "give for example Serde.string()")
        return Serde(ListCodec(inner))

    @staticmethod
    def time_windowed(inner: "Serde", size: Duration, *, changelog: bool = False) -> "Serde":
        """Keys of time windows (TimeWindowedSerializer): what ``inner`` writes and the window's start. ``size``: of the
        windows, which is not in the bytes. ``changelog``: as a window store's changelog topic has them (Kafka's
        ``forChangelog``). In Python a ``Windowed``. Raises ConfigError for a size below 1 ms.
        """
        if not isinstance(inner, Serde):
            raise ConfigError("Serde.time_windowed", "the serde of a key", repr(inner), "give Serde.string()")
        size_ms = duration_ms(size, "Serde.time_windowed, size")
        if size_ms < 1:
            raise ConfigError("Serde.time_windowed, size", "at least 1 ms", repr(size), "give that of the windows")
        return Serde(WindowedCodec(inner, size_ms, changelog))

    @staticmethod
    def session_windowed(inner: "Serde") -> "Serde":
        """Keys of sessions (SessionWindowedSerializer), of topics and changelogs alike: what ``inner`` writes, the
        window's end and its start. In Python a ``Windowed``. ConfigError unless ``inner`` is a serde.
        """
        if not isinstance(inner, Serde):
            raise ConfigError("Serde.session_windowed", "the serde of a key", repr(inner), "give Serde.string()")
        return Serde(WindowedCodec(inner))

    @staticmethod
    def of(encode: Callable[[Any], Any], decode: Callable[[Any], Any], *, type: str, arrow: bool = False) -> "Serde":
        """A serde of one's own: ``encode(value)`` gives bytes, ``decode(bytes)`` the value. Null never comes to them.

        ``type``: what the values are, in the words of ``Serde.json``: ``"decimal(10,2)"``, or fields as in
        ``"user string, ms long"``, a dict. ``arrow``: both functions are of Arrow columns, a binary one and one of that
        type, and ``decode`` gives null where it cannot read. What ``decode`` raises makes the record undecodable, with
        the sentence. Both must be pure, and ``decode`` gives back what ``encode`` was given: tables have values as they
        were given, not as they would be read again. Topologies compare both by their code. Raises ConfigError for a
        type that cannot be read, and for what cannot be called.

            celsius = Serde.of(lambda degrees: repr(degrees).encode(), lambda text: float(text), type="double")
        """
        for name, function in (("encode", encode), ("decode", decode)):
            if not callable(function):
                next_step = "give a Python function"
                raise ConfigError(f"Serde.of, {name}", "a callable of one value", repr(function), next_step)
        if not isinstance(type, str):
            next_step = 'write it like "decimal(10,2)" or "user string, ms long"'
            raise ConfigError("Serde.of, type", "a type in the words of Serde.json", repr(type), next_step)
        return Serde(OwnCodec(encode, decode, parse_schema(type), arrow))

    @staticmethod
    def variant() -> "Serde":
        """A long with ``|n| < 2^56`` (8 bytes, big-endian) or a string that does not begin with U+0000 (UTF-8).

        The first byte distinguishes them: of such a long it is 0x00 or 0xff, of such a string it is neither.
        """
        return Serde(VariantCodec())

    @staticmethod
    def boolean() -> "Serde":
        """One byte, 0x01 or 0x00 (BooleanSerializer)."""
        return Serde(BooleanCodec())

    @staticmethod
    @checked_types
    def avro(schema: object, *, writer: object = None, references: tuple[object, ...] = ()) -> "Serde":
        """Apache Avro's binary encoding, without anything before it; ``schema``: the reader's, as text, a ``Path`` or a
        dict.

        ``writer``: the schema that the records were written with, where it is another; ``references``: schemas that
        are named in ``schema``. Types and rules are in state/serdes/avro/README.md. ConfigError for no schema.

            orders = builder.stream("orders", Consumed(Serde.string(), Serde.avro(Path("order.avsc"))))
        """
        from .avro import AvroCodec, schema_text

        written = None if writer is None else schema_text(writer, references)
        return Serde(AvroCodec(schema_text(schema, references), written))

    @staticmethod
    @checked_types
    def confluent_avro(
        schema: object,
        *,
        ids: Mapping[Any, object] | None = None,
        write_id: _Id | str | None = None,
        references: tuple[object, ...] = (),
    ) -> "Serde":
        """Avro as Confluent's KafkaAvroSerializer writes it: the byte 0, the writer's schema id, the record.

        ``schema``: the reader's; ``ids``: the schemas that a topic's records were written with, by id, or those that
        were kept (``kept_schemas`` in state/serdes/avro/kept_schemas.py). ``write_id``: the id of ``schema`` itself, if
        it is not among them; ``references``: schemas whose names ``schema`` uses. Records of another id are dead
        letters. Records of a union, a list of schemas, that has no id itself are written with the ids of their own
        schemas, as those of several classes (RecordNameStrategy). Of a value the id may be in the header
        ``__value_schema_id``, as Confluent's HeaderSchemaIdSerializer puts a GUID there: ``ids`` has GUIDs as texts.
        ConfigError for an id that is none, and where there is none to write with.

            paid, refunded = Path("paid.avsc"), Path("refunded.avsc")
            Serde.confluent_avro([paid, refunded], ids={7: paid, 12: refunded})
            Serde.confluent_avro(Path("order.avsc"), ids={7: Path("order-1.avsc"), 12: Path("order.avsc")})
        """
        from .avro import confluent_avro

        return Serde(confluent_avro(schema, ids or {}, write_id, references))

    @staticmethod
    @checked_types
    def protobuf(descriptor: object, message: str) -> "Serde":
        """Protocol Buffers: messages of the type ``message``, whose fields are columns. ``descriptor``: a ``Path`` of
        what ``protoc --include_imports --descriptor_set_out`` wrote, its bytes, or a generated class.

        Types and rules are in state/serdes/protobuf/README.md. ConfigError for no descriptor and no such message.

            Serde.protobuf(Path("orders.desc"), "shop.Order")
        """
        from .protobuf import ProtobufCodec, descriptor_set

        return Serde(ProtobufCodec(descriptor_set(descriptor), message))

    @staticmethod
    @checked_types
    def json_schema(schema: str | Path | Mapping[str, Any]) -> "Serde":
        """The JSON serde of a JSON Schema document, as text, a ``Path`` or a dict; json_text/json_schema_types.py says
        what becomes a column. ConfigError for what is no document, or none of columns.

            Serde.json_schema(Path("order.schema.json"))
        """
        from .json_text.json_schema_types import type_of_document

        return Serde(JsonCodec(type_of_document(schema)))

    @staticmethod
    @checked_types
    def confluent_protobuf(
        descriptor: object, message: str, *, write_id: _Id, ids: Collection[_Id] | None = None
    ) -> "Serde":
        """``protobuf`` as Confluent's KafkaProtobufSerializer writes it: the byte 0, a schema id, where the message is
        in its file, the message. ``descriptor`` and ``message`` are those of ``protobuf``. ``write_id``: the id that is
        written. ``ids``: other ids that are read; all if not given, since fields go by their numbers. ConfigError as
        ``protobuf``, and for an id that is none.

            Serde.confluent_protobuf(Path("orders.desc"), "shop.Order", write_id=7)
        """
        from .protobuf import ProtobufCodec, descriptor_set

        plain = ProtobufCodec(descriptor_set(descriptor), message)
        return Serde(with_head("Serde.confluent_protobuf", plain, write_id, ids, message_indexes_of(plain.path)))

    @staticmethod
    @checked_types
    def confluent_json_schema(
        schema: str | Path | Mapping[str, Any], *, write_id: _Id, ids: Collection[_Id] | None = None
    ) -> "Serde":
        """``json_schema`` as Confluent's KafkaJsonSchemaSerializer writes it: the byte 0, a schema id, the JSON text.
        ``write_id``: the id that is written. ``ids``: other ids that are read; all if not given. Every record is read
        as ``schema`` says. ConfigError as ``json_schema``, and for an id that is none.

            Serde.confluent_json_schema(Path("order.schema.json"), write_id=7)
        """
        plain = Serde.json_schema(schema).codec
        return Serde(with_head("Serde.confluent_json_schema", plain, write_id, ids))

    @staticmethod
    @checked_types
    def of_type(arrow_type: pa.DataType) -> "Serde":
        """The serde of values of ``arrow_type`` as it is: Kafka's where it has one, JSON for the others. ConfigError
        for a type that the schema of a JSON serde has no word for.
        """
        if arrow_type == VariantCodec().arrow_type:
            return Serde.variant()
        return _OF_TYPES[arrow_type]() if arrow_type in _OF_TYPES else Serde(JsonCodec(arrow_type))

    @staticmethod
    @checked_types
    def of_computed(arrow_type: pa.DataType) -> "Serde":
        """The serde of an expression whose result is of ``arrow_type``: that of ``computed_type(arrow_type)``."""
        return Serde.of_type(computed_type(arrow_type))

    @property
    def is_struct(self) -> bool:
        """Values have named fields (a JSON object, a record of Avro)."""
        return self.codec.has_fields

    @property
    def arrow_type(self) -> pa.DataType:
        """Type of the decoded column."""
        return self.codec.arrow_type

    def decode(self, binary: pa.Array) -> Decoded:
        """Values of a binary or large_binary array (any slice of one), row by row. ConfigError for another array."""
        if pa.types.is_large_binary(binary.type) or pa.types.is_null(binary.type):
            binary = binary.cast(pa.binary())
        if binary.type != pa.binary():
            raise ConfigError(f"{self}.decode", "a binary array", f"one of {binary.type}", "cast the column to binary")
        return self.codec.decode(binary)

    def encode(self, values: pa.Array) -> pa.BinaryArray:
        """Bytes of ``values``, an array of ``arrow_type``, as a Kafka client writes them; null stays null."""
        return self.codec.encode(self._checked(values, "encode"))

    def sizes(self, values: pa.Array) -> np.ndarray:
        """Number of serialized bytes of each of ``values``, as int64; 0 for null."""
        return self.codec.sizes(self._checked(values, "sizes"))

    def to_python(self, values: pa.Array) -> PythonValues:
        """Python values: str, bytes, int, float, dict of all fields; None for null."""
        return self.codec.to_python(self._checked(values, "to_python"))

    def from_python(self, values: PythonValues) -> pa.Array:
        """Column of Python values. Raises ConfigError for one that is not of the serde's type; nothing is converted."""
        return self.codec.from_python(values)

    def _checked(self, values: pa.Array, what: str) -> pa.Array:
        if values.type == self.arrow_type:
            return values
        if pa.types.is_null(values.type):
            return pa.nulls(len(values), self.arrow_type)
        expected, got = f"an array of {self.arrow_type}", f"one of {values.type}"
        raise ConfigError(f"{self}.{what}", expected, got, "cast the column")

    def __repr__(self) -> str:
        return f"Serde.{self.codec.name}"


_OF_TYPES = {
    pa.string(): Serde.string,
    pa.binary(): Serde.bytes,
    pa.bool_(): Serde.boolean,
    pa.int16(): Serde.short,
    pa.int32(): Serde.int,
    pa.float32(): Serde.float,
    pa.int64(): Serde.long,
    pa.float64(): Serde.double,
}
