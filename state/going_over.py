"""When a process goes over from kernels as they are to compiled ones.

Owns the decision, one for the process. Rule: few records run uncompiled, since to load Numba and compiled kernels takes
as long as FEW_RECORDS. When more come, the process goes over as soon as the cache holds all that it has called; what is
missing is compiled by a process of its own (state/compiler.py), and it goes on meanwhile in small pieces. What that one
does not bring is compiled here. Both ways leave the same rows, so nothing else depends on this.

    REPLAY_KERNELS   ``auto`` (as above), ``compiled`` or ``uncompiled``: one of the two whatever comes
"""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from state.compiled import run_compiled, uncompiled
from state.compiler import start_compiler
from state.errors import ConfigError, MachineError
from state.kernel_cache import Version, missing, versions_called

FEW_RECORDS = 6_000
"""Measured: sessions and suppress take 75 µs a record uncompiled; Numba and compiled kernels 0.5 s to load."""

PIECE_RECORDS = 2_000
"""So many at once while compiled kernels are awaited: a seventh of a second."""

RECORDS_MEANWHILE = 2_000
"""So many records run uncompiled while one version is compiled; where more come, to wait is quicker."""

LOOK_SECONDS = 0.1

WAYS = ("auto", "compiled", "uncompiled")

WORDS = "compiling kernels"
NEXT_STEP = "see that the folder is writable, or name another by NUMBA_CACHE_DIR; `python -m state.compiler` says more"

Tell = Callable[[str, int, int], None]
"""Told what is done, and how many of how many."""


class GoingOver:
    """``way``: one of WAYS."""

    def __init__(self, way: str = "auto") -> None:
        if way not in WAYS:
            raise ConfigError("REPLAY_KERNELS", f"one of {', '.join(WAYS)}", repr(way), "correct it, or unset it")
        self.way, self.is_over = way, way == "compiled"
        self.records = 0
        self._cached: set[Version] = set()
        self._asked: set[Version] = set()
        self._compiler: subprocess.Popen[str] | None = None

    def begin(self, call_all: Callable[[], None]) -> None:
        """Many records will come: begin to compile what they need. ``call_all`` calls every kernel, for no records."""
        if self.way == "auto" and not self.is_over:
            with uncompiled():
                call_all()
            self.prepare()

    def expect(self, records: int, call_all: Callable[[], None], tell: Tell | None = None) -> None:
        """So many records come next; ``begin`` where that is more than a few. Where they are so many that to wait for
        the compiler is quicker, wait; ``tell`` is told how far it is.
        """
        if self._is_settled(records):
            return
        self.begin(call_all)
        while not self.is_over and records > RECORDS_MEANWHILE * len(left := self._missing()):
            self._wait(left, tell)
            self.prepare()

    def warm_up(self, call_all: Callable[[], None], tell: Tell | None = None) -> tuple[int, int]:
        """Compile what ``call_all`` calls, and wait for it: how many versions it has called, and how many were new.

        Raises MachineError when the compiler ends and some are not cached.
        """
        self.begin(call_all)
        new = len(self._asked)
        while not self.is_over:
            self._wait(self._missing(), tell)
            self.prepare()
        if tell is not None and new:
            tell(WORDS, new, new)
        if left := self._missing():
            names = ", ".join(sorted({kernel.name for kernel, _ in left}))
            raise MachineError("Numba's cache", f"{new} versions of kernels", f"none of {names}", NEXT_STEP)
        return len(self._cached), new

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Kernels run within as suits what is told by ``take``."""
        with uncompiled(is_so=not self.is_over):
            yield

    def take(self, records: int) -> None:
        """So many records, or rows of a store, are about to be run over."""
        if not self._is_settled(records):
            self.prepare()
        self.records += records
        if self.is_over:
            run_compiled()

    def pieces(self, records: int, most: int | None = None) -> Iterator[tuple[int, int]]:
        """Cut a chunk, one of no records too, into parts [begin, end) to be taken one after the other, of ``most``
        records; of fewer while compiled kernels are awaited.
        """
        begin, is_first = 0, True
        while is_first or begin < records:
            end = min(records, begin + self._piece_records(records - begin, most or records))
            self.take(end - begin)
            yield begin, end
            begin, is_first = end, False

    def _piece_records(self, left: int, most: int) -> int:
        return most if self._is_settled(left) else min(most, PIECE_RECORDS)

    def _is_settled(self, records: int) -> bool:
        return self.is_over or self.way == "uncompiled" or self.records + records <= FEW_RECORDS

    def prepare(self) -> None:
        """Go over if the cache holds all that was called, else see that it is compiled."""
        left = self._missing()
        if not left:
            self.is_over = True
        elif self._compiler is None or self._compiler.poll() is not None:
            if self._asked.issuperset(left):  # it was asked for these, and ended without
                self.is_over = True
            else:
                self._asked.update(left)
                self._compiler = start_compiler(left)

    def _missing(self) -> list[Version]:
        left = missing(version for version in versions_called() if version not in self._cached)
        self._cached.update(set(versions_called()) - set(left))
        return left

    def _wait(self, left: list[Version], tell: Tell | None) -> None:
        """Until the compiler has ended, or LOOK_SECONDS."""
        if tell is not None:
            tell(WORDS, len(self._asked) - len(left), len(self._asked))
        if self._compiler is not None:
            with suppress(subprocess.TimeoutExpired):
                self._compiler.wait(LOOK_SECONDS)


this_process = GoingOver(os.environ.get("REPLAY_KERNELS") or "auto")
