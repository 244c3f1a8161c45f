"""Tiered execution of kernels: interpreted for few records, compiled for many.

Owns the decision, which is one for the whole process. Rule: few records run interpreted, because loading Numba and
compiled kernels takes as long as interpreting FEW_RECORDS. When more come and Numba's cache on disk holds every version
that this process has called, it switches to compiled kernels. Versions that are missing are compiled by another process
(state/compilation/compiler.py); meanwhile tasks take small chunks, so that they can switch between two of them. What
the other process did not compile is compiled here. Both tiers leave the same rows.

    REPLAY_KERNELS   ``auto`` (as above), ``compiled`` or ``interpreted`` (always that tier)
"""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ..errors import ConfigError, MachineError
from .compiler import start_compiler
from .kernel_cache import Version, missing, versions_called
from .kernel_compilation import interpreted, use_compiled

FEW_RECORDS = 6_000
"""Measured: sessions and suppress take 75 µs a record interpreted; Numba and compiled kernels 0.5 s to load."""

INTERPRETED_CHUNK_RECORDS = 2_000
"""Records of a chunk while another process compiles: they take a seventh of a second."""

RECORDS_MEANWHILE = 2_000
"""Records that run interpreted while one version is compiled; for more records it is quicker to wait."""

LOOK_SECONDS = 0.1

MODES = ("auto", "compiled", "interpreted")

COMPILING = "compiling kernels"
NEXT_STEP = (
    "see that the folder is writable, or name another by NUMBA_CACHE_DIR; "
    "`python -m kstreams_replay.state.compilation.compiler` says more"
)

OnCompiled = Callable[[str, int, int], None]
"""Called with what is done, and how many of how many."""


class KernelTiers:
    """``mode``: one of MODES."""

    def __init__(self, mode: str = "auto") -> None:
        if mode not in MODES:
            raise ConfigError("REPLAY_KERNELS", f"one of {', '.join(MODES)}", repr(mode), "correct it, or unset it")
        self.mode, self.is_compiled = mode, mode == "compiled"
        self.records = 0
        self._cached: set[Version] = set()
        self._asked: set[Version] = set()
        self._compiler: subprocess.Popen[str] | None = None

    def start_compiling(self, call_all: Callable[[], None]) -> None:
        """Many records will come: start to compile the kernels they need, which ``call_all`` calls for no records."""
        if self.mode == "auto" and not self.is_compiled:
            with interpreted():
                call_all()
            self.switch_or_compile()

    def expect(self, records: int, call_all: Callable[[], None], on_compiled: OnCompiled | None = None) -> None:
        """``records`` will come: if they are more than a few, start to compile; if they are so many that waiting is
        quicker than interpreting, wait. ``on_compiled`` is called with the progress meanwhile.
        """
        if self._is_settled(records):
            return
        self.start_compiling(call_all)
        while not self.is_compiled and records > RECORDS_MEANWHILE * len(left := self._missing()):
            self._wait(left, on_compiled)
            self.switch_or_compile()

    def warm_up(self, call_all: Callable[[], None], on_compiled: OnCompiled | None = None) -> tuple[int, int]:
        """Compile what ``call_all`` calls, and wait for it: how many versions it has called, and how many were new.

        Raises MachineError when the compiler ends and some are not cached.
        """
        self.start_compiling(call_all)
        new = len(self._asked)
        while not self.is_compiled:
            self._wait(self._missing(), on_compiled)
            self.switch_or_compile()
        if on_compiled is not None and new:
            on_compiled(COMPILING, new, new)
        if left := self._missing():
            names = ", ".join(sorted({kernel.name for kernel, _ in left}))
            raise MachineError("Numba's cache", f"{new} versions of kernels", f"none of {names}", NEXT_STEP)
        return len(self._cached), new

    @contextmanager
    def running(self) -> Iterator[None]:
        """Within, kernels run in the tier that this object has chosen, which ``take`` may change."""
        with interpreted(is_on=not self.is_compiled):
            yield

    def take(self, records: int) -> None:
        """So many records, or rows of a store, are about to be processed: switch to compiled kernels if it is time."""
        if not self._is_settled(records):
            self.switch_or_compile()
        self.records += records
        if self.is_compiled:
            use_compiled()

    def chunks(self, records: int, most: int | None = None) -> Iterator[tuple[int, int]]:
        """Cut ``records`` (0 or more) into chunks [begin, end) of at most ``most``, smaller ones while another process
        compiles; at least one. Each is announced by ``take`` before it is yielded.
        """
        begin, is_first = 0, True
        while is_first or begin < records:
            end = min(records, begin + self._chunk_records(records - begin, most or records))
            self.take(end - begin)
            yield begin, end
            begin, is_first = end, False

    def _chunk_records(self, left: int, most: int) -> int:
        return most if self._is_settled(left) else min(most, INTERPRETED_CHUNK_RECORDS)

    def _is_settled(self, records: int) -> bool:
        return self.is_compiled or self.mode == "interpreted" or self.records + records <= FEW_RECORDS

    def switch_or_compile(self) -> None:
        """Switch if the cache holds every version that was called; else let another process compile what is missing."""
        left = self._missing()
        if not left:
            self.is_compiled = True
        elif self._compiler is None or self._compiler.poll() is not None:
            if self._asked.issuperset(left):  # it was asked for these, and ended without
                self.is_compiled = True
            else:
                self._asked.update(left)
                self._compiler = start_compiler(left)

    def _missing(self) -> list[Version]:
        left = missing(version for version in versions_called() if version not in self._cached)
        self._cached.update(set(versions_called()) - set(left))
        return left

    def _wait(self, left: list[Version], on_compiled: OnCompiled | None) -> None:
        """Until the compiler has ended, or LOOK_SECONDS."""
        if on_compiled is not None:
            on_compiled(COMPILING, len(self._asked) - len(left), len(self._asked))
        if self._compiler is not None:
            with suppress(subprocess.TimeoutExpired):
                self._compiler.wait(LOOK_SECONDS)


tiers = KernelTiers(os.environ.get("REPLAY_KERNELS") or "auto")
