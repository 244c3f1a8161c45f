"""Whether state continues under changed code: two records of a topology compared (jobs/code_changes/code_snapshot.py
writes them).

Owns the rule. A change is accepted when every stored row keeps its meaning. Settings of lateness, waiting or expiry
act from now on, a new store or output begins empty, and a new nullable column is null in older rows. One that makes
old rows mean something else is refused: another window, key, type or fold under the same name. Kafka's names decide
which state belongs to which operator, so a store that is gone while a new one looks like it is refused, too: most
likely a generated number has moved. Pure: records in, a verdict out.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...state.errors import ConfigError
from ...state.tables.names import TableName
from .store_rules import compare_stores, same_or_grown, type_words

Record = Mapping[str, Any]

# Kafka numbers its nodes with %010d (InternalStreamsBuilder.newProcessorName):
# "KSTREAM-AGGREGATE-STATE-STORE-0000000003", and "KSTREAM-JOINTHIS-0000000004-store" of a join.
_GENERATED = re.compile(r"-\d{10}(-|$)")


@dataclass(frozen=True)
class TopologyChange:
    """One difference. ``place``: "store 'hours'", "output 'x'", "topology". ``goes_on``: false when it is refused.

    ``store``: the name, where it is of one.
    """

    place: str
    what: str
    before: Any
    now: Any
    note: str
    goes_on: bool = True

    @property
    def store(self) -> str | None:
        kind, _, name = self.place.partition(" ")
        return name.strip("'") if kind == "store" else None

    def sentence(self) -> str:
        if self.before is None and self.now is None:
            return f"{self.place}: {self.what}: {self.note}"
        return f"{self.place}: {self.what} was {_shown(self.before)}, is {_shown(self.now)}: {self.note}"

    def record(self) -> dict[str, Any]:
        """As JSON, for the ledger's plan."""
        return {"place": self.place, "what": self.what, "before": self.before, "now": self.now, "note": self.note}


@dataclass(frozen=True)
class Compatibility:
    """``sources``: where the rows of every store come from that had some: its name of today → from before."""

    changes: tuple[TopologyChange, ...]
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def refused(self) -> tuple[TopologyChange, ...]:
        return tuple(change for change in self.changes if not change.goes_on)

    @property
    def goes_on(self) -> bool:
        return not self.refused


@dataclass(frozen=True)
class StateRequests:
    """What the user says of the change. ``renamed``: store from before → its name now, None to let its rows go;
    ``migrated``: stores (names of today) whose old rows a function turns into new ones.
    """

    renamed: Mapping[str, str | None] = field(default_factory=dict)
    migrated: Collection[str] = ()


def compare(
    before: Record, now: Record, partitions: Mapping[str, int], requests: StateRequests | None = None
) -> Compatibility:
    """The verdict on continuing with the state of ``before`` under the code of ``now``.

    ``partitions``: of each repartition table, as ``repartition/<name>``. Raises ConfigError for a request that fits
    neither the previous nor the current code.
    """
    requests = requests or StateRequests()
    renamed = _renamed(before, now, requests)
    sources = _sources(before, now, renamed)
    comparable = before["made_with"] == now["made_with"]
    changes = [*_whole(before, now), *_repartitions(before, now, partitions, comparable)]
    for name, store in now["stores"].items():
        if name in sources:
            changes += _store(before["stores"][sources[name]], store, (sources[name], name), requests, comparable)
        else:
            changes.append(_begun(before, name, requests))
    changes += _gone(before, now, sources, renamed, requests, comparable)
    changes += _outputs(before, now, comparable)
    return Compatibility(tuple(changes), sources)


def is_generated(name: str) -> bool:
    """Whether Kafka's numbering made the name of a store, so that operators added before it change it."""
    return _GENERATED.search(name) is not None


def _renamed(before: Record, now: Record, requests: StateRequests) -> dict[str, str | None]:
    """Requests that are still to be carried out: a repeated command asks for what is done already."""
    left: dict[str, str | None] = {}
    for old, new in requests.renamed.items():
        if new is not None and new not in now["stores"]:
            known = ", ".join(sorted(now["stores"]))
            raise ConfigError(f"renamed {old!r}", f"a store of the topology, one of {known}", repr(new), "correct it")
        if old not in before["stores"]:
            if new is None or new in before["stores"]:
                continue
            known = ", ".join(sorted(before["stores"]))
            raise ConfigError(f"renamed {old!r}", f"a store that has rows, one of {known}", repr(old), "correct it")
        if new is None and old in now["stores"]:
            next_step = "migrate it with a function that gives no rows"
            raise ConfigError(f"renamed {old!r}", "a store that the topology has no more", repr(old), next_step)
        # Both names may have rows and be in use: the old name was given to another store after the rename. A command
        # that is given again asks for that rename once more, and it must not move rows twice.
        if new is None or old not in now["stores"] or new not in before["stores"]:
            left[old] = new
    # Names that move up by one: what was in the new name's store is still to leave it, so this one is not done.
    waiting = {old: new for old, new in requests.renamed.items() if old in before["stores"]}
    while undone := {old: new for old, new in waiting.items() if old not in left and new in left}:
        left |= undone
    _refuse_unclear(left, requests.renamed, before["stores"])
    return left


