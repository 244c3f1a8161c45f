"""What Kafka has of an application's state: positions, changelogs, and records between its tasks.

Owns the metadata of committed offsets. Rule: a changelog counts up to its end, as for a task that begins without local
state. A committed offset is the next one to be read. Beside it are the partition's time and numbers of processors:
base64 of a version, an int64, and by name an int64 (TopicPartitionMetadata).
"""

import base64
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...state.errors import BootstrapError
from ...state.serdes.java_bytes import JavaBytes, int_bytes, long_bytes, sized
from ...state.times import NO_TIMESTAMP_MS
from ..operators.base.changelogs import Changelog

_VERSIONS, _WITH_NUMBERS = (1, 2), 2
"""Of metadata; the later one may have processors' numbers."""
_VERSION_AND_TIME = 9
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


@dataclass(frozen=True)
class CommittedPosition:
    """``offset``: the next one to read. ``time_ms``: the partition's time, -1 where none was committed; ``numbers``: of
    processors, by their stores.
    """

    offset: int
    time_ms: int = NO_TIMESTAMP_MS
    numbers: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, offset: int, metadata: str | None) -> "CommittedPosition":
        """Metadata that Kafka Streams has not written says nothing, as Kafka Streams takes it."""
        text = _BASE64.fullmatch(metadata or "")
        taken = JavaBytes(b"" if text is None else base64.b64decode(text[0]))
        if taken.rest < _VERSION_AND_TIME or (version := taken.read_byte()) not in _VERSIONS:
            return cls(offset)
        time_ms = taken.read_long()
        return cls(offset, time_ms, _numbers(taken) if version == _WITH_NUMBERS else {})

    @property
    def metadata(self) -> str:
        """The reverse of ``of``."""
        numbers = [sized(name.encode()) + long_bytes(number) for name, number in self.numbers.items()]
        # Without entries Kafka writes no count either: ProcessorMetadata is no bytes then.
        count = [int_bytes(len(numbers))] if numbers else []
        data = b"".join([bytes([_WITH_NUMBERS]), long_bytes(self.time_ms), *count, *numbers])
        return base64.b64encode(data).decode()


def _numbers(taken: JavaBytes) -> dict[str, int]:
    """Of processors, as far as they are whole."""
    numbers: dict[str, int] = {}
    try:
        for _ in range(taken.read_int()):
            name = taken.read(taken.read_int()).decode()
            numbers[name] = taken.read_long()
    except (struct.error, UnicodeDecodeError):
        pass
    return numbers


@dataclass(frozen=True)
class ApplicationState:
    """``positions``: of topics that it reads, by partition, those of repartition topics without its id. ``changelogs``:
    by store, each partition. ``unread``: records of repartition topics that no task has taken, each partition.
    ``topic_ids``: of topics that tasks read, and maybe of others, as far as they are known.
    """

    application_id: str
    positions: Mapping[str, Mapping[int, CommittedPosition]]
    changelogs: Mapping[str, Sequence[Changelog]]
    unread: Mapping[str, Sequence[Changelog]]
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def refuse_other_topics(self, ids: Mapping[str, str], place: str, next_step: str) -> None:
        """Raises BootstrapError where a topic of ``ids`` has another id here: it was deleted and created again since,
        so that offsets mean other records (KIP-516). ``place``: where those of ``ids`` are.
        """
        for topic, topic_id in ids.items():
            if (own := self.topic_ids.get(topic, topic_id)) != topic_id:
                got = f"another one of that name ({topic_id})"
                raise BootstrapError(f"{place}, topic {topic!r}", f"the topic of id {own}", got, next_step)
