"""Random scenarios over the covered operators, the same for the same seed.

Rule: ugly on purpose: keys that begin one another, empty strings, code points beyond the first plane, ties in time,
jumps over many windows, limits of nothing. A line is tagged ``buffer_size`` when the name of a repartition topic would
count.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

KEYS = (["a", "b"], ["a", "b", "c", "aa", "ab", ""], ["k", "é", "ключ", "a\0", "a"])
INTEGERS = [0, 1, -1, 2, -3, 7, 12, -8, 2**40, -(2**40)]
STRINGS = ["", "x", "yy", "a|b", "|z", "b|", "é", "日本|q", "🙂🙂", "12", "null", "zzz|w|", "|"]
PREDICATES = ["true", "value_not_null", "value_even", "value_odd", "value_gt:1", "value_lt:3", "value_contains:|"]
PREDICATES += ["key_eq:a", "key_ne:a", "value_contains:."]
MAPPERS = ["identity", "add:3", "mul:-2", "mod:3", "length", "to_string", "append:!", "prepend:é", "field:0", "field:1"]
MAPPERS += ["null_if_even", "null_if_odd", "mod:5"]
SELECTORS = ["key", "value", "const:all", "field:0", "field:1", "prefix:1", "prefix:2", "mod:2", "mod:3"]
AGGREGATES = ["count", "sum", "min", "max", "concat", "reduce:first", "reduce:last", "reduce:concat", "reduce:sum"]


def scenario(seed: int) -> dict[str, Any]:
    """One scenario, without a result."""
    dice = Random(seed)
    scale = dice.choice([1, 1, 1, 1_000, 20_000])
    nodes = _Nodes(dice, scale)
    nodes.grow()
    topology = {"nodes": nodes.made} | ({"store": "rocksdb"} if dice.random() < 0.5 else {})
    sensitive = ["buffer_size"] if nodes.is_rekeyed else []
    return {"name": f"seed {seed}", "topology": topology, "records": _records(dice, scale), "sensitive": sensitive}


def _records(dice: Random, scale: int) -> list[dict[str, Any]]:
    keys, values = dice.choice(KEYS), dice.choice([INTEGERS, STRINGS, INTEGERS + STRINGS])
    null_keys, null_values = dice.choice([0, 0.05, 0.2]), dice.choice([0, 0.1, 0.3])
    jumps, out_of_order = dice.choice([0.02, 0.1, 0.3]), dice.choice([0, 0.2, 0.5])
    time_ms, records = dice.choice([0, 0, 5, 1_000]) * scale, []
    for _ in range(dice.choice([5, 20, 40, 80])):
        is_jump = dice.random() < jumps
        time_ms += dice.randrange(1, 80) * scale if is_jump else dice.randrange(4) * dice.choice([scale, 1])
        late_ms = dice.randrange(60) * dice.choice([scale, 1]) if dice.random() < out_of_order else 0
        records.append(
            {
                "topic": "in",
                "key": None if dice.random() < null_keys else dice.choice(keys),
                "value": None if dice.random() < null_values else dice.choice(values),
                "ts": max(0, time_ms - late_ms),
            }
        )
    return records


@dataclass
class _Nodes:
    """A pipeline that grows at its end."""

    dice: Random
    scale: int
    made: list[dict[str, Any]] = field(default_factory=lambda: [{"id": "s", "op": "stream", "topic": "in"}])
    is_rekeyed: bool = False
    is_windowed: bool = False

    def add(self, op: str, **parameters: Any) -> None:
        self.made.append({"id": f"n{len(self.made)}", "op": op, "inputs": [self.made[-1]["id"]], **parameters})
        self.is_rekeyed |= op in ("select_key", "group_by")

    def grow(self) -> None:
        levels = self.dice.choice([0, 1, 1, 1, 1, 2])
        self._stateless()
        for level in range(levels):
            self._group()
            self._aggregate()
            if level + 1 < levels or self.dice.random() < 0.3:
                self.add("to_stream")
                self._stateless()

    def _stateless(self) -> None:
        for _ in range(self.dice.choice([0, 0, 1, 2, 3])):
            roll = self.dice.random()
            if roll < 0.4:
                self.add("filter", predicate=self.dice.choice(PREDICATES))
            elif roll < 0.8:
                self.add("map_values", mapper=self.dice.choice(MAPPERS))
            elif not self.is_windowed:
                self.add("select_key", key=self.dice.choice(SELECTORS))

    def _group(self) -> None:
        selector = self.dice.choice(SELECTORS + ["key_window"] * (3 if self.is_windowed else 0))
        if self.is_windowed and self.dice.random() < 0.5:
            self.add("select_key", key=selector)
            self.add("group_by_key")
        elif self.is_windowed or self.dice.random() < 0.4:
            self.add("group_by", key=selector)
        else:
            self.add("group_by_key")

    def _aggregate(self) -> None:
        self.is_windowed = self.dice.random() < 0.85
        keep_ms = self._window() if self.is_windowed else 0
        roll, retention = self.dice.random(), {}
        if self.is_windowed and roll < 0.5:
            longer = 0 if roll < 0.2 else self.dice.choice([1, 10, 1_000, 100_000]) * self.scale
            retention = {"retention": keep_ms + longer}
        self.add("aggregate", function=self.dice.choice(AGGREGATES), **retention)
        if self.is_windowed and self.dice.random() < 0.6:
            self.add("suppress", until="window_closes", **self._limits())

    def _window(self) -> int:
        """Adds a window node; how long its results are kept at least."""
        dice, scale = self.dice, self.scale
        grace = dice.choice([0, 0, 1, 5, 20]) * dice.choice([scale, scale, 1])
        kind = dice.choice(["tumbling", "hopping", "session", "session"])
        if kind == "session":
            gap = dice.choice([0, 1, 3, 10, 25]) * scale
            self.add("window", type=kind, gap=gap, grace=grace)
            return gap + grace
        size = dice.choice([1, 4, 10, 30]) * scale
        advance = {"advance": max(1, dice.choice([size, size // 2, size // 3, size * 2 // 3]))}
        self.add("window", type=kind, size=size, grace=grace, **(advance if kind == "hopping" else {}))
        return size + grace

    def _limits(self) -> dict[str, Any]:
        limits: dict[str, Any] = {}
        if self.dice.random() < 0.2:
            limits["max_records"] = self.dice.choice([0, 1, 3, 6])
        if not self.is_rekeyed and self.dice.random() < 0.15:
            limits["max_bytes"] = self.dice.choice([40, 100, 300])
        return limits | ({"full": "shut_down"} if limits else {})
