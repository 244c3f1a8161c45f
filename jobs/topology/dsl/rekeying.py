"""How the records of a stream are partitioned: equal keys in one partition, or not since the key changed.

Rule: what needs equal keys together comes after a repartition table if they are not (KStreamImpl.repartitionRequired).
"""

from typing import TYPE_CHECKING

from ...graph.graph import Node
from ...graph.repartition import repartitioned

if TYPE_CHECKING:
    from .kstream import KStream


def followed(stream: "KStream", node: Node, *, is_rekeyed: bool | None = None) -> "KStream":
    """The stream that ``node``, added here, forwards; ``is_rekeyed`` None: its records are where ``stream``'s are."""
    stream.graph.add(node)
    if is_rekeyed is not None:
        return type(stream)(stream.graph, node, is_rekeyed=is_rekeyed)
    return type(stream)(stream.graph, node, is_rekeyed=stream.is_rekeyed, is_scattered=stream.is_scattered)


def by_key(stream: "KStream", base: str, *, shows: bool = True, shared: Node | None = None) -> Node:
    """The stream with equal keys in one partition: after a repartition table if needed, named after ``base``.

    ``shows`` False: Kafka Streams would have none. ``shared``: one that is there already.
    """
    if not stream.is_rekeyed and not stream.is_scattered:
        return stream.node
    is_replay_only = not (shows and stream.is_rekeyed)
    return repartitioned(stream.graph, stream.node, base, is_replay_only=is_replay_only, shared=shared)


def by_key_for_join(stream: "KStream", base: str | None) -> Node:
    """As ``by_key``. A join without a name shares the repartition table of the join before (repartitionForJoin)."""
    shared = stream.repartition_for_joins if base is None else None
    stream.repartition_for_joins = by_key(stream, base or stream.name, shared=shared)
    return stream.repartition_for_joins
