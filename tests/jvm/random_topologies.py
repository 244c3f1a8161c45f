"""Random topologies over every operator of the scenario language.

Rule: ugly on purpose, but of the language: a topology that Kafka Streams refuses must be refused for the same reason.
"""

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tests.jvm import random_functions as choose
from tests.jvm import random_processors as processors

INTERNAL = ("group_by", "select_key", "fk_join", "process")
"""Operators whose records may come from an internal topic."""
REPARTITIONING = (*INTERNAL, "to", "to_one_of", "deduplicate")
"""Operators that may end a sub-topology, or make those below them do so."""
SEVERAL = ("stream_stream_join", "process", "process_values")
"""Operators that may give several results of one record."""

Node = dict[str, Any]


@dataclass(frozen=True)
class Made:
    """A stream or table of the growing topology. ``window``: kind of its windowed keys, None for plain ones.

    ``history_ms``: history retention of a versioned table, None for what is not versioned.
    """

    id: str
    is_table: bool
    window: str | None = None
    history_ms: int | None = None


def topics_of(node: Node) -> list[str]:
    """That a node reads or writes."""
    return [topic for name in ("topic", "topics") if name in node for topic in node[name].split("+")]


@dataclass
class Growth:
    """A topology that grows by one operator at a time.

    ``is_over``: it grows no more, since Kafka Streams refuses it, for one reason, or a record may end the run. What a
    record did before it failed is compared, so such a topology has no branches, in which one would have run and another
    not, and one suppress at most.
    """

    dice: Random
    scale: int
    nodes: list[Node] = field(default_factory=list)
    made: list[Made] = field(default_factory=list)
    topics: dict[str, str] = field(default_factory=dict)
    extractors: dict[str, dict[str, str]] = field(default_factory=dict)
    is_over: bool = False
    is_shared: bool = False
    """Several nodes use one store. This project refuses that where their sub-topology reads what it wrote itself."""

    @property
    def is_alone(self) -> bool:
        """No store is shared."""
        return not self.is_shared

    @property
    def may_repartition(self) -> bool:
        """Whether a sub-topology may read what it wrote itself once a store joins its parts."""
        return any(node["op"] in REPARTITIONING for node in self.nodes)

    @property
    def is_path(self) -> bool:
        """Nothing is read twice."""
        read = [name for node in self.nodes for name in node.get("inputs", ())]
        topics = [topic for node in self.nodes for topic in topics_of(node)]
        return len(set(read)) == len(read) and len(set(topics)) == len(topics)

    @property
    def can_fail(self) -> bool:
        """Whether a step may end the run. A record that fails halfway has done in Kafka what came before in it, and
        here all that the nodes above do with it, so no node above gives several results of one record.
        """
        several = any(node["op"] in SEVERAL or node.get("type") in ("hopping", "sliding") for node in self.nodes)
        return self.is_path and not self._suppresses and not several

    @property
    def _suppresses(self) -> bool:
        return any(node["op"] == "suppress" for node in self.nodes)

    @property
    def has_offsets(self) -> bool:
        """Only a deduplicate looks at them; the size of a suppress buffer depends on a record's topic, so not both."""
        return any(node["op"].startswith("deduplicate") for node in self.nodes) and not self._suppresses

    def output(self) -> str:
        """Mostly the last one."""
        is_last = self.is_over or self.dice.random() < 0.9
        return self.made[-1].id if is_last else self.dice.choice(self.made).id

    def grow(self) -> None:
        self._source()
        if self.dice.random() < 0.05:
            self.add("global_table", topic="global", **self._store())
        if self.dice.random() < 0.08:
            processors.global_store(self)
        for _ in range(self.dice.choice([0, 1, 1, 2, 2, 3, 4, 6])):
            if self.is_over:
                break
            self._step(self.dice.choice(self.made) if self.dice.random() < 0.15 else self.made[-1])

    def add(self, op: str, *inputs: Made | str, **parameters: Any) -> str:
        names = [made.id if isinstance(made, Made) else made for made in inputs]
        node = {"id": f"n{len(self.nodes)}", "op": op} | ({"inputs": names} if names else {}) | parameters
        self.nodes.append(node)
        return str(node["id"])

    def _make(self, made: Made) -> Made:
        self.made.append(made)
        return made

    def stream(self, op: str, *inputs: Made, window: str | None = None, **parameters: Any) -> Made:
        return self._make(Made(self.add(op, *inputs, **parameters), is_table=False, window=window))

    def _table(self, op: str, *inputs: Made | str, window: str | None = None, **parameters: Any) -> Made:
        history_ms = parameters["versioned"]["history_retention"] if "versioned" in parameters else None
        return self._make(Made(self.add(op, *inputs, **parameters), True, window, history_ms))

    # --- sources ---------------------------------------------------------------------------------------------

    def _source(self) -> Made:
        return self._new_stream() if self.dice.random() < 0.55 else self._new_table()

    def _new_stream(self) -> Made:
        """Sometimes of a topic that is read already, or of several."""
        if self.dice.random() < 0.1:
            return processors.of_several_topics(self)
        known = [topic for topic, kind in self.topics.items() if kind == "stream"]
        topic = self.dice.choice(known) if known and self.dice.random() < 0.2 else self.topic("stream")
        return self.stream("stream", topic=topic, **self.extractors.get(topic, {}))

    def _new_table(self) -> Made:
        topic = self.topic("table")
        return self._table("table", topic=topic, **self.extractors.get(topic, {}), **self._store())

    def topic(self, kind: str) -> str:
        topic = f"{kind[0]}{len(self.topics)}"
        self.topics[topic] = kind
        if kind in ("stream", "table") and self.dice.random() < 0.12:
            self.extractors[topic] = {"extractor": self.dice.choice(choose.EXTRACTORS)}
            if self.dice.random() < 0.5:
                self.extractors[topic]["invalid"] = self.dice.choice(choose.INVALID)
        return topic

    def _store(self, window: str | None = None) -> dict[str, Any]:
        roll = self.dice.random()
        if roll < 0.5:
            return {}
        if roll < 0.7 or window is not None:  # windowed keys have no versions
            return {"materialized": True}
        history: dict[str, Any] = {"history_retention": self.dice.choice([0, 5, 20, 100, 1_000]) * self.scale}
        if self.dice.random() < 0.3:
            history["segment_interval"] = self.dice.choice([2, 5, 40]) * self.scale
        return {"versioned": history}

    # --- one more operator -----------------------------------------------------------------------------------

    def _step(self, made: Made) -> Made:
        steps = self._table_steps(made) if made.is_table else self._stream_steps(made)
        weights = [weight for _, weight in steps]
        return self.dice.choices([step for step, _ in steps], weights)[0](made)

    def _stream_steps(self, made: Made) -> list[tuple[Any, int]]:
        anywhere = [(self._filter, 2), (self._map_values, 2), (self._select_key, 2 * self.is_alone)]
        if made.window is not None:
            return [*anywhere, (self._select_key, 4 * self.is_alone), (self._process, processors.weight(self))]
        joins = [(self._stream_table_join, 3), (self._stream_stream_join, 3)]
        return [
            *anywhere,
            *joins,
            (self._merge, 2),
            (self._to_table, 2),
            (self._through_topic, 2 * self.is_alone),
            (self._by_record, 2 * self.is_alone),
            (self._process, processors.weight(self)),
            (self._aggregate, 9),
            (self._deduplicate, 4 * self.is_alone),
        ]

    def _table_steps(self, made: Made) -> list[tuple[Any, int]]:
        steps = [
            (self._filter, 2),
            (self._map_values, 2),
            (self._transform_values, 2),
            (self._to_stream, 2),
            (self._group_table, 3 * self.is_alone),
        ]
        steps += [(self._suppress, 3 if made.window is None else 6)]
        if made.window is not None:
            return [*steps, (self._windowed_join, 2)]
        joins = [
            (self._table_table_join, 4),
            (self._foreign_key_join, 3 * self.is_alone),
            (self._joined_by_stream, 2),
        ]
        return [*steps, *joins, (self._through_topic, int(self.is_alone))]

    def _filter(self, made: Made) -> Made:
        return self._same("filter", made, predicate=self.dice.choice(choose.PREDICATES))

    def _map_values(self, made: Made) -> Made:
        return self._same("map_values", made, mapper=self.dice.choice(choose.MAPPERS))

    def _transform_values(self, made: Made) -> Made:
        return self._same("transform_values", made, transformer=self.dice.choice(choose.TRANSFORMERS))

    def _same(self, op: str, made: Made, **parameters: Any) -> Made:
        if made.is_table:
            store = self._store(made.window)
            table = self._table(op, made, window=made.window, **parameters, **store)
            self.made[-1] = table if store else replace(table, history_ms=made.history_ms)
            return self.made[-1]
        return self.stream(op, made, window=made.window, **parameters)

    def _process(self, made: Made) -> Made:
        return processors.processed(self, made)

    def _by_record(self, made: Made) -> Made:
        return processors.by_record(self, made)

    def _select_key(self, made: Made) -> Made:
        return self.stream("select_key", made, key=self._selector(made))

    def _selector(self, made: Made) -> str:
        more = ["key_window"] if made.window is not None else []
        return self.dice.choice(choose.SELECTORS + more)

    def _merge(self, made: Made) -> Made:
        return self.stream("merge", made, self._other_stream(made))

    def _other_stream(self, made: Made) -> Made:
        """Of plain keys; sometimes the same one."""
        known = [other for other in self.made if not other.is_table and other.window is None]
        return self.dice.choice(known) if known and self.dice.random() < 0.4 else self._new_stream()

    def _other_table(self, made: Made) -> Made:
        known = [other for other in self.made if other.is_table and other.window is None]
        return self.dice.choice(known) if known and self.dice.random() < 0.3 else self._new_table()

    def _to_stream(self, made: Made) -> Made:
        return self.stream("to_stream", made, window=made.window)

    def _through_topic(self, made: Made) -> Made:
        """A topic that is written here, sometimes from two places, and read as a stream or as a table."""
        topic = f"i{len(self.nodes)}"
        self.add("to", made, topic=topic)
        if self.dice.random() < 0.4:
            self.add("to", self._other_stream(made), topic=topic)
        if self.dice.random() < 0.25:
            return self._table("table", topic=topic, **self._store())
        return self.stream("stream", topic=topic)

    def _to_table(self, made: Made) -> Made:
        return self._table("to_table", made, **self._store())

    # --- aggregates and suppress -----------------------------------------------------------------------------

    def _aggregate(self, made: Made) -> Made:
        grouped = self._grouped(made)
        function = self.dice.choice(choose.AGGREGATES)
        if self.dice.random() < 0.15:
            return self._table("aggregate", grouped, function=function, **self._store())
        window, kind, keep_ms = self._window(grouped)
        more: dict[str, Any] = {"emit": "on_close"} if self.dice.random() < 0.35 else {}
        if self.dice.random() < 0.5:
            more["retention"] = keep_ms + self.dice.choice([0, 1, 10, 1_000, 100_000]) * self.scale
        table = self._table("aggregate", window, window=kind, function=function, **more)
        return self._suppress(table) if self.dice.random() < 0.4 else table

    def _grouped(self, made: Made) -> str:
        if self.is_shared or self.dice.random() < 0.7:
            return self.add("group_by_key", made)
        return self.add("group_by", made, key=self._selector(made))

    def _window(self, grouped: str) -> tuple[str, str, int]:
        """(window node, kind of its keys, how long its results are kept at least)."""
        dice, scale = self.dice, self.scale
        grace = dice.choice([0, 0, 1, 5, 20]) * dice.choice([scale, scale, 1])
        kind = dice.choice(["tumbling", "hopping", "sliding", "sliding", "session", "session"])
        if kind == "session":
            gap = dice.choice([0, 1, 3, 10, 25]) * scale
            return self.add("window", grouped, type=kind, gap=gap, grace=grace), "session", gap + grace
        if kind == "sliding":
            difference = dice.choice([1, 3, 10, 25]) * scale
            node = self.add("window", grouped, type=kind, difference=difference, grace=grace)
            return node, "time", 2 * difference + grace
        size = dice.choice([1, 4, 10, 30]) * scale
        advance = {"advance": max(1, dice.choice([size, size // 2, size // 3, size * 2 // 3]))}
        more = advance if kind == "hopping" else {}
        return self.add("window", grouped, type=kind, size=size, grace=grace, **more), "time", size + grace

    def _group_table(self, made: Made) -> Made:
        value = {"value": self.dice.choice(choose.MAPPERS)} if self.dice.random() < 0.5 else {}
        grouped = self.add("group_by", made, key=self._selector(made), **value)
        store = self._store()
        folds = choose.VERSIONED_FOLDS + ([] if "versioned" in store else choose.TABLE_FOLDS)
        function = self.dice.choice(folds if self.dice.random() < 0.4 else choose.TABLE_AGGREGATES)
        return self._table("aggregate", grouped, function=function, **store)

    def _suppress(self, made: Made) -> Made:
        is_final = made.window is not None and self.dice.random() < 0.6
        wait = self.dice.choice([0, 1, 5, 30]) * self.scale
        self.is_over |= made.history_ms is not None  # a versioned table cannot be suppressed
        until = {"until": "window_closes"} if is_final else {"until": "time_limit", "wait": wait}
        return self._table("suppress", made, window=made.window, **until, **self._limits(is_final))

    def _limits(self, is_final: bool) -> dict[str, Any]:
        limits: dict[str, Any] = {}
        if self.dice.random() < 0.3:
            limits["max_records"] = self.dice.choice([0, 1, 3, 6])
        is_internal = any(node["op"] in INTERNAL for node in self.nodes)
        if not is_internal and self.dice.random() < 0.25:
            limits["max_bytes"] = self.dice.choice([40, 100, 300])
        is_strict = limits and self.can_fail and (is_final or self.dice.random() < 0.2)
        self.is_over |= bool(is_strict)
        return {} if is_final and not is_strict else limits | ({"full": "shut_down"} if is_strict else {})

    # --- joins -----------------------------------------------------------------------------------------------

    def _join(self, *kinds: str, is_stream: bool = False) -> dict[str, Any]:
        joiners = [*choose.JOINERS, "keyed"] if is_stream else choose.JOINERS
        return {"type": self.dice.choice(kinds), "joiner": self.dice.choice(joiners)}

    def _stream_table_join(self, made: Made) -> Made:
        return self._enriched(made, self._other_table(made))

    def _joined_by_stream(self, made: Made) -> Made:
        return self._enriched(self._other_stream(made), made)

    def _enriched(self, stream: Made, table: Made) -> Made:
        may_wait = table.history_ms is not None or self.dice.random() < 0.05
        grace = self.dice.choice([0, 3, 10, 50]) * self.scale
        more = {"grace": grace} if may_wait and self.dice.random() < 0.6 else {}
        join = self._join(*(["inner"] if more and not self.can_fail else ["inner", "left"]), is_stream=True)
        is_refused = bool(more) and (table.history_ms is None or table.history_ms < grace)
        self.is_over |= is_refused or (bool(more) and join["type"] == "left")
        return self.stream("stream_table_join", stream, table, **join, **more)

    def _stream_stream_join(self, made: Made) -> Made:
        dice, scale = self.dice, self.scale
        before, after = (dice.choice([0, 0, 2, 5, 20]) * scale for _ in range(2))
        if dice.random() < 0.1:
            before, after = (-before, before + after) if dice.random() < 0.5 else (before + after, -after)
        sides = [made, self._other_stream(made)]
        dice.shuffle(sides)
        times = {"before": before, "after": after, "grace": dice.choice([0, 0, 1, 5, 30]) * scale}
        times |= {"at_once": True} if dice.random() < 0.15 else {}
        return self.stream(
            "stream_stream_join", *sides, **self._join("inner", "left", "outer", is_stream=True), **times
        )

    def _table_table_join(self, made: Made) -> Made:
        sides = [made, self._other_table(made)]
        self.dice.shuffle(sides)
        join = self._join("inner", "left", "outer")
        return self._table("table_table_join", *sides, **join, **self._store())

    def _windowed_join(self, made: Made) -> Made:
        """With another view of the same windows."""
        other = self._same("map_values", made, mapper=self.dice.choice(choose.MAPPERS))
        join = self._join("inner", "left", "outer")
        return self._table("table_table_join", made, other, window=made.window, **join, **self._store(made.window))

    def _foreign_key_join(self, made: Made) -> Made:
        right = self._other_table(made)
        foreign_key = self.dice.choice(["field:0", "field:0", "prefix:1", "mod:2", "value", "key"])
        join = self._join("inner", "left")
        return self._table("fk_join", made, right, foreign_key=foreign_key, **join, **self._store())

    def _deduplicate(self, made: Made) -> Made:
        interval = self.dice.choice([0, 1, 5, 20]) * self.scale
        op = self.dice.choice(["deduplicate_by_key", "deduplicate_by_key_value", "deduplicate", "deduplicate"])
        selector = {} if op == "deduplicate_by_key" else {"id_selector": self._selector(made)}
        return self.stream(op, made, interval=interval, **selector)
