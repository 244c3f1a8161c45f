"""TopologyTestDriver: the same task code in process, without Spark, tables or Java (Kafka's TopologyTestDriver).

Rule: piped records are processed in the order in which they were piped, each with all that it causes, through
repartition topics too, before the next. Records are collected and run as one chunk when something is read, so that a
test goes through the compiled, columnar path.
"""

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

import numpy as np

from ...state.compilation.kernel_tiers import tiers
from ...state.errors import ConfigError, TaskFailed
from ...state.serdes import Serde
from ...state.serdes.handed_over import own_copy
from ...state.times import NO_TIMESTAMP_MS, Duration, Instant, bounded_ms, is_int, time_ms
from ..functions.call_arguments import checked_init
from ..graph.graph import Node
from ..tape.causal_order import is_known_late
from ..task.kernel_calls import call_kernels
from ..task.task import Task
from ..topology.dsl.streams_builder import StreamsBuilder
from ..topology.topology import Topology
from .driver_failures import find_first, first_records, note_on
from .driver_inputs import DriverInputs, encoded
from .driver_outputs import DriverOutputs
from .driver_records import NO_OFFSET_GIVEN, AutoTime, DeadLetter, DroppedRecord, Headers, OutputRecord, forward_ms
from .driver_stores import GlobalStores, StoreReader
from .driver_tasks import DrivenTasks, DriverStep, Played
from .driver_topics import TestInputTopic, TestOutputTopic
from .store_edits import StoreEdit


