"""A stream-stream join on its own: tapes of two streams through the operator, cut into chunks and increments."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import pyarrow as pa

from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.functions.value_joiners import Joiner
from kstreams_replay.jobs.operators.base.operator import OperatorContext
from kstreams_replay.jobs.operators.joins.stream_join import StreamJoin
from kstreams_replay.state.buffers import is_valid
from kstreams_replay.state.records.batches import Batch, Values
from kstreams_replay.state.records.keys import Keys
from kstreams_replay.state.serdes import Serde
from tests.operators.cut_tapes import Increments, chunk_of
from tests.operators.tapes import render, tape_of
from tests.playing import InputRecord

STRING, LONG = Serde.string(), Serde.long()
SIDES = ("left", "right")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

Record = InputRecord | tuple[str, str | None, int | None, int]
"""Side, key, value, time."""
Joined = tuple[int, str | None, int | None, int | None, int]
"""Step, key, left and right value, time."""


class BothStreams(Joiner):
    """Left and right value side by side."""

    result = STRING

    def evaluate(self, batch: Batch, left: pa.Array, right: pa.Array) -> pa.Array:
        return pa.StructArray.from_arrays([left, right], names=list(SIDES))


@dataclass(frozen=True)
class JoinRun:
    """``kind``: "inner", "left" or "outer"; times in ms."""

    kind: str
    before: int
    after: int
    grace: int = 0
    is_persistent: bool = False

    def start(self) -> StreamJoin:
        shapes = Shape(STRING, STRING), Shape(STRING, LONG)
        return StreamJoin(
            OperatorContext("join", shapes[0], Keys(STRING), shapes=shapes),
            BothStreams(),
            kind=self.kind,
            before_ms=self.before,
            after_ms=self.after,
            grace_ms=self.grace,
            is_persistent=self.is_persistent,
        )


@dataclass
class PlayedJoin:
    """What a tape caused. Steps count from 0."""

    joined: list[Joined]
    drops: list[tuple[int, str, bool]]
    """(step, reason, whether the whole record had no effect)."""
    applied: list[int]
    operator: StreamJoin


def batch_of(keys: Keys, side: str, tape: Sequence[Record], steps: Iterable[int]) -> Batch:
    """Records of ``side`` among ``steps``; the left side's values are texts. Every record has its step as a header."""
    mine = [step for step in steps if tape[step][0] == side]
    _, key, value, time_ms = zip(*(tape[step][:4] for step in mine), strict=True) if mine else ([], [], [], [])
    values = pa.array(value, pa.int64())
    values = values.cast(pa.string()) if side == "left" else values
    return Batch(
        cause=np.array(mine, np.int32),
        key=keys.intern(STRING.encode(pa.array(key, pa.string()))),
        keys=keys,
        time_ms=np.array(time_ms, np.int64),
        valid=is_valid(values),
        value=Values(values),
        headers=pa.array([[{"key": "step", "value": b"%d" % step}] for step in mine], HEADERS),
    )


def joined_alone(
    join: JoinRun, tape: Sequence[Record], *, chunks: Sequence[int] = (), cuts: Sequence[int] = ()
) -> PlayedJoin:
    """``chunks``, ``cuts``: as of Increments. Codes of keys differ from increment to increment."""
    starts = count()

    def start() -> StreamJoin:
        operator = join.start()
        operator.context.keys.intern(pa.array([b"z%d" % number for number in range(next(starts))], pa.binary()))
        return operator

    increments, chunk, rows = Increments(start), chunk_of(len(tape)), list[Joined]()
    for operator, begin, end in increments.chunks(len(tape), chunks, cuts):
        batches = tuple(batch_of(operator.context.keys, side, tape, range(begin, end)) for side in SIDES)
        rows += _rows(operator.process_all(batches, chunk))
    drops = [
        (int(step), drops.reason, bool(whole))
        for _, cause, drops in chunk.drops
        for step, whole in zip(cause, drops.is_record, strict=True)
    ]
    return PlayedJoin(rows, sorted(drops), np.flatnonzero(chunk.applied).tolist(), increments.running)


def _rows(out: Batch) -> list[Joined]:
    values = out.value.all().to_pylist()
    assert out.headers is None or [int(h[0]["value"]) for h in out.headers.to_pylist()] == out.cause.tolist()
    assert len(out) == 0 or out.valid.all()
    left = [None if value["left"] is None else int(value["left"]) for value in values]
    right = [value["right"] for value in values]
    keys = out.keys.typed(out.key).to_pylist()
    return list(zip(out.cause.tolist(), keys, left, right, out.time_ms.tolist(), strict=True))


def self_joined(join: JoinRun, tape: Sequence[Record]) -> list[Joined]:
    """A stream joined with itself: every record is on both sides, on the left one first."""
    operator, chunk = join.start(), chunk_of(len(tape))
    sides = [[(side, *record[1:]) for record in tape] for side in SIDES]
    batches = tuple(
        replace(
            batch_of(operator.context.keys, side, of_side, range(len(tape))), path=(np.arange(len(tape)) * 4 + number,)
        )
        for number, (side, of_side) in enumerate(zip(SIDES, sides, strict=True))
    )
    return _rows(operator.process_all(batches, chunk))


def joined(join: JoinRun, text: str) -> str:
    """What came of a tape whose steps count from 1, be it in one piece or cut at every step."""
    columns, tape = ["step", "key", "left", "right", "time_ms"], tape_of(text)
    whole = joined_alone(join, tape).joined
    assert joined_alone(join, tape, cuts=range(len(tape))).joined == whole
    return render([dict(zip(columns, (row[0] + 1, *row[1:]), strict=True)) for row in whole], columns)


def many(keys, side: str, *, key: list[str], time_ms: list[int]) -> Batch:
    """Records of ``side`` whose value is their row."""
    values = pa.array(np.arange(len(key)))
    values = values.cast(pa.string()) if side == "left" else values
    return Batch(
        cause=np.arange(len(key), dtype=np.int32),
        key=keys.intern(pa.array(key, pa.string()).cast(pa.binary())),
        keys=keys,
        time_ms=np.array(time_ms, np.int64),
        valid=is_valid(values),
        value=Values(values),
    )
