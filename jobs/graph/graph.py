"""The graph that the DSL builds: nodes in the order they were added, with Kafka's names; and what every node answers.

Rule: every node and store takes the next number, in the order in which Kafka's InternalStreamsBuilder would give it.
So ``describe`` prints what Kafka prints, and an unnamed store keeps its name while nothing before it changes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pyarrow as pa

from ...state.call_sites import CallSite, call_site
from ...state.errors import ReplayError, TopologyError
from ...state.promises import Promise, VersionsPromise, WindowedRows
from ...state.tables.names import TableName
from ..functions.exception_handlers import ExceptionHandlers
from ..functions.expressions import Call, Expression, Shape
from ..functions.timestamp_extractors import TimestampExtractor
from .kafka_processors import KafkaNode, kafka_processor
from .kafka_traits import KafkaTrait
from .late_records import TakesLateRecords
from .name_rules import check_name, check_node_name, check_table_name
from .observations import Observation, RunsAgain, Wait
from .reach import NO_REACH, UNBOUNDED_REACH, Reach
from .store_rows import StoreRowSchema, table_rows
from .touched_topics import TouchesTopics
from .windows import Windows
from .wording import Wording


@dataclass(frozen=True)
class StoreSpec:
    """A table's key-value store. ``history_retention_ms``: of a versioned store (KIP-889), None for a plain one."""

    name: str
    is_persistent: bool = True
    history_retention_ms: int | None = None

    @property
    def is_versioned(self) -> bool:
        return self.history_retention_ms is not None


@dataclass(frozen=True)
class LoopTopic:
    """A topic that is written below where it is read (jobs/topology/intermediate_topics.py). ``path``: from the topic
    through nodes and other topics back to it, for people.
    """

    topic: str
    path: str


OthersWrite = dict[str, Expression | Call | None]
"""For every topic that the topology writes and reads, and that other producers write as well: the predicate that is
true of the landed records of others; None: all landed records are of others.
"""


@dataclass
class TableTraits:
    """What the graph decides about a table, after Kafka's rules, while the DSL is used and when it is built.

    ``store``: None while the table is not materialized. ``sends_old``: its changes carry the value they replaced
    (KTable.enableSendingOldValues). ``is_versioned``: the graph rule of KIP-914.
    """

    store: StoreSpec | None = None
    sends_old: bool = False
    is_versioned: bool = False


_NO_TABLES: tuple[str, ...] = ()
_NO_STORE: str | None = None


_A_DAY_MS = 86_400_000
"""windowstore.changelog.additional.retention.ms, by default."""


def compacted(retention_ms: int | None, *, history_ms: int | None = None) -> dict[str, str]:
    """Settings of a changelog. ``retention_ms``: of a store that forgets by time; ``history_ms``: of a versioned one
    (WindowedChangelogTopicConfig, VersionedChangelogTopicConfig).
    """
    if history_ms is not None:
        return {"cleanup.policy": "compact", "min.compaction.lag.ms": str(history_ms + _A_DAY_MS)}
    if retention_ms is None:
        return {"cleanup.policy": "compact"}
    return {"cleanup.policy": "compact,delete", "retention.ms": str(retention_ms + _A_DAY_MS)}


