"""Plans increments: how far each source topic is read (a cut), before anything runs.

Owns the choice of cuts, a function of what has landed and the ledger. Rule: a plan is written down before it is run,
and run again as written. Where one repartition table merges several partitions, ``idle="wait"`` leaves records unread
until every partition with records has passed their time, so that a later cut changes nothing
(docs/decisions/order-between-inputs.md).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ...state.errors import ConfigError, DamagedLedger, DamagedTable
from ...state.tables.ledger_rows import Cut, DoneRow, PlanRow
from ...state.tables.names import TableName
from ...state.tables.parquet_reader import how_to_restore
from ...state.tables.warehouse import Warehouse
from ...state.times import NO_TIMESTAMP_MS
from ..code_changes.state_migration import CodeChange
from ..tape.landed_topic import Landed
from ..topology.topology import Topology
from .backlog import Backlog
from .landed_records import LandedRecords
from .landed_times import LandedTimes
from .left_out import as_read, is_planned_otherwise, out_of_play, restarts_ahead
from .plan import Plan
from .unread_records import PendingQueue, PendingRecords, by_arrival, by_time
from .waiting_inputs import WaitingInput, waiting_inputs


class Planner:
    """``previous``: the last done row, or an empty one. ``until_ms``: of each partition only what is before the first
    record, or recorded time, of that time or later is read. ``times``: that plans before this one have read;
    ``landed``: all that there is to read (None: what has landed by now).
    """

    def __init__(
        self,
        warehouse: Warehouse,
        topology: Topology,
        *,
        increment: int,
        previous: DoneRow,
        idle: str,
        order: str = "time",
        until_ms: int | None = None,
        times: LandedTimes | None = None,
        landed: Mapping[str, Landed] | None = None,
    ) -> None:
        for name, given, known in (("idle", idle, ("wait", "proceed")), ("order", order, ("time", "arrival"))):
            if given not in known:
                raise ConfigError(name, " or ".join(f'"{choice}"' for choice in known), repr(given), "choose one")
        if until_ms is not None and order == "arrival":
            raise ConfigError("until", 'order="time"', 'order="arrival"', "records of an arrival are of no time")
        if previous.unread and order == "arrival":
            got = f"records of an application in {', '.join(previous.unread)}, whose arrival nobody knows"
            raise ConfigError("order", 'order="time"', got, "replay in that order")
        self.topology, self.increment, self.previous = topology, increment, previous
        self.idle, self.order, self.until_ms = idle, order, until_ms
        _refuse_landed(warehouse, topology)
        cut_from = previous.cut_to
        # Every task fills its replica of a global table from offset 0 on (PlannedInputs.read_before), so no file of it
        # is left out.
        read_again = {table.topic for sub in topology.sub_topologies for table in sub.globals}
        topics = landed or {
            topic: Landed.of(warehouse, topic, None if topic in read_again else cut_from.get(topic))
            for topic in topology.source_topics()
        }
        self.landed = {topic: as_read(each, previous) for topic, each in topics.items()}
        self.begin: Cut = {
            topic: {p: cut_from.get(topic, {}).get(p, 0) for p in landed.ends} for topic, landed in self.landed.items()
        }
        self.records = LandedRecords(topology, self.landed, previous, times)
        self.waits: list[WaitingInput] = []
        self._refuse_lost_records(warehouse)
        taken = previous.recorded_to or {}
        self.recorded: Cut = {
            topic: {p: taken.get(topic, {}).get(p, 0) for p in landed.recorded}
            for topic, landed in self.landed.items()
            if landed.recorded
        }

    def _refuse_lost_records(self, warehouse: Warehouse) -> None:
        """Raises DamagedLedger when a topic ends before what the increments before have read of it."""
        for topic, landed in self.landed.items():
            read, path = self.previous.cut_to.get(topic, {}), warehouse.landing_ledger(topic)
            for p, end in landed.ends.items():
                if read.get(p, 0) > end:
                    expected, got = f"offsets up to {read[p]} in partition {p}, which were read", f"an end at {end}"
                    raise DamagedLedger(path, expected, got, how_to_restore(path, None))
            for p, count in (self.previous.recorded_to or {}).get(topic, {}).items():
                if count > len(landed.recorded.get(p, ())):
                    expected = f"{count} recorded times in partition {p}, which were read"
                    path = warehouse.recorded_time(topic)
                    got = str(len(landed.recorded.get(p, ())))
                    raise DamagedTable(path, expected, got, how_to_restore(path, None))

    def partitions(self) -> dict[str, int]:
        """Tasks of every sub-topology, by its id, and partitions of every repartition table, as ``repartition/<name>``,
        which keeps the number it was made with.

        Raises TopologyError when topics that are joined have different numbers of partitions.
        """
        before = self.previous.partitions
        landed = {topic: len(landed.ends) for topic, landed in self.landed.items()}
        topics = self.topology.partitions_of(landed)
        counts: dict[str, int] = {}
        # By Kafka's number: parts of one sub-topology of Kafka's have as many tasks as the part with the most
        # partitions, as Kafka's PartitionGrouper counts.
        tasks: dict[int, int] = {}
        for sub in self.topology.sub_topologies:
            for node in sub.repartitions:
                name = TableName.repartition(node.topic)
                topics[node.topic] = counts[name] = before.get(name, topics[node.topic])
        for sub in self.topology.sub_topologies:
            read = [topics[s.topic] for s in sub.sources if s.target_of is None]
            tasks[sub.kafka_id] = max([tasks.get(sub.kafka_id, 1), *read])
        return counts | {str(sub.id): tasks[sub.kafka_id] for sub in self.topology.sub_topologies}

    def plans(self, max_records: int | None) -> Iterator[Plan]:
        """Increments to run one after the other; none when there is nothing to read."""
        if max_records is not None and max_records < 1:
            raise ConfigError("max_records", "1 or more", str(max_records), "give a larger number")
        begin, end = self.begin, {topic: dict(landed.ends) for topic, landed in self.landed.items()}
        increment, waiting, taken = self.increment, 0, self.recorded
        if max_records is None and self.until_ms is None and not self._waits():
            everything = {topic: {p: len(self.landed[topic].recorded[p]) for p in ps} for topic, ps in taken.items()}
            cuts: Iterator[tuple[Cut, Cut, int]] = iter([(end, everything, self.unread())])
        else:
            unread = self._unread()
            waiting = unread.waiting
            if self.until_ms is not None:
                # Places are doubled milliseconds (jobs/tape/recorded_time_order.py), here and below.
                unread.end_before(2 * self.until_ms)
            cuts = self._cuts(unread, max_records or max(unread.ready, 1))
            if self.previous.unread and not unread.ready:
                cuts = iter([(begin, taken, 0)])
        waits = [each.to_json() for each in self.waits] or None
        is_between = bool(self.previous.unread)  # records between tasks, which no cut counts
        for cut, recorded, records in cuts:
            # An empty increment would be written down at every run in which nothing has landed.
            if is_between or any(cut[topic] != begin[topic] for topic in cut) or recorded != taken:
                yield Plan(
                    increment,
                    replace(
                        self._row(begin, cut, taken, recorded), records=records, waiting=waiting, waits=waits,
                        until_ms=self.until_ms,
                    ),
                )  # fmt: skip
                begin, increment, taken, is_between = cut, increment + 1, recorded, False

    def flush(self) -> Plan:
        """The increment that advances everything to the end of the history; all that has landed has been read."""
        row = self._row(self.begin, self.begin, self.recorded, self.recorded)
        return Plan(self.increment, replace(row, flushes=True))

    def migration(self, code: CodeChange) -> Plan:
        """The increment that rewrites the stores of changed code, and reads nothing."""
        row = self._row(self.begin, self.begin, {}, {})
        return Plan(self.increment, replace(row, changes=code.changes(), migrate=code.migrate()))

    def _row(self, begin: Cut, end: Cut, recorded_from: Cut, recorded_to: Cut) -> PlanRow:
        return PlanRow(
            topology=self.topology.fingerprint,
            cut_from=begin,
            cut_to=end,
            partitions=self.partitions(),
            excluded=out_of_play(self.landed, begin),
            restarts=restarts_ahead(self.landed, begin),
            by_arrival=self.order == "arrival",
            recorded_from=recorded_from if recorded_to else None,
            recorded_to=recorded_to or None,
        )

    def unread(self) -> int:
        """Landed records that no increment before has read; those that only global tables read are none."""
        return self._records(self.begin, {topic: landed.ends for topic, landed in self.landed.items()})

    def _records(self, begin: Cut, end: Cut) -> int:
        return sum(
            landed.slice(p, begin[topic][p], end[topic][p]).count()
            for topic, landed in self.landed.items()
            if self.topology.readers_of(topic)
            for p in landed.ends
        )

    def without_excluded(self, row: PlanRow) -> PlanRow | None:
        """A plan that continues from ``previous`` without what was taken out of play since it was made; None: it reads
        nothing of that.
        """
        if not is_planned_otherwise(row, self.landed):
            return None
        excluded = out_of_play(self.landed, row.cut_from)
        return replace(row, excluded=excluded, records=self._records(row.cut_from, row.cut_to))

    def backlog(self) -> Backlog:
        """What is unread of the partitions that something reads, nothing held back."""
        queues = [self._unread_of(landed, p) for landed in self.landed.values() for p in landed.ends]
        read = [queue for queue in queues if self.topology.readers_of(queue.topic)]
        complete = frozenset(topic for topic, landed in self.landed.items() if landed.is_complete)
        return Backlog(read, [self._last_position(queue) for queue in read], complete)

    def _last_position(self, queue: PendingQueue) -> int:
        """Of all that has landed in its partition."""
        return int(queue.rows.position[-1]) if len(queue) else 2 * self.records.reached_ms(queue.topic, queue.partition)

    def what_waits(self) -> list[WaitingInput]:
        """Records that are left unread now, since records of several queues are merged."""
        if self._waits():
            self._unread()
        return self.waits

    def _waits(self) -> bool:
        """Whether records of several queues are merged anywhere, so that their order depends on the slowest."""
        if self.idle == "proceed" or self.order == "arrival":
            return False
        return any(
            sub.repartitions or sub.globals or sum(source.landed_topic is not None for source in sub.sources) > 1
            for sub in self.topology.sub_topologies
        )

    def _unread(self) -> PendingRecords:
        """All that was not read, with what is to wait held back."""
        unread = PendingRecords(self.queues())
        self.waits = []
        if self._waits():
            self._hold_back(unread)
        return unread

    def queues(self) -> list[PendingQueue]:
        """All that was not read, by partition of every topic."""
        return [self._unread_of(landed, p) for landed in self.landed.values() for p in landed.ends]

    def _unread_of(self, landed: Landed, p: str) -> PendingQueue:
        begin, taken = self.begin[landed.topic][p], self.recorded.get(landed.topic, {}).get(p, 0)
        recorded = landed.recorded.get(p, ())[taken:]
        if self.order == "arrival":
            offset, arrival = self.records.arrivals(landed.topic, p, begin, landed.ends[p])
            rows = by_arrival(offset, arrival, recorded, [landed.arrival(each) for each in recorded])
        else:
            offset, time_ms = self.records.offsets_and_times(landed.topic, p, begin, landed.ends[p])
            rows = by_time(offset, time_ms, recorded, self.records.reached_ms(landed.topic, p))
        return PendingQueue(landed.topic, p, rows, begin, taken)

    def records_before(self, row: PlanRow, time_ms: int) -> int:
        """Of the records of a plan that continues from ``previous``, those whose time is before ``time_ms``: the time
        that the topic's extractor gives, where it has one. Records without a time are none of them.
        """
        count = 0
        for topic, ends in row.cut_to.items():
            for p, end in ends.items() if self.topology.readers_of(topic) else ():
                begin = row.cut_from.get(topic, {}).get(p, 0)
                _, times = self.records.offsets_and_times(topic, p, begin, end)
                count += int(((times >= 0) & (times < time_ms)).sum())
        return count

    def _merges_repartitions(self) -> bool:
        """Whether a task reads a landed topic beside a repartition table."""
        kinds = ({node.landed_topic is None for node in sub.sources} for sub in self.topology.sub_topologies)
        return any(len(each) > 1 for each in kinds)

    def _hold_back(self, unread: PendingRecords) -> None:
        """Records whose order is not final yet: all from the time that the slowest queue merged with them has
        reached. Nothing more comes in queues of a topic that is complete, so none waits for them.

        Where more comes in one queue alone, its own records need not wait for it: they are in order, and whatever
        comes is behind them, unless another queue has a record of the same time.
        """
        for merged in self.merged_queues():
            numbers, reached = list[int](), list[tuple[int, int]]()
            for number, queue in enumerate(unread.queues):
                if (queue.topic, queue.partition) in merged:
                    numbers.append(number)
                    last = self._last_position(queue)
                    if last != 2 * NO_TIMESTAMP_MS and not self.landed[queue.topic].is_complete:
                        # An odd place is a recorded time (recorded_time_order.py): the queue is past it, since whatever
                        # comes next in the partition is behind it.
                        reached.append((last + last % 2, number))
            some_complete = any(self.landed[unread.queues[number].topic].is_complete for number in numbers)
            # A queue that has never had a record delays no other. So where one queue alone has had some, there is
            # nothing that its records would have to wait for.
            if len(reached) > 1 or (reached and some_complete):
                position, slowest = min(reached)
                others = [number for number in numbers if number != slowest]
                waits_itself = len(reached) > 1 or any(unread.queues[each].has(position) for each in others)
                for number in numbers if waits_itself else others:
                    unread.hold_back(number, position)
                self.waits += waiting_inputs(unread, numbers, slowest, position)

    def merged_queues(self) -> list[set[tuple[str, str]]]:
        """Queues (topic, partition) whose records are merged, in a task or through a repartition table."""
        groups: list[set[tuple[str, str]]] = []
        of_sub: dict[int, set[tuple[str, str]]] = {}
        for sub in self.topology.sub_topologies:
            topics = [source.landed_topic for source in sub.sources if source.landed_topic is not None]
            landed = [(topic, p) for topic in topics for p in self.landed[topic].ends]
            everything = {(t.topic, p) for t in sub.globals for p in self.landed[t.topic].ends} | set(landed)
            above = [of_sub[o.id] for o in self.topology.sub_topologies if o.id in of_sub
                     and (set(o.repartitions) & set(sub.sources) or o.kafka_id == sub.kafka_id)]  # fmt: skip
            of_sub[sub.id] = everything.union(*above)
            if sub.globals or sub.repartitions or above:
                groups.append(of_sub[sub.id])
            else:
                # Without a repartition or a global table, only partitions of one number are read by one task.
                groups += [{queue for queue in landed if queue[1] == p} for p in {p for _, p in landed}]
        circles = (self.topology.circle(sub) for sub in self.topology.sub_topologies)
        groups += [set().union(*(of_sub[sub.id] for sub in circle)) for circle in circles if circle]
        merged: list[set[tuple[str, str]]] = []
        for group in groups:
            touching = [other for other in merged if other & group]
            merged = [other for other in merged if not other & group] + [group.union(*touching)]
        return merged

    def _cuts(self, unread: PendingRecords, max_records: int) -> Iterator[tuple[Cut, Cut, int]]:
        """Cuts, how many recorded times are taken with each, and how many records lie between it and the one before."""
        # records of one time meet in the order of their queues, which a cut must not part
        with_equal = self.order == "time" and (bool(self.records.merged) or self._merges_repartitions())
        before, ready = [0] * len(unread.queues), unread.ready
        while sum(before) < ready:
            after = unread.first(min(sum(before) + max_records, ready), with_equal=with_equal)
            cut, recorded = (
                {topic: dict(offsets) for topic, offsets in old.items()} for old in (self.begin, self.recorded)
            )
            records = 0
            for queue, first, last in zip(unread.queues, before, after, strict=True):
                cut[queue.topic][queue.partition], taken = queue.cut(last)
                if taken:
                    recorded[queue.topic][queue.partition] = taken
                if self.topology.readers_of(queue.topic):
                    records += queue.records(last) - queue.records(first)
            yield cut, recorded, records
            before = after


def _refuse_landed(warehouse: Warehouse, topology: Topology) -> None:
    """Raises ConfigError when a topic that the topology writes and reads was landed, too: which records are meant?"""
    topics = topology.intermediate_topics()
    landed = set(warehouse.topics()) if topics else ()
    for topic in topics:
        if topic in landed:
            next_step = (
                "to continue with what to() writes, replay in a warehouse where it is not landed. Where other "
                "producers write it, too, name their records by Consumed(others=…). To read all that was landed, "
                "write to() a topic of another name"
            )
            expected = "a topic that either to() writes or a landing, to be read by the topology"
            raise ConfigError(f"topic {topic!r}", expected, "both", next_step)
