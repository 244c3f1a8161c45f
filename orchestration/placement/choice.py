"""Which way of placing tasks somebody has chosen.

Rule: who chose none imports nothing of placement.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...state.errors import ConfigError

if TYPE_CHECKING:
    from ...jobs.placement.settings import PlacementSettings

PLACEMENT_VARIABLE = "REPLAY_PLACEMENT"
"""Environment variable; each other setting has one of its name, such as REPLAY_NUM_STANDBY_REPLICAS."""


def placement_of(
    placement: str | None = None,
    num_standby_replicas: int | None = None,
    max_warmup_replicas: int | None = None,
    acceptable_recovery_lag_bytes: int | None = None,
    rack_aware_assignment_tags: Sequence[str] | None = None,
    rack_aware_assignment_strategy: str | None = None,
    kafka_version: str | None = None,
) -> "PlacementSettings | None":
    """Where tasks of a cluster run: as given, else as the environment says, else None. ``kafka_version``: by whose
    assignor. Raises ConfigError.
    """
    given = {
        "placement": placement,
        "num_standby_replicas": num_standby_replicas,
        "max_warmup_replicas": max_warmup_replicas,
        "acceptable_recovery_lag_bytes": acceptable_recovery_lag_bytes,
        "rack_aware_assignment_tags": rack_aware_assignment_tags,
        "rack_aware_assignment_strategy": rack_aware_assignment_strategy,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    if (placement or os.environ.get(PLACEMENT_VARIABLE) or "spark") == "spark":
        if idle := sorted(chosen.keys() - {"placement"}):
            raise ConfigError(
                "placement", f"sticky or high_availability beside {', '.join(idle)}", "spark",
                "choose a placement, or leave them out",
            )  # fmt: skip
        return None
    from ...jobs.placement.settings import settings_of

    return settings_of(chosen if kafka_version is None else chosen | {"kafka_version": kafka_version}, os.environ)