def _refuse_unclear(
    left: Mapping[str, str | None], requested: Mapping[str, str | None], had_rows: Collection[str]
) -> None:
    """Raises ConfigError for two renames to one name, and for a rename of which nobody can know whether it is done.
    ``left``: those of ``requested`` that are still to be carried out; ``had_rows``: names of stores before.
    """
    wanted = [new for new in left.values() if new is not None]
    for old, new in left.items():
        if new is not None and wanted.count(new) > 1:
            others = ", ".join(repr(each) for each in left if left[each] == new)
            raise ConfigError(f"renamed {old!r}", "one store for each new name", f"{others}: {new!r}", "correct it")
    source_of = {new: old for old, new in [*requested.items(), *left.items()]}
    for old, new in requested.items():
        if new is None or old in left or old not in had_rows:
            continue
        # It looks done: both names have rows and are in use. It is not, where rows of another store
        # are still to come to the old name: its own would be lost. A circle never looks undone.
        other, seen = source_of.get(old), {old}
        while other is not None and other in had_rows and other not in left and other not in seen:
            seen.add(other)
            other = source_of.get(other)
        if other in had_rows:
            raise ConfigError(
                f"renamed {old!r}",
                "a rename to a name that had no rows, or one that is done",
                f"{new!r}, which has rows of its own, while rows of {source_of[old]!r} are to come to {old!r}",
                "give the stores names that none had before (Materialized.as_), and rename to these",
            )


def _sources(before: Record, now: Record, renamed: Mapping[str, str | None]) -> dict[str, str]:
    # A store whose rows go to another name gives none to the store that has its name today: that one begins empty.
    sources = {name: name for name in now["stores"] if name in before["stores"] and name not in renamed}
    return sources | {new: old for old, new in renamed.items() if new is not None}


def _whole(before: Record, now: Record) -> Iterator[TopologyChange]:
    if before["semantics"] != now["semantics"]:
        note = "a pipeline never mixes the two"
        yield TopologyChange("topology", "semantics", before["semantics"], now["semantics"], note, goes_on=False)
    read, reads = (
        {topic for sub in record["sub_topologies"].values() for topic in (*sub["queues"], *sub["globals"]) if topic}
        for record in (before, now)
    )
    for topic in sorted(reads - read):
        yield TopologyChange(
            f"topic {topic!r}", "new", None, None, "it is read from its first landed record, or from its cut"
        )
    for topic in sorted(read - reads):
        yield TopologyChange(
            f"topic {topic!r}", "not read any more", None, None, "its cut is kept, should it come back"
        )


def _repartitions(
    before: Record, now: Record, partitions: Mapping[str, int], comparable: bool
) -> Iterator[TopologyChange]:
    yield from _connected(before, now)
    for name, node in now["repartitions"].items():
        had = partitions.get(TableName.repartition(name))
        wanted = node["partitions"]
        # None: the topology asks for no number, so the table keeps the one it was made with (Planner.partitions).
        if had is not None and wanted is not None and wanted != had:
            note = "keys would move away from their rows"
            yield TopologyChange(f"repartition {name!r}", "partitions", had, wanted, note, goes_on=False)
        form = before["repartitions"].get(name, node).get("key")
        if comparable and form != node["key"]:
            note = "keys are in the partitions of their new bytes from now on"
            yield TopologyChange(f"repartition {name!r}", "key", form, node["key"], note)


def _connected(before: Record, now: Record) -> Iterator[TopologyChange]:
    """Outputs that the topology reads itself from now on, or does not any more: their rows stay where they are."""
    was, is_ = (set(record["outputs"]) & set(record["repartitions"]) for record in (before, now))
    for name in sorted((is_ - was) & set(before["outputs"])):
        note = "what was written to it before is not read; its new rows are in the partitions of their keys"
        yield TopologyChange(f"topic {name!r}", "read by the topology", None, None, note)
    for name in sorted((was - is_) & set(now["outputs"])):
        note = "its new rows are in the partitions of who writes them"
        yield TopologyChange(f"topic {name!r}", "not read by the topology any more", None, None, note)


