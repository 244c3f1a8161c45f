"""Full queues are taken from in the order of java.util.PriorityQueue itself, wherever the tape is cut."""

import random
import subprocess
from pathlib import Path

import numpy as np
import pytest

from kstreams_replay.jobs.kernels.partition_group import NO_MORE, QueueOrder, merge_queues
from tests.jvm.streams import compiled

pytestmark = pytest.mark.jvm

CASES = 2_000

Queues = list[list[int]]


def cases() -> list[Queues]:
    """Up to 9 queues with few different times, so that many tie."""
    generator = random.Random(7)
    return [
        [[generator.randrange(5) for _ in range(generator.randrange(1, 12))] for _ in range(generator.randrange(1, 10))]
        for _ in range(CASES)
    ]


def by_java(queues: list[Queues]) -> list[list[int]]:
    """The queues that Java takes from."""
    asked = "\n".join("|".join(" ".join(map(str, times)) for times in case) for case in queues)
    with compiled(Path(__file__).with_name("Queues.java")) as command:
        said = subprocess.run(command, input=asked, capture_output=True, text=True, encoding="utf-8", check=False)
    assert said.returncode == 0, said.stderr
    return [[int(number) for number in line.split()] for line in said.stdout.splitlines()]


def taken(queues: Queues, cuts: list[int], order: list[int]) -> list[tuple[int, int]]:
    """(queue, row) in our order, the tape cut where ``order`` is at ``cuts``."""
    heap, begin, found = [], [0] * len(queues), []
    for at in [*cuts, len(order)]:
        end = [order[:at].count(number) for number in range(len(queues))]
        parts = [np.array(times[b:e], np.int64) for times, b, e in zip(queues, begin, end, strict=True)]
        beyond = [times[e] if e < len(times) else NO_MORE for times, e in zip(queues, end, strict=True)]
        which, row, heap = merge_queues(parts, np.array(beyond), heap)
        found += [(queue, row + begin[queue]) for queue, row in zip(which.tolist(), row.tolist(), strict=True)]
        begin = end
    return found


def test_the_order_is_javas_wherever_the_tape_is_cut():
    queues, generator = cases(), random.Random(8)
    for case, order in zip(queues, by_java(queues), strict=True):
        want = [(number, order[:at].count(number)) for at, number in enumerate(order)]
        cuts = sorted(generator.randrange(len(order) + 1) for _ in range(generator.randrange(4)))

        assert taken(case, cuts, order) == want, f"{case} cut at {cuts}"


def test_the_order_is_javas_wherever_pieces_and_chunks_end():
    queues, generator = cases(), random.Random(9)
    for case, want in zip(queues, by_java(queues), strict=True):
        pieces = [in_pieces(times, generator) for times in case]
        order = QueueOrder([iter(parts) for parts in pieces], np.full(len(case), NO_MORE), [])
        found: list[int] = []
        while len(which := order.take(generator.randrange(1, 9))):
            found += which.tolist()

        assert found == want, f"{case} in pieces {pieces}"
        assert order.heap == []


def in_pieces(times: list[int], generator: random.Random) -> list[np.ndarray]:
    """``times``, cut at up to four places, which may be one: then a piece is empty."""
    cuts = sorted(generator.randrange(len(times) + 1) for _ in range(generator.randrange(5)))
    return np.split(np.array(times, np.int64), cuts)
