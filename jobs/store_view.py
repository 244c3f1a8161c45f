"""A read-only look into a running task's store."""

from typing import Any

from jobs.task import Task


class StoreView:
    """Read-only look into a store: ``all``, ``get``, ``fetch``."""

    def __init__(self, task: Task, name: str) -> None:
        node = task.sub_topology.stores[name]
        table = task.stores[name].contents()
        values = table["value"].combine_chunks()
        keys = node.shape.key.to_python(table["key"].combine_chunks())
        windows: list[tuple[int, int] | None] = [None] * len(keys)
        if node.shape.window is not None:
            bounds = (table[column].to_pylist() for column in ("window_start_ms", "window_end_ms"))
            windows = list(zip(*bounds, strict=True))
        rows = zip(keys, windows, node.shape.value.to_python(values), strict=True)
        self._rows = sorted(rows, key=lambda row: (repr(row[0]) if isinstance(row[0], dict) else row[0], row[1]))

    def all(self) -> list[tuple[Any, tuple[int, int] | None, Any]]:
        """(key, window or None, value) of every row, by key and window."""
        return self._rows

    def get(self, key: Any) -> Any:
        """The value of ``key`` in a store without windows, or None."""
        return next((value for found, window, value in self._rows if found == key and window is None), None)

    def fetch(self, key: Any, from_ms: int = 0, to_ms: int = 2**63 - 1) -> list[tuple[tuple[int, int], Any]]:
        """(window, value) of ``key``'s windows that start in ``[from_ms, to_ms]``, by start."""
        return [
            (window, value)
            for found, window, value in self._rows
            if found == key and window is not None and from_ms <= window[0] <= to_ms
        ]
