"""Random tapes for the topics of a scenario.

Rule: small ranges, so that ties, late records, nulls and jumps over many windows happen; keys that begin one another,
empty strings and code points beyond the first plane.
"""

from random import Random
from typing import Any

KEYS = (["a", "b"], ["a", "b", "c", "aa", "ab", ""], ["0", "1", "a"], ["k", "é", "ключ", "a\0", "a"])
INTEGERS = [0, 1, -1, 2, -3, 7, 12, -8, 2**40, -(2**40)]
STRINGS = ["", "x", "a|b", "a|c", "b|a", "|z", "b|", "é", "日本|q", "🙂🙂", "12", "null", "zzz|w|", "|"]


def tape(dice: Random, scale: int, kinds: dict[str, str], *, has_offsets: bool) -> list[dict[str, Any]]:
    """Records of all topics, in order of processing. ``kinds``: what the values of each topic are."""
    keys, records = dice.choice(KEYS), []
    few = dice.random() < 0.5
    values = {topic: _values(dice, kind, few) for topic, kind in kinds.items()}
    null_keys, null_values = dice.choice([0, 0, 0.05, 0.2]), dice.choice([0, 0.1, 0.3])
    jumps, out_of_order = dice.choice([0.02, 0.1, 0.3]), dice.choice([0, 0.2, 0.5])
    time_ms = dice.choice([0, 0, 5, 1_000]) * scale
    for _ in range(dice.choice([5, 15, 30, 60])):
        is_jump = dice.random() < jumps
        time_ms += dice.randrange(1, 80) * scale if is_jump else dice.randrange(4) * dice.choice([scale, 1])
        late_ms = dice.randrange(60) * dice.choice([scale, 1]) if dice.random() < out_of_order else 0
        topic = dice.choice(list(kinds))
        record = {
            "topic": topic,
            "key": None if dice.random() < null_keys else dice.choice(keys),
            "value": None if dice.random() < null_values else dice.choice(values[topic]),
            "ts": max(0, time_ms - late_ms),
        }
        if has_offsets and dice.random() < 0.1:
            record["offset"] = dice.choice([None, 0, 1, 2, 3])
        records.append(record)
    return records


def _values(dice: Random, kind: str, few: bool) -> list[Any]:
    values = {"integers": INTEGERS, "strings": STRINGS, "both": INTEGERS + STRINGS}[kind]
    return dice.sample(values, 4) if few else values
