"""What extractors of topics are given of each record beside its key and value (SinkNode, RecordContext)."""

from collections.abc import Callable, Iterator
from typing import Any

from ....state.records.batches import NO_OFFSET, Batch, Chunk
from ...functions.expressions import Call, ContextCall, Expression
from ...functions.processor_api import RecordContext
from .single_records import headers_of


def names_of_topics(extractor: Expression | Call, batch: Batch, chunk: Chunk) -> list[Any]:
    """What ``extractor`` names for each record, text or None. Raises TaskFailed that names the first record on which it
    fails.
    """
    if isinstance(extractor, ContextCall):
        called = _with_contexts(extractor.function, record_contexts(batch, chunk))
        extractor = Call(called, extractor.shape, extractor.result, extractor.place)
    names: list[Any] = extractor.evaluate(batch).to_pylist()
    return names


def _with_contexts(function: Callable[..., Any], contexts: Iterator[RecordContext]) -> Callable[[Any, Any], Any]:
    return lambda key, value: function(key, value, next(contexts))


def record_contexts(batch: Batch, chunk: Chunk) -> Iterator[RecordContext]:
    """Of each record where the one is from that caused it, and its own time and headers; of a record that a punctuation
    made no topic, and -1 for partition and offset.
    """
    sources, offsets = batch.coordinates(chunk)
    headers = [None] * len(batch) if batch.headers is None else batch.headers.to_pylist()
    rows = zip(sources.tolist(), offsets.tolist(), batch.time_ms.tolist(), map(headers_of, headers), strict=True)
    for source, offset, time_ms, given in rows:
        if offset == NO_OFFSET:
            yield RecordContext(None, -1, -1, time_ms, given)
        else:
            yield RecordContext(chunk.context_topics[source], chunk.partition, offset, time_ms, given)
