"""The strategies by name."""

from collections.abc import Collection

from .high_availability import assign_high_availability
from .members import Assignment, Member, TaskId
from .settings import HIGH_AVAILABILITY, STICKY, PlacementSettings
from .sticky import assign_sticky

_STRATEGIES = {STICKY: assign_sticky, HIGH_AVAILABILITY: assign_high_availability}


def assign(
    members: Collection[Member],
    all_tasks: Collection[TaskId],
    stateful: Collection[TaskId],
    settings: PlacementSettings,
) -> Assignment:
    """Who runs which of ``all_tasks``, and who keeps standbys of the ``stateful`` ones or learns them.

    ``members``: at least one, with capacities of at least 1; each says its lag of every stateful task.
    """
    assert members, "an assignment needs a member"
    assert all(member.capacity >= 1 for member in members)
    return _STRATEGIES[settings.placement](members, all_tasks, stateful, settings)
