"""Every error this project raises on purpose, as one tree.

Rule: a bug is an ``assert``; bad input is a dropped record or a dead letter; a run that cannot continue is a
``ReplayError``. Each message names the place, what was expected, what was got, and ends with the next step.

    ReplayError
    ├── ConfigError            an argument or a setting is wrong
    │   └── TopologyError      a topology that cannot work, found when it is built (Kafka's TopologyException)
    ├── MachineError           Java, a JVM package, Spark or an extra is missing or too old
    ├── StorageError           a file, a folder or a disk cannot be read or written
    ├── LandingError           a topic cannot be landed as asked
    │   └── RetentionGap       the broker deleted offsets that were never landed
    ├── PublishError           an output cannot be published as asked
    │   └── PublishInterrupted the broker did not answer
    │       └── PublisherFenced another publisher of the topic began
    ├── BootstrapError         the state of a live application cannot be read, or is not that of the topology
    ├── NotYetLanded           records may still come that are to be read first
    ├── LedgerError            the ledger refuses
    │   ├── LedgerGap          an increment does not start where the last one ended
    │   ├── LedgerConflict     another runner took the same increment
    │   └── CodeChanged        the topology is another one, and the state would not mean the same under it
    ├── BackfillDiffers        a backfill has other rows than its pipeline, though the code is the same
    ├── NewerFormat            a later version wrote this table or ledger in a way that this one would misread
    ├── CommitLost             Delta accepted a commit and did not make it
    │   └── Fenced             another runner continued with the table, or shut this one out
    ├── Damaged                what was committed is not there any more, or is another thing
    │   ├── DamagedFile        a data file of a table
    │   ├── DamagedTable       a table, or its Delta log
    │   │   └── TouchedTable   somebody else committed to it
    │   └── DamagedLedger      a ledger is gone, or is older than the tables that it speaks of
    └── TaskFailed             a task died; carries sub-topology, partition and the cause
        ├── BufferFull         a strict suppress buffer went over its limit (KIP-328, shutDownWhenFull)
        ├── NullKey            a record without a key came to a buffer that needs one (Kafka's NullPointerException)
        └── InvalidTimestamp   a timestamp extractor gave a record no valid time (Kafka's StreamsException)
"""

import re
from typing import Any

from .hidden_values import without_hidden

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]{6,16}(?=[>,])")


def said(error: BaseException) -> str:
    """Class and text of an error of the user's, as "ValueError: bad"; the class alone where it has no text."""
    text = text_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def text_of(error: BaseException) -> str:
    """What an error of the user's says, the same in every run."""
    try:
        return _without_address(str(error))
    except Exception as failure:
        return f"(its text fails with {type(failure).__name__})"


def shown(value: object) -> str:
    """``repr`` of what the user gave, the same in every run; its class where that fails."""
    try:
        return _without_address(repr(value))
    except Exception:
        return f"<{type(value).__name__}, whose repr fails>"


def _without_address(text: str) -> str:
    """Python names objects by addresses, which are others in every run."""
    return _ADDRESS.sub("", text)


class ReplayError(Exception):
    """Base of all errors raised on purpose. Its message is "place: expected ..., got ...; next step", and ``next_step``
    says what to do. It pickles, so a task's error reaches the driver whole. ``got`` has no addresses of objects: dead
    letters have it, and every run writes the same. Credentials that this process was given are in none of its parts.
    """

    def __init__(self, place: str, expected: str, got: str, next_step: str) -> None:
        place, expected, got, next_step = map(without_hidden, (place, expected, _without_address(got), next_step))
        self.place, self.expected, self.got, self.next_step = place, expected, got, next_step
        super().__init__(f"{place}: expected {expected}, got {got}; {next_step}")

    def say(self, more: str) -> None:
        """Add ``more`` to the end of the message, once."""
        more = without_hidden(more)
        if more not in self.next_step:
            self.next_step = f"{self.next_step}; {more}"
            self.args = (f"{self.place}: expected {self.expected}, got {self.got}; {self.next_step}",)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.place, self.expected, self.got, self.next_step), self.__dict__


