"""Sentences on what a node did with a row, and why.

Owns the words. Rule: a sentence has the numbers that decided; windows have their brackets: ``[start, end)`` for time
windows, ``[start, end]`` for sessions and sliding windows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jobs.explain.observations import Change, Left, Moment, Row, Taken, Wait, is_held
from jobs.topology import nodes
from jobs.topology.nodes import Node, ReorderNode, StreamJoinNode, StreamTableJoinNode, SuppressNode
from jobs.topology.topology import Topology

REFUSALS = {
    "null-key": "its key is null",
    "null-value": "its value is null",
    "null-foreign-key": "its foreign key is null",
    "negative-timestamp": "its time is negative",
    "stale-response": "the left value has changed since it asked",
    "out-of-order-version": "a newer version of its key is there already",
    "expired-version": "it is older than the history that the store keeps",
    "expired-in-store": "the store keeps nothing so old any more",
    "expired-window": "its window has closed",
    "late": "records after it have gone on already",
}
"""What the reasons of the table `dropped` mean."""

LIMITED = frozenset({"expired-version", "expired-in-store", "expired-window", "late"})
"""Those that a limit of time decided."""


def waits_of(moment: Moment) -> list[Wait]:
    """What of the rows that came into a node waits there afterwards."""
    node, found = moment.node, []
    if isinstance(node, SuppressNode):
        for entry in moment.shows:
            if is_held(node, entry) and any(_place(row) == _entry(entry) for row in moment.rows):
                until = entry["buffer_time_ms"] + node.wait_ms
                found.append(_wait(node, entry["key"], until, window=_bounds(entry)))
    elif isinstance(node, ReorderNode | StreamTableJoinNode) and node.grace_ms is not None:
        for row in moment.rows:
            if any(_is_in_room(row, entry) for entry in moment.shows):
                until = row.record_time_ms + node.grace_ms
                found.append(
                    _wait(node, row.key, until, record_time_ms=row.record_time_ms, coordinates=row.coordinates)
                )
    elif isinstance(node, StreamJoinNode):
        for change in moment.changes:
            entry = change.after or {}
            if entry.get("kind", "").startswith("unmatched"):
                ahead = node.after_ms if entry["kind"] == "unmatched-left" else node.before_ms
                time_ms = entry["record_time_ms"]
                found.append(_wait(node, entry["key"], time_ms + ahead + node.grace_ms + 1, record_time_ms=time_ms))
    return found


def _wait(node: Node, key: Any, until_ms: int, **names: Any) -> Wait:
    (code,) = node.shape.key.encode(node.shape.key.from_python([key])).to_pylist()
    return Wait(node.name, repr(key), code, until_ms, **names)


Name = tuple[str, tuple[int, int] | None]
"""A key, as it is said (some cannot be hashed), and a window."""


def _place(row: Row) -> Name:
    return repr(row.key), row.window


def _entry(entry: dict[str, Any]) -> Name:
    """Of a store's row."""
    return repr(entry["key"]), _bounds(entry)


def _bounds(entry: dict[str, Any]) -> tuple[int, int] | None:
    return (entry["window_start_ms"], entry["window_end_ms"]) if "window_start_ms" in entry else None


def _is_in_room(row: Row, entry: dict[str, Any]) -> bool:
    topic, offset = row.coordinates or (None, -1)
    return (entry["key"], entry["record_time_ms"], entry["topic"], entry["offset"]) == (
        row.key, row.record_time_ms, topic, offset,
    )  # fmt: skip


