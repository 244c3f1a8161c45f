"""Single values of a serde, without Arrow for each of them: what stores of processors read and write.

Owns the choice between the quick way and the column functions. Rule: bytes are those of ``Serde.from_python`` with
``encode``, and values those of ``decode`` with ``to_python``. A codec's quick functions give them for values of exactly
the expected types, and for bytes as the codec itself writes them. Everything else goes to the column functions, whose
conversions and errors so hold for single values, too.
"""

from typing import Any

import pyarrow as pa

from .codec import LEFT_TO_COLUMNS
from .serde import Serde


class SingleValues:
    """Of ``serde``."""

    def __init__(self, serde: Serde) -> None:
        self.serde = serde
        self._write, self._read = serde.codec.value_writer(), serde.codec.value_reader()

    def encode(self, value: Any) -> bytes | None:
        """Bytes of one Python value; None for null. Raises ConfigError for a value that is not of the serde's type."""
        if self._write is not None and value is not None:
            try:
                return self._write(value)
            except LEFT_TO_COLUMNS:
                pass  # the column functions convert it, or say what is wrong
        data: bytes | None = self.serde.encode(self.serde.from_python([value]))[0].as_py()
        return data

    def decode(self, data: bytes) -> Any:
        """The Python value of ``data``; None for bytes that are none of the serde's."""
        if self._read is not None:
            try:
                return self._read(data)
            except LEFT_TO_COLUMNS:
                pass  # the column functions know every form of a value
        return self.serde.to_python(self.serde.decode(pa.array([data], pa.binary())).values)[0]
