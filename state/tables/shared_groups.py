"""Row groups that several tasks of one process read, each for its own partition: decoded once.

Owns what is held in memory meanwhile. Rule: whoever reads gets the same batches, held or not. A row group of somebody
else's table may have rows of all partitions; clustered by another column, each of them has. What was held first stays
until all tasks are done, since tasks read the same row groups in the same order and would drive each other's out.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import pyarrow as pa

HELD_BYTES = 512 << 20
"""Of a process, in memory."""


class _Held:
    def __init__(self) -> None:
        self.groups: dict[Hashable, list[pa.RecordBatch]] = {}
        self.bytes = 0


_held: _Held | None = None
"""None: this process has one task, or none."""


@contextmanager
def sharing_groups(tasks: int) -> Iterator[None]:
    """Within, so many tasks run one after the other."""
    global _held
    before, _held = _held, _Held() if tasks > 1 else None
    try:
        yield
    finally:
        _held = before


def batches_of(group: Hashable, decode: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Batches of a row group, which ``group`` names with all that decides how it is read."""
    held = _held
    if held is None:
        yield from decode()
    elif group in held.groups:
        yield from held.groups[group]
    else:
        taken, size = list[pa.RecordBatch](), 0
        for batch in decode():
            yield batch
            size += batch.nbytes
            if held.bytes + size <= HELD_BYTES:
                taken.append(batch)
            else:
                taken.clear()  # as it will be for all that follow, since sizes only grow
        if held.bytes + size <= HELD_BYTES:
            held.groups[group] = taken
            held.bytes += size
