"""The last done row in the words of changed code: where each task of the new topology continues.

Owns the mapping from the numbers that the previous code left (by sub-topology, partition, queue) to those of the
current code. Rule: a store's counters follow the store, the next offset of a table follows the table, the place on the
tape follows the topics that a task reads; nothing follows a number of Kafka's. Where sub-topologies have become one,
its stream time is the largest of theirs, as Kafka's would be.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...state.tables.ledger_rows import DoneRow
from ...state.tables.names import REPARTITION, TableName, TaskId
from ...state.tables.task_entry import TaskEntry
from ...state.times import NO_TIMESTAMP_MS
from .store_rules import merged_types

Content = Mapping[str, Any]


def carried(previous: DoneRow, now: dict[str, Any], sources: Mapping[str, str], increment: int) -> DoneRow:
    """``previous`` (the done row of ``increment``, which has the code) as the code of ``now`` would have left it.

    ``sources``: store of today → from before. What the topology has no more is kept under ``code``, ``removed``.
    """
    before = previous.code
    assert before is not None
    code = now | {"stores": _known(before, now, sources), "removed": _removed(before, now, sources, increment)}
    code["next_offsets"] = _next_offsets(previous, before)
    return replace(
        previous,
        code=code,
        tasks=_tasks(previous, before, code, sources),
        tape_times=_tape_times(previous, before),
        partitions=_partitions(previous, before, now, sources),
    )


def forget_rows(row: DoneRow, stores: list[str]) -> None:
    """The rows of ``stores`` are made again: their tables have the current columns and never had others. Some of the
    new rows may be due at a time at which all old ones had left.
    """
    code = row.code
    assert code is not None
    for name in stores:
        code["stores"][name].pop("known", None)
        code["removed"]["stores"].pop(name, None)
        for entry in row.tasks.values():
            if name in entry.counters:
                entry.counters[name].pop("left_ms", None)


def _known(before: Content, now: Content, sources: Mapping[str, str]) -> dict[str, Any]:
    """Stores of today, each with every column that its table has ever had, if those are more."""
    stores = {}
    for name, store in now["stores"].items():
        known = store["schema"]
        if sources.get(name) == name:
            old = before["stores"][name]
            had = old.get("known", old["schema"])
            known = {column: merged_types(had.get(column), known.get(column)) for column in {**had, **known}}
        stores[name] = store if known == store["schema"] else store | {"known": known}
    return stores


def _removed(before: Content, now: Content, sources: Mapping[str, str], increment: int) -> dict[str, Any]:
    removed = {}
    for kind in ("stores", "outputs"):
        gone = dict(before.get("removed", {}).get(kind, {}))
        gone |= {name: part | {"increment": increment} for name, part in before[kind].items() if name not in now[kind]}
        # An output that is back continues behind its old rows. A store that is back stays listed: it is refused, or its
        # rows are migrated, and then `forget_rows` takes it off the list.
        removed[kind] = {name: part for name, part in gone.items() if kind == "stores" or name not in now[kind]}
    return {"stores": {n: s for n, s in removed["stores"].items() if n not in sources}, "outputs": removed["outputs"]}


def _next_offsets(previous: DoneRow, before: Content) -> dict[str, dict[str, int]]:
    """Of every table that ever had rows with offsets: the next one, by partition as text."""
    next_offsets: dict[str, dict[str, int]] = {
        table: dict(offsets) for table, offsets in before.get("next_offsets", {}).items()
    }
    for task, entry in previous.tasks.items():
        partition = str(TaskId.of(task).partition)
        for table, offset in entry.next_offsets.items():
            offsets = next_offsets.setdefault(table, {})
            offsets[partition] = max(offset, offsets.get(partition, 0))
    return next_offsets


def _tasks(previous: DoneRow, before: Content, code: Content, sources: Mapping[str, str]) -> dict[str, TaskEntry]:
    old_tasks = previous.tasks
    partitions = sorted({TaskId.of(task).partition for task in old_tasks})
    remapped: dict[str, TaskEntry] = {}
    for number, sub in code["sub_topologies"].items():
        stores = {name: store for name, store in code["stores"].items() if str(store["sub_topology"]) == number}
        above = list(_same(number, sub, stores, before, sources))
        for p in partitions:
            entries = [(old, old_tasks[task]) for old in above if (task := str(TaskId(int(old), p))) in old_tasks]
            offsets = _offsets(code, sub, str(p))
            if entries or offsets:
                entry = _task(sub, stores, entries, previous, before, sources)
                remapped[str(TaskId(int(number), p))] = replace(entry, next_offsets=offsets)
    return remapped


def _same(number: str, sub: Content, stores: Content, before: Content, sources: Mapping[str, str]) -> Iterator[str]:
    """Sub-topologies from before that read what ``sub`` reads, or kept its stores."""
    kept = {sources[name] for name in stores if name in sources}
    # Unless Grouped names it, Kafka names a repartition topic after the store behind it ("<store>-repartition"): it has
    # another name as soon as the store has.
    renamed = {
        before["stores"][sources[name]]["repartition"]: store["repartition"]
        for name, store in stores.items()
        if name in sources
    }
    reads = set(sub["reads"])
    for old, part in before["sub_topologies"].items():
        of_old = {name for name, store in before["stores"].items() if str(store["sub_topology"]) == old}
        if reads & {renamed.get(name, name) for name in part["reads"]} or kept & of_old:
            yield old


def _task(
    sub: Content,
    stores: Content,
    entries: list[tuple[str, TaskEntry]],
    previous: DoneRow,
    before: Content,
    sources: Mapping[str, str],
) -> TaskEntry:
    counters = {store: counted for _, entry in entries for store, counted in entry.counters.items()}
    olds = [entry for _, entry in entries]
    return TaskEntry(
        counters={name: dict(counters[sources[name]]) for name in stores if sources.get(name) in counters},
        row_keys={name: store["row_key"] for name, store in stores.items()},
        stream_time_ms=max((entry.stream_time_ms for entry in olds), default=NO_TIMESTAMP_MS),
        tape_time_ms=max((entry.tape_time_ms for entry in olds), default=NO_TIMESTAMP_MS),
        tape_position=max((entry.tape_position for entry in olds), default=0),
        heap=_heap(sub, entries, previous, before),
        partition_times=_partition_times(olds),
    )


def _partition_times(olds: list[TaskEntry]) -> dict[str, int]:
    """Of topics that have, or had, a timestamp extractor: the largest time that it gave a record of the partition."""
    times: dict[str, int] = {}
    for entry in olds:
        for topic, time_ms in entry.partition_times.items():
            times[topic] = max(time_ms, times.get(topic, NO_TIMESTAMP_MS))
    return times


def _offsets(code: Content, sub: Content, partition: str) -> dict[str, int]:
    """Next offsets of what the sub-topology writes: its outputs, and the repartition tables that it reads."""
    tables = [*sub["writes"], *(TableName.repartition(name) for name in sub["reads"])]
    offsets: Content = code["next_offsets"]
    return {table: offsets[table][partition] for table in tables if partition in offsets.get(table, {})}


def _heap(sub: Content, entries: list[tuple[str, TaskEntry]], previous: DoneRow, before: Content) -> list[int] | None:
    """Queues that the previous tasks left in their heaps, by the current numbers; those that are no more are left
    out, and behind them comes what is new.
    """
    counts = {topic: len(partitions) for topic, partitions in previous.cut_to.items()}
    names: list[Any] = []
    for old, entry in entries:
        queues = _queues(before["sub_topologies"][old], counts)
        names += [queues[number] for number in entry.heap or []]
    if not names:
        return None
    numbers = {name: number for number, name in enumerate(_queues(sub, counts)) if name is not None}
    # Each once: tasks that have become one may both have had a queue of the same topic.
    return [numbers[name] for name in dict.fromkeys(names) if name in numbers]


def _queues(sub: Content, counts: Mapping[str, int]) -> list[Any]:
    """Names of a task's queues by number: its topics, then every partition of its global tables."""
    of_globals = [(topic, p) for topic in sub["globals"] for p in range(counts.get(topic, 0))]
    return [*sub["queues"], *of_globals]


