"""Which differences between a store's record from before and of today leave its rows meaningful.

Rule: a setting that is not named here decides what rows mean, so that a difference is refused. Columns that name a row
stay as they are; others may gain fields, null in the previous rows, and lose some, which are read no more.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

Difference = tuple[str, Any, Any, str, bool]
"""What, before, now, a sentence, and whether the rows still mean the same."""

_FROM_NOW_ON = {
    "wait_ms": "what waits leaves by the new wait",
    "emit": "results continue by the new strategy; windows that have closed and are still kept leave as final",
    "is_persistent": "rows expire by the rules of the other kind from now on",
    "max_records": "the buffer has the new bound from now on",
    "max_bytes": "the buffer has the new bound from now on; what waits since before counts as no bytes if none were"
    " counted",
    "when_full": "a full buffer does this from now on",
    "steps": "records come through other steps from now on; what they left so far stays",
    "functions": "other Python functions take the rows on from where they are",
}
_SHORTER_GRACE = "it decides from now on what is late; windows past the new grace are closed"
_LONGER_GRACE = (
    "it decides from now on what is late; a window that was closed may take records again: from nothing if its row"
    " has expired, and with a second final result"
)
_KEEPING = {"retention_ms", "history_retention_ms", "interval_ms"}
"""How long rows are kept."""

_TEXTS = {"keys", "values", "steps", "functions", "id", "folds", "times", "key_serdes"}
"""Settings that quote expressions or functions, comparable only between equal versions of polars and Python."""

_OWN_SERDE = "Serde.of("
"""So the name of a serde begins that has digits of functions."""

_READS_OTHERS = re.compile(r"(Serde\.list\()*Serde\.(json|protobuf|confluent_\w+)\(")
"""Serdes that read values which another schema of theirs wrote: by names, numbers, or an id in the bytes."""

_NOT_STORED = {"stream table join": {"kind"}}
"""Settings of an operator that its rows do not know of."""

_WHY = {
    "topics": "its rows are of other topics",
    "keys": "its rows have keys of another meaning",
    "key_windows": "its rows have keys of other windows",
    "spread": "its rows are in partitions where their keys do not come any more",
    "key_serdes": "its rows are in the partitions of their keys' bytes, which the other serde writes in another form",
    "values": "its rows were computed in another way, and changes would take back what was never added",
    "knows_old": "what waits does not know the values that it replaced",
    "left_value": "answers would be taken for stale, since the value's bytes are others",
    "row_key": "its rows are named in another way",
    "times": "its rows have times of another meaning",
    "operator": "another operator keeps it",
}
_NEW_FOLD = "null in aggregates from before until their next record, and then of what came since"
_OTHER_FOLD = "aggregates from before are of the other fold: give the new one a name of its own"
_OTHERWISE = "its rows were made under the other setting"


def compare_stores(
    before: Mapping[str, Any], now: Mapping[str, Any], *, comparable: bool, is_strict: bool
) -> Iterator[Difference]:
    """Every difference; where the operator or the naming of rows differs, that alone.

    ``comparable``: texts of expressions are of equal versions. ``is_strict``: the name may have come to this operator
    by chance, so that other steps are refused, too.
    """
    for name in ("operator", "row_key"):
        if before[name] != now[name]:
            yield name, before[name], now[name], _WHY[name], False
            return
    yield from _columns(before, now)
    old, new = before["settings"], now["settings"]
    for name in sorted({*old, *new}):
        if old.get(name) == new.get(name):
            continue
        is_one_of_both = name == "times" and bool(old.get(name)) != bool(new.get(name))  # an extractor came or went
        # Folds are compared all the same: which names there are, and the kind of each, do not depend on versions.
        is_text = name in _TEXTS or _OWN_SERDE in f"{old.get(name)}"
        if is_text and name != "folds" and not comparable and not is_one_of_both:
            continue
        if name == "key_serdes" and not (old.get(name) and new.get(name)):  # "spread" says it
            continue
        if name == "folds":
            takes_back = now["operator"] == "table fold"
            yield from _folds(old.get(name, {}), new.get(name, {}), comparable, takes_back=takes_back)
        elif name == "stores":
            yield from _processor_stores(old.get(name, {}), new.get(name, {}), comparable)
        else:
            yield _setting(now["operator"], name, old.get(name), new.get(name), is_strict)


def _setting(operator: str, name: str, before: Any, now: Any, is_strict: bool) -> Difference:
    if is_strict and name in ("steps", "functions"):
        return name, before, now, "the store may be another operator's now: name it", False
    if name == "grace_ms" and before is not None and now is not None:
        return name, before, now, _SHORTER_GRACE if now < before else _LONGER_GRACE, True
    if name in _FROM_NOW_ON:
        return name, before, now, _FROM_NOW_ON[name], True
    if name in _KEEPING and before is not None and now is not None:
        shorter = "rows that are older expire" if now < before else "what has expired already is gone"
        return name, before, now, shorter, True
    if name == "knows_old" and not now:
        return name, before, now, "nobody asks for the values that changes replaced any more", True
    if name == "topics" and before and now and set(before) & set(now):
        return name, before, now, "records of these topics come to it from now on", True
    if name in _NOT_STORED.get(operator, ()):
        return name, before, now, "records join by the new kind from now on", True
    return name, before, now, _WHY.get(name, _OTHERWISE), False


def _folds(
    before: Mapping[str, str], now: Mapping[str, str], comparable: bool, *, takes_back: bool
) -> Iterator[Difference]:
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        what = f"fold {name!r}" if name else "fold"
        if old is None:
            yield what, None, new, _WHY["values"] if takes_back else _NEW_FOLD, not takes_back
        elif new is None:
            yield what, old, None, "it is kept no more", True
        # The first word is the kind of the fold, in our words; behind it may be an expression in polars' words.
        elif old != new and (comparable or old.split()[0] != new.split()[0]):
            yield what, old, new, _OTHER_FOLD, False


def _processor_stores(before: Mapping[str, Any], now: Mapping[str, Any], comparable: bool) -> Iterator[Difference]:
    for name in sorted({*before, *now}):
        old, new, what = before.get(name), now.get(name), f"store {name!r}"
        if old is None:
            yield what, None, "new", "it is empty, unless it was there before", True
        elif new is None:
            yield what, "there", None, "its rows stay, and nobody reads them", True
        elif other := _other_settings(old, new):
            for setting in other:
                yield _kind_of_store(f"{what} {setting}", setting, old.get(setting), new.get(setting))
        elif old["key"] != new["key"]:
            yield f"{what} key", type_words(old["key"]), type_words(new["key"]), _OTHERWISE, False
        elif not same_or_grown(old["value"], new["value"]):
            note = "its values are of another type"
            yield f"{what} value", type_words(old["value"]), type_words(new["value"]), note, False
        else:
            if old["value"] != new["value"]:
                note = "fields that it gains are null in its rows"
                yield f"{what} value", type_words(old["value"]), type_words(new["value"]), note, True
            if comparable:
                yield from _serdes(what, old["serdes"], new["serdes"])


def _serdes(what: str, before: list[str], now: list[str]) -> Iterator[Difference]:
    """Of a processor's store, which keeps the bytes that its serdes for keys and values write."""
    for part, old, new in zip(("key", "value"), before, now, strict=True):
        formats = [None if match is None else match[0] for match in map(_READS_OTHERS.match, (old, new))]
        reads_old = part == "value" and formats[0] is not None and formats[0] == formats[1]
        if old != new and not reads_old:
            yield f"{what} serde of the {part}", old, new, "its rows have bytes of the other serde", False


