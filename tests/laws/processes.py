"""Real processes that replay: started in milliseconds from one that has everything imported, watched, killed.

Rule: a process begins clean, as one that is started by hand: nothing but imports is shared, since neither Delta's nor
polars' threads outlive a fork.
"""

import contextlib
import functools
import io
import multiprocessing
import os
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from typing import Any

from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.runs.local_copies import CACHE_VARIABLE
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.pipelines import MERGED_EVERY, PIPELINES, drive, merging
from tests.laws.syscalls import hand_over, supervise


@functools.cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [__name__, "kstreams_replay.orchestration.cli.commands.run", "kstreams_replay.jobs.replay.pipeline_run"]
    )
    return context


def killed(warehouse: Warehouse, pipeline: str, target: int, *, kill_at: int, counts_writes: bool) -> str | None:
    """Replay in a process of its own, which is killed (SIGKILL) before its change number ``kill_at`` (from 0) to a
    file.

    Returns the change that was not made; None when the process had come to its end. Raises RuntimeError when that end
    was not a good one.
    """
    ours, theirs = multiprocessing.Pipe()
    process = _context().Process(
        target=_replay, args=(theirs, warehouse.root, pipeline, target, os.environ[CACHE_VARIABLE])
    )
    process.start()
    theirs.close()
    assert process.pid is not None
    calls = supervise(ours, process.pid, os.path.dirname(warehouse.root), kill_at=kill_at, counts_writes=counts_writes)
    process.join()
    ours.close()
    if len(calls) > kill_at:
        return calls[-1]
    if process.exitcode != 0:
        raise RuntimeError(f"the process ended with {process.exitcode}; its stderr says why")
    return None


def _replay(connection: Connection, root: str, pipeline: str, target: int, cache: str) -> None:
    os.environ[CACHE_VARIABLE] = cache  # a process begins with what was set when the first was started
    hand_over(connection)
    drive(Warehouse(root), PIPELINES[pipeline].topology, target)


def raced(command: list[str], runners: int) -> list[tuple[int, str]]:
    """Run the command line in so many processes at once; exit code and stderr of each."""
    pairs = [multiprocessing.Pipe() for _ in range(runners)]
    started = [
        _context().Process(target=_run_command, args=(theirs, command, os.environ[CACHE_VARIABLE]))
        for _, theirs in pairs
    ]
    for process in started:
        process.start()
    for ours, theirs in pairs:
        theirs.close()
        ours.recv()
    for ours, _ in pairs:
        ours.send("go")
    said: list[Any] = [ours.recv() for ours, _ in pairs]
    for process in started:
        process.join()
    return said


def _run_command(connection: Connection, command: list[str], cache: str) -> None:
    os.environ[CACHE_VARIABLE] = cache
    errors = io.StringIO()
    connection.send(os.getpid())
    connection.recv()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()), merging(MERGED_EVERY):
        code = main(command)
    connection.send((code, errors.getvalue()))
