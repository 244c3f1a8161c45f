"""What a Python processor sees of the engine (Kafka Streams' Processor API), for ``KStream.process`` and
``KTable.transform_values``.

Rule: whatever must outlive an increment is in a store or in a schedule. Attributes of a processor do not: every
increment begins with a new processor, whose ``init`` finds the stores and the schedules as the one before left them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from ...state.errors import ConfigError
from ...state.serdes import Serde
from ...state.times import Duration
from .call_names import HintingObject, NamesOfEnum, NoDict, public, refuse
from .store_iterators import StoreIterator, give
from .store_puts import PutMethods

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A record that a processor is given or forwards. ``key`` is a Windowed one in a windowed stream. ``timestamp_ms``:
    milliseconds since 1970. ``headers``: pairs of a name and bytes or None, in order.
    """

    key: Any
    value: Any
    timestamp_ms: int
    headers: Headers = ()

    def with_key(self, key: Any) -> "Record":
        """The same with another key."""
        return self._replace(key=key)

    def with_value(self, value: Any) -> "Record":
        """The same with another value."""
        return self._replace(value=value)

    def with_timestamp(self, timestamp_ms: int) -> "Record":
        """The same at another time."""
        return self._replace(timestamp_ms=timestamp_ms)

    def with_headers(self, headers: Headers) -> "Record":
        """The same with other headers."""
        return self._replace(headers=headers)


def _refuse_name(self: Record, name: str) -> Any:
    raise refuse("Record", name, public(dir(type(self))))


if not TYPE_CHECKING:  # to a type checker an unknown name is one
    Record.__getattr__ = _refuse_name


_FROM_THE_ENGINE = object()


@dataclass(frozen=True, slots=True)
class FixedKeyRecord:
    """A record of ``KStream.process_values``, whose key no call changes (KIP-820). ``key``, ``value``, ``timestamp_ms``
    and ``headers`` are those of a Record. ``made_by``: a mark of the engine; ConfigError for a record without it, which
    somebody made by hand.
    """

    key: Any
    value: Any
    timestamp_ms: int
    headers: Headers = ()
    made_by: object = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.made_by is not _FROM_THE_ENGINE:
            expected, next_step = "a record that process() was given", "take that, with_value() or with_timestamp()"
            raise ConfigError("FixedKeyRecord", expected, "one that is made by hand", next_step)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise refuse("FixedKeyRecord", name, public(dir(type(self))))

    def with_value(self, value: Any) -> "FixedKeyRecord":
        """The same with another value."""
        return replace(self, value=value)

    def with_timestamp(self, timestamp_ms: int) -> "FixedKeyRecord":
        """The same at another time."""
        return replace(self, timestamp_ms=timestamp_ms)

    def with_headers(self, headers: Headers) -> "FixedKeyRecord":
        """The same with other headers."""
        return replace(self, headers=headers)


def fixed_key_record(record: Record) -> FixedKeyRecord:
    """``record``, whose key stays."""
    return FixedKeyRecord(*record, made_by=_FROM_THE_ENGINE)


class RecordMetadata(NamedTuple):
    """Where the record is from that the task took from a topic and that caused what is processed now."""

    topic: str
    partition: int
    offset: int


class RecordContext(NamedTuple):
    """What ``to(lambda key, value, context: …)`` is given beside a record's key and value.

    ``topic``, ``partition`` and ``offset`` are those of the record that the task took and that caused it: None, -1 and
    -1 where a punctuation did. ``timestamp_ms`` and ``headers`` are its own. Source: ``RecordContext``.
    """

    topic: str | None
    partition: int
    offset: int
    timestamp_ms: int
    headers: Headers = ()


class ValueAndTimestamp(NamedTuple):
    """A value and its time in ms, as a timestamped store has them."""

    value: Any
    timestamp_ms: int


class ValueTimestampHeaders(NamedTuple):
    """A value, its time in ms and its headers, as a timestamped store with headers has them (KIP-1271)."""

    value: Any
    timestamp_ms: int
    headers: Headers = ()


class AggregationWithHeaders(NamedTuple):
    """An aggregate and its headers, as a session store with headers has them (KIP-1271)."""

    aggregation: Any
    headers: Headers = ()


class PunctuationType(Enum, metaclass=NamesOfEnum):
    """What moves a schedule on: the task's stream time, or ticks of the wall clock, as they were recorded beside its
    topics (jobs/landing/recorded_time.py).
    """

    STREAM_TIME = "stream time"
    WALL_CLOCK_TIME = "wall-clock time"


