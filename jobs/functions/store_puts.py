"""Puts of key-value stores that are made of ``get`` and ``put``, for processors' stores and for those of a test."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from ...state.errors import ConfigError, shown


class _GetsAndPuts(Protocol):
    def get(self, key: Any) -> Any: ...

    def put(self, key: Any, value: Any) -> None: ...


class PutMethods:
    """Of a class that has ``get`` and ``put`` of a key."""

    def put_if_absent(self: _GetsAndPuts, key: Any, value: Any) -> Any:
        """Put unless there is a value, which is returned."""
        value_before = self.get(key)
        if value_before is None:
            self.put(key, value)
        return value_before

    def put_all(self: _GetsAndPuts, entries: Iterable[tuple[Any, Any]]) -> None:
        """Put each (key, value), in order. ConfigError for what is no pair, and for a mapping."""
        for key, value in map(_pair, _iterable(entries)):
            self.put(key, value)


def _iterable(entries: Any) -> Iterable[Any]:
    if isinstance(entries, Mapping):
        raise ConfigError("put_all", "pairs (key, value)", "a dict", "write put_all(entries.items())")
    if isinstance(entries, str | bytes) or not isinstance(entries, Iterable):
        raise _refused(entries)
    return entries


def _pair(entry: Any) -> tuple[Any, Any]:
    if not isinstance(entry, tuple | list) or len(entry) != 2:
        raise _refused(entry)
    return entry[0], entry[1]


def _refused(got: Any) -> ConfigError:
    return ConfigError("put_all", "pairs (key, value)", shown(got), "write put_all([(key, value), …])")
