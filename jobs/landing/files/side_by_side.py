"""Work on the pieces of a file, on all cores, with results in the order of the pieces.

Owns the threads. Rule: results and errors are those of one thread, in its order. An error of the pieces, or of the
work on one, is raised behind the results before it. Arrow's readers and writers leave the interpreter to the other
threads while they work.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")

THREADS = min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


class SideBySide(Generic[Piece, Result]):
    """Iterates (piece, result of ``work`` on it). At most ``threads`` pieces (None: THREADS) are taken before they are
    asked for. ``first_alone``: the first is worked on alone, so that what has one piece starts no thread.
    """

    def __init__(
        self,
        pieces: Iterable[Piece],
        work: Callable[[Piece], Result],
        threads: int | None = None,
        *,
        first_alone: bool = True,
    ) -> None:
        self._pieces, self._work, self._first_alone = iter(pieces), work, first_alone
        self._threads = THREADS if threads is None else threads
        self._taken: deque[tuple[Piece, Future[Result]]] = deque()
        self._error: BaseException | None = None

    def __iter__(self) -> Iterator[tuple[Piece, Result]]:
        for first in self._pieces if self._first_alone else ():
            yield first, self._work(first)
            break
        if self._threads == 1:
            yield from ((piece, self._work(piece)) for piece in self._pieces)
            return
        with ThreadPoolExecutor(self._threads) as pool:
            try:
                while self._take(pool):
                    if len(self._taken) > self._threads:
                        yield self._next()
                while self._taken:
                    yield self._next()
            finally:
                for _, future in self._taken:
                    future.cancel()
        if self._error is not None:
            raise self._error

    def rest(self) -> Iterator[Piece]:
        """The pieces behind the last one that was yielded; their results are given up."""
        while self._taken:
            piece, future = self._taken.popleft()
            future.cancel()
            yield piece
        if self._error is not None:
            raise self._error
        yield from self._pieces

    def _take(self, pool: ThreadPoolExecutor) -> bool:
        """Begin with one more piece, if there is one."""
        try:
            for piece in self._pieces:
                self._taken.append((piece, pool.submit(self._work, piece)))
                return True
        except Exception as error:  # what was taken before comes first
            self._error = error
        return False

    def _next(self) -> tuple[Piece, Result]:
        piece, future = self._taken.popleft()
        return piece, future.result()
