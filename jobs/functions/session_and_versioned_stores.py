"""What a processor sees of its session and versioned stores (SessionStore, VersionedKeyValueStore of Kafka Streams)."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

from .call_names import HintingObject, NoDict
from .expressions import Windowed
from .processor_api import NOT_GIVEN
from .store_iterators import StoreIterator, give


class SessionStore(HintingObject, NoDict, ABC):
    """Aggregates by key and session, ``Windowed(key, start, end)`` with both bounds within the session. Times in ms.

    The store's time is the largest session end that was put. A put of a session that ended ``retention`` before it or
    earlier is refused, in a persistent store when its whole segment is that old. Older sessions are gone. In-memory
    stores are in order of end, key and start, the latest first; persistent ones of segment, key, end and start.
    Iterators show the store as of the call.
    """

    called = "SessionStore"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        give(cls, StoreIterator, ("fetch", "backward_fetch", "find_sessions", "backward_find_sessions"))

    @abstractmethod
    def put(self, session_key: Windowed, aggregate: Any) -> None:
        """Replace the aggregate of the session ``session_key``; None removes it."""

    @abstractmethod
    def remove(self, session_key: Windowed) -> None:
        """Remove the session that has exactly the bounds of ``session_key``."""

    @abstractmethod
    def fetch_session(self, key: Any, session_start_ms: int, session_end_ms: int) -> Any:
        """The aggregate of the session ``[session_start_ms, session_end_ms]``, or None."""

    @abstractmethod
    def fetch(self, key: Any, last: Any = NOT_GIVEN) -> Iterator[tuple[Windowed, Any]]:
        """(windowed key, aggregate) of all sessions of a key, or of keys from ``key`` to ``last`` (None: no bound)."""

    @abstractmethod
    def backward_fetch(self, key: Any, last: Any = NOT_GIVEN) -> Iterator[tuple[Windowed, Any]]:
        """As ``fetch``, from the last on."""

    @abstractmethod
    def find_sessions(self, *bounds: Any) -> Iterator[tuple[Windowed, Any]]:
        """(windowed key, aggregate) of sessions: ``find_sessions(key, earliest_end, latest_start)``, the same of keys
        from one to another, ``find_sessions(first, last, earliest_end, latest_start)`` (None: no bound), or of all keys
        ``find_sessions(earliest_end, latest_end)``, which a persistent store refuses, as Kafka's. Bounds included.
        ConfigError for another number of arguments.
        """

    @abstractmethod
    def backward_find_sessions(self, *bounds: Any) -> Iterator[tuple[Windowed, Any]]:
        """As ``find_sessions``, from the last on."""


class VersionedRecord(NamedTuple):
    """A version: valid from ``timestamp_ms`` on, before ``valid_to_ms`` (None: until further notice, and always where a
    processor asks, to whom Kafka does not say it either).
    """

    value: Any
    timestamp_ms: int
    valid_to_ms: int | None = None


class VersionedKeyValueStore(HintingObject, NoDict, ABC):
    """The history of values by key, as far as the history retention reaches (KIP-889). Times in ms."""

    called = "VersionedKeyValueStore"

    PUT_RETURN_CODE_VALID_TO_UNDEFINED, PUT_RETURN_CODE_NOT_PUT = -1, -(2**63)

    @abstractmethod
    def put(self, key: Any, value: Any, timestamp_ms: int) -> int:
        """Put a version, valid from ``timestamp_ms`` on; a ``value`` of None is a deletion. Returns the time up to
        which it is valid, or PUT_RETURN_CODE_VALID_TO_UNDEFINED for the latest; PUT_RETURN_CODE_NOT_PUT when it was
        refused, since it is older than the largest time that was put less the history retention.
        """

    @abstractmethod
    def delete(self, key: Any, timestamp_ms: int) -> VersionedRecord | None:
        """Put a deletion at ``timestamp_ms``; returns the version that was valid then, or None."""

    @abstractmethod
    def get(self, key: Any, as_of_ms: int | None = None) -> VersionedRecord | None:
        """The latest version, or the one valid at ``as_of_ms``, inclusive; None when the key had no value then, or when
        the history retention has passed the time and the latest version is newer.
        """
