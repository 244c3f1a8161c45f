"""Increments that followed each other as one: what they read, wrote and spent in all, and where the last of them ended.

Rule: a number that has no sum is left out where there are several: averages of an operator. The average lateness has
one, since the ledger counts the records.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...state.tables.ledger_rows import Cut, DoneRow, PlanRow
from .books import add_books

Numbers = Mapping[str, Any]


def as_one(rows: Sequence[tuple[PlanRow, DoneRow]]) -> tuple[PlanRow, DoneRow]:
    """The two ledger rows of all of ``rows``, which are in order. There must be one."""
    plans, dones = [plan for plan, _ in rows], [done for _, done in rows]
    if len(rows) == 1:
        return rows[0]
    plan = replace(
        plans[-1],
        cut_from=_united([plan.cut_from for plan in reversed(plans)]),
        cut_to=_united([plan.cut_to for plan in plans]),
        records=sum(plan.records for plan in plans),
    )
    counts = [done.lateness_counts_by_sub_topology or {} for done in dones]
    done = replace(
        dones[-1],
        books=_books([done.books for done in dones if done.books is not None]),
        outputs=_added([done.outputs or {} for done in dones]),
        lateness=_lateness(
            [done.lateness or {} for done in dones], [sum(map(_records, each.values())) for each in counts]
        ),
        lateness_by_sub_topology={
            sub: _lateness(each, [_records(count.get(sub, {})) for count in counts])
            for sub, each in _by_name([done.lateness_by_sub_topology or {} for done in dones])
        },
        lateness_counts_by_sub_topology={sub: _added(each) for sub, each in _by_name(counts)},
        seconds_by_sub_topology={
            sub: _added(each) for sub, each in _by_name([done.seconds_by_sub_topology or {} for done in dones])
        },
        seconds=_added([done.seconds or {} for done in dones]),
        requests=_added([done.requests or {} for done in dones]),
        operators={node: _numbers(each) for node, each in _by_name([done.operators or {} for done in dones])},
        rss_bytes_max=max(done.rss_bytes_max or 0 for done in dones),
        spark_tasks=sum(done.spark_tasks or 0 for done in dones),
    )
    return plan, done


def _books(each: Sequence[dict[str, Any]]) -> dict[str, Any]:
    by_sub = {sub: add_books(list(books)) for sub, books in _by_name([books["by_sub_topology"] for books in each])}
    return add_books(list(each)) | {"by_sub_topology": by_sub}


def _by_name(each: Sequence[Mapping[str, Any]]) -> Iterable[tuple[str, list[Any]]]:
    """Of every name, what each of them has, {} where it has none."""
    names = dict.fromkeys(name for one in each for name in one)
    return [(name, [one.get(name, {}) for one in each]) for name in names]


def _united(cuts: Sequence[Cut]) -> Cut:
    """Of each partition the offset of the last cut that has one."""
    union: Cut = {}
    for cut in cuts:
        for topic, ends in cut.items():
            union[topic] = union.get(topic, {}) | ends
    return union


def _added(each: Sequence[Numbers]) -> dict[str, Any]:
    names = dict.fromkeys(name for one in each for name in one)
    return {name: sum(one.get(name, 0) for one in each) for name in names}


def _records(counts: Numbers) -> int:
    return sum(counts.values())


def _lateness(each: Sequence[Numbers], records: Sequence[int]) -> dict[str, float | int | None]:
    """``records``: of how many each average is."""
    known = [(one, count) for one, count in zip(each, records, strict=True) if one.get("max") is not None]
    total, has_counts = sum(count for _, count in known), all(count for _, count in known)
    return {
        "avg": sum(one["avg"] * count for one, count in known) / total if total and has_counts else None,
        "max": max((one["max"] for one, _ in known), default=None),
    }


def _numbers(each: Sequence[Numbers]) -> dict[str, float | None]:
    """Of one operator. ``…_current`` and what is of no other kind: as of the last increment."""
    names = dict.fromkeys(name for one in each for name in one)
    return {name: _number(name, [one[name] for one in each if one.get(name) is not None]) for name in names}


def _number(name: str, values: list[Any]) -> float | None:
    totals: dict[str, Callable[[list[Any]], Any]] = {"emitted": sum, "max": max, "min": min}
    kind = name.removesuffix("_ms").rpartition("_")[2]
    if not values or kind == "avg":
        return None
    number: float = totals[kind](values) if kind in totals else values[-1]
    return number
