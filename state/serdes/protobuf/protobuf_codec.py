"""The Protocol Buffers serde: one message type of a descriptor, as Java's ``MessageLite.toByteArray`` writes it.

Rule: fields that the descriptor does not have are passed over; bytes that are no message of it are bad. Maps are
written by rising key.
"""

import functools
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass

from ...buffers import binary_view
from ...errors import ConfigError
from ..codec import Codec, Decoded, LeftToColumns, Read, Write, maps_as_dicts, refuse_field, refuse_value
from .messages import MessageFields, fields_of, python_values

_PLACE = "Serde.protobuf"


class MessageType(NamedTuple):
    """A message type, ready to use."""

    message: Any
    fields: MessageFields


@functools.lru_cache(maxsize=256)
def reading(files: bytes, message: str) -> MessageType:
    """Raises ConfigError for a message that the descriptor does not have."""
    # A pool of its own: the default one refuses another file, or message, of a name that it knows.
    pool, known = DescriptorPool(), []
    for file in FileDescriptorSet.FromString(files).file:
        pool.Add(file)
        known += [f"{file.package}.{one.name}" if file.package else one.name for one in file.message_type]
    try:
        descriptor = pool.FindMessageTypeByName(message)
    except KeyError as error:
        raise ConfigError(
            _PLACE, f"one of the messages {', '.join(known)}", repr(message), "correct the name"
        ) from error
    return MessageType(GetMessageClass(descriptor), fields_of(descriptor))


def descriptor_set(descriptor: object) -> bytes:
    """A FileDescriptorSet as bytes, without comments: of a file that ``protoc --include_imports -o`` wrote, its bytes,
    or a generated message class. Raises ConfigError for anything else.
    """
    if isinstance(descriptor, Path):
        try:
            descriptor = descriptor.read_bytes()
        except OSError as error:
            got = f"{descriptor!s} ({error.strerror})"
            raise ConfigError(_PLACE, "a file of descriptors", got, "correct the path") from error
    if isinstance(descriptor, bytes):
        try:
            files: Iterable[FileDescriptorProto] = FileDescriptorSet.FromString(descriptor).file
        except DecodeError as error:
            next_step = "write it by protoc --include_imports --descriptor_set_out=FILE"
            raise ConfigError(_PLACE, "a FileDescriptorSet", "other bytes", next_step) from error
    elif hasattr(descriptor, "DESCRIPTOR"):
        files = _with_imports(descriptor.DESCRIPTOR.file, {}).values()
    else:
        expected = "a Path of a descriptor set, its bytes, or a message class"
        raise ConfigError(_PLACE, expected, repr(descriptor), 'give for example Path("orders.desc")')
    descriptors = FileDescriptorSet(file=files)
    for file in descriptors.file:
        file.ClearField("source_code_info")
    return descriptors.SerializeToString(deterministic=True)


def _with_imports(file: FileDescriptor, protos: dict[str, FileDescriptorProto]) -> dict[str, FileDescriptorProto]:
    for one in file.dependencies:
        _with_imports(one, protos)
    if file.name not in protos:
        protos[file.name] = FileDescriptorProto()
        file.CopyToProto(protos[file.name])
    return protos


@dataclass(frozen=True, slots=True)
class ProtobufCodec(Codec):
    """``files``: a FileDescriptorSet; ``message``: full name of a type in it."""

    files: bytes
    message: str

    def __post_init__(self) -> None:
        reading(self.files, self.message)

    @property
    def name(self) -> str:
        return f"protobuf({self.message} {hashlib.sha256(self.files).hexdigest()[:8]})"

    @property
    def path(self) -> list[int]:
        """Indexes of the message, outermost first: that of the outermost message in its file, then of each nested one.
        Raises ConfigError behind a map of the same message, which serializers count or do not count.
        """
        path: list[int] = []
        message = reading(self.files, self.message).message.DESCRIPTOR
        while message is not None:
            above = message.containing_type
            beside = above.nested_types if above else list(message.file.message_types_by_name.values())
            path.insert(0, [one.name for one in beside].index(message.name))
            if any(one.GetOptions().map_entry for one in beside[: path[0]]):
                got, next_step = f"{message.full_name}, behind a map", "declare the message before the map, or outside"
                raise ConfigError(_PLACE, "a message whose place in its file is known", got, next_step)
            message = above
        return path

    @property
    def arrow_type(self) -> pa.DataType:
        return reading(self.files, self.message).fields.arrow_type

    @property
    def has_fields(self) -> bool:
        return True

    @property
    def is_canonical(self) -> bool:
        return False

    def decode(self, binary: pa.BinaryArray) -> Decoded:
        made, rows, reasons = reading(self.files, self.message), [], {}
        for row, written in enumerate(binary.to_pylist()):
            value = None
            if written is not None:
                try:
                    value = made.fields.read(made.message.FromString(written))
                except (DecodeError, UnicodeDecodeError):
                    reasons[row] = f"expected a message {self.message}, got bytes that are none"
            rows.append(value)
        bad = np.zeros(len(binary), np.bool_)
        bad[list(reasons)] = True
        return Decoded(pa.array(rows, self.arrow_type), bad, reasons)

    def encode(self, values: pa.Array) -> pa.BinaryArray:
        return pa.array([self._written(row, value) for row, value in enumerate(values.to_pylist())], pa.binary())

    def sizes(self, values: pa.Array) -> np.ndarray:
        return np.diff(binary_view(self.encode(values)).offsets)

    def to_python(self, values: pa.Array) -> list[Any]:
        return maps_as_dicts(values)

    def from_python(self, values: list[Any]) -> pa.Array:
        """A message takes the values that its own field checks take; a field that is not given is not set."""
        made, rows = reading(self.files, self.message), []
        for row, value in enumerate(values):
            self._check(row, value)
            written = self._written(row, value)
            rows.append(None if written is None else made.fields.read(made.message.FromString(written)))
        return pa.array(rows, self.arrow_type)

    def _check(self, row: int, value: Any) -> None:
        names = [one.name for one in self.arrow_type]
        if value is None:
            return
        if not isinstance(value, dict):
            refuse_value(f"{_PLACE}, row {row}", f"a dict with the fields {', '.join(names)}", value)
        for name in value:
            if name not in names:
                refuse_field(f"{_PLACE}, row {row}", names, name)

    def _written(self, row: int, value: Any) -> bytes | None:
        if value is None:
            return None
        made = reading(self.files, self.message)
        message = made.message()
        try:
            made.fields.write(message, value)
            return bytes(message.SerializeToString(deterministic=True))
        except (TypeError, ValueError, AttributeError, EncodeError) as error:
            got = str(error).splitlines()[0]
            raise ConfigError(f"{_PLACE}, row {row}", f"values of {self.message}", got, "correct the value") from error

    def value_writer(self) -> Write:
        made = reading(self.files, self.message)
        make, names = made.message, {one.name for one in made.fields.fields}

        def write(value: Any) -> bytes:
            if type(value) is not dict or not names.issuperset(value):
                raise LeftToColumns
            message = make()
            made.fields.write(message, value)
            try:
                return bytes(message.SerializeToString(deterministic=True))
            except EncodeError as error:
                raise LeftToColumns from error

        return write

    def value_reader(self) -> Read:
        made = reading(self.files, self.message)
        parse, convert = made.message.FromString, python_values(made.fields.arrow_type)

        def read(data: bytes) -> Any:
            try:
                message = parse(data)
            except DecodeError as error:
                raise LeftToColumns from error
            return convert(made.fields.read(message))

        return read
