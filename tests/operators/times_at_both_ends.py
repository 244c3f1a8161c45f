"""Tapes of every operator near both ends of time, played in the test driver.

Run as a program it plays them all in one way of running kernels (REPLAY_KERNELS) and prints what came out, as JSON.
"""

import json
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from kstreams_replay import TopologyTestDriver
from kstreams_replay.jobs.topology import Topology
from kstreams_replay.orchestration.cli.every_operator import topology
from tests.operators.other_operators import other_operators, sized

DAY = 86_400_000
LAST = 2**53 - 1
EARLY, LATE = 30 * DAY, LAST // DAY * DAY - DAY
"""Two days: all grids of windows and segments of stores begin with them."""
TOO_LATE = (LAST + 1, 2**62, 2**63 - 60_000, 2**63 - 1)
LAST_OFFSET = 2**63 - 2
SIZES = (1, LAST // 2, LAST - 1, LAST)
ENDS = (0, 1, 59_999, 60_000, LAST - 60_000, LAST - 1, LAST)
TOPICS = ("orders", "payments", "prices", "items", "everybody")


class Piped(NamedTuple):
    """One record."""

    topic: str
    key: str
    value: Any
    time_ms: int


def tape(seed: int, times: Sequence[int], records: int = 60) -> list[Piped]:
    """Records of all topics, at ``times`` by chance."""
    chance = random.Random(seed)
    found = []
    for _ in range(records):
        topic, word = chance.choice(TOPICS), chance.choice(("a", "bb", "ccc"))
        values = {"orders": {"page": word, "ms": 5, "price": 1.5}, "prices": chance.choice((1, 2, None))}
        value = values.get(topic, word if topic == "orders" or chance.random() < 0.9 else None)
        found.append(Piped(topic, chance.choice("xyz"), value, chance.choice(times)))
    return found


def in_order(records: Sequence[Piped]) -> list[Piped]:
    """By time, so that windows close."""
    return sorted(records, key=lambda record: record.time_ms)


def within_a_day(seed: int) -> list[int]:
    """Times after a day's begin."""
    chance = random.Random(seed)
    return [chance.choice((0, 60_000, 120_000, DAY - 180_000)) + chance.randrange(60_000) for _ in range(30)]


def played(records: Sequence[Piped], given: Topology | None = None, *, first_offset: int = 0) -> dict[str, Any]:
    """What came out: ``outputs``, ``dropped`` and ``dead``, as plain values; times too late are in ``dead`` alone. A
    topic's records have offsets from ``first_offset`` on; in ``dead`` they count from 0.
    """
    made = given or topology()
    driver, read_topics = TopologyTestDriver(made), set(made.source_topics())
    following = dict.fromkeys(TOPICS, first_offset)
    for record in records:
        if record.topic in read_topics:
            offset = following[record.topic]
            driver.pipe_input(record.topic, record.key, record.value, timestamp_ms=record.time_ms, offset=offset)
            following[record.topic] = offset + 1
    driver.run()
    outputs = {
        sink.topic: [
            [each.key, repr(each.value), each.timestamp_ms, None if each.window is None else list(each.window)]
            for each in driver.read_outputs(sink.topic)
        ]
        for sink in made.sinks()
    }
    dead = [[each.topic, each.offset - first_offset, each.reason] for each in driver.dead_letters]
    dropped = [[each.node, each.reason] for each in driver.dropped]
    return {"outputs": outputs, "dropped": dropped, "dead": dead}


def shifted(outputs: dict[str, Any], by_ms: int) -> dict[str, Any]:
    """``outputs`` that much later."""
    return {
        topic: [
            [key, value, time_ms + by_ms, None if window is None else [bound + by_ms for bound in window]]
            for key, value, time_ms, window in rows
        ]
        for topic, rows in outputs.items()
    }


def all_played(seeds: Sequence[int] = range(4)) -> list[dict[str, Any]]:
    """Of every seed a tape near the latest time, and one from both ends with times that are too late: through every
    operator, and with every size at both ends.
    """
    found = []
    for seed in seeds:
        times = within_a_day(seed)
        found.append(played(tape(seed, [LATE + time for time in times])))
        both_ends = tape(seed, (*ENDS, *TOO_LATE))
        found.append(played(both_ends))
        for made in (other_operators(), *map(sized, SIZES)):
            tapes = both_ends, in_order(both_ends)
            found += [played(records, made, first_offset=LAST_OFFSET - 60) for records in tapes]
    return found


if __name__ == "__main__":
    print(json.dumps(all_played()))