def _other_settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs beside the types."""
    named = sorted({*before, *now} - {"key", "value", "serdes"})
    return [setting for setting in named if before.get(setting) != now.get(setting)]


def _kind_of_store(what: str, setting: str, before: Any, now: Any) -> Difference:
    if setting in _KEEPING and before is not None and now is not None:
        return what, before, now, "rows that are older expire" if now < before else "what has expired is gone", True
    if setting == "is_persistent" and before is not None and now is not None:
        return what, before, now, _FROM_NOW_ON[setting], True
    return what, before, now, _OTHERWISE, False


def _columns(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Difference]:
    known = before.get("known", before["schema"])
    for column in sorted({*before["schema"], *now["schema"]}):
        old, new = before["schema"].get(column), now["schema"].get(column)
        if old == new:
            continue
        shown = f"column {column}", type_words(old), type_words(new)
        if column in now["row_key"] or column in before["row_key"]:
            yield *shown, "it names the rows, which have it in the other type", False
        elif not same_or_grown(old, new):
            yield *shown, "its rows have the other type", False
        # The table keeps a removed column and its files the old values, which would be read again.
        elif _returns(known.get(column), old, new):
            yield *shown, "the table has such a field from before, with values that missed what came between", False
        else:
            note = "what it gains is null in its rows" if grows(old, new) else "what it loses is read no more"
            yield *shown, note, True


def same_or_grown(before: Any, now: Any) -> bool:
    """Whether values of type ``before`` can be read as ``now``: equal, absent on one side, or structs whose common
    fields can.
    """
    if before is None or now is None or before == now:
        return True
    if not isinstance(before, dict) or not isinstance(now, dict) or before.keys() != now.keys():
        return False
    if "list" in before:
        return same_or_grown(before["list"], now["list"])
    old, new = before["struct"], now["struct"]
    common = old.keys() & new.keys()
    # Structs without a common field are another type: all that is stored would be read as a struct of nulls.
    return bool(common) and all(same_or_grown(old[name], new[name]) for name in common)


def grows(before: Any, now: Any) -> bool:
    """Whether ``now`` has anything that ``before`` has not."""
    if before is None or now is None:
        return before is None and now is not None
    if not isinstance(now, dict) or before == now:
        return False
    if "list" in now:
        return grows(before["list"], now["list"])
    return any(grows(before["struct"].get(name), kind) for name, kind in now["struct"].items())


def merged_types(one: Any, other: Any) -> Any:
    """A type with the fields of both, which fit together."""
    if one is None or other is None or not isinstance(one, dict) or not isinstance(other, dict):
        return other if other is not None else one
    if "list" in one:
        return {"list": merged_types(one["list"], other["list"])}
    old, new = one["struct"], other["struct"]
    return {"struct": {name: merged_types(old.get(name), new.get(name)) for name in {**old, **new}}}


def _returns(known: Any, before: Any, now: Any) -> bool:
    """Whether something that ``now`` gains over ``before`` is in ``known``, what the table has ever had."""
    if known is None or now is None:
        return False
    if before is None:
        return True
    if not isinstance(now, dict):
        return False
    if "list" in now:
        return _returns(known["list"], before["list"], now["list"])
    old = before["struct"]
    return any(_returns(known["struct"].get(name), old.get(name), kind) for name, kind in now["struct"].items())


def type_words(kind: Any) -> str:
    """A recorded type as text."""
    if isinstance(kind, dict):
        if "list" in kind:
            return f"array<{type_words(kind['list'])}>"
        return f"struct<{', '.join(f'{name} {type_words(type_)}' for name, type_ in kind['struct'].items())}>"
    text = "none" if kind is None else str(kind)
    for recorded, word in _WORDS.items():
        text = text.replace(recorded, word)
    return text


_WORDS = {
    "date32[day]": "date",
    "time64[us]": "time",
    "timestamp[us, tz=UTC]": "timestamp",
    "timestamp[us]": "timestamp_ntz",
    "decimal128(": "decimal(",
}
"""Arrow's names of types, in the words of schemas."""
