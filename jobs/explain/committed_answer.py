"""What became of a record, where the committed tables say it: nothing is run, whatever the increment's functions cost.

Owns reading it. Rule: a row of `dead_letter`, or of `dropped` with `is_record`, says all that became of a record in a
sub-topology. Where a sub-topology keeps nothing and writes to repartition topics alone, its rows there, which name
their cause, say the rest. Everything else, and all where there is a topic of dead letters, is left to a run
(jobs/explain/chosen_tasks.py).
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...state.errors import ConfigError
from ...state.tables.branch_files import table_parts
from ...state.tables.data_files import Within, read_files, read_rows, without_partition
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.names import DEAD_LETTER, DROPPED, TableName, TaskId
from ..execution.table_schemas import REPARTITION_SCHEMA, table_schema
from ..graph.nodes import RepartitionNode
from ..history.history import History
from ..tape.recorded_time_order import BEFORE_ALL
from ..task.dataflow import dataflows
from ..topology.topology import SubTopology, Topology
from .observations import Position
from .readable_values import readable
from .sentences import SentenceWriter

CommittedStep = tuple[str, Position, str, list[str]]
"""Task, place of the row that it took, node, sentences."""

_CAUSE = ("cause_time_ms", "cause_sub", "cause_partition", "cause_offset")
_SENT = pa.schema(
    [field for field in REPARTITION_SCHEMA if field.name in {"offset", "key", "cause_depth", "increment", *_CAUSE}]
)
"""Columns of a repartition table that say who caused a row."""


def cause_of(history: History, record: Position) -> tuple[int, tuple[int, ...]]:
    """Of a record of a repartition topic the increment that wrote it, and the columns by which its table names the
    landed record that caused it. Raises ConfigError where there is none.
    """
    topic, partition, offset = record
    table, done = TableName.repartition(topic), history.at().row.content
    rows = committed_rows(history, done, table, _SENT, ("offset", offset, offset), partition)
    causes = rows.filter(pc.equal(rows["offset"], offset)).to_pylist()
    name = f"record {topic}:{partition}:{offset}"
    if not causes:
        next_step = f"look there: replay sql 'SELECT * FROM \"{table}\"'; a backfill keeps none"
        raise ConfigError(name, f"a record of {table}", "none at this offset", next_step)
    if causes[0]["cause_sub"] == BEFORE_ALL:
        next_step = "no record caused it: read the tables, as with `replay show`"
        raise ConfigError(name, "a record that a landed one caused", "one that a recorded time caused", next_step)
    return causes[0]["increment"], tuple(causes[0][column] for column in _CAUSE)


def committed_steps(
    history: History, topology: Topology, increment: int, record: Position, order: str, writer: SentenceWriter
) -> list[CommittedStep] | None:
    """Steps of ``record``, which ``increment`` read; None where a run must say them. ``order``: by which
    the pipeline was replayed.
    """
    return _Committed(history, topology, increment, order, writer).of(record)


@dataclass
class _Committed:
    history: History
    topology: Topology
    increment: int
    order: str
    writer: SentenceWriter

    def __post_init__(self) -> None:
        done = self.history.ledger.rows_of(self.increment).done
        assert done is not None, f"increment {self.increment} has read the record"
        self.done = done.content

    def of(self, record: Position) -> list[CommittedStep] | None:
        of_tasks: list[CommittedStep] = []
        for sub in self.topology.readers_of(record[0]):
            steps = self._in_task(sub, record)
            if steps is None:
                return None
            of_tasks += steps
        return of_tasks

    def _in_task(self, sub: SubTopology, record: Position) -> list[CommittedStep] | None:
        if self.topology.graph.dead_letter_topic is not None:
            return None
        task = str(TaskId(sub.id, record[1]))
        letters, refusals = self._refused(DEAD_LETTER, sub, record), self._refused(DROPPED, sub, record)
        steps: list[CommittedStep] = [
            *((task, record, row["node"], [f"dead letter: {row['reason']}"]) for row in letters),
            *((task, record, row["node"], [self.writer.refusal(row)]) for row in refusals),
        ]
        if letters or any(row["is_record"] for row in refusals):
            return steps
        # Without a row there, nothing says whether the record was applied, or left out by a filter or a join: only a
        # run can.
        if not self._says_all_it_sends(sub):
            return None
        sent = [(node, row) for node in sub.repartitions for row in self._sent(sub, record, node)]
        for node, row in sent:
            child = node.topic, row["partition"], row["offset"]
            (key,) = readable(node.shape.key.decode(pa.array([row["key"]], pa.binary())).values, node.shape.key)
            said = f"sent on under {key!r}, to partition {row['partition']}, as {node.topic}:{child[1]}:{child[2]}"
            steps.append((task, record, TableName.repartition(node.topic), [said]))
            below = self.of(child)
            if below is None:
                return None
            steps += below
        # Nothing was sent: a step, such as a filter, left the record out, and no table names the step.
        return steps if sent else None

    def _says_all_it_sends(self, sub: SubTopology) -> bool:
        """Whether a task of ``sub`` keeps nothing, and its rows in repartition tables name the record as the cause."""
        flow = dataflows(self.topology)[sub.id]
        is_plain = not (sub.stores or sub.sinks or flow.exports or flow.imports)
        reads_one = len(sub.sources) == 1 and sub.sources[0].landed_topic is not None
        return is_plain and reads_one and not sub.globals and self.order == "time"

    def _refused(self, table: str, sub: SubTopology, record: Position) -> list[dict[str, Any]]:
        topic, partition, offset = record
        rows = self._own(table, table_schema(self.topology, table), partition)
        is_selected = pc.and_(pc.equal(rows["offset"], offset), pc.equal(rows["sub_topology"], sub.id))
        refused: list[dict[str, Any]] = rows.filter(pc.and_(is_selected, pc.equal(rows["topic"], topic))).to_pylist()
        return refused

    def _sent(self, sub: SubTopology, record: Position, node: RepartitionNode) -> list[dict[str, Any]]:
        """Rows of a repartition topic that the record of a task with one landed topic caused, all at depth 1."""
        table, sent = TableName.repartition(node.topic), []
        for partition in range(self.done.partitions[table]):
            rows = self._own(table, _SENT, partition)
            is_selected = pc.and_(pc.equal(rows["cause_sub"], sub.id), pc.equal(rows["cause_partition"], record[1]))
            is_selected = pc.and_(is_selected, pc.equal(rows["cause_offset"], record[2]))
            mine = rows.filter(pc.and_(is_selected, pc.equal(rows["cause_depth"], 1)))
            sent += [row | {"partition": partition} for row in mine.to_pylist()]
        return sent

    def _own(self, table: str, schema: pa.Schema, partition: int) -> pa.Table:
        """Rows that the increment wrote."""
        within: Within = ("increment", self.increment, self.increment)
        rows = committed_rows(self.history, self.done, table, schema, within, partition)
        return rows.filter(pc.equal(rows["increment"], self.increment))


def committed_rows(
    history: History, done: DoneRow, table: str, schema: pa.Schema, within: Within, partition: int
) -> pa.Table:
    """Rows of a partition, of the files of a table that may have some ``within`` bounds."""
    stored = without_partition(schema)
    parts = [stored.empty_table()]
    for part in table_parts(history.warehouse, history.pipeline, done, table):
        files = read_files(part.path, version=part.version, within=within)
        parts.append(read_rows(part.path, [file for file in files if file.partition == partition], stored))
    return pa.concat_tables(parts).combine_chunks()
