"""The grace period of a node's windows: whether it has one, and the same node with another one.

The answers here are those of a node without windows. Nodes whose windows have a grace period override them.
"""

from typing import TYPE_CHECKING, Any

from ...state.errors import TopologyError

if TYPE_CHECKING:
    from .graph import Graph, Node


class TakesLateRecords:
    """The part of a Node that another grace would change."""

    name: str

    nulls_move_time = False
    """Records without a key, or without a value, move its stream time, though it refuses them."""

    @property
    def given_grace_ms(self) -> int | None:
        """The grace of its windows; None without, or when there can be none."""
        return None

    @property
    def waits_for_close(self) -> bool:
        """Some of its results leave when a window closes, and no sooner."""
        return False

    def with_grace(self, grace_ms: int) -> "Node":
        """Itself with another grace and what follows from it. TopologyError when it has none."""
        raise TopologyError(self.name, "windows with a grace", "none", "name a node that has them")

    def below_windows(self, graph: "Graph") -> Any:
        """Itself as it is below the windows that ``graph`` has above it now."""
        return self
