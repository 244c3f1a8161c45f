"""What a node answers about topics: which it reads and writes. What is said here holds for a node that touches none."""

import re
from collections.abc import Collection
from typing import Any


class TouchesTopics:
    """A part of Node (jobs/graph/graph.py)."""

    @property
    def landed_topic(self) -> str | None:
        """The landed topic that it reads."""
        return None

    @property
    def partitioning(self) -> tuple[Any, int | None] | None:
        """Partitioner and number of the partitions to which its records go in the topic that it writes; None: they stay
        in the partition of the task which writes them.
        """
        return None

    @property
    def written_topic(self) -> str | None:
        """The topic of the user's that it writes."""
        return None

    @property
    def topic_pattern(self) -> re.Pattern[str] | None:
        """It is a source of all topics whose whole names match."""
        return None

    def reading(self, topics: Collection[str] | None) -> tuple[Any, ...]:
        """The nodes that replace it where these topics have landed; None: one topic represents all that match."""
        return (self,)
