"""Tables in plain Python, record by record and depth first, after Kafka's KTable processors.

Owns the wanted results of the tests that compare: nothing here is columnar, nothing is shared with the code under test.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Shown = tuple[Any, int] | None
"""(value, time) that a table shows for a key."""


@dataclass(frozen=True)
class ModelChange:
    key: Any
    new: Any
    old: Any
    time: int


class ModelTable:
    """``sends_old``: changes say what they replaced; ``store``: None while the table is not materialized."""

    def __init__(self, *, is_stored: bool, sends_old: bool) -> None:
        self.store: dict[Any, tuple[Any, int]] | None = {} if is_stored else None
        self.sends_old = sends_old
        self.children: list[Callable[[ModelChange], None]] = []

    def put(self, key: Any, value: Any, time: int) -> None:
        assert self.store is not None
        self.store.pop(key, None)
        if value is not None:
            self.store[key] = (value, time)

    def stored(self, key: Any) -> Any:
        assert self.store is not None
        return self.store.get(key, (None, 0))[0]

    def forward(self, key: Any, new: Any, old: Any, time: int) -> None:
        for child in self.children:
            child(ModelChange(key, new, old if self.sends_old else None, time))

    def get(self, key: Any) -> Shown:
        assert self.store is not None
        return self.store.get(key)


class ModelSource(ModelTable):
    """KTableSource."""

    def __init__(self, drop: Callable[[], None], **options: bool) -> None:
        super().__init__(**options)
        self.drop = drop

    def receive(self, key: Any, value: Any, time: int) -> None:
        if key is None:
            self.drop()
            return
        old = None
        if self.store is not None:
            old = self.stored(key)
            self.put(key, value, time)
        self.forward(key, value, old, time)


class ModelStep(ModelTable):
    """KTableFilter and KTableMapValues; ``function`` of a value that is not null."""

    def __init__(self, above: ModelTable, function: Callable[[Any], Any], *, is_filter: bool, **options: bool) -> None:
        super().__init__(**options)
        self.above, self.function, self.is_filter = above, function, is_filter
        above.children.append(self.process)

    def _of(self, value: Any) -> Any:
        return None if value is None else self.function(value)

    def process(self, change: ModelChange) -> None:
        new = self._of(change.new)
        old = None
        if self.sends_old:
            old = self._of(change.old) if self.store is None else self.stored(change.key)
        if self.is_filter and self.sends_old and old is None and new is None:
            return
        if self.store is not None:
            self.put(change.key, new, change.time)
        self.forward(change.key, new, old, change.time)

    def get(self, key: Any) -> Shown:
        if self.store is not None:
            return super().get(key)
        shown = self.above.get(key)
        value = None if shown is None else self._of(shown[0])
        return None if value is None or shown is None else (value, shown[1])


class JoinedTables(ModelTable):
    """KTableKTableInnerJoin, LeftJoin, RightJoin and OuterJoin with their merger."""

    def __init__(
        self, left: ModelTable, right: ModelTable, kind: str, joiner: Callable[[Any, Any], Any], **options: bool
    ) -> None:
        super().__init__(**options)
        self.sides, self.kind, self.joiner = (left, right), kind, joiner
        left.children.append(lambda change: self.process(change, 0))
        right.children.append(lambda change: self.process(change, 1))

    def _join(self, mine: Any, theirs: Any, side: int) -> Any:
        return self.joiner(mine, theirs) if side == 0 else self.joiner(theirs, mine)

    def process(self, change: ModelChange, side: int) -> None:
        shown = self.sides[1 - side].get(change.key)
        theirs, time = shown or (None, -1)
        needs_both = self.kind == "inner" or (self.kind == "left" and side == 1)
        if theirs is None and (needs_both or (change.new is None and change.old is None)):
            return

        def value(mine: Any) -> Any:
            always = self.kind == "left" and side == 1
            if mine is None and not always and not (self.kind == "outer" and theirs is not None):
                return None
            return self._join(mine, theirs, side)

        result = ModelChange(change.key, value(change.new), value(change.old), max(change.time, time))
        if self.store is not None:
            self.put(result.key, result.new, result.time)
        self.forward(result.key, result.new, result.old, result.time)

    def get(self, key: Any) -> Shown:
        if self.store is not None:
            return super().get(key)
        left, right = (side.get(key) for side in self.sides)
        is_shown = {"inner": left and right, "left": left, "outer": left or right}[self.kind]
        if not is_shown:
            return None
        values, times = zip(*(shown or (None, -1) for shown in (left, right)), strict=True)
        return self.joiner(*values), max(times)


class ModelSuppress(ModelTable):
    """KTableSuppressProcessorSupplier with a time limit; what it shows of a key that waits has no time."""

    def __init__(self, above: ModelTable, wait: int, *, sends_old: bool) -> None:
        super().__init__(is_stored=False, sends_old=sends_old)
        self.above, self.wait, self.observed = above, wait, -1
        self.buffer: dict[Any, tuple[int, Any, ModelChange]] = {}
        """(buffer time, prior value, latest change) of every key that waits."""
        above.children.append(self.process)

    def process(self, change: ModelChange) -> None:
        self.observed = max(self.observed, change.time)
        due, prior, _ = self.buffer.get(change.key, (change.time, change.old, None))
        self.buffer[change.key] = (due, prior, change)
        while self.buffer:
            key = min(self.buffer, key=lambda key: (self.buffer[key][0], key.encode()))
            due, _, latest = self.buffer[key]
            if due > self.observed - self.wait:
                return
            self.forward(key, latest.new, latest.old, latest.time)
            del self.buffer[key]

    def get(self, key: Any) -> Shown:
        if key not in self.buffer:
            return self.above.get(key)
        prior = self.buffer[key][1]
        return None if prior is None else (prior, -1)
