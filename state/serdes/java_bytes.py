"""Bytes that Java code has written with a DataOutputStream or a ByteBuffer: big-endian numbers, lengths before texts.

Owns the place in them. Rule: each call reads on from where the one before it ended.
"""

from struct import Struct

_INT, _LONG = Struct(">i"), Struct(">q")


class JavaBytes:
    """``data``, read from its begin."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def rest(self) -> int:
        """How many bytes are left."""
        return len(self._data) - self._at

    def read_byte(self) -> int:
        """0 to 255."""
        self._at += 1
        return self._data[self._at - 1]

    def read_int(self) -> int:
        """Of four bytes."""
        self._at += _INT.size
        number: int = _INT.unpack_from(self._data, self._at - _INT.size)[0]
        return number

    def read_long(self) -> int:
        """Of eight bytes."""
        self._at += _LONG.size
        number: int = _LONG.unpack_from(self._data, self._at - _LONG.size)[0]
        return number

    def read(self, length: int | None = None) -> bytes:
        """``length`` of them (None: all that are left)."""
        end = len(self._data) if length is None else self._at + length
        part, self._at = self._data[self._at : end], end
        return part


def int_bytes(number: int) -> bytes:
    """Four bytes."""
    return _INT.pack(number)


def long_bytes(number: int) -> bytes:
    """Eight bytes."""
    return _LONG.pack(number)


def sized(data: bytes | None) -> bytes:
    """``data`` behind its length; -1 for None."""
    return _INT.pack(-1) if data is None else _INT.pack(len(data)) + data