class ConfigError(ReplayError):
    """An argument or a setting is wrong."""


class TopologyError(ConfigError):
    """A topology that cannot work; raised while it is built, as Kafka's TopologyException."""


class MachineError(ReplayError):
    """Java, a JVM package, Spark or a package of an extra is missing or too old."""


class StorageError(ReplayError):
    """A file, a folder or a disk cannot be read or written: rights, room, a path."""


class LandingError(ReplayError):
    """A topic cannot be landed as asked."""


class RetentionGap(LandingError):
    """The broker deleted offsets that were never landed."""


class PublishError(ReplayError):
    """An output cannot be published as asked. What was published before stays, whole transactions alone."""


class PublishInterrupted(PublishError):
    """The broker did not answer: what is committed stays, and publishing again continues behind it."""


class PublisherFenced(PublishInterrupted):
    """Another publisher of the same topic began: it continues from the published position."""


class BootstrapError(ReplayError):
    """The state of a live application cannot be read or written, or is not that of the topology."""


class NotYetLanded(ReplayError):
    """Records may still come that are to be read first: nothing is wrong but the time."""


class LedgerError(ReplayError):
    """The ledger refuses."""


class LedgerGap(LedgerError):
    """An increment does not start where the last one ended."""


class LedgerConflict(LedgerError):
    """Another runner took the same increment."""


class CodeChanged(LedgerError):
    """The topology is another one, and the state would not mean the same under it."""


class BackfillDiffers(ReplayError):
    """A backfill has other rows than its pipeline, though the code is the same."""


class NewerFormat(ReplayError):
    """A later version wrote this table or ledger in a way that this one would misread."""


class CommitLost(ReplayError):
    """Delta accepted a commit and did not make it (a lower txnVersion is skipped in silence)."""


class Fenced(CommitLost):
    """The table has a later increment under the epoch of this runner, or of one that it wants to shut out."""


class Damaged(ReplayError):
    """What was committed is not there any more, or is another thing: the disk, or somebody's hand."""


class DamagedFile(Damaged):
    """A data file of ``table`` is missing, or is not what ``increment`` (None: not known) has written."""

    table: str = ""
    increment: int | None = None


class DamagedTable(Damaged):
    """A table is missing, or its Delta log is not what was committed."""


class TouchedTable(DamagedTable):
    """Somebody else committed to a table, and its rows or columns are not what they were."""


class DamagedLedger(Damaged):
    """A ledger is gone, has lost rows, or is older than the tables that it speaks of."""


class TaskFailed(ReplayError):
    """A task died; carries sub-topology, partition and the cause."""

    cause_row: int = -1
    """Row of the chunk whose record ended the run, where one did."""
    arrival: int = -1
    """Number of that record in a test driver."""
    is_decided: bool = False
    """An exception handler was asked, and the run ends."""
    record: Any = None
    """That record in a test driver (PipedRecord of jobs/testing/driver_records.py)."""

    @classmethod
    def by(cls, error: Exception, place: str, expected: str, given: str, next_step: str) -> "TaskFailed":
        """A user's function failed with ``error``. ``given``: what it was called with, as in "on key 'a'". An error of
        this project keeps its own sentence: it names the call that was wrong. A MemoryError is raised again: it says
        nothing of the record.
        """
        if isinstance(error, MemoryError):
            raise error
        if isinstance(error, ConfigError):
            where = error.place if place in error.place else f"{place}, {error.place}"
            return cls(where, error.expected, f"{error.got}, {given}", error.next_step)
        return cls(place, expected, f"{said(error)} {given}", next_step)


class BufferFull(TaskFailed):
    """A strict suppress buffer went over its limit (KIP-328, shutDownWhenFull)."""


class NullKey(TaskFailed):
    """A record without a key came to a buffer that needs one (KIP-923; Kafka throws a NullPointerException)."""


class InvalidTimestamp(TaskFailed):
    """A timestamp extractor gave a record no valid time (Kafka's FailOnInvalidTimestamp throws a StreamsException)."""
