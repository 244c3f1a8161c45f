"""Where the records of a topic have their times from (Kafka's TimestampExtractor): their own, a step, or a callable.

Owns Kafka's built-in extractors, and what a bound one answers. Rule (RecordQueue): the extractor is called for every
record that can be read, in the order of its partition. It gets the *partition time*: the largest time of an earlier
record of the partition, -1 at first. A record whose time is negative is dropped and moves nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from ...state.errors import InvalidTimestamp, TaskFailed, TopologyError, said, shown
from ...state.records.batches import Batch
from ...state.times import FROM_DATETIME, LATEST_MS, NO_TIMESTAMP_MS, is_int, known_times
from .call_names import Hinting
from .expression_text import expression_text
from .expressions import VALUE_IS_NULL, Expressible, Expression, Shape, bind, python_keys
from .parameters import Form, form_of

PARTITION_TIME = "partition_time_ms"
"""What an expression calls the partition time."""

_OF_RECORD: Form = ("record",)
_OF_RECORD_AND_TIME: Form = ("record", PARTITION_TIME)
_BOUND = 1 << 63
_ROWS_MIN, _ROWS_MAX, _ROUNDS = 64, 65_536, 4
"""So many rows at once where a time depends on those of the rows before: more, where these rounds settle them."""

A_FUNCTION = "a Python function"

FAIL, SKIP, PARTITION, STRICT = "fail", "skip", "partition time", ""
"""What becomes of a record without a valid time. STRICT: dropped if it is negative, and an error if there is none."""


class ConsumerRecord(NamedTuple):
    """What a callable is given: a record as it is in the topic, with the time that it has there."""

    key: Any
    value: Any
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]
    topic: str
    partition: int
    offset: int


Extractor = Expressible | Callable[..., Any]
"""A step over the record's fields, or a callable of (record, partition_time_ms) or of (record), which gives the time in
milliseconds since 1970.
"""


@dataclass(frozen=True)
class BuiltInExtractor(Hinting):
    """``of``: a step or a callable for the time; None: the record's own."""

    of: Extractor | None = None
    policy: ClassVar[str] = STRICT


class FailOnInvalidTimestamp(BuiltInExtractor):
    """A record whose time is negative or null ends the run with InvalidTimestamp, which names it (Kafka's default)."""

    policy = FAIL


class LogAndSkipOnInvalidTimestamp(BuiltInExtractor):
    """A record whose time is negative or null is dropped, as ``negative-timestamp``. What happens without an extractor.

    ``LogAndSkipOnInvalidTimestamp("sent_ms")``: the same of a field.
    """

    policy = SKIP


class UsePartitionTimeOnInvalidTimestamp(BuiltInExtractor):
    """A record whose time is negative or null gets the partition time; InvalidTimestamp where there is none yet."""

    policy = PARTITION


class WallclockTimestampExtractor(BuiltInExtractor):
    """Refused with TopologyError: a replay would give a record another time than the run before did."""

    def __init__(self, of: Extractor | None = None) -> None:
        expected, got = "a time that a replay finds again", "the clock of the machine that runs it"
        next_step = "land the records with the time at which they came, which is their time without an extractor"
        raise TopologyError("WallclockTimestampExtractor", expected, got, next_step)


@dataclass(frozen=True, eq=False)
class RecordFunction:
    """A callable of the user's; ``knows_time``: it gets the partition time, too."""

    function: Callable[..., Any]
    knows_time: bool


class ConsumedRecords(NamedTuple):
    """Records of one partition that can be read, in their order; ``batch`` has their own times."""

    batch: Batch
    topic: str
    partition: int
    offset: np.ndarray

    def first(self, rows: int) -> "ConsumedRecords":
        """The first ``rows`` of them."""
        return self.part(0, rows)

    def part(self, begin: int, end: int) -> "ConsumedRecords":
        """Rows ``begin`` to ``end``."""
        rows = np.arange(begin, min(end, len(self.batch)))
        return self._replace(batch=self.batch.take(rows), offset=self.offset[rows])

    def say(self, row: int) -> str:
        """Which one it is."""
        return f"the record {self.topic}-{self.partition}, offset {int(self.offset[row])}"


