"""What stores give for a range: an iterator in a processor, which reads as it goes; all rows in the test driver.

Rule: both are asked in the same words, Kafka's KeyValueIterator among them: ``for``, ``list()``, ``next()``, whether
there is a (next) row by ``if``, ``close()`` and ``with``. What only a list answers, an iterator refuses.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from ...state.errors import ConfigError
from .call_names import refuse

Row = TypeVar("Row")


class _Closing:
    """A ``with`` closes it."""

    __slots__ = ()

    def close(self) -> None:
        """Nothing is read any more."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


if not TYPE_CHECKING:  # to a type checker an unknown name is one

    def _refuse_name(self: Any, name: str) -> Any:
        raise refuse("StoreIterator", name, [])

    _Closing.__getattr__ = _refuse_name


class StoreIterator(_Closing, Iterator[Row], Generic[Row]):
    """Rows of a store, read one by one. It is true while there is a next one, which ``if`` reads and keeps.

    Raises ConfigError when it is read after ``close``.
    """

    __slots__ = ("_ahead", "_is_closed", "_rows")

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows, self._is_closed = iter(rows), False
        self._ahead: list[Row] = []

    def __next__(self) -> Row:
        if self._is_closed:
            raise ConfigError("a store's iterator", "one that is open", "a closed one", "ask the store again")
        return self._ahead.pop() if self._ahead else next(self._rows)

    def __bool__(self) -> bool:
        if not self._ahead and not self._is_closed:
            # The range is asked first: behind the rows it would end the zip after a second row was taken, and lost.
            self._ahead = [row for _, row in zip(range(1), self._rows, strict=False)]
        return bool(self._ahead) and not self._is_closed

    def close(self) -> None:
        self._is_closed = True

    if not TYPE_CHECKING:  # to a type checker it has no length and no row by number
        __hash__ = object.__hash__

        def __eq__(self, other: object) -> bool:
            raise _no_list("rows == …", "'if rows' to ask for a row, or compare list(rows)")

        def __len__(self) -> int:
            raise _no_list("len(rows)", "len(list(rows)), or 'if rows' to ask for a row")

        def __getitem__(self, at: Any) -> Any:
            raise _no_list("rows[…]", "next(rows) for the first one, or list(rows)[…]")


def _no_list(asked: str, instead: str) -> TypeError:
    return TypeError(f"StoreIterator has no '{asked}', since it reads rows one by one; write {instead}")


class IterableRows(_Closing, list[Row], Generic[Row]):
    """All rows at once: a list, which can be asked as a StoreIterator, too. ``next`` takes the first off."""

    def __next__(self) -> Row:
        if not self:
            raise StopIteration
        return self.pop(0)


def give(cls: type, kind: Callable[[Any], Any], names: Iterable[str]) -> None:
    """Let the calls of ``cls`` with these names, where it has its own, give what they give as a ``kind``."""
    for name in names:
        if callable(call := vars(cls).get(name)):
            setattr(cls, name, _given_as(call, kind))


def _given_as(call: Callable[..., Any], kind: Callable[[Any], Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def giving(*arguments: Any, **options: Any) -> Any:
        given = call(*arguments, **options)
        is_rows = isinstance(given, Iterator | list) and not isinstance(given, StoreIterator | IterableRows)
        return kind(given) if is_rows else given

    return giving
