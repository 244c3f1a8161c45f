"""What a pipeline waits for, in words: landed records that are held back, and results that are not yet final.

Rule: who waits, for whom, until when, and how it can continue; the same words for the command, Dagster's log and its
checks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote

import pyarrow.compute as pc

from ..jobs.history.history import AsOf, History
from ..jobs.history.inspection import WAITS_UNTIL, inspect_store
from ..jobs.replay.landed_times import LandedTimes
from ..jobs.replay.planner import Planner
from ..jobs.replay.waiting_inputs import WaitingInput
from ..jobs.topology import Topology
from ..state.compilation.kernel_compilation import interpreted
from ..state.errors import ReplayError
from ..state.tables.branch_files import table_files
from ..state.tables.ledger import Ledger
from ..state.tables.ledger_rows import DoneRow
from ..state.tables.names import TableName
from ..state.tables.warehouse import Warehouse
from ..state.times import END_OF_TIME_MS
from .text_tables import utc

READ_MAX = 10_000
"""Rows of a store; of a larger one it is not said until when its results wait, since it would be read whole."""


@dataclass(frozen=True)
class WaitingResults:
    """``results`` in ``store`` wait for stream times from ``first_ms`` to ``last_ms``; None: they were not read."""

    store: str
    results: int
    first_ms: int | None
    last_ms: int | None

    def __str__(self) -> str:
        """One sentence."""
        said = f"{self.results:,} {'result waits' if self.results == 1 else 'results wait'} in {self.store}"
        if self.first_ms is None or self.last_ms is None:
            return said
        return f"{said} until stream time {utc(self.first_ms)}" + (
            "" if self.first_ms == self.last_ms else f", the last until {utc(self.last_ms)}"
        )


def inputs_that_wait(
    warehouse: Warehouse,
    topology: Topology,
    *,
    pipeline: str,
    idle: str = "wait",
    order: str = "time",
    until_ms: int | None = None,
    times: LandedTimes | None = None,
) -> list[WaitingInput]:
    """Landed records that a replay with these settings would leave unread now. ``until_ms``: it is to read up to that
    time, and what is of later times does not wait. ``times``: read before.
    """
    last = Ledger(warehouse.pipeline(pipeline).ledger).last_done()
    done, increment = (DoneRow(), 0) if last is None else (last.content, last.increment)
    planner = Planner(warehouse, topology, increment=increment + 1, previous=done, idle=idle, order=order, times=times)
    return waiting_before(until_ms, planner.what_waits())


def waiting_before(until_ms: int | None, waits: Sequence[WaitingInput]) -> list[WaitingInput]:
    """Those with a record of an earlier time; None: all of them."""
    return [each for each in waits if until_ms is None or each.first_ms < until_ms]


def results_that_wait(warehouse: Warehouse, topology: Topology, *, pipeline: str) -> list[WaitingResults]:
    """Results that suppress holds back after the last increment, by store; none before the first."""
    as_of = None
    waiting = []
    for node in topology.graph.nodes.values():
        if node.metric_prefix != "buffer":
            continue
        store = topology.graph.store_of(node)
        if store is None:
            continue
        if as_of is None:
            if Ledger(warehouse.pipeline(pipeline).ledger).last_done() is None:
                return []
            as_of = History(warehouse, pipeline, topology).at()
        tasks = as_of.row.content.tasks.values()
        count = sum(task.counters.get(store, {}).get("count", 0) for task in tasks)
        if count:
            first_ms, last_ms = _bounds(as_of, store)
            waiting.append(WaitingResults(store, count, first_ms, last_ms))
    return waiting


def _bounds(as_of: AsOf, store: str) -> tuple[int | None, int | None]:
    """The first and the last stream time for which a result in ``store`` waits; (None, None): the store is too large to
    be read for it, or cannot be read. What was committed is not taken back by that, so it is no error here.
    """
    history = as_of.history
    try:
        files = table_files(history.warehouse, history.pipeline, as_of.row.content, TableName.state(store))
        if sum(file.records for file in files) > READ_MAX:
            return None, None
        with interpreted():  # few rows: not worth the loading of a compiler
            bounds = pc.min_max(inspect_store(as_of, store)[WAITS_UNTIL]).as_py()
    except ReplayError:
        return None, None
    return bounds["min"], bounds["max"]


def sentences_of(waits: Sequence[WaitingInput], warehouse: str) -> list[str]:
    """A sentence for each partition for which others wait, with what can be done, in commands for the warehouse at
    ``warehouse``; [] when nothing waits.
    """
    slowest = dict.fromkeys((each.for_topic, each.for_partition) for each in waits)
    return [
        _sentence([each for each in waits if (each.for_topic, each.for_partition) == awaited], warehouse)
        for awaited in slowest
    ]


def advance_command(topic: str, warehouse: str, to_ms: int | None) -> str:
    """What to paste to record that ``topic`` has come to a time, or, without one, that it is complete."""
    # Milliseconds where a time has no text that the option reads.
    when = None if to_ms is None else to_ms if to_ms > END_OF_TIME_MS else f'"{utc(to_ms)}"'
    until = "--complete" if when is None else f"--to {when}"
    return f"replay advance {quote(topic)} {until} --warehouse {quote(warehouse)}"


def _sentence(waits: Sequence[WaitingInput], warehouse: str) -> str:
    """All of them wait for one partition."""
    records, first, last = sum(each.records for each in waits), waits[0], max(each.last_ms for each in waits)
    topics = " and ".join(dict.fromkeys(each.topic for each in waits))
    what = f"{records:,} record{'' if records == 1 else 's'} of {topics} wait{'s' if records == 1 else ''}"
    topic, awaited = first.for_topic, f"topic {first.for_topic}, partition {first.for_partition}"
    # Its partitions are merged below a repartition alone. What other tasks send there is taken as it comes, by Kafka.
    of_others = "for which Kafka does not wait behind a repartition"
    why = of_others if {each.topic for each in waits} == {topic} else "for which Kafka waits too (max.task.idle.ms)"
    return (
        f"{what} for {awaited}, which has landed up to {utc(first.reached_ms)}: more of it may still come first, "
        f"{why}. What to do: nothing, if more of {topic} lands later; if none ever "
        f"comes: {advance_command(topic, warehouse, None)}; if none comes up to there: "
        f"{advance_command(topic, warehouse, last)}; or replay with --idle proceed, which takes the records now"
    )
