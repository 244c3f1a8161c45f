"""Which tests a run plays: the default tier one fixed sample, the nightly tier a share that its seed chooses of what
takes long and all the rest, the whole tier everything.

Rule: names alone decide what is in the sample, so it is the same on every commit and every clone. A test that is added
moves at most one other in or out of it. All tests are in it but those marked ``nightly``; of those marked ``sampled``
a share; of others that are ``slow`` or ``jvm``, a smaller one of each room. `bash .ci/run changed` plays all of the
rooms that a change touches (tests/touched.py). Of a test that takes long, a nightly run plays one in NIGHTS of the
parameters; runs of as many seeds in a row play all of them.
"""

import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import TypeVar

import pytest

Item = TypeVar("Item")

SHARE = 30
"""One in so many."""
SHARE_OF_LONG = 60
"""Of those that take long and say nothing of their share."""
NIGHTS = 3
"""Nightly runs with so many seeds in a row play every parameter of what takes long."""
TIER_VARIABLE, SEED_VARIABLE = "REPLAY_TIER", "REPLAY_SEED"
TIERS = ("default", "nightly", "whole")
ROOT = Path(__file__).parents[1]


def tier() -> str:
    """``default``, or what $REPLAY_TIER says. ValueError: that is none of TIERS."""
    chosen = os.environ.get(TIER_VARIABLE, "default")
    if chosen not in TIERS:
        raise ValueError(f"${TIER_VARIABLE}: expected one of {', '.join(TIERS)}, got {chosen!r}")
    return chosen


def is_nightly() -> bool:
    """Whether this run plays all cases of a test that it has, as the nightly and the whole tier do."""
    return tier() != "default"


def sample_of(
    items: Iterable[Item],
    name: Callable[[Item], str] = str,
    stratum: Callable[[Item], Hashable] = lambda item: None,
    share: int = SHARE,
) -> list[Item]:
    """One in ``share`` of each stratum's items, rounded up, in their order: those whose names have the least CRC-32."""
    strata: dict[Hashable, list[int]] = defaultdict(list)
    everything = list(items)
    for place, item in enumerate(everything):
        strata[stratum(item)].append(place)
    chosen = set[int]()
    for places in strata.values():
        by_hash = sorted(places, key=lambda place: (zlib.crc32(name(everything[place]).encode()), place))
        chosen.update(by_hash[: -(-len(places) // share)])
    return [everything[place] for place in sorted(chosen)]


def sampled(
    items: Iterable[Item],
    name: Callable[[Item], str] = str,
    stratum: Callable[[Item], Hashable] = lambda item: None,
    share: int = SHARE,
) -> list[Item]:
    """What this run has of ``items``: the sample in the default tier, else all of them."""
    return list(items) if is_nightly() else sample_of(items, name, stratum, share)


def played(items: list[pytest.Item]) -> set[pytest.Item]:
    """The tests of this run."""
    if tier() == "whole":
        return {*items}
    return _of_this_night(items) if is_nightly() else _in_the_sample(items)


def _of_this_night(items: list[pytest.Item]) -> set[pytest.Item]:
    """All but, of each test that takes long, the parameters whose turn is another night's; at least one is left."""
    by_turn: dict[tuple[str, ...], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and (takes_long(item) or item.get_closest_marker("nightly") or _mark(item)):
            by_turn[str(item.path), getattr(item, "originalname", "")].append(item)
    chosen = {*items}
    for marked in by_turn.values():
        marked.sort(key=lambda item: (zlib.crc32(item.name.encode()), item.name))
        chosen.difference_update(marked)
        chosen.update(marked[seed() % NIGHTS :: NIGHTS] or marked)
    return chosen


def _in_the_sample(items: list[pytest.Item]) -> set[pytest.Item]:
    """Without ``nightly`` ones, and of those marked ``sampled`` a share. On a module the mark means one in ``share`` of
    what is so marked in its folder, parameters counted; on a function one in ``share`` of its parameters, with every
    value of those named.
    """
    shares: dict[int, list[pytest.Item]] = defaultdict(list)
    played = {item for item in items if not item.get_closest_marker("nightly")}
    for item in items:
        mark = _mark(item)
        if item in played and mark is not None:
            shares[mark.kwargs.get("share", SHARE)].append(item)
        elif item in played and takes_long(item) and not item.get_closest_marker("every_run"):
            shares[SHARE_OF_LONG].append(item)
    for share, marked in shares.items():
        played.difference_update(marked)
        played.update(sample_of(marked, lambda item: item.name, _stratum, share))
    return played


def _mark(item: pytest.Item) -> pytest.Mark | None:
    """That of the module before that of the function."""
    return next(reversed(list(item.iter_markers("sampled"))), None)


def takes_long(item: pytest.Item) -> bool:
    """Whether `.ci/run fast` leaves it out."""
    return any(map(item.get_closest_marker, ("slow", "jvm")))


def _stratum(item: pytest.Item) -> tuple[str, ...]:
    marks = list(item.iter_markers_with_node("sampled"))
    if not marks or marks[-1][0] is not item:
        return (str(item.path.parent),)
    mark = marks[-1][1]
    values = item.callspec.params if mark.args else {}  # type: ignore[attr-defined]  # those without parameters have none
    return str(item.path), getattr(item, "originalname", ""), *(repr(values[name]) for name in mark.args)


def seed() -> int:
    """Of what this run makes up at random: 0 in the default tier; in the others another every time, which
    $REPLAY_SEED repeats.
    """
    return int(os.environ[SEED_VARIABLE]) if is_nightly() and SEED_VARIABLE in os.environ else 0


def examples(nightly: int) -> int:
    """Hypothesis's number of examples: a thirtieth of ``nightly`` in the default tier, and at least ten; else all."""
    return nightly if is_nightly() else max(10, nightly // SHARE)
