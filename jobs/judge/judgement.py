"""A pipeline beside the Java application that it was ported from, on the same landed records.

Owns the comparison, output by output. Rule: Kafka's tasks take exactly the records that the pipeline has taken, in
its order, and nothing but key, window, value, time, order and the writing task decides whether rows are equal.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import unified_diff
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...state.argument_types import checked_types
from ...state.errors import ConfigError
from ...state.kafka_version import JUDGE
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.warehouse import Warehouse
from ..compare.alignment import RowVerdict, align
from ..compare.case import Case
from ..compare.compared_output import ComparedOutput
from ..compare.comparison import Difference, differing_rows, shown_differences
from ..compare.sides import ALL_TIMES, ProductionTopic, read_landed, read_output
from ..history.committed_tables import done_row
from ..landing.landing import land_records
from ..tape.landed_topic import Landed
from ..topology.topology import Topology
from .chosen_records import ChosenRecords, replay_chosen
from .judged_stores import JudgedStore, judge_stores
from .kafka_tasks import RECORDS, JavaApplication, KafkaRun, Record, run_kafka

CHUNK = 1 << 16


@dataclass(frozen=True)
class JudgedOutput:
    """An output beside what Kafka Streams wrote. ``rows``: of ours, and of Kafka's; ``verdicts``: rows by verdict;
    ``first``: the first differences, by record time.
    """

    output: str
    rows: tuple[int, int]
    verdicts: Mapping[str, int]
    first: tuple[Difference, ...]

    @property
    def is_equal(self) -> bool:
        return set(self.verdicts) <= {str(RowVerdict.EQUAL)}


@dataclass(frozen=True)
class Judgement:
    """``pipeline``, as of ``increment``, beside ``application``. ``records``: that Kafka's tasks took, in ``seconds``;
    ``kafka_version``: whose tasks they were.
    ``topology``: lines of describe() that differ, as a diff (- Kafka's, + ours). ``not_written``: topics that Kafka's
    tasks wrote and that the topology does not have. ``not_judged``: outputs whose records name their topics, and stores
    of which there are no two sides to compare.
    """

    pipeline: str
    increment: int
    application: str
    kafka_version: str
    records: int
    seconds: float
    topology: tuple[str, ...]
    outputs: tuple[JudgedOutput, ...]
    stores: tuple[JudgedStore, ...]
    not_written: tuple[str, ...]
    not_judged: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """All outputs and stores have Kafka's rows; names of nodes may differ."""
        are_equal = all(each.is_equal for each in self.outputs) and all(each.is_equal for each in self.stores)
        return are_equal and not self.not_written

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {**asdict(self), "is_equal": self.is_equal}


@dataclass(frozen=True)
class _Output(ComparedOutput):
    """Rows are compared task by task, so a row belongs where its task has written it."""

    verb: ClassVar[str] = "judge"

    @cached_property
    def moves_keys(self) -> bool:
        return False


@checked_types
def judge(
    warehouse: Warehouse,
    topology: Topology,
    application: JavaApplication,
    *,
    pipeline: str,
    increment: int | None = None,
    chosen: ChosenRecords | None = None,
    shown: int = 10,
    say: Callable[[str], None] = lambda step: None,
) -> Judgement:
    """Run ``application`` by Kafka Streams' own tasks over the records that ``pipeline`` of ``warehouse`` has read up
    to ``increment`` (None: the last), and compare every output and store of ``topology``. ``chosen``: of these records
    some alone (None: all), which both sides then take with empty state. ``shown``: so many differences of each output
    in full; ``say``: called with the step.

    Without record caches, so every update is forwarded. Wall-clock time does not pass, and the state begins empty.
    Where restarts are recorded, Kafka's tasks restart, too, each as a clean shutdown does. Raises ConfigError for a
    pipeline whose order is not Kafka's (order="arrival", recorded times, a flush), and for a part of one with recorded
    restarts. So it does for what the application does not give, and where Kafka Streams fails. Raises MachineError
    without a JDK, LedgerError where nothing is replayed.
    """
    row = done_row(warehouse, pipeline, increment, of=[])
    _refuse_other_orders(pipeline, row.content)
    with tempfile.TemporaryDirectory(prefix="replay-judge-") as folder:
        if chosen is not None and not chosen.is_all:
            if any(row.content.restarts or {}):
                expected, got = "all records of a pipeline with recorded restarts", "some of them"
                raise ConfigError(f"judge, pipeline {pipeline!r}", expected, got, "leave the choice out")
            say("replaying what is chosen")
            read_from, warehouse = warehouse, Warehouse(str(Path(folder) / "chosen"))
            replay_chosen(warehouse, read_from, topology, row.content, chosen, pipeline)
            row, increment = done_row(warehouse, pipeline, None, of=[]), row.increment
        say("running Kafka Streams")
        records = _read_records(warehouse, topology, row.content)
        run = run_kafka(application, Path(folder), records, row.content.restarts)
        sinks = {sink.topic: sink for sink in topology.sinks()}
        judged = []
        for name in [name for name, sink in sinks.items() if not sink.has_topics]:
            say(f"comparing {name}")
            theirs = Warehouse(str(Path(folder) / "theirs"))
            judged.append(_judge_output(_Output(topology, name), warehouse, pipeline, row, theirs, run, shown))
        say("comparing stores")
        stores, other_stores = judge_stores(warehouse, topology, pipeline, row.content, run)
    dynamic = [name for name, sink in sinks.items() if sink.has_topics]
    return Judgement(
        pipeline, increment or row.increment, application.name, JUDGE, run.records, run.seconds,
        _topology(topology, run), tuple(judged), tuple(stores), tuple(_unknown(topology, run)),
        (*dynamic, *other_stores),
    )  # fmt: skip


def _refuse_other_orders(pipeline: str, done: DoneRow) -> None:
    other_orders = {
        "records in the order of their arrival": done.by_arrival,
        "recorded times": any(any(parts.values()) for parts in (done.recorded_to or {}).values()),
        "a flush at the end": done.flushed,
    }
    for what, is_there in other_orders.items():
        if is_there:
            expected = "a pipeline that takes records as Kafka's tasks do"
            raise ConfigError(f"judge, pipeline {pipeline!r}", expected, what, "replay under another name without it")


def _read_records(warehouse: Warehouse, topology: Topology, done: DoneRow) -> Mapping[str, Sequence[Iterator[Record]]]:
    """By landed topic and partition what the increments up to ``done`` have read, in the order of the sources; global
    tables come last.
    """
    topics = dict.fromkeys(
        [source.landed_topic for sub in topology.sub_topologies for source in sub.sources]
        + [table.topic for sub in topology.sub_topologies for table in sub.globals]
    )
    return {topic: _partitions(warehouse, topic, done) for topic in topics if topic in done.cut_to}


def _partitions(warehouse: Warehouse, topic: str, done: DoneRow) -> list[Iterator[Record]]:
    landed, cut = Landed.of(warehouse, topic), done.cut_to[topic]
    return [_records(landed, str(number), cut.get(str(number), 0)) for number in range(len(landed.ends))]


def _records(landed: Landed, partition: str, end: int) -> Iterator[Record]:
    for table in landed.slice(partition, 0, end).chunks(CHUNK):
        columns = [table[name].to_pylist() for name in ("offset", "timestamp", "key", "value")]
        headers = table["headers"].to_pylist() if "headers" in table.column_names else [None] * len(table)
        yield from zip(*columns, headers, strict=True)


def _judge_output(
    output: _Output, warehouse: Warehouse, pipeline: str, row: LedgerRow[DoneRow], scratch: Warehouse,
    run: KafkaRun, shown: int,
) -> JudgedOutput:  # fmt: skip
    written = run.written.get(output.name, RECORDS.empty_table())
    partitions = 1 + int(np.max(written["partition"].to_numpy(), initial=0))
    land_records(scratch, output.name, written, partitions=partitions)
    landed, how = ProductionTopic.of(scratch, output.name), {"span": ALL_TIMES, "ignored": ()}
    ours = read_output(output, warehouse, pipeline, row.content, partitions=partitions, **how)  # type: ignore[arg-type]
    theirs = read_landed(output, landed, **how)  # type: ignore[arg-type]
    case = Case(output, warehouse, pipeline, row.content, landed, ours, theirs, align(ours, theirs), has_cache=False)
    differences, equal = differing_rows(case)
    verdicts = {str(RowVerdict.EQUAL): equal} | dict(differences["verdict"].value_counts(sort=True).iter_rows())
    first = shown_differences(case, differences.head(shown), lambda _: "", lambda each: case.record_of(each["row"]))
    return JudgedOutput(output.name, (len(ours), len(theirs)), verdicts, tuple(first))


def _topology(topology: Topology, run: KafkaRun) -> tuple[str, ...]:
    theirs, ours = run.describe.strip().splitlines(), topology.describe().strip().splitlines()
    return tuple(line for line in unified_diff(theirs, ours, lineterm="", n=0) if line[:2] not in ("--", "++", "@@"))


def _unknown(topology: Topology, run: KafkaRun) -> Iterator[str]:
    """Topics that Kafka's tasks wrote, and that are no outputs of the topology."""
    if any(sink.has_topics for sink in topology.sinks()):
        return  # records choose topics by data
    known = {sink.topic for sink in topology.sinks()}
    yield from (topic for topic in sorted(run.written) if topic not in known)
