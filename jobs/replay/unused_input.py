"""Of an increment, and of a run: topics of which every record was left out, and declared fields that no record has.

Rule: the newest increments count. What was there before and is absent since is said, and what came back is not.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..execution.task_description import TaskReport
from .increment_report import IncrementReport

Unused = dict[str, dict[str, Any]]
"""By topic. `left_out`: how many records, where that are all; `last`: the steps that they came to last; `first`: a
record as `replay explain` takes it. `values`: how many; `fields`: those that none of them has, each with near names.
"""

MANY = 100
"""A field that so many records lack is hardly one that they may lack."""


def unused_input(reports: Sequence[TaskReport]) -> Unused:
    """Of the tasks of an increment; topics of which something was used, and all fields, are not in it."""
    by_topic: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for report in reports:
        for topic, numbers in report.unused.items():
            by_topic.setdefault(topic, []).append((report.partition, numbers))
    return {topic: said for topic, tasks in by_topic.items() if (said := _together(topic, tasks))}


def _together(topic: str, tasks: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if all(numbers["is_left_out"] for _, numbers in tasks):
        partition, first = tasks[0][0], tasks[0][1]["first"]
        last = dict.fromkeys(name for _, numbers in tasks for name in numbers["last"])
        records = sum(numbers["records"] for _, numbers in tasks)
        said |= {"left_out": records, "last": [*last], "first": f"{topic}:{partition}:{first}"}
    valued = [numbers for _, numbers in tasks if numbers["values"]]
    if not valued:
        return said
    fields = [name for name in valued[0]["fields"] if all(name in numbers["fields"] for numbers in valued)]
    if fields:
        near = {name: [*dict.fromkeys(n for each in valued for n in each["fields"][name])] for name in fields}
        said |= {"values": sum(numbers["values"] for numbers in valued), "fields": near}
    return said


@dataclass
class _Topic:
    """``left_out`` records since one was not; ``fields``: name → how many records lack it since one had it."""

    is_first: bool
    left_out: int = 0
    last: dict[str, None] = field(default_factory=dict)
    first: str = ""
    fields: dict[str, int] = field(default_factory=dict)
    near: dict[str, list[str]] = field(default_factory=dict)

    def take(self, said: Mapping[str, Any]) -> None:
        """What the ledger has of one more increment, in which it was read."""
        if "left_out" in said:
            self.left_out += said["left_out"]
            self.last |= dict.fromkeys(said["last"])
            self.first = said["first"]
        else:
            self.left_out, self.last = 0, {}
        if said.get("values") or "left_out" not in said:
            self.near = said.get("fields", {})
            self.fields = {name: self.fields.get(name, 0) + said["values"] for name in self.near}


def sentences(reports: Iterable[IncrementReport], where: str) -> list[str]:
    """Of a run. ``where``: the options of `replay explain` that name the pipeline."""
    topics: dict[str, _Topic] = {}
    for report in reports:
        for name, end in report.cut_to.items():
            begin = report.cut_from.get(name, {})
            if all(begin.get(partition, 0) == offset for partition, offset in end.items()):
                continue
            topic = topics.setdefault(name, _Topic(is_first=not any(begin.values())))
            topic.take((report.done.unused or {}).get(name, {}))
    return [sentence for name, topic in topics.items() for sentence in _sentences(name, topic, where)]


def _sentences(name: str, topic: _Topic, where: str) -> Iterable[str]:
    said = [
        (field_, records) for field_, records in topic.fields.items()
        if topic.near[field_] or topic.left_out or topic.is_first or records >= MANY
    ]  # fmt: skip
    for field_, records in said:
        near = " or ".join(map(repr, topic.near[field_]))
        what_to_do = f"did you mean {near}?" if near else "a field that is missing is null"
        of, lacks = ("the 1 record", "lacks") if records == 1 else (f"none of {records:,} records", "has")
        yield f"{of} of {name} {lacks} the field {field_!r}, which its serde declares; {what_to_do}"
    if topic.left_out and (said or topic.is_first or topic.left_out >= MANY):
        many = topic.left_out > 1
        of = f"all {topic.left_out:,} records" if many else "the 1 record"
        step = f" by {' and '.join(topic.last)}" if topic.last else ""
        command = f"replay explain --record {shlex.quote(topic.first)} --topology TOPOLOGY{where}"
        yield f"{of} of {name} {'were' if many else 'was'} left out{step}; see `{command}`"
