"""Which tables have a store, send old values and are versioned: Kafka's rules (KTableImpl, KIP-914).

Rule: a source table gets its store when something looks into it or needs the values that its changes replaced. An
aggregate always has one. A filter or map_values has one only when it was asked for; else it applies its steps to the
table above it.
"""

from ...state.errors import ConfigError, TopologyError
from .graph import Graph, Node, StoreSpec


def add_table(
    graph: Graph,
    node: Node,
    *,
    store: StoreSpec | None = None,
    on_demand: StoreSpec | None = None,
    is_versioned: bool | None = None,
) -> Node:
    """Add ``node`` with its traits. ``on_demand``: the store that it gets only if something needs it.

    ``is_versioned`` None: when all tables above are (InternalStreamsBuilder.isVersionedUpstream).
    """
    graph.add(node)
    traits = graph.tables[node.name]
    traits.store = store
    if on_demand is not None:
        graph.on_demand[node.name] = on_demand
    if is_versioned is None:
        is_versioned = all(graph.tables[name].is_versioned for name in node.inputs)
    traits.is_versioned = is_versioned
    # ``Graph.add`` checked before the node had this store.
    graph.check_stores()
    return node


def look_into(graph: Graph, name: str) -> None:
    """Something reads the table row by row: what it shows must be in a store (KTableImpl.valueGetterSupplier)."""
    traits, node = graph.tables[name], graph.nodes[name]
    if traits.store is not None:
        return
    if name in graph.on_demand:
        traits.store = graph.on_demand[name]
        graph.check_stores()
    elif node.shows_inputs:
        for above in node.inputs:
            look_into(graph, above)


def send_old(graph: Graph, name: str, *, force: bool) -> bool:
    """Changes of the table shall carry what they replaced; false when that would need a store and ``force`` is false
    (KTableImpl.enableSendingOldValues).
    """
    traits = graph.tables[name]
    if traits.sends_old:
        return True
    if traits.store is None and name in graph.on_demand:
        if not force:
            return False
        look_into(graph, name)
        traits.sends_old = True
    else:
        traits.sends_old = graph.nodes[name].can_send_old(graph, force=force)
    return traits.sends_old


def history_shown(graph: Graph, name: str) -> int | None:
    """History retention of the versioned store that a look into the table ends in; None when there is none."""
    node, store = graph.nodes[name], graph.tables[name].store
    while store is None and node.keeps_versions:
        node = graph.parent(node)
        store = graph.tables[node.name].store
    return None if store is None or not graph.tables[name].is_versioned else store.history_retention_ms


def check_complete(graph: Graph, names: tuple[str, ...], store: StoreSpec | None, place: str) -> None:
    """A join with a complete history needs that of both tables, and is a versioned table itself (KIP-914).

    Raises TopologyError for a table, or for a store of the result, that is not versioned.
    """
    plain = next((name for name in names if history_shown(graph, name) is None), None)
    if plain is not None:
        next_step = "give it Materialized.versioned(), or leave out history"
        raise TopologyError(
            place, "two versioned tables to join with a complete history", f"{plain}, which is not", next_step
        )
    if store is not None and not store.is_versioned:
        expected, got = "a versioned store for the result of a complete history", f"{store.name!r}, which is not"
        raise TopologyError(place, expected, got, "use Materialized.versioned()")


def check_history(graph: Graph, name: str, grace_ms: int, place: str) -> None:
    """A stream that waits for ``grace_ms`` joins the table as of the record's time, so it must keep that much history.

    Raises ConfigError (Kafka: IllegalArgumentException) for a table that is not versioned, or not for that long.
    """
    history_ms = history_shown(graph, name)
    if history_ms is None:
        next_step = "give it Materialized.versioned()"
        raise ConfigError(place, "a versioned table to join with a grace", f"{name}, which is not", next_step)
    if grace_ms > history_ms:
        expected, got = f"a history retention of at least the grace, {grace_ms} ms", f"{history_ms} ms"
        raise ConfigError(place, expected, got, "keep more history or wait less")