class TopologyTestDriver(StoreReader):
    """Runs a topology in process: one task for each sub-topology, of partition 0 (Kafka's TopologyTestDriver).

    At the end of a ``with`` it is closed, which runs the records that were piped and not run yet.

    ``topic``, of the calls: a source topic to pipe into, or an output to read; ``name``: the same, of the topics that
    it creates. ``key``, ``value``, ``headers``: those of the record. ``advance``: how much later each next record is.

    ``start_timestamp``, ``auto_advance``: times of records that are piped without one in the short form: the first, and
    how much later every next one is, over all topics. ``counts_bytes``: measure suppress buffers in bytes too.
    ``chunk_records``: run that many at a time; it changes nothing. ``initial_wall_clock_time``: the wall-clock time
    until ``advance_wall_clock_time`` advances it, which processors may ask for. Without one it is 0 ms from the first
    advance on, and not known before, as in a replay before the first tick. ConfigError for anything but a
    Topology, and for chunks of no records.
    """

    __test__ = False  # no test class for pytest

    @checked_init("TopologyTestDriver")
    def __init__(
        self,
        topology: Topology,
        *,
        start_timestamp: Instant = 0,
        auto_advance: Duration = 0,
        counts_bytes: bool = False,
        chunk_records: int | None = None,
        initial_wall_clock_time: Instant | None = None,
    ) -> None:
        if not isinstance(topology, Topology):
            next_step = "give builder.build()" if isinstance(topology, StreamsBuilder) else "give a built topology"
            raise ConfigError("TopologyTestDriver", "a Topology", repr(topology), next_step)
        if chunk_records is not None and not (is_int(chunk_records) and chunk_records > 0):
            expected, got = "a whole number of 1 or more, or None", repr(chunk_records)
            raise ConfigError("TopologyTestDriver, chunk_records", expected, got, "give how many, or leave it out")
        self.topology = topology = topology.piping_into_loops()
        self._ticks = initial_wall_clock_time is not None
        """Whether the wall clock has started."""
        self._wall_clock_ms = time_ms(initial_wall_clock_time or 0, "initial_wall_clock_time")
        self._options: dict[str, Any] = {"counts_bytes": counts_bytes, "chunk_records": chunk_records}
        self._options["notes_puts"] = False
        self._options["wall_clock_ms"] = self._wall_clock_ms if self._ticks else None
        with tiers.running():
            self._driven = DrivenTasks(topology, **self._options)
        self._log: list[DriverStep] = []
        """All that was played: it is played again where an order is known late, and to find a record that failed."""
        self._plays_again = is_known_late(topology)
        self._in, self._out = DriverInputs(topology), DriverOutputs(topology)
        self._globals, self._shown = GlobalStores(topology), {}
        self._time = AutoTime(start_timestamp, auto_advance)
        self._taken: list[tuple[np.ndarray, ...]] = []
        self._failure: TaskFailed | None = None
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # With an error under way nothing runs: a second failure would hide the first one.
        if kind is None:
            self.close()
        self._is_closed = True

    def close(self) -> None:
        """Process what was piped, and take no more. Outputs can still be read, stores cannot.

        Raises the failure of a record that ends the run, as ``run``. To close twice does nothing.
        """
        if not self._is_closed:
            self._is_closed = True
            self.run()

    @property
    def _tasks(self) -> list[Task]:
        return self._driven.tasks

    # --- in --------------------------------------------------------------------------------------------------

    def create_input_topic(
        self,
        name: str,
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
        start_timestamp: Instant = 0,
        auto_advance: Duration = 0,
    ) -> TestInputTopic:
        """A source topic to pipe records into (Kafka's createInputTopic).

        ``key_serde``, ``value_serde``: what writes the bytes, None for the topology's own. A record that is piped
        without a time gets ``start_timestamp``, which then continues by ``auto_advance``. (Kafka's default start is the
        machine's clock; here it is 0 ms, so that a test gives the same whenever it runs.) Raises ConfigError for what
        is no source topic and for a start or an advance below 0.
        Example: ``clicks = driver.create_input_topic("clicks", auto_advance="1s")``.
        """
        shape = self._source(name).shape
        time = AutoTime(start_timestamp, auto_advance)
        return TestInputTopic(self, name, key_serde or shape.key, value_serde or shape.value, time)

    def advance_time(self, advance: Duration) -> None:
        """Records that the short form pipes without a time are later by ``advance``, 0 ms or more, from here on."""
        self._time.advance(advance)

    def pipe_input(
        self,
        topic: str,
        key: Any,
        value: Any,
        timestamp_ms: Instant | None = None,
        *,
        headers: Headers = (),
        offset: int | None = NO_OFFSET_GIVEN,
    ) -> None:
        """Pipe one record, key and value as Python values of the topic's serdes.

        ``timestamp_ms``: None for the driver's own time, which then continues by ``auto_advance``. ``offset``: what
        operators see as the record's offset; None for a record that is from no topic.
        """
        shape = self._source(topic).shape
        (key_bytes,), (value_bytes,) = encoded(shape.key, [key]), encoded(shape.value, [value])
        self._pipe(topic, key_bytes, value_bytes, timestamp_ms, headers, offset)

    def pipe_values(
        self, topic: str, values: Iterable[Any], start_timestamp: Instant | None = None, advance: Duration = 0
    ) -> None:
        """Pipe values with null keys in order, at ``start_timestamp``, ``start_timestamp + advance`` and so on; without
        a start at the driver's own time.
        """
        self.pipe_key_values(topic, ((None, value) for value in values), start_timestamp, advance)

    def pipe_key_values(
        self,
        topic: str,
        key_values: Iterable[tuple[Any, Any]],
        start_timestamp: Instant | None = None,
        advance: Duration = 0,
    ) -> None:
        """Pipe ``key_values``, (key, value) pairs, in order; times as of ``pipe_values``."""
        shape, pairs = self._source(topic).shape, [own_copy((key, value)) for key, value in key_values]
        keys, values = (
            encoded(shape.key, (key for key, _ in pairs)),
            encoded(shape.value, (value for _, value in pairs)),
        )
        times = self._time.times(len(pairs), start_timestamp, advance)
        for key, value, at_ms in zip(keys, values, times, strict=True):
            self._in.pipe(topic, key, value, at_ms)

    def pipe_bytes(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: Instant | None = None,
        *,
        headers: Headers = (),
        offset: int | None = NO_OFFSET_GIVEN,
    ) -> None:
        """Pipe one record whose key and value are bytes, as a Kafka client would have written it; ``timestamp_ms`` and
        ``offset`` as of ``pipe_input``.
        """
        self._source(topic)
        self._pipe(topic, key, value, timestamp_ms, headers, offset)

    def _pipe(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: Instant | None,
        headers: Headers,
        offset: int | None,
    ) -> None:
        """The driver's own time continues behind a record that was piped, not behind one that is refused."""
        at_ms = self._time.now_ms if timestamp_ms is None else time_ms(timestamp_ms, "timestamp_ms")
        self._in.pipe(topic, key, value, at_ms, headers, offset)
        if timestamp_ms is None:
            self._time.take()

    def _source(self, topic: str) -> Node:
        self._check_open()
        return self._in.source(topic)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConfigError("test driver", "a driver that is open", "a closed one", "make another one")

    def advance_stream_time(self, topic: str, time_ms: int) -> None:
        """Advance the stream time of ``topic`` to ``time_ms`` without a record; results that are due then are written
        (recorded time, jobs/landing/recorded_time.py; Kafka's driver has no such call). It takes the number of a piped
        record. ConfigError below 0 ms.
        """
        self._source(topic)
        bounded_ms(time_ms, "advance_stream_time", "the time")
        self.run()
        self._play(DriverStep({}, (topic, time_ms, self._in.next_arrival())))

    def advance_wall_clock_time(self, advance: Duration) -> None:
        """The wall clock continues by ``advance``, 0 ms or more: a tick, as it is recorded beside landed topics
        (``record_tick``), at which schedules by ``PunctuationType.WALL_CLOCK_TIME`` are called (Kafka's
        advanceWallClockTime). Stream time stays. It takes the number of a piped record.
        Example: ``driver.advance_wall_clock_time("1m")``.
        """
        advance_ms = forward_ms(advance, "advance_wall_clock_time")
        self._check_open()
        self.run()
        # The first tick only starts the clock. Without one at the start, the first advance would
        # do that, and call no schedule.
        if not self._ticks:
            self._play(DriverStep({}, (None, self._wall_clock_ms, 0)))
            self._ticks = True
        self._wall_clock_ms = bounded_ms(self._wall_clock_ms + advance_ms, "advance_wall_clock_time", "the time")
        self._play(DriverStep({}, (None, self._wall_clock_ms, self._in.next_arrival())))

    # --- out -------------------------------------------------------------------------------------------------

    def create_output_topic(
        self, name: str, key_serde: Serde | None = None, value_serde: Serde | None = None
    ) -> TestOutputTopic:
        """An output to read records of (Kafka's createOutputTopic).

        ``key_serde``, ``value_serde``: what reads the bytes, None for the output's own; of a windowed output
        ``key_serde`` is that of the key without its window. Raises ConfigError for what is no output.
        Example: ``counts = driver.create_output_topic("counts")``.
        """
        return TestOutputTopic(self, name, self._out.shape(name), key_serde, value_serde)

    @property
    def dropped(self) -> list[DroppedRecord]:
        """Refused records of all that was run, in the order of the runs; those of global tables once."""
        return self._out.dropped

    @property
    def dead_letters(self) -> list[DeadLetter]:
        """Undecodable records of all that was run, those of global tables once."""
        return self._out.dead_letters

    def read_output(self, topic: str) -> OutputRecord | None:
        """Next record of the output, or None. ``topic`` may also be a repartition topic ("by-page-repartition") or the
        changelog of a store ("counts-changelog"), without the application's id that Kafka puts before them. An output
        of that name goes first.
        """
        self._read(topic)
        return self._out.next(topic)

    def read_outputs(self, topic: str) -> list[OutputRecord]:
        """All records of the output that were not read yet, in order."""
        self._read(topic)
        return self._out.take(topic)

    def queue_size(self, topic: str) -> int:
        """Records of the output that were not read yet."""
        self._read(topic)
        return self._out.size(topic)

    def _read(self, topic: str) -> None:
        """Process what was piped, so that all records of ``topic`` are there. ConfigError for what cannot be read.

        Changelogs are noted from when one is asked for; what was before is run again, with its functions.
        """
        self._out.check(topic)
        if not self._options["notes_puts"] and self._out.is_changelog(topic):
            self._options["notes_puts"] = True
            with tiers.running():
                self._driven = DrivenTasks(self.topology, **self._options)
                for before in self._log:
                    before.causes.again()
                    self._out.log(self._driven.play(before).logged)
        self.run()

    def produced_topic_names(self) -> set[str]:
        """Outputs that a record was written to so far, read or not (Kafka names repartition topics and changelogs,
        too, which are read by their names here).
        """
        self.run()
        return self._out.produced()

    def metrics(self) -> dict[str, Any]:
        """Kafka's metrics of the run: dropped-records-total, record-lateness-avg/-max, each suppress's; and what
        deduplicate counted."""
        self.run()
        lateness = self._lateness()
        numbers = {node: metrics for task in self._tasks for node, metrics in task.metrics().items()}
        is_suppress = {node.name for node in self.topology.graph.nodes.values() if node.holds_back}
        return {
            # Kafka's sensor counts what it cannot deserialize, too.
            "dropped-records-total": len(self.dropped) + len(self.dead_letters),
            "record-lateness-avg": float(lateness.mean()) if len(lateness) else None,
            "record-lateness-max": int(lateness.max()) if len(lateness) else None,
            "suppress": {node: metrics for node, metrics in numbers.items() if node in is_suppress},
            "deduplicate": {node: metrics for node, metrics in numbers.items() if "duplicates" in metrics},
        }

    def _lateness(self) -> np.ndarray:
        """Of every record taken from a topic, in the order in which one thread would have taken them."""
        if not self._taken:
            return np.zeros(0, np.int64)
        arrival, sequence, times = (np.concatenate(columns) for columns in zip(*self._taken, strict=True))
        times = times[np.lexsort((sequence, arrival))]
        before = np.maximum.accumulate(np.concatenate([[NO_TIMESTAMP_MS], times]))[:-1]
        behind: np.ndarray = np.maximum(before - times, 0)
        return behind

    # --- run -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Process what was piped.

        Raises the failure of a record that ends the run (TaskFailed: a function failed on it, or BufferFull: it
        filled a suppress buffer). The error has ``arrival``, the record's number, and ``record``: its topic,
        partition, offset, key and value. A note of the error has them, too. To find it among those that were piped
        together, records are run again, their functions with them. Outputs and refusals up to that record can be
        read; the driver takes no more. (The lateness of the record that failed is not counted, unless it filled a
        buffer.)
        """
        if self._failure is not None:
            if self._in.is_waiting():
                raise self._failure
            return
        if not self._in.is_waiting():
            return
        landed, failure = self._in.take()
        self._play(DriverStep(landed))
        if failure is not None:
            self._failure = failure
            with self.topology.graph.naming_calls():
                raise failure

    def batches(self) -> list[DriverStep]:
        """All that was run so far, in order: records with their arrivals, and recorded times."""
        return list(self._log)

    def _edit(self, edit: StoreEdit) -> None:
        self._check_open()
        self.run()
        # It is kept to be played again, and the test may change what it put.
        self._play(DriverStep({}, edit=edit._replace(arguments=own_copy(edit.arguments))))

    def _play(self, batch: DriverStep) -> None:
        if self._failure is not None:
            raise self._failure
        self._shown.clear()
        try:
            played = self._played(batch)
        except TaskFailed as error:
            batch, played = self._before_failure(batch, error)
        else:
            if played.failure is not None:
                batch, played = self._until(played.failure, batch, played)
        # Where no order is known late, one run settles the causes: they are not kept, which would
        # grow with all that is sent.
        self._log.append(batch if self._plays_again else DriverStep(batch.landed, batch.recorded, edit=batch.edit))
        self._keep(batch, played)
        self._failure = played.failure
        if self._failure is not None:
            self._forget_after(self._failure.arrival)
            with self.topology.graph.naming_calls():
                raise self._failure

    def _played(self, batch: DriverStep) -> Played:
        """The failure of a record that filled a buffer is in the answer, other failures are raised."""
        records = sum(len(rows) for rows, _ in batch.landed.values())
        tiers.expect(records, lambda: call_kernels(self.topology))
        with tiers.running(), self.topology.graph.naming_calls():
            played = self._driven.play(batch)
            while not played.is_settled:
                batch.causes.refuse_endless()
                played = self._played_again(batch)
        if played.failure is not None:
            note_on(played.failure, self.topology, batch.landed)
        return played

    def _played_again(self, batch: DriverStep) -> Played:
        """``batch`` from the beginning, now that it is known what the records cause; so is all that was before it."""
        self._begin_again()
        batch.causes.again()
        return self._driven.play(batch)

    def _begin_again(self) -> None:
        """All that was before, in new tasks."""
        self._driven = DrivenTasks(self.topology, **self._options)
        for before in self._log:
            before.causes.again()
            self._driven.play(before)

    def _before_failure(self, batch: DriverStep, error: TaskFailed) -> tuple[DriverStep, Played]:
        """The records of ``batch`` before the one that failed, run, and what they caused, with its failure."""

        def run(records: DriverStep) -> None:
            with tiers.running():
                self._begin_again()
            self._played(records)

        if not batch.landed:
            # A time or a put is one step: the tasks are as before it.
            with tiers.running():
                self._begin_again()
            if batch.recorded is not None:
                error.arrival = batch.recorded[2]
            self._failure = error
            raise error
        first = find_first(batch.landed, error, run)
        if first is None:
            raise error
        count, failure = first
        note_on(failure, self.topology, batch.landed)
        with tiers.running():
            self._begin_again()
        # The last run of the search may have been one that failed; the tasks are to end behind
        # exactly the good records.
        good = first_records(batch.landed, count)
        played = self._played(good)
        played.failure = failure
        return good, played

    def _until(self, failure: TaskFailed, batch: DriverStep, played: Played) -> tuple[DriverStep, Played]:
        """The records of ``batch`` up to the one that filled a buffer, run alone: those after it wrote stores, too."""
        arrivals = np.concatenate([at for _, at in batch.landed.values()])
        if not (arrivals > failure.arrival).any():
            return batch, played
        with tiers.running():
            self._begin_again()
        until = first_records(batch.landed, int((arrivals <= failure.arrival).sum()))
        played = self._played(until)
        played.failure = failure
        return until, played

    def _keep(self, batch: DriverStep, played: Played) -> None:
        self._out.collect((arrival, outputs) for _, arrival, outputs in played.outputs)
        for arrival, tables in played.repartitions:
            self._out.send(arrival, tables)
        self._out.log(played.logged)
        for arrival, dropped, dead_letters in played.refused:
            self._out.book(arrival, dropped, dead_letters, self._in.given_offsets)
        self._out.book_global(*self._globals.add(batch.landed))
        self._taken += played.taken

    def _forget_after(self, arrival: int) -> None:
        """Other branches and the sub-topologies before ran on to the end of the batch; that did not happen."""
        self._out.forget_after(arrival)
        self._globals.forget_after(arrival)
        self._taken = [
            tuple(column[arrivals <= arrival] for column in (arrivals, *columns)) for arrivals, *columns in self._taken
        ]