@dataclass(frozen=True)
class KeyValues:
    """A key-value store of a processor, as ``KStream.process(stores=...)`` takes it. ``name``: by which processors
    share it; ``key`` and ``value``: its serdes.
    """

    name: str
    key: Serde
    value: Serde

    def __post_init__(self) -> None:
        for what, serde in (("key", self.key), ("value", self.value)):
            if not isinstance(serde, Serde):
                place, next_step = f"store {self.name!r} {what}", "use for example Serde.string()"
                raise ConfigError(place, "a serde", repr(serde), next_step)

    @property
    def settings(self) -> dict[str, Any]:
        """What else decides the meaning of its rows, by the name that a refusal calls it."""
        return {}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise refuse("KeyValues", name, public(dir(type(self))))


class KeyValueStore(PutMethods, HintingObject, NoDict, ABC):
    """Values by key, in the order of the serialized keys (unsigned bytes). What iterates knows whether it is empty
    (jobs/functions/store_iterators.py).
    """

    called = "KeyValueStore"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        give(cls, StoreIterator, ("range", "reverse_range", "all", "reverse_all", "prefix_scan"))

    @abstractmethod
    def get(self, key: Any) -> Any:
        """The value, or None."""

    @abstractmethod
    def put(self, key: Any, value: Any) -> None:
        """Replace the value; None deletes it."""

    @abstractmethod
    def delete(self, key: Any) -> Any:
        """Delete the value, and return it."""

    @abstractmethod
    def range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        """(key, value) from ``first`` to ``last``, both included; None is no bound. Later puts do not show."""

    @abstractmethod
    def reverse_range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        """As ``range``, from the last on."""

    @abstractmethod
    def prefix_scan(self, prefix: Any, serde: Serde) -> Iterator[tuple[Any, Any]]:
        """(key, value) of the keys whose bytes begin with those of ``prefix``, which ``serde`` writes: a key that is
        text, for example, by its first letters. Later puts do not show.
        """

    def approximate_num_entries(self) -> int:
        """How many keys have a value; exactly so many here."""
        return len(self)

    def all(self) -> Iterator[tuple[Any, Any]]:
        """Every (key, value)."""
        return self.range()

    def reverse_all(self) -> Iterator[tuple[Any, Any]]:
        """Every (key, value), from the last on."""
        return self.reverse_range()

    @abstractmethod
    def __len__(self) -> int: ...


class Cancellable(ABC):
    """A schedule."""

    @abstractmethod
    def cancel(self) -> None:
        """It is not due any more, in later increments too."""


NOT_GIVEN: Any = object()
"""Default of an argument that was not given, where None is a value."""


def _no_config(got: str) -> ConfigError:
    next_step = "give the processor what it needs through its supplier"
    return ConfigError("processor context", "what every replay repeats", got, next_step)


class ProcessingContext(HintingObject, ABC):
    """What all processors see of the engine."""

    called = "ProcessorContext"

    @abstractmethod
    def schedule(
        self,
        interval: Duration,
        kind: PunctuationType,
        callback: Callable[[int], None],
        *,
        start_ms: int | None = None,
    ) -> Cancellable:
        """Call ``callback(stream time)`` when stream time has reached 0, ``interval``, 2 * ``interval``, ..., at most
        once a record, after it is processed. ``start_ms``: begin there instead of at 0.

        By WALL_CLOCK_TIME: ``callback(tick)`` at the first recorded tick that is ``interval`` or more after the first
        of all, then after each due time; ``start_ms``: begin there. Without ticks it is never called.

        To be called in ``init``, in the same order every time: that is how a schedule is found again in the next
        increment. Raises ConfigError elsewhere, and for an interval below 1 ms. Source: ProcessingContext.schedule,
        StreamTask.
        """

    @abstractmethod
    def store(self, name: str) -> Any:
        """A KeyValueStore or WindowStore (jobs/functions/state_stores.py) of the processor, or one that it shares.
        Values of a table's store are ``ValueAndTimestamp``; the store of a global table is read-only.

        Raises ConfigError for a name that ``process(stores=...)`` does not have.
        """

    @abstractmethod
    def current_stream_time_ms(self) -> int:
        """The largest time of the records that the task has taken, -1 before the first."""

    @abstractmethod
    def current_system_time_ms(self) -> int:
        """The latest recorded tick of the wall clock; in a test driver with ``initial_wall_clock_time`` at least that.
        Raises ConfigError before the first: no clock is the same in a replay.
        """

    @property
    @abstractmethod
    def record_metadata(self) -> RecordMetadata | None:
        """None in ``init``, in a punctuation, and for a record that a punctuation made."""

    def commit(self) -> None:
        """Ask for a commit, as a hint. It changes no row: an increment is committed as a whole, whoever asks."""
        return

    @abstractmethod
    def task_id(self) -> str:
        """Sub-topology and partition, "0_3", as Kafka numbers them."""

    def application_id(self) -> str:
        """Raises ConfigError: any pipeline may replay a topology, under a name that must not change results."""
        raise _no_config("the name of an application")

    def app_configs(self) -> Mapping[str, Any]:
        """Raises ConfigError: what configures an application has no meaning in a replay."""
        raise _no_config("the configuration of an application")

    def app_configs_with_prefix(self, prefix: str) -> Mapping[str, Any]:
        """Raises ConfigError, as ``app_configs``."""
        raise _no_config(f"the configuration of an application that begins with {prefix!r}")

    def metrics(self) -> Any:
        """Raises ConfigError: what a processor measures of a run would not be repeated by the next."""
        got, next_step = "the registry of metrics", "forward what is to be counted, or look at the report of the run"
        raise ConfigError("processor context", "what every replay repeats", got, next_step)


