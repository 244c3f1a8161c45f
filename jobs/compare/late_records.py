"""Records that an operator above the output refused as late: what a restart may let in.

Owns reading them, with their keys, and where a restart must have been for each. Rule: the refusal is in `dropped`, with
the stream time and the limit that decided. The clock was at least as far as the time that closes the window. So it has
to begin again behind the last record that takes it there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.buffers import float_bits, is_valid
from ...state.records.drop_reasons import DropReason
from ...state.tables.branch_files import landed_files, table_files
from ...state.tables.data_files import DataFile, read_rows
from ...state.tables.ledger import LandingLedger
from ...state.tables.names import DROPPED, TableName
from ...state.tables.warehouse import DROPPED_SCHEMA
from ..graph.graph import Node
from ..graph.nodes import RepartitionNode
from .case import Case
from .sides import digests

REASONS = (DropReason.EXPIRED_WINDOW, DropReason.LATE)

_COLUMNS = ("partition", "node", "topic", "offset", "record_time_ms", "stream_time_ms", "limit_ms", "window_start_ms",
            "window_end_ms", "reason")  # fmt: skip
SCHEMA = pa.schema([DROPPED_SCHEMA.field(name) for name in _COLUMNS])
"""Of ``LateRecords.rows``."""

_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class LateRecords:
    """A row a refusal: the columns of `dropped`, and `key`, the digest of the record's key."""

    case: Case
    rows: pa.Table

    @classmethod
    def of(cls, case: Case) -> "LateRecords":
        """All that operators above the output refused."""
        names = [node.name for node in case.output.above]
        parts, path = [SCHEMA.empty_table()], case.warehouse.pipeline(case.pipeline).dropped
        files = table_files(case.warehouse, case.pipeline, case.done, DROPPED)
        for file in files if names else ():
            rows = read_rows(path, [file], SCHEMA)
            is_late = pc.is_in(rows["reason"], value_set=pa.array([str(reason) for reason in REASONS]))
            parts.append(rows.filter(pc.and_(is_late, pc.is_in(rows["node"], value_set=pa.array(names)))))
        return cls(case, pa.concat_tables(parts))

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, chosen: np.ndarray) -> "LateRecords":
        """Those of them that ``chosen`` marks."""
        return LateRecords(self.case, self.rows.filter(pa.array(chosen)))

    def numbers(self, column: str) -> np.ndarray:
        """A column of integers; null is -1."""
        numbers: np.ndarray = pc.fill_null(self.rows[column], -1).to_numpy()
        return numbers

    @cached_property
    def keys(self) -> np.ndarray:
        """Digests of the records' keys, as the serde of their topic reads them."""
        keys = np.zeros(len(self), np.uint64)
        topics = self.rows["topic"].to_numpy()
        for source in (node for node in self.case.output.above if node.is_source):
            mine = np.flatnonzero(topics == source.topic_of_records)
            if len(mine):
                keys[mine] = self._keys(source, mine)
        return keys

    def _keys(self, source: Node, mine: np.ndarray) -> np.ndarray:
        partitions, offsets = self.numbers("partition")[mine], self.numbers("offset")[mine]
        path, files = files_of(self.case, source)
        key_digests = np.zeros(len(mine), np.uint64)
        schema = pa.schema([("offset", pa.int64()), ("key", pa.binary())])
        for file in files:
            here = np.flatnonzero((partitions == file.partition) & _may_hold(file, offsets))
            if not len(here):
                continue
            rows = read_rows(path, [file], schema)
            # By value: another engine may have rearranged the rows of a landed table's file.
            at = pc.index_in(pa.array(offsets[here]), value_set=rows["offset"].combine_chunks())
            here = here[is_valid(at)]
            keys = source.shape.key.decode(rows["key"].take(at.drop_null()).combine_chunks())
            key_digests[here] = digests(float_bits(keys.values))
        return key_digests

    # --- where the clock began again --------------------------------------------------------------------------

    @cached_property
    def after(self) -> np.ndarray:
        """By refusal the offset behind which the clock must have begun again, -1 where nobody knows."""
        after = np.full(len(self), -1)
        topics, partitions, nodes = (self.rows[name].to_numpy() for name in ("topic", "partition", "node"))
        for source in (node for node in self.case.output.above if node.is_source):
            for partition in np.unique(partitions[topics == source.topic_of_records]).tolist():
                mine = np.flatnonzero((topics == source.topic_of_records) & (partitions == partition))
                # Below a timestamp extractor the landed times are not those that moved the clock.
                if source.time_step is None:
                    exact = np.array([self.sees_all(source, name) for name in nodes[mine]])
                    after[mine] = self._after(source, partition, mine, exact)
        return after

    def _after(self, source: Node, partition: int, mine: np.ndarray, exact: np.ndarray) -> np.ndarray:
        """Behind the last record that closes the window; where others may be filtered out on their way, behind the
        first of the stream time that decided, which was not.
        """
        offsets, times = record_times(self.case, source, partition)
        blocks = np.array([times[at : at + _BLOCK].max() for at in range(0, len(times), _BLOCK)])
        closes, stream = self.closes_at[mine], self.numbers("stream_time_ms")[mine]
        refused = self.numbers("offset")[mine]
        after = np.full(len(mine), -1)
        for number, offset in enumerate(refused.tolist()):
            end = int(np.searchsorted(offsets, offset))
            if exact[number]:
                at = _last_from(times, blocks, end, int(closes[number]))
            else:
                same = np.flatnonzero(times[:end] == stream[number])
                at = int(same[0]) if len(same) else -1
            after[number] = -1 if at < 0 else offsets[at]
        return after

    @cached_property
    def closes_at(self) -> np.ndarray:
        """The stream time from which on each is late."""
        wait = self.numbers("stream_time_ms") - self.numbers("limit_ms")
        start, end = self.numbers("window_start_ms"), self.numbers("window_end_ms")
        nodes = self.case.output.topology.graph.nodes
        names = self.rows["node"].to_numpy()
        windows = [nodes[name].windowed_by for name in names]
        is_open_ended = np.array([each is not None and each.kind == "time" for each in windows], np.bool_)
        # The end of a time window is exclusive, so a record is late from end + grace on. The end of a session or a
        # sliding window, and a single time, is inclusive: there it is late a millisecond later.
        closes: np.ndarray = np.where(start < 0, self.numbers("record_time_ms"), end) + wait + ~is_open_ended
        return closes

    def sees_all(self, source: Node, name: str) -> bool:
        """Every record of the source comes to the node, at its own time."""
        graph = self.case.output.topology.graph
        node = graph.nodes[name]
        while len(node.inputs) == 1:
            node = graph.parent(node)
            if node is source:
                return True
            if node.is_source or not node.forwards_one:
                return False
        return False


