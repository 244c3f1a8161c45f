"""How many requests to object stores this process has made.

Owns the count; state/tables/object_files.py makes the requests. Rule: the count is of one process, so a task of
another one brings its own along in its report.
"""

import threading
from collections import Counter


class Requests:
    """By kind: GET, PUT, LIST, HEAD, DELETE. Those that the store's client made again by itself are not among them, nor
    those that Delta makes: to create a table, to change its columns, to open it at an earlier version.
    """

    def __init__(self) -> None:
        self._counts, self._lock = Counter[str](), threading.Lock()

    def count(self, kind: str, number: int = 1) -> None:
        """So many more."""
        with self._lock:
            self._counts[kind] += number

    def made(self) -> Counter[str]:
        """Since the process began."""
        with self._lock:
            return self._counts.copy()


REQUESTS = Requests()
