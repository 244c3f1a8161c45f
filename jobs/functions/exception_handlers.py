"""What becomes of records on which something fails: Kafka Streams' exception handlers, by Kafka's names (KIP-161 of
deserialization, KIP-210 of production, KIP-1033 of processing).

Rule: a handler is asked for every record that fails, and says CONTINUE (continue as if the record had not come there)
or FAIL (the run ends). Handlers must be pure, as all functions here: an increment that died asks them again.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ...state.errors import ConfigError
from .parameters import form_of, object_of
from .processor_api import Headers, Record

PROCESSING, DESERIALIZATION, PRODUCTION = (
    f"{what}.exception.handler" for what in ("processing", "deserialization", "production")
)
_OLD_NAMES = {f"default.{name}": name for name in (DESERIALIZATION, PRODUCTION)}
"""Names that Kafka 4 still takes."""
HANDLERS = (PROCESSING, DESERIALIZATION, PRODUCTION, *_OLD_NAMES)
"""Settings that are handlers."""

_log = logging.getLogger(__name__)


class ExceptionHandlerResponse(Enum):
    """What a handler answers (Kafka's ProcessingHandlerResponse, DeserializationHandlerResponse)."""

    CONTINUE = "CONTINUE"
    FAIL = "FAIL"


CONTINUE, FAIL = ExceptionHandlerResponse.CONTINUE, ExceptionHandlerResponse.FAIL


@dataclass(frozen=True)
class ErrorHandlerContext:
    """Where something failed (Kafka's ErrorHandlerContext). In a punctuation there is no record: ``topic`` is None,
    ``partition`` and ``offset`` are -1, ``timestamp_ms`` is the stream time. ``processor_node_id``: name of the
    processor. ``task_id``: sub-topology and partition, "0_3". ``headers``: of the record, pairs of a name and bytes.
    ``source_raw_key`` and ``source_raw_value``: bytes of the record that the task took and that caused this one.
    """

    topic: str | None
    partition: int
    offset: int
    headers: Headers
    processor_node_id: str
    task_id: str
    timestamp_ms: int
    source_raw_key: bytes | None
    source_raw_value: bytes | None


Handler = Callable[[ErrorHandlerContext, Record | None, Exception], ExceptionHandlerResponse]
"""(context, record, exception) -> CONTINUE or FAIL. ``record``: as the node got it; of deserialization with key and
value as bytes; None in a punctuation.
"""


class LogAndContinueExceptionHandler:
    """The run continues without the record, which is a row of `dropped`; one that cannot be decoded is a dead letter. A
    warning says so in the log of this module, wherever the task runs.
    """

    def __call__(
        self, context: ErrorHandlerContext, record: Record | None, exception: Exception
    ) -> ExceptionHandlerResponse:
        _log.warning(*_logged(context, exception))
        return CONTINUE


class LogAndFailExceptionHandler:
    """The run ends, and its error names the record; one that cannot be decoded is in the log of this module, too."""

    def __call__(
        self, context: ErrorHandlerContext, record: Record | None, exception: Exception
    ) -> ExceptionHandlerResponse:
        _log.error(*_logged(context, exception))
        return FAIL


def writes_letters(handler: Handler | None) -> bool:
    """Whether what it continues without goes to the topic of dead letters (KIP-1034). One of the user's own says
    nothing of it, as in Kafka; without a handler that is what becomes of records that are not decoded.
    """
    return handler is None or isinstance(handler, LogAndContinueExceptionHandler)


def _logged(context: ErrorHandlerContext, exception: Exception) -> tuple[object, ...]:
    """As Kafka's handlers say it."""
    said = "%s, task %s: %s: %s (topic %s, partition %s, offset %s)"
    location = context.topic, context.partition, context.offset
    return said, context.processor_node_id, context.task_id, type(exception).__name__, exception, *location


_BY_NAME: dict[str, type[LogAndContinueExceptionHandler] | type[LogAndFailExceptionHandler]] = {
    "LogAndContinueExceptionHandler": LogAndContinueExceptionHandler,
    "LogAndContinueProcessingExceptionHandler": LogAndContinueExceptionHandler,
    "LogAndFailExceptionHandler": LogAndFailExceptionHandler,
    "LogAndFailProcessingExceptionHandler": LogAndFailExceptionHandler,
    "DefaultProductionExceptionHandler": LogAndFailExceptionHandler,
}
"""Kafka's classes."""


@dataclass(frozen=True)
class ExceptionHandlers:
    """Handlers of one topology; None where none was given. What is not decoded then is a dead letter, and all else ends
    the run.
    """

    processing: Handler | None = None
    deserialization: Handler | None = None


def exception_handlers(config: Mapping[str, Any]) -> ExceptionHandlers:
    """Those that ``config`` has, by names of HANDLERS. Each is a class or an object of this module, the name of Kafka's
    class, or a callable of (context, record, exception), also as a class whose ``handle`` is one.

    Raises ConfigError for what is no handler.
    """
    by_name: dict[str, Handler] = {}
    for name, value in config.items():
        known = _OLD_NAMES.get(name, name)
        # Where both names are given, the one that is not deprecated counts, in whichever order they come.
        if known not in by_name or name == known:
            by_name[known] = _handler(known, value)
    processing = by_name.get(PROCESSING)
    if isinstance(processing, LogAndFailExceptionHandler):
        processing = None
    return ExceptionHandlers(processing, by_name.get(DESERIALIZATION))


def _handler(name: str, value: Any) -> Handler:
    place = f"StreamsBuilder config {name}"
    if isinstance(value, str):
        handler = _BY_NAME.get(value.rpartition(".")[2])
        if handler is None:
            next_step = "name one of these, or give a callable of (context, record, exception)"
            raise ConfigError(place, f"one of Kafka's {sorted(_BY_NAME)}", repr(value), next_step)
        made_by_name: Handler = handler()
        return made_by_name
    made = object_of(value, place)
    handle: Any = made if callable(made) else getattr(made, "handle", made)
    form_of(handle, place, ("context", "record", "exception"))
    given: Handler = handle
    return given