def files_of(case: Case, source: Node) -> tuple[str, Sequence[DataFile]]:
    """The table of what a task reads, and its files."""
    if isinstance(source, RepartitionNode):
        table = TableName.repartition(source.topic)
        path = case.warehouse.pipeline(case.pipeline).table(table)
        return path, table_files(case.warehouse, case.pipeline, case.done, table)
    topic = source.topic_of_records
    last = LandingLedger(case.warehouse.landing_ledger(topic)).last_done()
    return case.warehouse.landed(topic), [] if last is None else landed_files(case.warehouse, topic, last)


def record_times(case: Case, source: Node, partition: int) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and times of all records of a partition; a record without a key, which moves no clock, has time -1."""
    path, files = files_of(case, source)
    schema = pa.schema([("offset", pa.int64()), ("timestamp", pa.int64()), ("key", pa.binary())])
    rows = read_rows(path, [file for file in files if file.partition == partition], schema)
    offsets = rows["offset"].to_numpy()
    times = np.where(rows["key"].is_null().to_numpy(), -1, rows["timestamp"].to_numpy())
    if np.any(np.diff(offsets) < 0):
        order = np.argsort(offsets)
        offsets, times = offsets[order], times[order]
    return offsets, times


def _last_from(times: np.ndarray, blocks: np.ndarray, end: int, least: int) -> int:
    """The last index before ``end`` with a time of ``least`` or more, -1 for none; ``blocks``: their highest times."""
    block = end // _BLOCK
    inside = np.flatnonzero(times[block * _BLOCK : end] >= least)
    if len(inside):
        return block * _BLOCK + int(inside[-1])
    reaching = np.flatnonzero(blocks[:block] >= least)
    if not len(reaching):
        return -1
    first = int(reaching[-1]) * _BLOCK
    return first + int(np.flatnonzero(times[first : first + _BLOCK] >= least)[-1])


def _may_hold(file: DataFile, offsets: np.ndarray) -> np.ndarray:
    if file.min_offset is None or file.max_offset is None:
        return np.ones(len(offsets), np.bool_)
    held: np.ndarray = (offsets >= file.min_offset) & (offsets <= file.max_offset)
    return held
