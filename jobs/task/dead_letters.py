"""Records for the topic of dead letters (KIP-1034, ExceptionHandlerUtils.buildDeadLetterQueueRecord).

Owns their headers. Rule: a letter has key and value of the record that the task took, as bytes, and time and headers
of the record that failed. Six headers are added. What they say of an error is a function of the record and the code: of
its stack only the functions of the user's, with names of files and without folders.
"""

from collections.abc import Iterable

from ...state.call_sites import users_frames
from ...state.errors import ReplayError, TaskFailed, text_of
from ...state.records.batches import Batch, Letter
from ...state.times import UNBOUNDED
from ..functions.exception_handlers import ErrorHandlerContext
from ..operators.base.single_records import headers_of
from .failure_places import FailurePlaces

UNDECODABLE = "org.apache.kafka.common.errors.SerializationException"
"""What Kafka's deserializers raise."""
_HEADER = "__streams.errors."
_BEHIND = (UNBOUNDED,)
"""A punctuation is behind all that its cause made otherwise."""


class DeadLetters:
    """Of one chunk; ``places``: contexts of what fails in it."""

    def __init__(self, places: FailurePlaces) -> None:
        self._places = places
        self._letters: list[Letter] = []

    def step_failed(self, node: str, batch: Batch, row: int, error: TaskFailed) -> None:
        headers = () if batch.headers is None else headers_of(batch.headers[row].as_py())
        self.add(self._places.of_record(node, batch, row, headers), batch, row, error)

    def add(self, context: ErrorHandlerContext, batch: Batch, row: int, error: TaskFailed) -> None:
        """Of the ``row`` of the ``batch`` that came to the node of ``context``."""
        path = tuple(int(column[row]) for column in batch.path)
        self._add(context, int(batch.cause[row]), path, *_described(error))

    def add_punctuation(self, context: ErrorHandlerContext, cause: int, error: TaskFailed) -> None:
        """Of a punctuation after the row ``cause`` of the chunk."""
        self._add(context, cause, _BEHIND, *_described(error))

    def add_undecodable(self, records: Iterable[tuple[int, ErrorHandlerContext, str]]) -> None:
        """Of records that cannot be read: row of the chunk, place, and why."""
        for cause, context, reason in records:
            self._add(context, cause, (), UNDECODABLE, reason, f"{UNDECODABLE}: {reason}\n")

    def _add(
        self, context: ErrorHandlerContext, cause: int, path: tuple[int, ...], name: str, said: str | None, stack: str
    ) -> None:
        added = {
            "exception": name,
            "message": said,
            "stacktrace": stack,
            "topic": context.topic,
            "partition": str(context.partition),
            "offset": str(context.offset),
        }
        headers = [(_HEADER + what, None if text is None else text.encode()) for what, text in added.items()]
        key, value = context.source_raw_key, context.source_raw_value
        self._letters.append(Letter(cause, path, key, value, context.timestamp_ms, (*context.headers, *headers)))

    def take(self, until: int | None = None) -> list[Letter]:
        due = [letter for letter in self._letters if until is None or letter.cause <= until]
        self._letters = [] if until is None else [letter for letter in self._letters if letter.cause > until]
        depth = max((len(letter.path) for letter in due), default=0)
        # A path that ends early counts on with -1, as in forward_order.py: what failed further up comes first.
        return sorted(due, key=lambda letter: (letter.cause, *letter.path, *[-1] * (depth - len(letter.path))))


def _described(error: TaskFailed) -> tuple[str, str | None, str]:
    """Name of the exception, its message, and its stack."""
    exception = error if error.__cause__ is None else error.__cause__
    kind = type(exception)
    has_module = kind.__module__ != "builtins" and not isinstance(exception, ReplayError)
    name = f"{kind.__module__}.{kind.__qualname__}" if has_module else kind.__qualname__
    said = text_of(exception) or None
    frames = "".join(f"\tat {frame}\n" for frame in users_frames(exception.__traceback__))
    return name, said, (name if said is None else f"{name}: {said}") + f"\n{frames}"
