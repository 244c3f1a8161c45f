"""The seal of a Parquet file's footer: a digest in the footer itself, of the rest of it and of the file's own token.

Owns the place of the digest. Page checksums cover rows alone; the footer says where they are, of what type, and which
row groups a reader may leave out. Rule: a file that has a seal says so by its name (``<token>.sealed.parquet``), which
Delta's log keeps, so that a damaged seal is never taken for a file without one. Files of Spark's landing, and of
versions before seals, have none.
"""

import hashlib
import re
from typing import Any

ENDING = ".sealed.parquet"
"""Of the name of a sealed file, behind its token."""
KEY = "replay_seal"
UNSEALED = "0" * 16
"""What is in the place of the digest until the footer is whole."""

_TOKEN = re.compile(r"([0-9a-f]{16})" + re.escape(ENDING))
_MARK = KEY.encode() + b"\x18\x10"
"""The key in the footer, and before its value Thrift's mark of a string of 16 bytes."""


def token_of(path: str) -> str | None:
    """Token of a file whose footer is sealed, by its name; None: it is not sealed. A copy keeps the end of the name."""
    match = _TOKEN.search(path)
    return None if match is None else match[1]


def sealed(end: bytes, token: str) -> bytes:
    """``end`` of a new file, from before its footer on, with the digest put in."""
    footer = _footer(end)
    # The last one: statistics of columns come before it, and may hold the same bytes.
    at = footer.rindex(_MARK + UNSEALED.encode()) + len(_MARK)
    digest = _digest(footer, token)
    whole = footer[:at] + digest.encode() + footer[at + len(digest) :]
    return end[: len(end) - 8 - len(footer)] + whole + end[-8:]


def holds(footer: bytes, token: str) -> bool:
    """Whether a footer is the one that was sealed for ``token``."""
    at = footer.rfind(_MARK) + len(_MARK)
    if at < len(_MARK):
        return False
    digest = footer[at : at + len(UNSEALED)]
    return digest == _digest(footer[:at] + UNSEALED.encode() + footer[at + len(digest) :], token).encode()


def _footer(end: bytes) -> bytes:
    length = int.from_bytes(end[-8:-4], "little")
    return end[-8 - length : -8]


def _digest(footer: bytes, token: str) -> str:
    return hashlib.blake2b(footer + token.encode(), digest_size=8).hexdigest()


class SealedFile:
    """A new Parquet file, as its writer sees it: ``finish`` is called before the footer is written, ``close`` seals
    it. ``bytes``: its size, once it is closed.
    """

    def __init__(self, sink: Any, token: str) -> None:
        self.sink, self.token, self.bytes = sink, token, 0
        self._end: list[bytes] | None = None

    @property
    def closed(self) -> bool:
        return bool(self.sink.closed)

    def write(self, piece: bytes) -> int:
        if self._end is None:
            self.sink.write(piece)
        else:
            self._end.append(bytes(piece))
        return len(piece)

    def flush(self) -> None:
        self.sink.flush()

    def finish(self) -> None:
        """From here on what is written waits."""
        self._end = []

    def close(self) -> None:
        """Write what waits, with the seal."""
        end, self._end = b"".join(self._end or ()), None
        self.sink.write(sealed(end, self.token))
        self.bytes = int(self.sink.tell())
        self.sink.close()