def _store(
    before: Record, now: Record, names: tuple[str, str], requests: StateRequests, comparable: bool
) -> Iterator[TopologyChange]:
    place = f"store {names[1]!r}"
    if names[0] != names[1]:
        yield TopologyChange(place, "name", names[0], names[1], "its rows are taken along")
    # Where the number in a generated name has moved, another operator's store may have it, and only the steps above
    # show that. Whoever renames a store has said that it is the same one.
    is_strict = is_generated(names[0]) and names[0] == names[1]
    for what, old, new, note, goes_on in compare_stores(before, now, comparable=comparable, is_strict=is_strict):
        if names[1] in requests.migrated and not goes_on:
            yield TopologyChange(place, what, old, new, "its rows go through the migration function")
            continue
        if not goes_on and is_generated(names[1]):
            note = f"{note}; its name is generated, and an operator added before it may have moved the numbers"
        yield TopologyChange(place, what, old, new, note, goes_on)


def _begun(before: Record, name: str, requests: StateRequests) -> TopologyChange:
    removed = before.get("removed", {}).get("stores", {})
    if name not in removed:
        return TopologyChange(
            f"store {name!r}", "new", None, None, "it is empty: what it leads to begins with the next record"
        )
    since = removed[name]["increment"]
    if name in requests.migrated:
        return TopologyChange(f"store {name!r}", "is back", None, None, "its rows go through the migration function")
    note = f"its rows end with increment {since} and miss what came since; use another name, or migrate it"
    return TopologyChange(f"store {name!r}", "is back", None, None, note, goes_on=False)


def _gone(
    before: Record,
    now: Record,
    sources: Mapping[str, str],
    renamed: Mapping[str, str | None],
    requests: StateRequests,
    comparable: bool,
) -> Iterator[TopologyChange]:
    taken = set(sources.values())
    begun = [name for name in now["stores"] if name not in sources]
    for old in before["stores"]:
        if old in taken:
            continue
        alike = [new for new in begun if _is_alike(before["stores"][old], now["stores"][new], comparable)]
        if not alike or (old in renamed and renamed[old] is None):
            yield TopologyChange(
                f"store {old!r}", "removed", None, None, "its rows stay readable as of the increments before"
            )
            continue
        names = " or ".join(repr(new) for new in alike)
        why = "an operator that was added or removed moved the numbers in the names; " if is_generated(old) else ""
        request = f"renamed={{{old!r}: {alike[0]!r}}}"
        note = (
            f"{why}{names} is new and made alike, and would begin empty: name the store (Materialized.as_, or name= of "
            f"its operator), say {request} to take its rows along, or renamed={{{old!r}: None}} to let them go"
        )
        yield TopologyChange(f"store {old!r}", "gone", None, None, note, goes_on=False)


def _is_alike(before: Record, now: Record, comparable: bool) -> bool:
    changes = compare_stores(before, now, comparable=comparable, is_strict=False)
    return all(goes_on for *_, goes_on in changes)


def _outputs(before: Record, now: Record, comparable: bool) -> Iterator[TopologyChange]:
    removed = before.get("removed", {}).get("outputs", {})
    for name, output in now["outputs"].items():
        place, old = f"output {name!r}", before["outputs"].get(name, removed.get(name))
        if old is None:
            yield TopologyChange(place, "new", None, None, "it begins with the next increment")
            continue
        if name not in before["outputs"]:
            note = f"its offsets continue; it has nothing of the increments after {old['increment']}"
            yield TopologyChange(place, "is back", None, None, note)
        yield from _columns(place, old["schema"], output["schema"])
        if comparable and old["steps"] != output["steps"]:
            yield TopologyChange(
                place, "steps", old["steps"], output["steps"], "records come through other steps from now on"
            )
    for name in before["outputs"]:
        if name not in now["outputs"]:
            yield TopologyChange(f"output {name!r}", "removed", None, None, "what it has stays readable")


def _columns(place: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[TopologyChange]:
    for column in sorted({*before, *now}):
        old, new = before.get(column), now.get(column)
        if old == new:
            continue
        if column == "value" and same_or_grown(old, new):
            note = "fields that it gains are null in what is there"
            yield TopologyChange(place, column, type_words(old), type_words(new), note)
        else:
            note = "write to an output of another name"
            yield TopologyChange(place, column, type_words(old), type_words(new), note, goes_on=False)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    return "none" if value is None else str(value)
