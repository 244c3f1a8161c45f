"""Which files of a table a landing reads.

Owns the choice, by what the table's log knows of a file before it is opened. Rule: a file is left out only where its
bounds, or its constants, leave no row that could be new or changed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from pyarrow import fs

from ....state.errors import LandingError
from ....state.tables.object_stores import open_filesystem
from ..files.columns import numbers_or_none
from .chosen_columns import table_place
from .lake_rows import LakeMapping, read_columns
from .lake_table import Bounds, LakeChanges, LakeFile, LakeTable, numbers_of

_SHOWN = 5
"""So many topics are named."""


def files_to_read(
    mapping: LakeMapping, files: Sequence[LakeFile], changes: LakeChanges | None, began: Mapping[int, int]
) -> list[LakeFile]:
    """Files that may have rows that have not landed, or are others now, by their first offsets, so that few rows need
    sorting. ``changes`` None: all are new. ``began``: by partition the offset after the last landed one.
    """
    own = [file for file in files if may_have_topic(mapping, file.bounds)]
    own.sort(key=lambda file: ((numbers_of(file.bounds, mapping.offset) or (0, 0))[0], file.name))
    if changes is None or changes.unknown is not None:
        return own
    # What came below the landed offsets is refused, and not left out, also where its rows have moved meanwhile.
    below = [bounds for bounds in changes.passed if _may_be_below(mapping, bounds, began)]
    return [
        file
        for file in own
        if file.name in changes.added
        or (file.name in changes.moved and _may_be_new(mapping, file.bounds, began))
        or (file.name in changes.moved and any(overlaps(mapping, file.bounds, each) for each in below))
        or any(overlaps(mapping, file.bounds, touched) for touched in changes.touched)
    ]


def may_have_topic(mapping: LakeMapping, bounds: Bounds) -> bool:
    """Whether a file of these bounds may have rows of the topic."""
    least, most = bounds.get(mapping.topic_column or "", (None, None))
    if not isinstance(least, str) or not isinstance(most, str):
        return True
    return least <= (mapping.topic or "") <= most


def _may_be_below(mapping: LakeMapping, bounds: Bounds, began: Mapping[int, int]) -> bool:
    offsets, partitions = numbers_of(bounds, mapping.offset), numbers_of(bounds, mapping.partition)
    ends = began.values() if partitions is None else [began.get(p, 0) for p in range(partitions[0], partitions[1] + 1)]
    return offsets is None or offsets[0] < max(ends, default=0)


def _may_be_new(mapping: LakeMapping, bounds: Bounds, began: Mapping[int, int]) -> bool:
    offsets, partitions = numbers_of(bounds, mapping.offset), numbers_of(bounds, mapping.partition)
    # An unknown partition may be one that has not landed yet, of which every offset is new.
    if offsets is None or partitions is None:
        return True
    least, most = partitions
    return offsets[1] >= min(began.get(p, 0) for p in range(least, most + 1))


def overlaps(mapping: LakeMapping, one: Bounds, other: Bounds) -> bool:
    """Whether files of these bounds may have rows of the same partition and offset."""
    for name in (mapping.partition, mapping.offset):
        mine, theirs = numbers_of(one, name), numbers_of(other, name)
        if mine is not None and theirs is not None and not (mine[0] <= theirs[1] and theirs[0] <= mine[1]):
            return False
    return True


def largest_partition(mapping: LakeMapping, files: Sequence[LakeFile]) -> int:
    """Of the topic's rows; -1: there is none. Files are read where their bounds are those of several topics."""
    assert mapping.partition is not None
    largest = -1
    for file in files:
        topics = file.bounds.get(mapping.topic_column or "")
        is_own = mapping.topic_column is None or topics == (mapping.topic, mapping.topic)
        known = numbers_of(file.bounds, mapping.partition)
        if is_own and known is not None:
            largest = max(largest, known[1])
            continue
        for columns in read_columns(mapping, file, [mapping.partition]):
            largest = max(largest, int(numbers_or_none(columns[mapping.partition].unique()).max(initial=-1)))
    return largest


def refuse_other_topics(table: LakeTable, topic: str, mapping: LakeMapping) -> None:
    """Raises LandingError for a table that has rows, of which none is of the topic."""
    if mapping.topic_column is None:
        return
    topics: set[Any] = set()
    for file in table.files:
        for columns in read_columns(mapping, file, [mapping.topic_column], every_topic=True):
            topics.update(columns[mapping.topic_column].unique().to_pylist())
        if len(topics) > _SHOWN:
            break
    if topics:
        got = f"rows of {', '.join(sorted(map(str, topics))[:_SHOWN])}{' …' if len(topics) > _SHOWN else ''}"
        expected = f"rows whose column {mapping.topic_column} has {mapping.topic!r}"
        raise LandingError(table_place(topic, table), expected, got, "name the topic in the table (--source-topic)")


def refuse_missing(table: LakeTable, topic: str, mapping: LakeMapping, files: Sequence[LakeFile]) -> NoReturn:
    """Raises LandingError for files of the table that are not there, as its log says."""
    gone = []
    for file in files:
        filesystem, path = open_filesystem(mapping.uri_of(file.name))
        entry = filesystem.get_file_info(path)
        if entry.type != fs.FileType.File or entry.size != file.bytes:
            gone.append(file)
    records = sum(file.records or 0 for file in gone)
    spans = [known for file in gone if (known := numbers_of(file.bounds, mapping.offset)) is not None]
    between = f", at offsets {min(a for a, _ in spans)} to {max(b for _, b in spans)}" if spans else ""
    got = f"{len(gone):,} of {len(files):,} that are gone, with {records:,} rows{between}"
    raise LandingError(
        table_place(topic, table),
        f"the files of {table.version_word} {table.version}",
        f"{got} ({gone[0].name})" if gone else "files that changed while they were read",
        "land a newer version, whose files are there; what was vacuumed is only in a backup, or in Kafka",
    )