@dataclass(frozen=True)
class Teller:
    """``say_time``: how a time is said."""

    topology: Topology
    say_time: Callable[[int], str] = str

    def tell(self, moment: Moment, taken: Taken) -> list[str]:
        """What ``moment.node`` did, a sentence a fact."""
        if not moment.received:
            return [self._read(row, taken) for row in moment.forwarded]
        tell = _TELLERS.get(type(moment.node), Teller._rest)
        return [*(self.refusal(row) for row in moment.refusals), *tell(self, moment)]

    def refusal(self, row: dict[str, Any]) -> str:
        """A row of the table `dropped`: the reason, and the numbers that decided."""
        window = ""
        if row["window_start_ms"] is not None:
            window = (
                f" by the window from {self.say_time(row['window_start_ms'])} to {self.say_time(row['window_end_ms'])}"
            )
        said = f"refused ({row['reason']}){window}: {REFUSALS.get(row['reason'], 'see its operator')}"
        if row["reason"] not in LIMITED or row["limit_ms"] is None:
            return said
        stream, limit, time_ms = row["stream_time_ms"], row["limit_ms"], row["record_time_ms"]
        return (
            f"{said}; stream time is {self.say_time(stream)}, the limit {stream - limit} ms before it is "
            f"{self.say_time(limit)}, the record is {stream - time_ms} ms late"
        )

    def left(self, left: Left) -> str:
        """What waited and left in the same increment."""
        topic, partition, offset = left.because_of
        window = self.topology.graph.nodes[left.wait.node].shape.window
        written = "".join(f", as outputs/{name} {partition}:{place}" for name, place in left.written)
        return (
            f"left because of {topic}:{partition}:{offset} at stream time {self.say_time(left.stream_time_ms)}: "
            f"{self._said(left.row, window)}{written}"
        )

    def _until(self, moment: Moment, wait: Wait) -> str:
        return f"stream time {self.say_time(wait.until_ms)}{self._outcome(moment, wait)}"

    def _outcome(self, moment: Moment, wait: Wait) -> str:
        return f"; {moment.outcomes[wait]}" if wait in moment.outcomes else ""

    # --- words -----------------------------------------------------------------------------------------------

    def _said(self, row: Row, shape_window: str | None = None) -> str:
        window = "" if row.window is None else f" {self._window(row.window, shape_window)}"
        was = "" if row.old is None else f", was {row.old!r}"
        return f"{row.key!r}{window} = {row.value!r}{was}"

    def _window(self, window: tuple[int, int], kind: str | None) -> str:
        start, end = map(self.say_time, window)
        return f"[{start}, {end}{')' if kind == 'time' else ']'}"

    def _read(self, row: Row, taken: Taken) -> str:
        behind = taken.stream_time_ms - row.record_time_ms
        late = f", {behind} ms behind stream time {self.say_time(taken.stream_time_ms)}" if behind > 0 else ""
        return f"read: {self._said(row)}, time {self.say_time(row.record_time_ms)}{late}"

    # --- operators -------------------------------------------------------------------------------------------

    def _rest(self, moment: Moment) -> list[str]:
        """Store and forwarded rows, whatever the operator."""
        said = [self._changed(change, moment.node.shape.window) for change in moment.changes if _has_value(change)]
        said += [f"forwards {self._said(row, moment.node.shape.window)}" for row in moment.forwarded]
        return said or ([] if moment.refusals else ["forwards nothing"])

    def _changed(self, change: Change, window: str | None) -> str:
        entry = change.after or change.before or {}
        bounds, name = _bounds(entry), repr(entry.get("key", entry.get("id")))
        if bounds is not None:
            name += f" {self._window(bounds, window)}"
        if "valid_from_ms" in entry:
            name += f" from {self.say_time(entry['valid_from_ms'])}"
        if change.before is None:
            return f"{name}: begins with {entry['value']!r}"
        if change.after is not None and change.after["value"] == change.before["value"]:
            return f"{name}: stays {change.after['value']!r}"
        after = "gone" if change.after is None else repr(change.after["value"])
        return f"{name}: {change.before['value']!r} -> {after}"

    def _filter(self, moment: Moment) -> list[str]:
        if moment.node.is_table:
            return self._rest(moment)
        passed, came = len(moment.forwarded), len(moment.rows)
        if came == 1:
            return ["passes" if passed else "does not pass"]
        return [f"{passed} of {came} pass"]

    def _step(self, moment: Moment) -> list[str]:
        return [f"becomes {self._said(row)}" for row in moment.forwarded] or ["becomes nothing"]

    def _pass(self, moment: Moment) -> list[str]:
        return ["goes on"]

    def _sink(self, moment: Moment) -> list[str]:
        """The offset is that of the output's partition, which is the task's."""
        assert isinstance(moment.node, nodes.SinkNode)
        window, first = moment.node.shape.window, moment.first_offset
        return [
            f"writes outputs/{moment.node.topic} offset {first + number}: {self._said(row, window)}, "
            f"time {self.say_time(row.record_time_ms)}"
            for number, row in enumerate(moment.rows)
        ]

    def _aggregate(self, moment: Moment) -> list[str]:
        window = moment.node.shape.window
        if window == "session":
            said = self._sessions(moment)
        else:
            said = [
                self._changed(change, window) for change in moment.changes if change.after is not None or not window
            ]
        changed = {_entry(change.after) for change in moment.changes if change.after is not None}
        is_final = getattr(moment.node, "emit", "on_update") == "on_close"
        for row in moment.forwarded:
            if is_final:
                said.append(f"closed, goes on: {self._said(row, window)}")
            elif _place(row) not in changed and row.value is not None:
                said.append(f"stays {self._said(row, window)}")
        return said or ([] if moment.refusals else ["changes nothing"])

    def _sessions(self, moment: Moment) -> list[str]:
        gone = [change.before for change in moment.changes if change.after is None and change.before is not None]
        said = []
        for change in moment.changes:
            if change.after is None:
                continue
            start, end = change.after["window_start_ms"], change.after["window_end_ms"]
            name = f"{change.after['key']!r} {self._window((start, end), 'session')}"
            merged = [e for e in gone if start <= e["window_start_ms"] and e["window_end_ms"] <= end]
            spans = [self._window((e["window_start_ms"], e["window_end_ms"]), "session") for e in merged]
            parts = " and ".join(f"{span} = {e['value']!r}" for span, e in zip(spans, merged, strict=True))
            if len(merged) > 1:
                said.append(f"merges {parts} into session {name} = {change.after['value']!r}")
            elif merged:
                said.append(f"extends {parts} to session {name} = {change.after['value']!r}")
            else:
                said.append(f"session {self._changed(change, 'session')}")
        return said

    def _deduplicate(self, moment: Moment) -> list[str]:
        node = moment.node
        assert isinstance(node, nodes.DeduplicateNode)
        said, passed = [], {row.coordinates for row in moment.forwarded}
        for number, row in enumerate(moment.rows):
            identity: dict[str, Any] = {} if node.by == "id" else {"key": row.key}
            identity |= {} if node.by == "key" else {"id": moment.ids[number]}
            named = " and ".join(f"{name} {value!r}" for name, value in identity.items())
            first = next((e for e in moment.shown if identity.items() <= e.items()), None)
            if row.coordinates in passed:
                is_named = all(value is not None for value in identity.values())
                first_of = f"the first of {named} within {node.interval_ms} ms"
                said.append(f"passes: {first_of if is_named else f'{named} is never a duplicate'}")
            elif first is not None:
                apart = abs(row.record_time_ms - first["record_time_ms"])
                said.append(
                    f"duplicate of {first['context_topic']} offset {first['value']}, which has {named} too: "
                    f"{apart} ms apart, the interval is {node.interval_ms} ms"
                )
        return said

    def _suppress(self, moment: Moment) -> list[str]:
        node, window = moment.node, moment.node.shape.window
        assert isinstance(node, SuppressNode)
        said, here = [], {_place(row) for row in moment.rows}
        now = self.say_time(moment.clocks.get("stream_time_ms", -1))
        waited = {_entry(entry): entry for entry in moment.shown}
        waits = {(wait.key, wait.window): wait for wait in waits_of(moment)}
        for row in moment.rows:
            name = f"{row.key!r}{'' if row.window is None else ' ' + self._window(row.window, window)}"
            wait = waits.get(_place(row))
            if wait is not None:
                before = waited.get(_place(row))
                instead = "" if before is None else f", in place of {before['value']!r}"
                until = f"{self.say_time(wait.until_ms)} (now {now})"
                outcome = self._outcome(moment, wait)
                said.append(f"{name} = {row.value!r} waits until stream time {until}{instead}{outcome}")
            elif row.value is None and _place(row) not in {_place(out) for out in moment.forwarded}:
                said.append(f"{name} is deleted before it was final, so nothing of it goes on")
        for out in moment.forwarded:
            due = out.window[1] if out.window is not None and node.until == "window-closes" else None
            at = "" if due is None else f" has reached {self.say_time(due + node.wait_ms)}"
            verb = "goes on at once" if _place(out) in here else "lets go"
            said.append(f"{verb}: {self._said(out, window)}; stream time {now}{at}")
        return said

    def _room(self, moment: Moment) -> list[str]:
        """Reorder, and a stream-table join with a grace."""
        said = [
            f"{wait.key} of time {self.say_time(wait.record_time_ms or 0)} waits until {self._until(moment, wait)}"
            for wait in waits_of(moment)
        ]
        mine = {(row.coordinates, row.record_time_ms) for row in moment.rows}
        for row in moment.forwarded:
            verb = "goes on" if (row.coordinates, row.record_time_ms) in mine else "lets go"
            said.append(f"{verb}: {self._said(row)}, time {self.say_time(row.record_time_ms)}")
        return said or ([] if moment.refusals else ["forwards nothing"])

    def _lookup(self, moment: Moment) -> list[str]:
        """A join of a stream with a table."""
        if isinstance(moment.node, StreamTableJoinNode) and moment.node.grace_ms is not None:
            return self._room(moment)
        said = []
        for table, rows in moment.looked.items():
            for row in moment.rows if not moment.refusals else ():
                found = [e["value"] for e in rows if e["key"] == row.key and _is_valid_at(e, row.record_time_ms)]
                what = f"has {found[0]!r}" if found else "has nothing"
                said.append(f"looks up {row.key!r}: {table} {what}")
        said += [f"forwards {self._said(row)}" for row in moment.forwarded]
        return said if moment.forwarded or moment.refusals else [*said, "no match: forwards nothing"]

    def _stream_join(self, moment: Moment) -> list[str]:
        node = moment.node
        assert isinstance(node, StreamJoinNode)
        said, met_count = [], 0
        for side, rows in zip(("left", "right"), moment.received, strict=True):
            back, ahead = (node.before_ms, node.after_ms) if side == "left" else (node.after_ms, node.before_ms)
            other = "right" if side == "left" else "left"
            for row in rows:
                low, high = row.record_time_ms - back, row.record_time_ms + ahead
                met = [
                    entry
                    for entry in moment.shown
                    if (entry["kind"], entry["key"]) == (other, row.key) and low <= entry["record_time_ms"] <= high
                ]
                met_count += len(met)
                span = f"[{self.say_time(max(0, low))}, {self.say_time(high)}]"
                said += [
                    f"meets {other} {entry[other]!r} of time {self.say_time(entry['record_time_ms'])}" for entry in met
                ]
                if not met and row.key is not None and row.value is not None:
                    said.append(f"meets no {other} record of {row.key!r} in {span}")
        waits = waits_of(moment)
        said += [f"waits for one until {self._until(moment, wait)}" for wait in waits]
        own = {(repr(row.key), row.record_time_ms) for row in moment.rows}
        for number, row in enumerate(moment.forwarded):
            is_own = number >= len(moment.forwarded) - met_count or (
                not waits and (repr(row.key), row.record_time_ms) in own
            )
            verb = "forwards" if is_own else "lets go alone"
            said.append(f"{verb} {self._said(row)}, time {self.say_time(row.record_time_ms)}")
        return said