class ProcessorContext(ProcessingContext):
    """The engine, as a processor sees it."""

    @overload
    @abstractmethod
    def forward(self, key: Record, /, *, child: str | None = None) -> None: ...

    @overload
    @abstractmethod
    def forward(self, key: Record, child: str, /) -> None: ...

    @overload
    @abstractmethod
    def forward(
        self,
        key: Any,
        value: Any,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
        *,
        child: str | None = None,
    ) -> None: ...

    @abstractmethod
    def forward(
        self,
        key: Any,
        value: Any = NOT_GIVEN,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
        *,
        child: str | None = None,
    ) -> None:
        """Forward a record: a Record as it is, ``forward(record.with_value(5))``, or one of this key and value. Then
        ``timestamp_ms`` and ``headers`` are by default those of the record that is processed; in a punctuation the
        stream time, and none.
        ``child``: the name of the one operator below that gets it (``name=`` of its call, or as ``describe`` has it);
        behind a Record it needs no name, ``forward(record, "large")``.

        Raises ConfigError for a key without a value that is no ``Record``, for a time below 0, and for a child that is
        not there.
        """


class FixedKeyProcessorContext(ProcessingContext):
    """The engine, as a processor sees it that keeps keys."""

    @abstractmethod
    def forward(self, record: FixedKeyRecord, child: str | None = None) -> None:
        """Forward ``record``: the one that is processed, or an earlier one, ``with_value`` and so on. ``child``: as
        of ProcessorContext.forward. Raises ConfigError for anything else, for a time below 0, and for a child that is
        not there.
        """


class _Initialized:
    """A class of the user's that asks for its context before it has one."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name != "context":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            what = f"{type(self).__name__} has no context yet"
            raise AttributeError(f"{what}; call super().init(context) in its init, and ask in init or later")


class FixedKeyProcessor(_Initialized, ABC):
    """A processor that keeps keys; ``KStream.process_values`` is given a supplier of it (KIP-820). ``context``: what it
    sees of the engine.
    """

    context: FixedKeyProcessorContext

    def init(self, context: FixedKeyProcessorContext) -> None:
        """Called once an increment, before the first record. Schedules are made here."""
        self.context = context

    @abstractmethod
    def process(self, record: FixedKeyRecord) -> None:
        """Called for every record, null keys and tombstones included."""


class Processor(_Initialized, ABC):
    """A processor; ``KStream.process`` is given a supplier of it. ``context``: what it sees of the engine."""

    context: ProcessorContext

    def init(self, context: ProcessorContext) -> None:
        """Called once an increment, before the first record. Schedules are made here."""
        self.context = context

    @abstractmethod
    def process(self, record: Record) -> None:
        """Called for every record, null keys and tombstones included."""


class ValueTransformerContext(HintingObject, ABC):
    """The engine, as a transformer sees it: what is transformed now. Nothing can be forwarded."""

    called = "ValueTransformerContext"

    @property
    @abstractmethod
    def timestamp_ms(self) -> int:
        """The record's time; of a value that is looked up, the time of that, -1 where there is none. Raises ConfigError
        in ``init``.
        """

    @property
    @abstractmethod
    def headers(self) -> Headers:
        """The record's; none of a value that is looked up. Raises ConfigError in ``init``."""

    @property
    @abstractmethod
    def record_metadata(self) -> RecordMetadata | None:
        """None in ``init``, for a record that a punctuation made, and for a value that is looked up."""


class ValueTransformerWithKey(_Initialized, ABC):
    """A transformer of a table's values; ``KTable.transform_values`` is given a supplier of it. Its attributes do not
    outlive an increment. ``context``: what it sees of the engine.
    """

    context: ValueTransformerContext

    def init(self, context: ValueTransformerContext) -> None:
        """Called once an increment, before the first value."""
        self.context = context

    @abstractmethod
    def transform(self, key: Any, value: Any) -> Any:
        """The new value; None deletes the key. ``value`` is None for a deletion, and where there is none."""
