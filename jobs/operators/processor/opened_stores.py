"""The stores of a processor's own, each of its kind."""

from collections.abc import Iterable

from ....state.errors import ConfigError
from ....state.serdes import Serde
from ...functions.processor_api import KeyValues
from ...functions.state_stores import TIMESTAMPED_WINDOW, WINDOW, StoreBuilder
from .stores import Store
from .window_store import Windows


def stores_of(specs: Iterable[KeyValues | str], key: Serde, value: Serde, place: str) -> dict[str, Store | Windows]:
    """Stores by name; a mere name means a key-value store of ``key`` and ``value``. ConfigError for a name twice."""
    stores: dict[str, Store | Windows] = {}
    for spec in specs:
        full = KeyValues(spec, key, value) if isinstance(spec, str) else spec
        if full.name in stores:
            raise ConfigError(place, "stores of different names", f"{full.name!r} twice", "rename one of them")
        has_windows = isinstance(full, StoreBuilder) and full.kind in (WINDOW, TIMESTAMPED_WINDOW)
        stores[full.name] = Windows(full, place) if has_windows else Store(full, place)  # type: ignore[arg-type]
    return stores
