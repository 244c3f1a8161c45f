"""What kernels of aggregates refused, as the drops that are booked."""

import numpy as np

from ....state.records.batches import Batch, Drops
from ....state.records.drop_reasons import DropReason
from ...kernels.aggregate_buffers import CLOSED, NULL, UNSTORED, Refusals

_REASONS = {CLOSED: DropReason.EXPIRED_WINDOW, UNSTORED: DropReason.EXPIRED_IN_STORE}


def drops_of(batch: Batch, refusals: Refusals) -> list[Drops]:
    """One ``Drops`` a reason. What the store alone refuses is forwarded all the same: no refusal of the record."""
    row, kind, start, end, stream_time, limit, is_record = refusals
    if len(row) == 0:
        return []
    drops = null_drops(batch, row[kind == NULL])
    for wanted, reason in _REASONS.items():
        of_kind = kind == wanted
        if of_kind.any():
            columns = (is_record, stream_time, limit, start, end)
            drops.append(Drops(reason, row[of_kind], *(column[of_kind] for column in columns)))
    return drops


def null_drops(batch: Batch, rows: np.ndarray) -> list[Drops]:
    """Whole refusals of ``rows``: the reason is the null key, if it is null, else the null value."""
    has_key = batch.key[rows] >= 0
    return [
        Drops(reason, chosen, np.ones(len(chosen), np.bool_))
        for reason, chosen in ((DropReason.NULL_KEY, rows[~has_key]), (DropReason.NULL_VALUE, rows[has_key]))
        if len(chosen)
    ]