@dataclass(frozen=True, eq=False, kw_only=True)
class Node(TakesLateRecords, TouchesTopics, RunsAgain):
    """What an operator is: how it is configured, and what it answers for itself. ``shape``: of the records that it
    forwards.

    A node reads the records of its ``inputs`` in the order in which Kafka Streams would forward them. Fields are
    configuration, and in the topology's fingerprint; all else is in the class, beside the operator's rule. What is
    said here holds for a node that keeps nothing, waits for nothing and changes no keys.
    """

    name: str
    inputs: tuple[str, ...]
    shape: Shape
    is_table: bool = False

    operator = ""
    """Its running operator's class, or a function that builds it: ".module:name", beside the node's own module. Empty
    for a node that hands on what it gets.
    """
    reads = _NO_TABLES
    """Tables that it looks into."""
    store = _NO_STORE
    """Name of the store that it keeps, be it a table or not."""
    shares = _NO_TABLES
    """Nodes whose stores it uses as its own."""
    puts_into = _NO_TABLES
    """Nodes into whose stores it may put, beside its own."""
    is_by_record = False
    """It uses what others put because of the same record, so the task runs record by record."""
    has_clock = False
    """It may ask for the wall clock, or schedule something by it."""
    takes_letters = False
    """It forwards the dead letters of its task, and none of the records above."""
    reads_failures_of = _NO_TABLES
    """Nodes that decide what it forwards, though they forward nothing to it."""

    @property
    def inner_stores(self) -> tuple[str, ...]:
        """Names of the stores whose rows its store keeps: those of a Python processor."""
        return ()

    def build(self, context: Any) -> Any:
        """Its running operator where ``context`` says (jobs/operators/base/operator.py has both), or None."""
        return self.found_at(self.operator)(node=self, context=context) if self.operator else None

    def found_at(self, path: str) -> Callable[..., Any]:
        """The class or function at ".module:name", imported when it is asked for: running things are heavy."""
        module, _, name = path.partition(":")
        imported: Callable[..., Any] = getattr(import_module(module, type(self).__module__.rpartition(".")[0]), name)
        return imported

    # --- in the graph ----------------------------------------------------------------------------------------

    is_source = False  # it begins a sub-topology: a task has a queue of its records
    is_global = False  # every task has all of it
    is_table_of_records = False  # a table whose rows are the records of its input, as they are

    @property
    def topic_of_records(self) -> str:
        """Of what a task's queue of it holds: a topic, or the node itself."""
        return self.name

    def check_beside(self, other: "Node") -> None:
        """Raises TopologyError when both cannot be in one graph."""

    def with_windows_in_keys(self, above: "Node") -> "Node | None":
        """A repartition table of windowed keys below ``above``, which puts windows into keys; None for all else."""
        return None

    def table(self, graph: "Graph") -> str | None:
        """The table that has its records or its state, as the ledger calls it: "state/x", "outputs/y"; or None."""
        return None if (store := graph.store_of(self)) is None else TableName.state(store)

    def store_rows(self, graph: "Graph") -> StoreRowSchema:
        """The columns of the rows in its store. Here the store of its table; it must have one."""
        spec = graph.tables[self.name].store
        assert spec is not None, f"{self.name} has no store"
        return table_rows(self.shape, spec.history_retention_ms)

    def changelogs(self, graph: "Graph") -> tuple[str, ...]:
        """Names of the stores that Kafka Streams keeps for its own, each of which has a changelog."""
        return () if (store := graph.store_of(self)) is None else (store,)

    def changelog_settings(self, graph: "Graph", store: str) -> Mapping[str, str]:
        """Settings that Kafka Streams gives the changelog of ``store``, one of ``changelogs``."""
        spec = graph.tables[self.name].store if self.name in graph.tables else None
        history_ms = None if spec is None else spec.history_retention_ms
        return compacted(None, history_ms=history_ms)

    def kafka_processors(self, graph: "Graph") -> Iterable[KafkaNode]:
        """What Kafka Streams makes of it, in the order in which it adds them."""
        return [kafka_processor(self.name, self.inputs, () if (store := graph.store_of(self)) is None else (store,))]

    def kafka_traits(self, graph: "Graph") -> Iterable[KafkaTrait]:
        """What it is, where versions of Kafka Streams differ."""
        spec = graph.tables[self.name].store if self.name in graph.tables else None
        if spec is not None:
            yield from (KafkaTrait.TASK_STATE, KafkaTrait.DSL_STORE)
            if spec.is_persistent:
                yield KafkaTrait.PERSISTENT_STORE
            if spec.is_versioned:
                yield KafkaTrait.VERSIONED_STORE

    def forwarding_processors(self, graph: "Graph") -> tuple[str, ...]:
        """Those of them that forward what it forwards."""
        return (self.name,)

    def stores_shown(self, graph: "Graph") -> tuple[str, ...]:
        """Stores that a look into its table ends in (KTableValueGetterSupplier.storeNames)."""
        if (store := graph.tables[self.name].store) is not None:
            return (store.name,)
        return tuple(dict.fromkeys(one for above in self.inputs for one in graph.nodes[above].stores_shown(graph)))

    @property
    def wants_null_keys(self) -> bool:
        """Records with null keys must come to it through repartition tables (rewriteRepartitionNodes)."""
        return False

    # --- as a table ------------------------------------------------------------------------------------------

    shows_inputs = False
    """Without a store, its table is computed from what the tables above show."""
    keeps_versions = False
    """Without a store, it shows the versions of the table above."""
    view = ""
    """Where its table's view is built, as ``operator``; empty for one that shows the rows of a store."""

    def can_send_old(self, graph: "Graph", *, force: bool) -> bool:
        """Whether its changes can carry what they replaced; the tables above are asked for what it needs of theirs."""
        return True

    # --- in a running task -----------------------------------------------------------------------------------

    is_step = False
    """It computes each record from that record alone, by a function or an expression of the user's."""
    forwards_at_once = False
    """What it forwards because of a record is of that record, and of no other."""
    forwards_one = forwards_at_most_one = forwards_unchanged = False
    """It makes one record of each, or at most one, at its time and key but for ``changes_keys``; or all as it is."""
    results_may_be_null = has_places_of_table = True  # a window without a value; causes name offsets of its table
    keeps_records = False
    """What comes to it has arrived, though nothing is below: a function of the user's took it."""
    changes_keys = False
    """Records may leave it with other keys than they came with."""
    holds_back = False
    """Changes wait in it, so that what they replaced is asked for on behalf of who is below."""
    reads_values_late = False
    """It asks for values once and in part, so that they need not be computed before."""
    puts_for_table = False
    """A versioned table that it alone looks into may be put by its own view."""
    metric_prefix = "records"
    """What its operator's counts are of."""

    def reach(self, graph: "Graph") -> Reach:
        """How far back records matter to it, beside what came to it from above."""
        looks = any(not graph.nodes[name].is_global for name in self.reads)
        return UNBOUNDED_REACH if looks or self.shares or graph.store_of(self) is not None else NO_REACH

    def wants_old(self, *, counts_bytes: bool) -> bool:
        """Of a node that holds back: whether it reads what a change replaced. ``counts_bytes``: as all buffers."""
        return False

    # --- when code changed -----------------------------------------------------------------------------------

    takes_back = False
    """A table's operator: what a change takes back is computed by it, not read from a store."""

    @property
    def key_step(self) -> Any:
        """The step that gives its records their keys, None when they keep those they had; itself for one that gives
        keys and values at once.
        """
        return None

    @property
    def time_step(self) -> TimestampExtractor | None:
        """What gives its records their times, None when they keep those they had."""
        return None

    @property
    def windowed_by(self) -> Windows | None:
        """Windows into which it puts records."""
        return None

    @property
    def windows_for_processors(self) -> Windows | None:
        """Windows of its store, into which a processor may look and put; None when none may."""
        return None

    @property
    def windows_of_rows(self) -> Windows | None:
        """Windows of its store's rows."""
        return self.windowed_by

    def store_settings(self, graph: "Graph") -> Mapping[str, Any]:
        """What decides the meaning of its store's rows beside its own numbers and texts: folds, steps, stores, by the
        name that a refusal calls it.
        """
        return {}

    # --- what it says ----------------------------------------------------------------------------------------

    def promises(self, graph: "Graph") -> Iterable[Promise]:
        """What must hold of the rows that it leaves in tables (state/promises.py), for checks to judge."""
        store, windows = graph.store_of(self), self.windows_of_rows
        if store is not None and windows is not None:
            yield WindowedRows(TableName.state(store), windows.grid, windows.wait_ms)
        spec = graph.tables[self.name].store if self.is_table else None
        if spec is not None and spec.is_versioned:
            yield VersionsPromise(TableName.state(spec.name))

    def waits_until(self, rows: pa.Table) -> pa.Array | None:
        """The stream time that lets each row of its store go, null for rows that do not wait; None when none ever
        does.
        """
        return None

    def waits(self, seen: Observation) -> list[Wait]:
        """What of the rows that came in waits here afterwards."""
        return []

    def is_held(self, entry: Mapping[str, Any]) -> bool:
        """Whether a row of its store that waits will continue."""
        return True

    @property
    def identity(self) -> Expression | Call | None:
        """The step that gives what names a row of its store beside the key, None when it has none."""
        return None

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        """What it did, a sentence a fact. Refusals are reported before."""
        return say.store_and_forwarded(seen, self.shape.window)

    def wait(self, key: Any, until_ms: int, **names: Any) -> Wait:
        """Something under ``key`` that waits here."""
        (code,) = self.shape.key.encode(self.shape.key.from_python([key])).to_pylist()
        return Wait(self.name, repr(key), code, until_ms, **names)


