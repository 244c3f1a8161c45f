"""Changes of a table in a test, and what an operator on its own forwards of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kstreams_replay.state.buffers import is_valid
from kstreams_replay.state.records.batches import Batch, Chunk, Values
from kstreams_replay.state.records.keys import Keys
from kstreams_replay.state.serdes import Serde


class Change(NamedTuple):
    """Key, new and old value, and time of a change."""

    key: Any
    new: Any
    old: Any
    time_ms: int
    is_latest: bool = True


class Forwarded(NamedTuple):
    """A change that left an operator; ``cause``: number of the one that caused it, from 0."""

    cause: int
    key: Any
    new: Any
    old: Any
    time_ms: int


def chunk_of(changes: int) -> Chunk:
    """A chunk of that many records of one topic, at offsets and times 0, 1, ..."""
    numbers, topic = np.arange(changes, dtype=np.int64), np.zeros(changes, np.int16)
    return Chunk(
        topics=("in",),
        partition=0,
        source=topic,
        offset=numbers,
        context_offset=numbers,
        context_topics=("in",),
        context_source=topic,
        time_ms=numbers,
        stream_time_ms=numbers,
        tape_time_ms=numbers,
        applied=np.zeros(changes, np.bool_),
        refused=np.zeros(changes, np.bool_),
    )


def batch_of(changes: Sequence[Change], keys: Keys, value: Serde) -> Batch:
    """Changes 0, 1, ... of a chunk."""
    new, old = (value.from_python([getattr(change, name) for change in changes]) for name in ("new", "old"))
    return Batch(
        cause=np.arange(len(changes), dtype=np.int32),
        key=keys.intern(keys.serde.encode(keys.serde.from_python([change.key for change in changes]))),
        keys=keys,
        time_ms=np.array([change.time_ms for change in changes], np.int64),
        valid=is_valid(new),
        value=Values(new),
        old=Values(old),
        old_valid=is_valid(old),
        latest=np.array([change.is_latest for change in changes], np.bool_),
    )


def forwarded_of(batch: Batch, value: Serde, first: int = 0) -> list[Forwarded]:
    """``first``: number of the chunk's first change. Valid flags must say what is null."""
    new = value.to_python(batch.value.all())
    old = [None] * len(batch) if batch.old is None else value.to_python(batch.old.all())
    assert [value is not None for value in new] == batch.valid.tolist()
    if batch.old_valid is not None:
        assert [value is not None for value in old] == batch.old_valid.tolist()
    keys = batch.keys.serde.to_python(batch.keys.typed(batch.key))
    columns = (batch.cause + first).tolist(), keys, new, old, batch.time_ms.tolist()
    return [Forwarded(*row) for row in zip(*columns, strict=True)]


def drops_of(chunk: Chunk) -> list[tuple[int, str]]:
    """(cause, reason) of every refusal, in order of causes."""
    return sorted((int(cause), drops.reason) for _, causes, drops in chunk.drops for cause in causes)
