"""How a pipeline is replayed: one value, from the caller to who needs a part of it."""

from collections.abc import Callable
from dataclasses import dataclass

from ..code_changes.state_migration import MigrationOptions
from ..execution.kept_range import KeptRange
from .landed_times import LandedTimes
from .progress import OnProgress

OnStep = Callable[[str], None]
"""Called at every step, "planned 3", "computed 3", "committed outputs/x 3", "done 3"; it may raise, to stop there."""


def _no_step(step: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True, kw_only=True)
class ReplaySettings:
    """As the parameters of ``replay``. ``kept``: of a backfill, which rows stay; None where it is none."""

    max_records: int | None = None
    idle: str = "wait"
    order: str = "time"
    flush_at_end: bool = False
    until_ms: int | None = None
    times: LandedTimes | None = None
    wanted: MigrationOptions | None = None
    run: str | None = None
    on_step: OnStep = _no_step
    progress: OnProgress | None = None
    kept: KeptRange | None = None
    kafka_version: str | None = None
