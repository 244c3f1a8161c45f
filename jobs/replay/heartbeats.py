"""Heartbeats: a small file that a run writes again every BEAT_SECONDS while it is at work, and deletes when it ends.

Owns the file, beside the ledger, whose rows are never changed and which must not grow with time. Rule: a heartbeat
decides only whether others wait for a run, a schedule or corrected code. The ledger guarantees exactness: a run that
was taken for dead may live, and nothing is written twice. A heartbeat that cannot be written is left out. When it was
written is what the file system says.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pyarrow import fs

from ...state.failures import last_cause
from ...state.tables.object_stores import open_filesystem
from ...state.tables.warehouse import PipelineTables

BEAT_SECONDS = 30.0
LOST_SECONDS = 300.0
"""A run whose last heartbeat is older is lost."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Heartbeat:
    """``said``: what the run was at; ``written_at_ms``: by the clock of the file system."""

    said: str
    written_at_ms: int


class Heart:
    """``say`` sets what the next heartbeat says."""

    def __init__(self, tables: PipelineTables, run: str, said: str) -> None:
        self._filesystem, self._path = open_filesystem(tables.heartbeat(run))
        self._said = said

    def say(self, words: str) -> None:
        """What the run is at."""
        self._said = words

    def beat(self) -> None:
        """Write the file."""
        self._filesystem.create_dir(self._path.rpartition("/")[0], recursive=True)
        with self._filesystem.open_output_stream(self._path) as file:
            file.write(self._said.encode())

    def stop(self) -> None:
        """Delete the file; it may be gone."""
        with suppress(OSError):
            self._filesystem.delete_file(self._path)


@contextmanager
def beating(tables: PipelineTables, run: str, said: str, *, seconds: float = BEAT_SECONDS) -> Iterator[Heart]:
    """Beat at once, and then every so many ``seconds`` in a thread of its own, until the block ends."""
    heart, is_over = Heart(tables, run, said), threading.Event()

    def beat() -> None:
        try:
            heart.beat()
        except OSError as error:
            _LOG.warning("the heartbeat of run %s cannot be written: %s", run, last_cause(str(error)))

    def beat_on() -> None:
        while not is_over.wait(seconds):
            beat()

    beat()
    thread = threading.Thread(target=beat_on, name="replay-heartbeat", daemon=True)
    thread.start()
    try:
        yield heart
    finally:
        is_over.set()
        # Before the file is deleted: a beat under way would write it again, and others would wait for a run that has
        # ended.
        thread.join()
        heart.stop()


def heartbeat_of(tables: PipelineTables, run: str) -> Heartbeat | None:
    """The last heartbeat of a run; None when there is none: it has not begun, or ended well, or cannot write any."""
    filesystem, path = open_filesystem(tables.heartbeat(run))
    info = filesystem.get_file_info(path)
    if info.type != fs.FileType.File or info.mtime_ns is None:
        return None
    try:
        with filesystem.open_input_stream(path) as file:
            said = file.read().decode()
    # The run ended, and deleted its file, between the two looks.
    except FileNotFoundError:
        return None
    return Heartbeat(said, info.mtime_ns // 1_000_000)


def at_work(tables: PipelineTables, at_ms: int, *, but: str | None = None) -> dict[str, Heartbeat]:
    """Heartbeats, by run, of the runs that are alive at ``at_ms``, except the run ``but``.

    One of a file system whose clock is further away counts as lost; where none can be read, nobody is at work.
    """
    filesystem, folder = open_filesystem(tables.heartbeats)
    try:
        listed = filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        beats = {entry.base_name: heartbeat_of(tables, entry.base_name) for entry in listed if entry.base_name != but}
    except OSError as error:
        _LOG.warning("heartbeats in %s cannot be read: %s", tables.heartbeats, error)
        return {}
    lost_ms = LOST_SECONDS * 1000
    return {run: beat for run, beat in beats.items() if beat is not None and abs(at_ms - beat.written_at_ms) <= lost_ms}


def forget(tables: PipelineTables, run: str) -> None:
    """Delete the heartbeat of a run that is lost."""
    Heart(tables, run, "").stop()
