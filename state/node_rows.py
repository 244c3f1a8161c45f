"""What a node got and forwarded when an increment was run a second time, as rows of tables.

Owns the shape, which the engine (``jobs``) fills in and the checks (``expectations``) judge. Rule: nothing is judged
here, and nothing of it was committed. ``offset`` numbers the records that a task took, from 0 on; what was there before
the increment has offsets below 0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

ROWS_MAX = 1 << 16
"""A second run takes so many records of an increment, if nobody says otherwise."""


@dataclass(frozen=True)
class Chosen:
    """Which tasks of an increment ran again. ``others``: how many of the node's did not, as they would have taken more
    records than the bound; ``seed``: by which they were chosen, 0 where all ran. ``records``: landed ones, that were
    read.
    """

    tasks: tuple[str, ...]
    others: int
    seed: int
    records: int


@dataclass(frozen=True)
class NodeRows:
    """``inputs``: partition, offset, timestamp and key (serialized) of what came, by input; ``earlier``: of what the
    node's store had before, likewise. ``forwarded``: as an output has it, with the offset of its cause in
    ``cause_offset``. ``dropped``: partition and offset of what the node refused. ``written``: by table, the rows that
    the run wrote to tables below the node; of tasks that did not run it says nothing. ``unseen``: why
    that is not all, or "".
    """

    inputs: tuple[pa.Table, ...]
    earlier: tuple[pa.Table, ...]
    forwarded: pa.Table
    dropped: pa.Table
    written: Mapping[str, pa.Table] = field(default_factory=dict)
    partitions: frozenset[int] = frozenset()
    """Of the tasks that ran."""
    chosen: Chosen = Chosen((), 0, 0, 0)
    unseen: str = ""
    several_of_one: bool = False
    """Several records of an input are of the same record that a task took, so their offsets are equal."""
    same_coordinates: bool = False
    """Operators see the same topic and offset on several records."""


RunAgain = Callable[[int, str], NodeRows | str]
"""Of an increment and a node: what it got and forwarded, or a sentence why it was not run again."""