def _has_value(change: Change) -> bool:
    return "value" in (change.after or change.before or {})


def _is_valid_at(entry: dict[str, Any], time_ms: int) -> bool:
    """Whether a table's row is its value as of a time; a plain table has the newest only."""
    if "valid_from_ms" not in entry:
        return True
    until = entry["valid_to_ms"]
    return entry["valid_from_ms"] <= time_ms and (until is None or time_ms < until) and entry["value"] is not None


_TELLERS: dict[type[Node], Callable[[Teller, Moment], list[str]]] = {
    nodes.FilterNode: Teller._filter,
    nodes.TableFilterNode: Teller._filter,
    nodes.MapValuesNode: Teller._step,
    nodes.SelectKeyNode: Teller._step,
    nodes.MapNode: Teller._step,
    nodes.FlatMapNode: Teller._step,
    nodes.PeekNode: Teller._pass,
    nodes.MergeNode: Teller._pass,
    nodes.ToStreamNode: Teller._pass,
    nodes.SinkNode: Teller._sink,
    nodes.AggregateNode: Teller._aggregate,
    nodes.CogroupNode: Teller._aggregate,
    nodes.DistinctNode: Teller._aggregate,
    nodes.DeduplicateNode: Teller._deduplicate,
    nodes.SuppressNode: Teller._suppress,
    nodes.ReorderNode: Teller._room,
    nodes.StreamTableJoinNode: Teller._lookup,
    nodes.StreamGlobalTableJoinNode: Teller._rest,
    nodes.StreamJoinNode: Teller._stream_join,
}
