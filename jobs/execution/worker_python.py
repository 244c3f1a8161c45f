"""Whether the Python of a cluster's workers has this project: the question to one of them before the first stage.

Owns that question and what is made of the answer. Rule: the function that travels needs nothing of this project to be
read there, since that may be missing. It is nested, so that its code is pickled and not its name; it has only what
comes with Python, and imports it when it runs.
"""

from collections.abc import Callable, Iterable, Iterator

from ...state.errors import MachineError
from ...state.failures import WORKER_PYTHON
from ...state.version import VERSION


def version_there() -> Callable[[Iterable[int]], Iterator[tuple[str, str | None]]]:
    """Gives, where it runs, the name of the machine and the version of this project; None: it cannot be imported."""

    def ask(numbers: Iterable[int]) -> Iterator[tuple[str, str | None]]:
        import socket

        version: str | None
        try:
            import kstreams_replay

            version = kstreams_replay.__version__
        except ImportError:
            version = None
        for _ in numbers:
            yield socket.gethostname(), version

    return ask


def refuse_other(host: str, version: str | None) -> None:
    """Raises MachineError where the worker at ``host`` does not have the driver's version."""
    if version != VERSION:
        got = "none" if version is None else f"version {version}"
        expected = f"the Python module kstreams_replay, version {VERSION} as the driver has it"
        raise MachineError(f"the worker at {host}", expected, got, WORKER_PYTHON)
