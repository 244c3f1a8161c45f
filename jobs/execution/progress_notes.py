"""Progress notes of a task, written while it runs for the process that waits for the stage.

Owns a small file a task, below the exchange folder of its increment, which is deleted with the increment and known to
vacuum. A file, because it is what every runner and every cluster has. Rule: notes are for people; nothing is decided by
one, one that cannot be written or read is left out, and a stage that ends within ``seconds`` writes none.
"""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from pyarrow import fs

from ...state.tables.object_stores import open_filesystem
from ...state.times import NO_TIMESTAMP_MS


@dataclass(frozen=True, slots=True)
class Notes:
    """Where the tasks of one stage of one run write, every how many ``seconds`` at most, and since when.

    ``begun``: by the wall clock, since tasks run on other machines; if theirs differ, notes begin sooner or later.
    """

    folder: str
    seconds: float
    begun: float

    def read(self) -> dict[str, tuple[float, int]]:
        """Share done, 0 to 1, and stream time of every task that has written, by its id. One that is being written is
        left out.
        """
        filesystem, folder = open_filesystem(self.folder)
        notes = {}
        for entry in filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True)):
            with suppress(OSError, ValueError, KeyError), filesystem.open_input_file(entry.path) as file:
                note = json.loads(file.read())
                notes[entry.base_name.removesuffix(".json")] = note["share"], note["stream_time_ms"]
        return notes


class NoteWriter:
    """The note of one task. ``notes`` None: nobody wants any. ``rows``: all that the task will take, once known."""

    def __init__(self, notes: Notes | None, task: str, *, clock: Callable[[], float] = time.time) -> None:
        self.notes, self.task, self._clock = notes, task, clock
        self.rows = self._taken = 0
        self._stream_time_ms = NO_TIMESTAMP_MS
        self._written = 0.0 if notes is None else notes.begun

    def take(self, rows: int, stream_time_ms: int) -> None:
        """So many rows more were taken."""
        self._taken += rows
        self._stream_time_ms = stream_time_ms
        # A trial in which something fails takes its rows again, so more may be taken than there are.
        self._maybe_write(self._taken / max(self.rows, self._taken, 1))

    def end(self) -> None:
        """The task is done, and waits for the others of its stage."""
        if self.notes is not None:
            # Since the stage began and not since the last note: the end is written at once, and a
            # short stage still writes none.
            self._written = self.notes.begun
            self._maybe_write(1.0)

    def _maybe_write(self, share: float) -> None:
        if self.notes is None or (now := self._clock()) - self._written < self.notes.seconds:
            return
        self._written = now
        with suppress(Exception):  # whatever a disk or a store says: the task goes on
            filesystem, folder = open_filesystem(self.notes.folder)
            filesystem.create_dir(folder, recursive=True)
            with filesystem.open_output_stream(f"{folder}/{self.task}.json") as file:
                file.write(json.dumps({"share": share, "stream_time_ms": self._stream_time_ms}).encode())
