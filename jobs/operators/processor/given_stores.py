"""Whose stores a processor uses: its own, one that another processor keeps, one that was added, or that of a table.

Rule (InternalTopologyBuilder): one name is one store, and who uses it is in one sub-topology. The first processor
that uses a store which a KeyValues describes keeps its rows; whoever names it after that shares it. A name alone waits
for its store: the order of the calls does not matter, and ``build`` refuses a name that nobody has.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from ....state.errors import TopologyError
from ....state.near_names import did_you_mean
from ...functions.expressions import Shape
from ...functions.parameters import check_supplier
from ...functions.processor_api import KeyValues
from ...functions.state_stores import TIMESTAMPED, store_instead_of
from ...graph.graph import Graph, Node
from ...graph.name_rules import check_name
from ...graph.nodes import GlobalTableNode
from ..tables.table_nodes import TableNode
from .process_node import GlobalStoreNode, ProcessNode


@dataclass
class GivenStores:
    """The stores of a processor, as ProcessNode takes them: ``stores`` are its own. The others are by name, with the
    node that keeps each: ``shared`` with another processor, of ``tables``, and ``replicas`` of global stores.
    """

    stores: tuple[KeyValues, ...] = ()
    shared: dict[str, str] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    replicas: dict[str, str] = field(default_factory=dict)


def given_stores(graph: Graph, stores: Any, place: str) -> GivenStores:
    """``stores`` as ``KStream.process`` takes them. Those that nobody has yet are awaited by ``place``, the processor.

    Raises TopologyError for anything but a list of stores of different names, for a store of other types than the one
    of that name, and for one that no processor can use.
    """
    given = GivenStores()
    for store in _listed(stores, place):
        name = store if isinstance(store, str) else store.name
        owner = _owner(graph, name)
        if owner is None:
            kept = _added(graph, store, f"{place} store {name!r}") or store
            if isinstance(kept, str):
                graph.awaited_stores.setdefault(place, []).append(name)
            else:
                given.stores = (*given.stores, kept)
        elif isinstance(owner, ProcessNode) and name in owner.inner_stores:
            _check_same(graph, store, owner, f"{place} store {name!r}")
            given.shared[name] = owner.name
        else:
            _check_table(graph, store, owner, f"{place} store {name!r}")
            (given.replicas if isinstance(owner, GlobalStoreNode) else given.tables)[name] = owner.name
    return given


def find_awaited_stores(graph: Graph) -> None:
    """Give every processor the stores that it named before they were there. Raises TopologyError for a name that
    nobody has, as Kafka's TopologyException "StateStore … is not added yet".
    """
    awaited, graph.awaited_stores = graph.awaited_stores, {}
    for name, stores in awaited.items():
        node: Any = graph.nodes[name]
        given = given_stores(graph, stores, name)
        if name in graph.awaited_stores:
            unknown, graph.awaited_stores = graph.awaited_stores[name][0], awaited
            raise _unknown(graph, node, unknown)
        graph.nodes[name] = replace(
            node,
            stores=(*node.stores, *given.stores),
            shared={**node.shared, **given.shared},
            tables={**node.tables, **given.tables},
            replicas={**node.replicas, **given.replicas},
        )


def _unknown(graph: Graph, node: Node, name: str) -> TopologyError:
    shape = graph.parent(node).shape
    known = [*graph.state_stores, *(store for one in graph.nodes.values() for store in one.inner_stores)]
    others = [one for one in graph.nodes.values() if not one.inner_stores and one is not node]
    known += [store for one in others if (store := graph.store_of(one))]
    place, expected = f"{node.name} store {name!r}", "a store that is added"
    for table in graph.nodes.values():
        if isinstance(table, TableNode | GlobalTableNode) and name in _topics_of(graph, table):
            store = graph.store_of(table)
            next_step = f"name its store, {store!r}" if store else f"name one: materialized=Materialized.as_({name!r})"
            return TopologyError(place, expected, f"the topic of the table {table.name}", next_step)
    near = did_you_mean(name, known, "")
    next_step = f"{near} For a store of its own " if near else ""
    next_step += f"write KeyValues({name!r}, {shape.key}, {shape.value})"
    return TopologyError(place, expected, f"StateStore {name} is not added yet", next_step)


def _topics_of(graph: Graph, table: Node) -> list[str | None]:
    return [graph.nodes[one].landed_topic for one in (table.name, *table.inputs)]


def add_store(graph: Graph, store: KeyValues) -> None:
    """Beside processors, which name it. Raises TopologyError for a name that a store has, of other types than its."""
    place = f"store {check_name(store.name)!r}"
    owner = _owner(graph, store.name)
    if owner is not None:
        got = f"a state store with the name {store.name} that is already added, by {owner.name}"
        raise TopologyError(place, "stores of different names", got, "add it before, or rename one of them")
    _added(graph, store, place)
    graph.state_stores[store.name] = store


def add_global_store(
    graph: Graph,
    store: KeyValues,
    supplier: Callable[[], Any],
    *,
    topic: str,
    shape: Shape,
    names: tuple[str, str],
) -> None:
    """A global store, which ``supplier``'s processor keeps from ``topic``. ``names``: of source and processor.

    Raises TopologyError for a name that is taken and for anything but a key-value store
    (InternalTopologyBuilder.validateGlobalStoreArguments).
    """
    source, name = names
    place = f"global store {getattr(store, 'name', store)!r}"
    if not isinstance(store, KeyValues) or store.settings.get("kind", TIMESTAMPED) != TIMESTAMPED:
        next_step = "use KeyValues(name, key serde, value serde) or Stores.timestamped_key_value_store_builder"
        raise TopologyError(place, "a key-value store, plain or timestamped", repr(store), next_step)
    check_supplier(supplier, name, "init", "process")
    owner = _owner(graph, store.name)
    if owner is not None or store.name in graph.state_stores:
        by = "add_state_store()" if owner is None else owner.name
        got = f"a state store with the name {store.name} that is already added, by {by}"
        raise TopologyError(place, "stores of different names", got, "rename one of them")
    if source == name:
        raise TopologyError(place, "a source and a processor of different names", repr(name), "rename one of them")
    node = GlobalStoreNode(
        name=name, inputs=(), shape=shape, topic=topic, store=store.name, supplier=supplier, stores=(store,)
    )
    graph.parts[name] = (source,)
    graph.add(node)


def read_global_store(graph: Graph, node: ProcessNode, store: str, owner: Node) -> None:
    """``node`` reads the global store ``store`` of ``owner``, beside the stores that it has."""
    names = list(graph.nodes)
    if names.index(owner.name) > names.index(node.name):
        got, next_step = f"{owner.name}, which was added after it", "add the global store first"
        raise TopologyError(f"processor {node.name!r}", "a global store that is there before it", got, next_step)
    graph.nodes[node.name] = replace(node, replicas={**node.replicas, store: owner.name})


def share(graph: Graph, node: ProcessNode, store: KeyValues) -> None:
    """``node`` uses ``store`` beside those that do already; the first of them in the graph keeps its rows."""
    users: list[Any] = [
        other
        for other in graph.nodes.values()
        if other is node or store.name in (*other.inner_stores, *getattr(other, "shared", ()))
    ]
    for other in users:
        rest = tuple(one for one in other.stores if one != store)
        shared = {name: owner for name, owner in other.shared.items() if name != store.name}
        if other is users[0]:
            stores = other.stores if store in other.stores else (*rest, store)
            graph.nodes[other.name] = replace(other, stores=stores, shared=shared)
        else:
            graph.nodes[other.name] = replace(other, stores=rest, shared=shared | {store.name: users[0].name})


def _owner(graph: Graph, name: str) -> Node | None:
    """The node that keeps the store ``name``."""
    nodes = graph.nodes.values()
    return next((node for node in nodes if graph.store_of(node) == name or name in node.inner_stores), None)


def _added(graph: Graph, store: KeyValues | str, place: str) -> KeyValues | None:
    """What ``add_state_store`` added under the name of ``store``."""
    name = store if isinstance(store, str) else store.name
    added: KeyValues | None = graph.state_stores.get(name)
    if added is not None and not isinstance(store, str) and store != added:
        got = f"a state store with the name {name} that is already added, with other types"
        raise TopologyError(place, "stores of different names", got, "name it alone, or rename one of them")
    return added


def _check_same(graph: Graph, store: KeyValues | str, owner: ProcessNode, place: str) -> None:
    if not isinstance(store, str) and store not in owner.stores:
        got = f"a state store with the name {store.name} that is already added, with other types, by {owner.name}"
        raise TopologyError(place, "stores of different names", got, "rename one of them")


def _check_table(graph: Graph, store: KeyValues | str, owner: Node, place: str) -> None:
    """A processor looks into the key-value store of a table, or into a global store, and names it."""
    traits, is_global_store = graph.tables.get(owner.name), isinstance(owner, GlobalStoreNode)
    if not is_global_store and (traits is None or traits.store is None):
        next_step = "give the processor a store of another name"
        raise TopologyError(place, "a store of a table or of a processor", f"that of {owner.name}", next_step)
    if not isinstance(store, str):
        said_by = "add_global_store()" if is_global_store else "the table"
        next_step = f"write {store.name!r} alone: {said_by} says what is in its store"
        raise TopologyError(place, f"the name of the store of {owner.name}", repr(store), next_step)
    if (
        traits is not None
        and traits.store is not None
        and (traits.store.is_versioned or (owner.shape.window is not None and owner.windows_for_processors is None))
    ):
        kind = "a versioned store" if traits.store.is_versioned else "a store of other windows"
        next_step = "join the table, or keep what the processor needs in a store of its own (table.to_stream().process)"
        expected = "a key-value store of a table, or that of TimeWindows or SessionWindows emitted on update"
        raise TopologyError(place, expected, f"{kind}, that of {owner.name}", next_step)


def _listed(stores: Any, place: str) -> tuple[KeyValues | str, ...]:
    if isinstance(stores, str | KeyValues):
        raise TopologyError(place, "stores= to be a list of stores", repr(stores), f"write stores=[{stores!r}]")
    if not isinstance(stores, Iterable):
        raise TopologyError(place, "stores= to be a list of stores", repr(stores), "write for example stores=['seen']")
    by_name: dict[str, KeyValues | str] = {}
    for store in stores:
        if not isinstance(store, str | KeyValues):
            expected, next_step = "a KeyValues or the name of a store", store_instead_of(store)
            raise TopologyError(place, expected, repr(store), next_step)
        name = check_name(store if isinstance(store, str) else store.name)
        if name in by_name:
            raise TopologyError(place, "stores of different names", f"{name!r} twice", "rename one of them")
        by_name[name] = store
    return tuple(by_name.values())
