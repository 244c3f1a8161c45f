"""State stores that a test reads and writes, by Kafka's kinds, as TopologyTestDriver gives them.

Rule: what a test puts is in the store at once, for processors, aggregates and lookups from the next record on; nothing
is forwarded because of it. A plain value gets the time -1 where the store keeps times, as through Kafka's facades.
"""

from collections.abc import Callable
from typing import Any

from ...state.times import Instant, time_ms
from ..functions.expressions import Windowed
from ..functions.session_and_versioned_stores import VersionedRecord
from ..functions.store_puts import PutMethods
from .state_stores import (
    Looks,
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyVersionedKeyValueStore,
    ReadOnlyWindowStore,
    Shown,
)
from .store_edits import StoreEdit
from .store_view import VersionedStoreView

Edits = Callable[[StoreEdit], None]


class DriverKeyValueStore(ReadOnlyKeyValueStore, PutMethods):
    """Values by key. ConfigError for a put into the store of a global table or a global store, whose topic is written,
    and for a value of another type.
    """

    def __init__(self, name: str, looks: Looks, shown: Shown | None = None, *, edit: Edits) -> None:
        super().__init__(name, looks, shown)
        self._edit = edit

    def put(self, key: Any, value: Any) -> None:
        """Replace the value; None deletes it."""
        self._edit(StoreEdit(self.store_name, "put", (key, value)))

    def delete(self, key: Any) -> Any:
        """Delete the value, and return it."""
        deleted = self.get(key)
        self.put(key, None)
        return deleted


class DriverWindowStore(ReadOnlyWindowStore):
    """Values by key and window. ConfigError for a put into the store of an aggregate whose windows are not TimeWindows
    that forward every update, and for a value of another type.
    """

    def __init__(self, name: str, looks: Looks, shown: Shown | None = None, *, edit: Edits) -> None:
        super().__init__(name, looks, shown)
        self._edit = edit

    def put(self, key: Any, value: Any, window_start: Instant) -> None:
        """Replace the value of the window that starts then; None deletes it."""
        self._edit(StoreEdit(self.store_name, "put", (key, value, time_ms(window_start, "window_start"))))


class DriverSessionStore(ReadOnlySessionStore):
    """Aggregates by key and session. ConfigError for a put into the store of an aggregate that emits on close, for a
    session that overlaps another one of an aggregate's, and for a value of another type.
    """

    def __init__(self, name: str, looks: Looks, shown: Shown | None = None, *, edit: Edits) -> None:
        super().__init__(name, looks, shown)
        self._edit = edit

    def put(self, session_key: Windowed, aggregate: Any) -> None:
        """Replace the aggregate of the session ``session_key``; None removes it."""
        self._edit(StoreEdit(self.store_name, "put", (session_key, aggregate)))

    def remove(self, session_key: Windowed) -> None:
        """Remove the session that has exactly these bounds."""
        self._edit(StoreEdit(self.store_name, "remove", (session_key,)))


class DriverVersionedStore(ReadOnlyVersionedKeyValueStore):
    """The history of values by key, of a processor's store. ConfigError for a put into that of a table."""

    def __init__(self, name: str, view: Callable[[], VersionedStoreView], *, edit: Edits) -> None:
        super().__init__(name, view)
        self._edit = edit

    def put(self, key: Any, value: Any, timestamp: Instant) -> None:
        """The version that is valid from ``timestamp`` on; None: from then on there is none."""
        self._edit(StoreEdit(self.store_name, "put", (key, value, time_ms(timestamp, "timestamp"))))

    def delete(self, key: Any, timestamp: Instant) -> VersionedRecord | None:
        """The version as of ``timestamp``, from which on there is none."""
        deleted = self.get(key, timestamp)
        self._edit(StoreEdit(self.store_name, "delete", (key, time_ms(timestamp, "timestamp"))))
        return deleted