@dataclass(frozen=True)
class _RecordColumns:
    """What a step over a record of a topic may name. A field of the value goes first."""

    shape: Shape

    def columns(self) -> dict[str, pa.DataType]:
        return {VALUE_IS_NULL: pa.bool_(), PARTITION_TIME: pa.int64()} | self.shape.columns()


@dataclass(frozen=True, eq=False)
class TimestampExtractor:
    """A bound extractor. ``step`` None: the record's own time. ``given``: the step as the user wrote it."""

    step: Expression | RecordFunction | None
    policy: str
    shape: Shape | None
    place: str
    given: Any = None

    @property
    def is_own_time(self) -> bool:
        """Whether records keep the times that they have, so that nobody need be asked."""
        return self.step is None and self.policy in (SKIP, STRICT)

    @property
    def keeps_valid_times(self) -> bool:
        """Whether records keep a time of 0 or later, as all have that a topology writes."""
        return self.step is None

    @property
    def words(self) -> str:
        """The kind of the extractor, and what it does with a record without a valid time, but not which function it
        is.
        """
        asked = "its own time" if self.step is None else A_FUNCTION
        asked = expression_text(self.step.expression) if isinstance(self.step, Expression) else asked
        return f"{asked}, else {self.policy}" if self.policy else asked

    @property
    def knows_partition_time(self) -> bool:
        """Whether a record's time may depend on those before it."""
        return self.policy == PARTITION or self._step_knows_time

    @property
    def _step_knows_time(self) -> bool:
        if isinstance(self.step, Expression):
            return (
                PARTITION_TIME in self._names and self.shape is not None and PARTITION_TIME not in self.shape.fields()
            )
        return self.step is not None and self.step.knows_time

    @property
    def _names(self) -> list[str]:
        assert isinstance(self.step, Expression)
        return self.step.expression.meta.root_names()

    def is_as(self, other: "TimestampExtractor") -> bool:
        """Whether both were given as the same."""
        one, two = self.given, other.given
        if self.is_own_time or other.is_own_time:
            return self.is_own_time and other.is_own_time
        if isinstance(one, pl.Expr) or isinstance(two, pl.Expr):
            is_same = isinstance(one, pl.Expr) and isinstance(two, pl.Expr) and one.meta.eq(two)
        else:
            is_same = one is two or (isinstance(one, str) and one == two)
        return is_same and self.policy == other.policy

    def times(self, records: ConsumedRecords, partition_time_ms: int) -> np.ndarray:
        """Time of every record in ms, negative of one to be dropped. ``partition_time_ms``: before the first.

        Raises InvalidTimestamp or TaskFailed, with the first record that fails as ``cause_row``, its row in
        ``records``.
        """
        extracted, begin, end = [np.zeros(0, np.int64)], 0, len(records.batch)
        size = _ROWS_MIN if self._step_knows_time else end
        while begin < end:
            try:
                times, rounds = self._times(records.part(begin, begin + size), partition_time_ms)
            except TaskFailed as error:
                if error.cause_row >= 0:
                    error.cause_row += begin
                    raise
                size = min(size, end - begin) // 2
                continue
            extracted.append(times)
            partition_time_ms, begin = int(known_times(times).max(initial=partition_time_ms)), begin + len(times)
            size = min(2 * size, _ROWS_MAX) if rounds <= _ROUNDS else max(size // 2, _ROWS_MIN)
        return np.concatenate(extracted)

    def _times(self, records: ConsumedRecords, start_ms: int) -> tuple[np.ndarray, int]:
        """Times, and how many rounds they took. A failure has no row yet where fewer records may not fail."""
        try:
            times, known, before, rounds = self._settled(records, start_ms)
        except TaskFailed as error:
            if error.cause_row < 0:
                # All but the first record were computed from a partition time that may not be theirs.
                if self._step_knows_time and len(records.batch) > 1:
                    raise
                error.cause_row = self._first_failing(records, start_ms)
                error.say(f"it is {records.say(error.cause_row)}")
            self._times(records.first(error.cause_row), start_ms)  # what fails before it is told first
            raise
        return self._valid(records, times, known, before), rounds

    def _settled(self, records: ConsumedRecords, start_ms: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """Times, which of them there are, the partition time before each, and the rounds that it took. A record's time
        depends on those before it alone, so with every round one more is right for good; two or three are usual.
        """
        if isinstance(self.step, RecordFunction):
            return *self._called(records, start_ms, self.step), 1
        before, rounds, frame = np.full(len(records.batch), start_ms, np.int64), 0, self._frame(records)
        while True:
            rounds += 1
            times, known = self._computed(records, frame, before)
            settled = _before_each(known_times(np.where(known, times, NO_TIMESTAMP_MS)), start_ms)
            if not self._step_knows_time or (settled == before).all():
                return times, known, settled, rounds
            before = settled

    def _frame(self, records: ConsumedRecords) -> pl.DataFrame:
        """What the expression names of the records alone."""
        if self.step is None:
            return pl.DataFrame()
        assert self.shape is not None
        own = {PARTITION_TIME} if self._step_knows_time else set()
        return self.shape.frame(records.batch, [name for name in self._names if name not in own])

    def _computed(
        self, records: ConsumedRecords, frame: pl.DataFrame, before: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        if self.step is None:
            return records.batch.time_ms, np.ones(len(records.batch), np.bool_)
        assert isinstance(self.step, Expression)
        if self._step_knows_time:
            frame = frame.with_columns(pl.Series(PARTITION_TIME, before))
        column = self.step.compute(frame)
        return column.fill_null(NO_TIMESTAMP_MS).cast(pa.int64()).to_numpy().copy(), ~_nulls(column)

    def _called(
        self, records: ConsumedRecords, start_ms: int, step: RecordFunction
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n = len(records.batch)
        times, known, before = np.full(n, NO_TIMESTAMP_MS, np.int64), np.zeros(n, np.bool_), np.zeros(n, np.int64)
        for row, record in enumerate(_as_python(records, self.shape)):
            before[row] = start_ms
            try:
                answer = step.function(record, start_ms) if step.knows_time else step.function(record)
            except Exception as error:
                got = f"{said(error)}, of {records.say(row)}"
                failure = TaskFailed(self.place, "a time of the callable", got, "correct the callable")
                failure.cause_row = row
                raise failure from error
            if answer is not None and not (is_int(answer) and -_BOUND <= answer < _BOUND):
                failure = TaskFailed(
                    self.place,
                    "milliseconds as an int of 64 bits",
                    f"{shown(answer)}, of {records.say(row)}",
                    FROM_DATETIME if isinstance(answer, datetime) else "correct the callable",
                )
                failure.cause_row = row
                raise failure
            if answer is not None:
                times[row], known[row] = answer, True
                # A later time makes a dead letter of the record (known_times), which moves no partition time.
                start_ms = start_ms if answer > LATEST_MS else max(start_ms, int(answer))
        return times, known, before

    def _first_failing(self, records: ConsumedRecords, start_ms: int) -> int:
        """The first record on which the expression fails."""
        low, high = 0, len(records.batch)
        while low + 1 < high:
            middle = (low + high) // 2
            try:
                self._settled(records.first(middle), start_ms)
                low = middle
            except TaskFailed:
                high = middle
        return high - 1

    def _valid(self, records: ConsumedRecords, times: np.ndarray, known: np.ndarray, before: np.ndarray) -> np.ndarray:
        is_invalid = ~known | (times < 0)
        if not is_invalid.any():
            return times
        refused = {FAIL: is_invalid, PARTITION: is_invalid & (before < 0), STRICT: ~known}.get(self.policy)
        if refused is not None and refused.any():
            raise self._refusal(records, int(np.flatnonzero(refused)[0]), times, known)
        if self.policy == PARTITION:
            return np.where(is_invalid, before, times)
        return np.where(known, times, NO_TIMESTAMP_MS)

    def _refusal(self, records: ConsumedRecords, row: int, times: np.ndarray, known: np.ndarray) -> InvalidTimestamp:
        got = f"{int(times[row])}" if known[row] else "null"
        if self.policy == PARTITION:
            got += ", and no time in the partition before it that could take its place"
        next_step = (
            "correct the extractor: COALESCE(…, record_time_ms) takes the record's own time, "
            "LogAndSkipOnInvalidTimestamp(…) drops such records, UsePartitionTimeOnInvalidTimestamp(…) gives them the "
            "partition time"
        )
        error = InvalidTimestamp(self.place, "a time of 0 ms or later", f"{got}, of {records.say(row)}", next_step)
        error.cause_row = row
        return error


OWN_TIME = TimestampExtractor(None, SKIP, None, "")
"""What a topic has without an extractor."""


def bind_extractor(given: Any, shape: Shape, place: str) -> TimestampExtractor:
    """Check what a Consumed was given against the topic's records.

    Raises TopologyError for anything but an extractor, for a step of another type than whole numbers, and for the
    wall clock.
    """
    if isinstance(given, type) and issubclass(given, BuiltInExtractor):
        given = given()
    if given is None:
        return OWN_TIME
    of, policy = (given.of, given.policy) if isinstance(given, BuiltInExtractor) else (given, STRICT)
    return TimestampExtractor(_step(of, shape, place), policy, shape, place, of)


def _step(of: Any, shape: Shape, place: str) -> Expression | RecordFunction | None:
    if of is None:
        return None
    if isinstance(of, str | pl.Expr):
        step = bind(of, _RecordColumns(shape), place)
        if not pa.types.is_integer(step.result.arrow_type):
            next_step = 'give milliseconds since 1970, of a datetime pl.col("at").dt.epoch("ms")'
            raise TopologyError(place, "a time as whole milliseconds", f"{of!s}, which gives {step.result}", next_step)
        return step
    if not callable(of):
        expected = "a timestamp extractor: a step, a callable of (record, partition_time_ms), or one of Kafka's"
        raise TopologyError(place, expected, repr(of), 'give for example timestamp_extractor="sent_ms"')
    form = form_of(of, place, _OF_RECORD_AND_TIME, _OF_RECORD)
    return RecordFunction(of, form is _OF_RECORD_AND_TIME)


def _as_python(records: ConsumedRecords, shape: Shape | None) -> Any:
    assert shape is not None
    batch, n = records.batch, len(records.batch)
    headers = [()] * n if batch.headers is None else batch.headers.to_pylist()
    rows = zip(
        python_keys(shape, batch), shape.value.to_python(batch.value.all()), batch.time_ms.tolist(), headers,
        records.offset.tolist(), strict=True,
    )  # fmt: skip
    for key, value, time_ms, own_headers, offset in rows:
        pairs = tuple((header["key"], header["value"]) for header in own_headers or ())
        yield ConsumerRecord(key, value, time_ms, pairs, records.topic, records.partition, offset)


def _before_each(times: np.ndarray, start_ms: int) -> np.ndarray:
    """The largest time before each row."""
    largest: np.ndarray = np.maximum.accumulate(np.concatenate([[start_ms], times]))[:-1]
    return largest


def _nulls(column: pa.Array) -> np.ndarray:
    is_null: np.ndarray = column.is_null().to_numpy(zero_copy_only=False)
    return is_null
