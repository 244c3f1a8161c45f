"""What ends a process from within a function of the user's (``sys.exit()``), as the failure of the task that it is.

Rule: only the run ends a run. Else ``replay run`` would stop half-way with the exit code of the function, which may be
that of success. No exception handler is asked and no record is left out for it: it is no ``Exception``, as Java's
``System.exit`` is none. Ctrl-C and SIGTERM are left as they are.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ...state.call_sites import call_site_of
from ...state.errors import TaskFailed, said


@contextmanager
def refusing_exits() -> Iterator[None]:
    """Raises TaskFailed for SystemExit and GeneratorExit."""
    try:
        yield
    except (SystemExit, GeneratorExit) as stop:
        site = call_site_of(stop.__traceback__)
        got = said(stop) if site is None else f"{said(stop)} in {site}"
        expected, next_step = "functions that leave the process alone", "raise an exception that says what is wrong"
        failed = TaskFailed("a function of the topology", expected, got, next_step)
        failed.is_decided = True
        raise failed from stop
