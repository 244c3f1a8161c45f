"""Causes that are found by trial, where those that rows show are in doubt: restarts, and another order of topics."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory

import numpy as np

from ...state.errors import ReplayError
from ...state.tables.names import TaskId
from .alignment import RowVerdict
from .case import Case, Cause
from .trials import DIFFERENT, PARTS, RECORDS_MAX, TrialTask, can_be_tried, descriptions
from .tried_orders import TakenPair, find_order, may_differ_in_order
from .tried_restarts import TriedRestarts, find_restarts


@dataclass(frozen=True, eq=False)
class Tried:
    """What trials found: ``restarts`` of a partition each, and the ``pairs`` that rows of INTERLEAVING are of."""

    restarts: list[TriedRestarts] = field(default_factory=list)
    pairs: list[TakenPair] = field(default_factory=list)


def try_causes(case: Case, ignored: Collection[str] = ()) -> Tried:
    """Give RESTART and INTERLEAVING to what trials explain, in partitions in which a cause is in doubt. ``ignored``:
    fields of the value that are not compared.
    """
    tried = Tried()
    in_doubt = np.isin(case.theirs_cause, _IN_DOUBT) | _is_read_already(case)
    in_doubt &= np.isin(case.alignment.theirs, DIFFERENT)
    ours = case.unexplained(RowVerdict.MISSING)
    partitions = np.union1d(case.theirs.partition[in_doubt], case.ours.partition[ours]).tolist()
    has_orders = may_differ_in_order(case)
    is_any = case.output.has_stream_time or has_orders
    if not partitions or not is_any or not can_be_tried(case):
        return tried
    topology = case.output.topology.reading(case.done.cut_to)
    left = 2 * RECORDS_MAX if has_orders else RECORDS_MAX
    with TemporaryDirectory() as folder:
        described = descriptions(case, topology, folder)
        for number, partition in enumerate(partitions):
            if partition in described:
                most = left // min(len(partitions) - number, PARTS)
                task = TrialTask(case, topology, described[partition], ignored, most, wants_keys=has_orders)
                _try(task, tried)
                left -= task.taken
    return tried


def _try(task: TrialTask, tried: Tried) -> None:
    # An operator may not be able to restart, and a callable may fail.
    with suppress(ReplayError):
        if task.begin():
            restarts = None
            with suppress(ReplayError):
                restarts = find_restarts(task) if task.case.output.has_stream_time else None
            tried.restarts.extend([] if restarts is None else [restarts])
            if task.wants_keys and (restarts is None or not restarts.is_whole):
                find_order(task, () if restarts is None else restarts.places, tried.pairs)


def _is_read_already(case: Case) -> np.ndarray:
    """Rows of production that are later than all of ours, and no later than what the pipeline has read."""
    sub, is_read = case.output.sub_topology.id, np.zeros(len(case.theirs), np.bool_)
    for partition in np.unique(case.theirs.partition[case.theirs_cause == Cause.NOT_YET]).tolist():
        read_ms = case.done.task(TaskId(sub, partition)).tape_time_ms
        is_read |= (case.theirs.partition == partition) & (case.theirs.time <= read_ms)
    is_read &= case.theirs_cause == Cause.NOT_YET
    return is_read


_IN_DOUBT = (Cause.NOT_EXPLAINED, Cause.PROCESSED_TWICE, Cause.CRASH, Cause.INTERLEAVING)
"""What rows around a row say may be wrong: where a trial gives all rows of a partition, it was that."""
