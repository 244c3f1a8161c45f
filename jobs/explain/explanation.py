"""What became of one record, landed or repartitioned: its increment is replayed, and explained node by node.

Rule: the tapes are the same as when the increment ran, so the answer is what happened, offsets included. It reaches
back as far as the landed topic and the versions of the state tables do. Steps with effects of their own (peek, foreach,
processors) have them again. What became of the record is answered from committed tables where they decide it, else by a
run that ends behind the record; only what every operator did always needs a run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.buffers import only_chunk
from ...state.errors import ConfigError, LedgerError
from ...state.tables.branch_files import table_parts
from ...state.tables.data_files import DataFile, read_files, read_rows
from ...state.tables.ledger_rows import cut_of
from ...state.tables.names import TableName
from ...state.tables.out_of_play import exclusions
from ...state.tables.warehouse import WINDOW, Warehouse
from ...state.times import UNBOUNDED
from ..code_changes.code_of_increment import other_code
from ..execution.table_schemas import table_schema
from ..graph.nodes import SinkNode
from ..graph.observations import Wait
from ..history.committed_tables import done_row
from ..history.history import History
from ..operators.stateless_nodes import FlatMapNode, MapNode, SelectKeyNode
from ..replay.left_out import as_read
from ..replay.plan import Plan
from ..replay.rerun import recorded_order
from ..tape.landed_topic import Landed
from ..task.decoding import Decoder
from ..topology.topology import Topology
from .chosen_tasks import rerun
from .committed_answer import cause_of, committed_steps
from .committed_rows import difference
from .observations import NodeObservation, Position, ReleasedRow, Taken
from .observed_task import ObservedTask
from .readable_values import readable
from .sentences import SentenceWriter

Later = Callable[[Wait, int, Mapping[str, int]], str]
"""What became of something that waits (in a task's partition) after its increment, or, where the run ended with the
record, from the given offsets of outputs on.
"""


@dataclass(frozen=True)
class Step:
    """What one node did with one row that goes back to the record. ``record``: topic, partition and offset of the row
    that the task took; ``observation``: the rows behind the sentences, None where there is only a sentence.
    """

    task: str
    record: Position
    node: str
    sentences: list[str]
    observation: NodeObservation | None = None


@dataclass(frozen=True)
class Explanation:
    """Steps in the order of tasks, rows and nodes. ``left``: what waited and left in the same increment because of a
    later record. ``difference``: a sentence where the re-run wrote other rows than the increment committed.
    """

    record: Position
    increment: int
    steps: list[Step]
    left: list[ReleasedRow]
    difference: str | None = None
    was_run: bool = True
    """False: what was committed decided it, and nothing was run again."""


def explain(
    warehouse: Warehouse,
    pipeline: str,
    topology: Topology,
    record: str | Position,
    *,
    order: str | None = None,
    say_time: Callable[[int], str] = str,
    whole: bool = True,
) -> Explanation:
    """What every operator did with ``record`` ("topic:partition:offset") and why.

    ``record``: a landed one, or one of a repartition topic, by the place that `dropped` has. Of the latter the steps
    are those of its own task, and of the tasks below where no other record of the same cause came to them. ``order``:
    None for that in which the increment took records; another one is refused. ``say_time``: how sentences say a time.
    ``whole``: False to end with the record, and to run nothing where committed tables say what became of it. Raises
    ConfigError for a topic, partition or offset that is not there and for another topology or order than that of the
    increment; LedgerError for a record that no increment has read.
    """
    record = parse_place(record) if isinstance(record, str) else record
    history = History(warehouse, pipeline, topology)
    parts = topology.sub_topologies
    own_landed = {source.landed_topic for sub in parts for source in sub.sources}  # of a loop, what others write
    repartitioned = {node.topic for sub in parts for node in sub.repartitions} - own_landed
    landed = cause = None
    if record[0] in repartitioned:
        increment, cause = cause_of(history, record)
    else:
        landed = _landed(history, topology, record)
        increment = _increment(history, landed, record)
    row = history.plan(increment)
    if row is None:
        next_step = "ask the pipeline that it was forked from; of an application's state nothing is known"
        raise LedgerError(history.ledger.path, f"a plan of increment {increment}", "none", next_step)
    # A pattern matches the topics that were read then: with those that landed since, the fingerprint would be another
    # one.
    topology = topology.reading(row.content.cut_to)
    if row.content.topology != topology.fingerprint:
        raise ConfigError(
            f"increment {increment} of {pipeline!r}",
            f"the topology that ran it ({row.content.topology})",
            f"another one ({topology.fingerprint})",
            "name the topology as it was then",
        )
    order = recorded_order(f"increment {increment} of {pipeline!r}", [row.content.by_arrival], order)
    writer = SentenceWriter(topology, say_time)
    if landed is not None and not topology.readers_of(record[0]):
        return Explanation(record, increment, _global_steps(topology, landed, record), [])
    if not whole:
        committed = committed_steps(history, topology, increment, record, order, writer)
        if committed is not None:
            steps = [Step(*each) for each in committed]
            return Explanation(record, increment, steps, [], was_run=False)
    before = history.ledger.done_before(increment)
    plan = Plan(increment, row.content, is_rerun=True)
    runs = rerun(warehouse, pipeline, topology, plan, before, record, order, cause=cause, stops=not whole)
    kept = [(run, taken) for run in runs for taken in run.taken]
    if cause is not None:
        kept = _from(record, kept)
    later = partial(_later, history, topology, increment, whole=whole)
    steps = [step for run, taken in kept for step in _steps(run, taken, writer, later, whole=whole)]
    done = history.ledger.rows_of(increment).done
    other = "" if done is None else other_code(done.content, topology)
    differs: str | None = f"Other code ran increment {increment} ({other}). What follows is the account of today's code"
    if not other:
        differs = difference(history, topology, increment, runs)
    return Explanation(record, increment, steps, [left for run in runs for left in run.left], differs)


def _from(record: Position, kept: list[tuple[ObservedTask, Taken]]) -> list[tuple[ObservedTask, Taken]]:
    """Of rows that go back to one landed record, in order of the tasks, those that go back to the repartitioned
    ``record``. Where others of its cause were sent to the same task, nobody knows which rows are whose, so they are
    left out.
    """
    observed: list[tuple[ObservedTask, Taken]] = []
    mine, others = set[tuple[str, int]](), set[tuple[str, int]]()
    for run, taken in kept:
        own, (topic, partition, _) = run.description.partition, taken.record
        sent = {(each.name, own if each.partition is None else each.partition) for each in taken.sent}
        if taken.record == record or (topic, partition) in mine - others:
            observed.append((run, taken))
            mine |= sent
        else:
            others |= sent
    return observed


def deciding_steps(steps: list[Step]) -> list[Step]:
    """Steps that say what became of the record: it was refused or could not be read, a store changed, an output or a
    repartition topic has it. In each task the last step that it came to is one of them.
    """
    deciding = []
    for number, step in enumerate(steps):
        following = steps[number + 1] if number + 1 < len(steps) else None
        is_last = following is None or (following.task, following.record) != (step.task, step.record)
        seen = step.observation
        if seen is None or is_last or seen.refusals or seen.changes or seen.node.waits(seen) or seen.node.written_topic:
            deciding.append(step)
    return deciding


def parse_place(text: str) -> Position:
    """Topic, partition and offset of "topic:partition:offset". Raises ConfigError."""
    topic, *numbers = text.rsplit(":", 2)
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        raise ConfigError("record", "topic:partition:offset", repr(text), "write it as in clicks:0:17")
    return topic, int(numbers[0]), int(numbers[1])


def say_place(record: Position) -> str:
    """The reverse of ``parse_place``."""
    return ":".join(map(str, record))


def _landed(history: History, topology: Topology, record: Position) -> Landed:
    """The landed topic. Raises ConfigError when it does not have the record."""
    topic, partition, offset = record
    name = f"record {say_place(record)}"
    if topic not in topology.source_topics():
        repartitioned = (node.topic for sub in topology.sub_topologies for node in sub.repartitions)
        known = ", ".join([*topology.source_topics(), *repartitioned])
        raise ConfigError(name, f"one of the topics {known}", repr(topic), "name a topic that the topology reads")
    now = Landed.of(history.warehouse, topic)
    # With all records, those out of play too: that such a record exists is checked first, so that the error below can
    # name why it is not read.
    landed = replace(now, excluded={})
    if str(partition) not in landed.ends:
        last = len(landed.ends) - 1
        raise ConfigError(name, f"a partition of 0 to {last}", str(partition), "name a partition of the topic")
    end = landed.ends[str(partition)]
    if offset >= end:
        raise ConfigError(name, f"an offset below {end}, the next one to land", str(offset), "land what is new first")
    read = as_read(now, done_row(history.warehouse, history.pipeline).content)
    _refuse_excluded(history, now, read, record)
    if landed.slice(str(partition), offset, offset + 1).count() == 0:
        next_step = "Kafka has no record there (compaction, transactions), or it was removed from the landed table"
        raise ConfigError(name, "a landed record", "none at this offset", next_step)
    return read


def _refuse_excluded(history: History, now: Landed, read: Landed, record: Position) -> None:
    """Raises LedgerError for a record that the pipeline has left out, or will, since it is out of play (``read``: the
    topic without those), and for one that was erased after it was read.
    """
    topic, partition, offset = record
    if offset not in now.excluded.get(str(partition), ()):
        return
    booked = exclusions(history.warehouse, topic)
    (out,) = (each for each in booked if (each.partition, each.offset) == (partition, offset))
    if out.is_erased or offset in read.excluded.get(str(partition), ()):
        there = "nothing of it is left" if out.is_erased else "its value is in the landed table"
        raise LedgerError(
            f"record {say_place(record)}",
            "a record that the pipeline reads",
            f"one that landing increment {out.increment} took out of play ({out.why})",
            f"`replay inspect` lists what {history.pipeline!r} leaves out; {there}",
        )


def _increment(history: History, landed: Landed, record: Position) -> int:
    """The increment that read the record. Raises LedgerError when none has."""
    topic, partition, offset = record
    increment = history.reading(topic, partition, offset)
    if increment is None:
        last = history.at()
        read = cut_of(last.row.content.cut_to, topic, partition)
        raise LedgerError(
            f"record {say_place(record)}",
            f"an offset below {read}, read by increments up to {last.increment}",
            f"{offset}, landed and waiting",
            "replay what has landed; what waits for partitions that lag behind is taken with --idle proceed",
        )
    return increment


def _global_steps(topology: Topology, landed: Landed, record: Position) -> list[Step]:
    """A record of a global table's or global store's topic goes to no node: every task takes it into its replica."""
    topic, partition, offset = record
    steps = []
    for node in {table.name: table for sub in topology.sub_topologies for table in sub.globals}.values():
        if node.topic == topic:
            (rows,) = landed.slice(str(partition), offset, offset + 1).chunks(1)
            batch, bad, reasons = Decoder().decode(node, rows.combine_chunks(), np.arange(1))
            if bad[0]:
                said = f"passed over: cannot be read ({reasons[0]})"
            else:
                key = readable(batch.keys.typed(batch.key), node.shape.key)[0]
                value = readable(batch.value.all(), node.shape.value)[0]
                said = node.taken(key, value)
            steps.append(Step("all", record, node.name, [said]))
    return steps


def _steps(run: ObservedTask, taken: Taken, writer: SentenceWriter, later: Later, *, whole: bool) -> list[Step]:
    """Steps of one row of a task's tape. ``whole``: the run had the whole task."""
    task, record = taken.task, taken.record
    steps = [
        *(Step(task, record, row["node"], [f"dead letter: {row['reason']}"]) for row in taken.dead_letters),
        *(Step(task, record, row["node"], [writer.refusal(row)]) for row in taken.refusals),
    ]
    left, still = {left.wait: writer.left(left) for left in run.left}, run.still() if whole else []
    for observation in taken.observations:
        for wait in observation.node.waits(observation):
            if wait in left:
                observation.outcomes[wait] = left[wait]
            elif wait in still or not whole:
                observation.outcomes[wait] = later(wait, record[1], taken.next_offsets)
            else:
                observation.outcomes[wait] = "later records took it back, or it left without a result"
        steps.append(Step(task, record, observation.node.name, writer.sentences_of(observation, taken), observation))
    for sent in taken.sent:
        if sent.partition is not None:
            said = [f"sent on under {sent.key!r}, to partition {sent.partition}"]
            steps.append(Step(task, record, TableName.repartition(sent.name), said))
    return steps


def _later(
    history: History,
    topology: Topology,
    increment: int,
    wait: Wait,
    partition: int,
    next_offsets: Mapping[str, int],
    *,
    whole: bool,
) -> str:
    """Where a result that waited at the end of ``increment`` is in the outputs, if it left since; and not ``whole``:
    that waited when outputs had come to ``next_offsets``.
    """
    said = f"still waits at the end of increment {increment}; " if whole else ""
    first_increment = increment + 1 if whole else increment
    done = history.at().row.content
    for sink in topology.sinks():
        if not _keeps_keys(topology, sink, wait.node):
            continue
        names = ["partition", "offset", "increment", "key", *(WINDOW if wait.window is not None else ())]
        for part in table_parts(history.warehouse, history.pipeline, done, TableName.output(sink.topic)):
            files = read_files(
                part.path,
                version=part.version,
                within=("increment", first_increment, UNBOUNDED),
            )
            files = [file for file in files if file.partition == partition and _may_have(file, wait)]
            schema = table_schema(topology, TableName.output(sink.topic))
            rows = read_rows(part.path, files, pa.schema([schema.field(name) for name in names]))
            codes = sink.shape.key.encode(only_chunk(rows, "key"))
            after = pc.greater_equal(rows["increment"], first_increment)
            if not whole:
                after = pc.and_(
                    after, pc.greater_equal(rows["offset"], next_offsets.get(TableName.output(sink.topic), 0))
                )
            is_same = pc.and_(pc.equal(codes, pa.scalar(wait.key_bytes, codes.type)), after)
            for name, bound in zip(WINDOW, wait.window or (), strict=False):
                is_same = pc.and_(is_same, pc.equal(rows[name], bound))
            left = rows.filter(is_same).sort_by("offset").slice(0, 1).to_pylist()
            for row in left:
                return f"{said}left in increment {row['increment']} as outputs/{sink.topic} {partition}:{row['offset']}"
    return said.removesuffix("; ") or "no output has had it since under its key, or it left as part of something else"


def _keeps_keys(topology: Topology, sink: SinkNode, suppress: str) -> bool:
    """Whether ``sink`` writes what ``suppress`` lets go, under the same keys."""
    above = topology.suppress_above(sink)
    if above is None or above.name != suppress:
        return False
    between = takewhile(lambda node: node is not above, topology.graph.above(sink))
    return not any(isinstance(node, SelectKeyNode | MapNode | FlatMapNode) for node in between)


def _may_have(file: DataFile, wait: Wait) -> bool:
    return wait.window is None or file.may_hold("window_end_ms", wait.window[1], wait.window[1])
