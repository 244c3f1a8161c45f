"""The stores of a processor's own, each of its kind."""

from collections.abc import Iterable

from ....state.errors import ConfigError
from ...functions.processor_api import KeyValues
from ...functions.state_stores import SESSIONS, VERSIONED, WINDOWS, StoreBuilder
from .session_store import SessionStoreRows
from .stores import Store
from .versions import VersionedValues
from .window_store import WindowStoreRows

Expiring = WindowStoreRows | SessionStoreRows | VersionedValues
"""Stores that refuse what is too old."""
_EXPIRING: dict[str, type[WindowStoreRows] | type[SessionStoreRows] | type[VersionedValues]] = {
    **dict.fromkeys(WINDOWS, WindowStoreRows),
    **dict.fromkeys(SESSIONS, SessionStoreRows),
    VERSIONED: VersionedValues,
}


def stores_of(specs: Iterable[KeyValues], place: str) -> dict[str, Store | Expiring]:
    """Stores by name. ConfigError for a name twice."""
    stores: dict[str, Store | Expiring] = {}
    for full in specs:
        if full.name in stores:
            raise ConfigError(place, "stores of different names", f"{full.name!r} twice", "rename one of them")
        expiring = _EXPIRING.get(full.kind) if isinstance(full, StoreBuilder) else None
        stores[full.name] = Store(full, place) if expiring is None else expiring(full, place)  # type: ignore[arg-type]
    return stores