def _tape_times(previous: DoneRow, before: Content) -> dict[str, Any]:
    """By topic and partition. A topic that a task read alone had its time in the task's entry."""
    by_topic = {topic: dict(times) for topic, times in (previous.tape_times or {}).items()}
    for task, entry in previous.tasks.items():
        number, partition = map(str, TaskId.of(task))
        sub = before["sub_topologies"].get(number, {"queues": [], "globals": [], "reads": []})
        if len(sub["reads"]) == 1 and sub["queues"] and sub["queues"][0] is not None and not sub["globals"]:
            times = by_topic.setdefault(sub["queues"][0], {})
            times[partition] = max(times.get(partition, NO_TIMESTAMP_MS), entry.tape_time_ms)
    return by_topic


def _partitions(previous: DoneRow, before: Content, now: Content, sources: Mapping[str, str]) -> dict[str, int]:
    """Of the repartition tables; one under a new name above a store from before keeps the number of the old one."""
    # The other entries count tasks by the number of a sub-topology, which may be another one's: the planner counts them
    # again.
    counts: dict[str, int] = {
        name: number for name, number in previous.partitions.items() if TableName(name).kind == REPARTITION
    }
    for name, old in sources.items():
        new_table, old_table = now["stores"][name]["repartition"], before["stores"][old]["repartition"]
        if new_table is not None and TableName.repartition(old_table) in counts:
            counts.setdefault(TableName.repartition(new_table), counts[TableName.repartition(old_table)])
    return counts
