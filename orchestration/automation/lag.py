"""How far a pipeline is behind: what has come and was not landed, what has landed and was not replayed.

Owns the measuring, which reads no record. Rule: the lag is what a run would take: files that no landing's plan
names, offsets up to the last stable one of each Kafka partition, and landed offsets after the last cut.
"""

import hashlib
import json
from dataclasses import dataclass, field

from ...jobs.landing.files.known_files import KnownFiles, find_files
from ...jobs.landing.files.streams import FoundFile
from ...jobs.landing.files.verified_files import read_verified
from ...jobs.landing.from_lake import new_files
from ...jobs.landing.given_up_plans import kept_plans
from ...jobs.landing.kafka_offsets import topic_state
from ...jobs.landing.landing import FileSource, KafkaSource, LakeSource
from ..pipeline import Pipeline
from ..settings.connections import source_of


@dataclass(frozen=True)
class Lag:
    """``files``: topic → new ones in its folder, or of its table; ``offsets``: topic → offsets at the broker after the
    landed ones; ``unread``: topic → landed records that were not replayed. Topics without any are left out. ``seen``:
    names just this, so that two lags of one name are the same records.
    """

    files: dict[str, int] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    unread: dict[str, int] = field(default_factory=dict)
    seen: str = ""

    @property
    def records(self) -> int:
        """That are known to be there; those of files are not counted before they land."""
        return sum(self.offsets.values()) + sum(self.unread.values())

    @property
    def is_nothing(self) -> bool:
        """Whether a run would find nothing."""
        return not (self.files or self.records)

    @property
    def is_outside(self) -> bool:
        """Whether there is something to land."""
        return bool(self.files or self.offsets)

    def __str__(self) -> str:
        """In words."""
        said = [f"{count:,} new files of {topic}" for topic, count in self.files.items()]
        said += [f"{count:,} offsets of {topic} to land" for topic, count in self.offsets.items()]
        said += [f"{count:,} landed records of {topic} to replay" for topic, count in self.unread.items()]
        return ", ".join(said) or "nothing new"


def lag_of(pipeline: Pipeline) -> Lag:
    """Measured now. Raises LandingError where a folder is gone, a landed file has changed or the broker is silent."""
    files, offsets = dict[str, int](), dict[str, int]()
    seen: list[object] = []
    for topic, given in pipeline.sources.items():
        source = source_of(given)
        if isinstance(source, FileSource):
            new = _new_files(pipeline, topic, source)
            files |= {topic: len(new)} if new else {}
            seen += [[topic, file.name, file.bytes, file.mtime_ns] for file in new]
        elif isinstance(source, LakeSource):
            version, count = new_files(pipeline.warehouse, topic, source)
            files |= {topic: count} if count else {}
            seen.append([topic, version if count else None])
        else:
            behind = _not_landed(pipeline, topic, source)
            offsets |= {topic: sum(behind.values())} if any(behind.values()) else {}
            seen.append([topic, behind])
    last, landed = pipeline.ledger.last_done(), dict[str, list[object]]()
    unread = dict[str, int]()
    for topic in pipeline.topology.source_topics():
        landing = pipeline.landing_ledger(topic).last_done()
        if landing is not None:  # its number, too: recorded times raise it
            ends = landing.content.cut_to
            landed[topic] = [landing.increment, dict(sorted(ends.items()))]
            cut = {} if last is None else last.content.cut_to.get(topic, {})
            count = sum(end - cut.get(partition, 0) for partition, end in ends.items())
            unread |= {topic: count} if count else {}
    seen.append([unread, landed, None if last is None else last.increment])
    return Lag(files, offsets, unread, hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()[:16])


def _new_files(pipeline: Pipeline, topic: str, source: FileSource) -> list[FoundFile]:
    """Files that the next landing would take."""
    warehouse = pipeline.warehouse
    files = find_files(source, topic).files
    known = KnownFiles(
        source, topic, kept_plans(pipeline.landing_ledger(topic)),
        allow_same_content=pipeline.landing.allow_same_content, verified=read_verified(warehouse.verified_files(topic)),
    )  # fmt: skip
    return known.new(files)


def broker_ends(topic: str, source: KafkaSource) -> dict[int, int]:
    """One after the last offset of each partition that a landing may read."""
    return dict(topic_state(source.topic or topic, source).stable)


def _not_landed(pipeline: Pipeline, topic: str, source: KafkaSource) -> dict[str, int]:
    last = pipeline.landing_ledger(topic).last_done()
    landed = {} if last is None else last.content.cut_to
    ends = broker_ends(topic, source)
    return {str(p): max(end - landed.get(str(p), 0), 0) for p, end in sorted(ends.items())}
