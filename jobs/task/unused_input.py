"""What of a task's landed records came to nothing: declared fields that none of them has, and topics of which every
record was left out.

Rule: it costs nothing where all is well. A field that one record has, and a topic of which one record was applied, is
asked about no more, so usually the first chunk settles both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np
import pyarrow as pa

from ...state.buffers import is_valid, only_chunk
from ...state.records.batches import Chunk
from ...state.serdes.codec import Codec
from ..graph.graph import Graph, Node
from ..tape.task_input import TapeChunk

SAMPLE = 200
"""So many values of one chunk are looked at for names that the serde does not declare."""

Path = tuple[str, ...]


@dataclass(slots=True)
class _Topic:
    """Of one source. ``absent``: declared fields that no value has had so far, as paths."""

    source: Node
    codec: Codec
    absent: list[Path]
    is_left_out: bool = True
    records: int = 0
    """That could be read, as long as all of them were left out."""
    values: int = 0
    """That are no tombstones, as long as a field is absent."""
    first: int | None = None
    """Offset of the first record."""
    sample: pa.Array = field(default_factory=lambda: pa.array([], pa.binary()))


class UnusedInput:
    """``sources``: those of a task that may read landed topics, by their numbers."""

    def __init__(self, sources: Sequence[Node]) -> None:
        self._topics = {
            number: _Topic(source, codec := source.shape.value.codec, _paths(codec))
            for number, source in enumerate(sources)
            if source.landed_topic is not None
        }
        self._kept = {**self._topics}
        """Those of which every record so far was left out."""

    def look(self, number: int, records: pa.Table, values: pa.Array) -> None:
        """Of a chunk's ``records`` of the source, decoded into ``values``: which of the fields is still absent."""
        topic = self._topics.get(number)
        if topic is None or not topic.absent or values.null_count == len(values):
            return
        topic.absent = [path for path in topic.absent if _is_absent(values, path)]
        topic.values += len(values) - values.null_count
        if topic.absent and not len(topic.sample):
            texts = only_chunk(records, "value")
            topic.sample = texts.take(pa.array(np.flatnonzero(is_valid(values))[:SAMPLE]))

    def count(self, input_: TapeChunk, chunk: Chunk, unread: np.ndarray) -> None:
        """After a chunk has run. ``unread``: its rows that could not be decoded."""
        if not self._kept:
            return
        went = chunk.left_out & ~chunk.applied & ~chunk.refused | unread
        for number, topic in [*self._kept.items()]:
            rows = input_.rows(number)
            if not len(rows):
                continue
            topic.records += len(rows) - int(unread[rows].sum())
            if topic.first is None:
                topic.first = int(chunk.offset[rows[0]])
            if not went[rows].all():
                topic.is_left_out = False
                del self._kept[number]

    def report(self, graph: Graph, came: Mapping[str, Sequence[int]]) -> dict[str, dict[str, Any]]:
        """By topic of which the task has read records, as JSON. ``came``: records by operator, as in Counts.

        ``is_left_out``: whether all ``records`` were; ``last``: the last steps that they came to; ``first``: an offset.
        ``fields``: those that none of the ``values`` has, each with names in a sample that are nearly the same.
        """
        return {
            topic.source.landed_topic: {
                "records": topic.records, "is_left_out": topic.is_left_out, "first": topic.first,
                "last": _last_reached(graph, topic.source, came) if topic.is_left_out else [],
                "values": topic.values, "fields": _absent_fields(topic),
            }
            for topic in self._topics.values()
            if topic.records and topic.source.landed_topic is not None
        }  # fmt: skip


def _paths(codec: Codec) -> list[Path]:
    """Of all declared fields, where texts have names, so that one may be misspelt."""
    return [] if codec.names_of(pa.array([], pa.binary())) is None else _paths_of(codec.arrow_type)


def _paths_of(type_: pa.DataType) -> list[Path]:
    if not pa.types.is_struct(type_):
        return []
    fields = [type_.field(number) for number in range(type_.num_fields)]
    return [path for each in fields for path in ((each.name,), *((each.name, *deep) for deep in _paths_of(each.type)))]


def _is_absent(values: pa.Array, path: Path) -> bool:
    for name in path:
        values = values.field(name)
        if values.null_count == len(values):
            return True
    return False


def _absent_fields(topic: _Topic) -> dict[str, list[str]]:
    """Fields that no text of the sample names, not even with null; of those below an absent one only that one."""
    if not topic.absent:
        return {}
    there = topic.codec.names_of(topic.sample) or set()
    absent = [path for path in topic.absent if ".".join(path) not in there]
    declared = {".".join(path) for path in _paths(topic.codec)}
    return {
        ".".join(path): get_close_matches(".".join(path), sorted(there - declared), n=2, cutoff=0.6)
        for path in absent
        if not any(path[:length] in absent for length in range(1, len(path)))
    }


def _last_reached(graph: Graph, source: Node, came: Mapping[str, Sequence[int]]) -> list[str]:
    """Steps below ``source`` that records came to, and below which none came."""
    reached, below = {node for node, (records, _) in came.items() if records}, [source.name]
    for name in below:
        below += [child.name for child in graph.children(name) if child.name not in below]
    return [
        name for name in below
        if name in reached and not any(child.name in reached for child in graph.children(name))
    ]  # fmt: skip
