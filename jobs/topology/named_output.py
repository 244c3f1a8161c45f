"""An output of a topology by its name, for what reads its rows beside a run: comparisons and publications.

Owns what is known of it before a row is read: its sink, its table, its serdes and the sub-topology that writes it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from ...state.errors import ConfigError
from ...state.serdes import Serde
from ...state.serdes.windowed_codec import WindowedCodec
from ...state.tables.names import TableName
from ..graph.nodes import SinkNode
from .topology import SubTopology, Topology


@dataclass(frozen=True)
class NamedOutput:
    """The output ``name`` of ``topology``. Raises ConfigError where the topology has none of that name, or where its
    records choose their topics; ``verb``: what could be done with another one.
    """

    topology: Topology
    name: str
    verb: ClassVar[str] = "name"

    def __post_init__(self) -> None:
        names = {sink.topic: sink for sink in self.topology.sinks()}
        if self.name not in names:
            expected = f"one of {', '.join(names) or 'no outputs'}"
            raise ConfigError("output", expected, repr(self.name), "name an output of the topology")
        if names[self.name].has_topics:
            expected, got = "an output with one topic", "one whose records name their topics"
            raise ConfigError(f"output {self.name!r}", expected, got, f"{self.verb} another output")

    @cached_property
    def sink(self) -> SinkNode:
        return next(sink for sink in self.topology.sinks() if sink.topic == self.name)

    @property
    def table(self) -> TableName:
        """Its table, as the ledger calls it."""
        return TableName.output(self.name)

    @cached_property
    def sub_topology(self) -> SubTopology:
        """That whose tasks write it."""
        return next(sub for sub in self.topology.sub_topologies if self.sink in sub.sinks)

    @property
    def windows(self) -> str | None:
        """None, "time", "sliding" or "session": which windows keys have behind them."""
        return self.sink.shape.window

    @property
    def has_ends(self) -> bool:
        """Whether the end of a window is in a key's bytes: of sessions alone."""
        return self.windows == "session"

    @cached_property
    def key_serde(self) -> Serde:
        """Of the topic's keys, with the window behind them. Without ends in the bytes the size given here means
        nothing.
        """
        inner = self.sink.shape.key
        return inner if self.windows is None else self.windowed(inner)

    def windowed(self, inner: Serde) -> Serde:
        """Of keys of ``inner`` with this output's windows behind them."""
        return Serde(WindowedCodec(inner, None if self.has_ends else 1))