class Graph:
    """Nodes by name; grows while the DSL is used, read-only afterwards. ``semantics``: "kafka" or "kip".
    ``names_are_free``: its nodes have names of the Processor API, which are any text.
    """

    def __init__(self, semantics: str = "kafka", *, names_are_free: bool = False) -> None:
        self.semantics = semantics
        self.check_name = check_node_name if names_are_free else check_name
        self.nodes: dict[str, Node] = {}
        self.tables: dict[str, TableTraits] = {}
        """Of the nodes that are tables; changed by Kafka's rules until the topology is built."""
        self.on_demand: dict[str, StoreSpec] = {}
        """Stores of source tables, should something below need them (jobs/graph/table_traits.py)."""
        self.parts: dict[str, tuple[str, ...]] = {}
        """Names of the processors that a node of ours is made of in Kafka (jobs/graph/kafka_processors.py)."""
        self.dead_lettering: set[str] = set()
        """Steps that make dead letters of records on which they fail; it decides nothing about rows that there are."""
        self.handlers = ExceptionHandlers()
        self.dead_letter_topic: str | None = None
        """What the application continues without is written there (jobs/topology/dead_letter_topic.py)."""
        self.default_store = "persistent"
        """Kind of the DSL's stores where nothing says another: "persistent" or "in_memory"."""
        """Of the application; they decide nothing about rows that there are, either."""
        self.copartitioned: list[frozenset[str]] = []
        """Sources that must have as many partitions as one another (jobs/graph/copartitioning.py)."""
        self.awaited_stores: dict[str, list[str]] = {}
        """Names of stores that nobody had when a processor named them, by the processor."""
        self.ranks: dict[str, int] = {}
        """The position at which each node was added, if they run in another order (intermediate topics)."""
        self._called_in: dict[str, CallSite] = {}
        """File and line of the user's call by the place that errors name; not pickled (state/call_sites.py)."""
        self.others_write: OthersWrite = {}
        self.others_named: list[tuple[str, ...]] = []
        """Topics of each source of which this was said."""
        self.loops: dict[str, LoopTopic] = {}
        """By name of the node at which records leave for the topic. It is below all that reads the topic, and begins
        no sub-topology.
        """
        self.state_stores: dict[str, Any] = {}
        """Stores that were added beside processors, by name: the first processor that names one keeps its rows."""
        self.internal_topics: tuple[str, ...] = ()
        """Topics that Kafka Streams makes itself, with the application's id, where that is known."""
        self._number = 0

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_called_in": {}}

    def __copy__(self) -> "Graph":
        """Of one process, so it knows the calls; it has dictionaries and lists in common with this one."""
        (made := Graph(self.semantics)).__dict__.update(self.__dict__)
        return made

    def note_call(self, place: str) -> None:
        """What errors call ``place`` comes of the user's call that runs now."""
        if (site := call_site()) is not None:
            self._called_in.setdefault(place, site)

    def called_in(self, place: str) -> CallSite | None:
        """The user's call of which ``place`` comes, as far as this process made it."""
        return self._called_in.get(place)

    @contextmanager
    def naming_calls(self) -> Iterator[None]:
        """An error within of a place that the user's code made says in which file and line."""
        try:
            yield
        except ReplayError as error:
            if (site := self._called_in.get(error.place)) is not None:
                error.say(f"it is called in {site}")
            raise

    def next_name(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number - 1:010d}"

    def name(self, given: str | None, prefix: str, suffix: str = "") -> str:
        """``given`` and the suffix, or else the next name; a number is taken in both cases (NamedInternal).

        Raises TopologyError for a name that Kafka refuses.
        """
        generated = self.next_name(prefix)
        return generated if given is None else check_name(given) + suffix

    def add(self, node: Node) -> Node:
        """Raises TopologyError for a name, a source topic or an output that is taken already."""
        self.check_name(node.name)
        if node.name in self.nodes:
            raise TopologyError("topology", "names that differ", f"{node.name!r} twice", "rename one of them")
        for other in self.nodes.values():
            node.check_beside(other)
        self.nodes[node.name] = node
        self.note_call(node.name)
        if node.is_table:
            self.tables.setdefault(node.name, TableTraits())
        self.check_stores()
        return node

    def store_of(self, node: Node) -> str | None:
        """Name of the table that keeps the node's state, or None."""
        traits = self.tables.get(node.name)
        spec = None if traits is None else traits.store
        return spec.name if node.store is None and spec is not None else node.store

    def check_stores(self) -> None:
        """Raises TopologyError when two operators share a store's name, or one has a name that is reserved."""
        taken: dict[str, Node] = {}
        for node in self.nodes.values():
            store = self.store_of(node)
            if store in self.state_stores:
                got = "two, one of which add_state_store() adds"
                raise TopologyError(f"store {store!r}", "one operator", got, "give them different names")
            for name in (*([] if store is None else [check_table_name("store", store)]), *node.inner_stores):
                if taken.setdefault(name, node) is not node:
                    raise TopologyError(f"store {name!r}", "one operator", "two", "give them different names")

    def children(self, name: str) -> list[Node]:
        """Nodes whose input is ``name``, in the order they were added; twice one that has it as two inputs."""
        return [node for node in self.nodes.values() for above in node.inputs if above == name]

    def reaches_clock(self, name: str) -> bool:
        """Whether a node below ``name``, in whatever sub-topology, may ask for the wall clock. The reader of a loop's
        topic is below those who write it.
        """
        seen, waiting = {name}, [name]
        while waiting:
            one = waiting.pop()
            read = [self.nodes[one.rpartition(":")[0]]] if one in self.loops else []
            below = [child for child in (*self.children(one), *read) if child.name not in seen]
            if any(child.has_clock for child in below):
                return True
            seen |= {child.name for child in below}
            waiting += [child.name for child in below]
        return False

    def parent(self, node: Node) -> Node:
        return self.nodes[node.inputs[0]]

    def above(self, node: Node) -> Iterator[Node]:
        """``node``'s ancestors, nearest first."""
        while node.inputs:
            node = self.parent(node)
            yield node

    def groups(self) -> list[list[Node]]:
        """Connected nodes, cut where a repartition begins; in order of the first of them that was added."""
        left_out = {node.name for node in self.nodes.values() if node.is_global} | {*self.loops}
        nodes = [(number, node) for number, node in enumerate(self.nodes.values()) if node.name not in left_out]
        group_of = {node.name: self.ranks.get(node.name, number) for number, node in nodes}
        for _, node in nodes:
            above = () if node.is_source else node.inputs
            for name in (*above, *node.reads, *node.shares):
                if name not in group_of:  # a global one, which every task has all of
                    continue
                joined, into = group_of[name], group_of[node.name]
                low, high = min(joined, into), max(joined, into)
                group_of |= {other: low for other, group in group_of.items() if group == high}
        groups: dict[int, list[Node]] = {}
        for name, group in group_of.items():
            groups.setdefault(group, []).append(self.nodes[name])
        return [groups[group] for group in sorted(groups)]
