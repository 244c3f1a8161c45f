"""Changes of a table in a test, and what an operator on its own forwards of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kstreams_replay.state.buffers import is_valid
from kstreams_replay.state.records.batches import Batch, Values
from kstreams_replay.state.records.keys import Keys
from kstreams_replay.state.serdes import Serde
from tests.operators.cut_tapes import Increments, chunk_of, drops_of


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


@dataclass
class PlayedChanges:
    """What was forwarded and refused, durable rows in the end, and what is running then."""

    forwarded: list[Forwarded] = field(default_factory=list)
    drops: list[tuple[int, str]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    operator: Any = None


def play_changes(
    start: Callable[[], Any], changes: Sequence[Change], returns: Serde, *, cuts: Sequence[int] = (), step: int = 100
) -> PlayedChanges:
    """``changes`` through the operator that ``start`` makes, ``step`` of them a chunk; ``cuts``: as of Increments."""
    increments, played = Increments(start), PlayedChanges()
    for operator, begin, end in increments.chunks(len(changes), range(step, len(changes), step), cuts):
        part, chunk = changes[begin:end], chunk_of(end - begin)
        out = operator.process(batch_of(part, operator.context.keys, operator.context.shape.value), chunk)
        played.forwarded += forwarded_of(out, returns, begin)
        refused = drops_of(chunk)
        played.drops += [(begin + cause, reason) for cause, reason in refused]
        assert [not applied for applied in chunk.applied] == [row in dict(refused) for row in range(len(part))]
    increments.save()
    played.rows, played.operator = increments.rows[""].to_pylist(), increments.running
    return played
