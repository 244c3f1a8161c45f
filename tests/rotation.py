"""Which part of the large sets a test run plays: in the default tier one of ten slices, in the nightly tier all.

Rule: a slice is chosen by the number of commits, so ten commits in a row play everything. A slice has something of
every stratum (an operator, a way to die, a place), so that no run leaves a kind out. $REPLAY_SLICE chooses another.
Of other tests that take long, each file's are cut into SLOW_SLICES.
"""

import os
import subprocess
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import TypeVar

import pytest

Item = TypeVar("Item")

SLICES = 10
SLOW_SLICES = 5
SLICE_VARIABLE = "REPLAY_SLICE"
TIER_VARIABLE = "REPLAY_TIER"
TIERS = ("default", "nightly")
ROOT = Path(__file__).parents[1]


def tier() -> str:
    """``default``, or ``nightly`` where $REPLAY_TIER says so. ValueError: it says something else."""
    chosen = os.environ.get(TIER_VARIABLE, "default")
    if chosen not in TIERS:
        raise ValueError(f"${TIER_VARIABLE}: expected one of {', '.join(TIERS)}, got {chosen!r}")
    return chosen


def is_nightly() -> bool:
    """Whether this run plays everything."""
    return tier() == "nightly"


def slice_number() -> int:
    """In [0, SLICES): $REPLAY_SLICE, else the number of commits modulo SLICES, else 0 (no git, a shallow clone).

    ValueError: $REPLAY_SLICE is no such number.
    """
    chosen = os.environ.get(SLICE_VARIABLE)
    if chosen is None:
        return _commits() % SLICES
    if not (chosen.isdecimal() and int(chosen) < SLICES):
        raise ValueError(f"${SLICE_VARIABLE}: expected a number from 0 to {SLICES - 1}, got {chosen!r}")
    return int(chosen)


def _commits() -> int:
    """Commits up to HEAD; 0 where that is not known."""
    shallow = _git("rev-parse", "--is-shallow-repository")
    count = _git("rev-list", "--count", "HEAD")
    return int(count) if shallow == "false" and count.isdecimal() else 0


def _git(*words: str) -> str:
    """What git prints; "" where there is no git, or it fails."""
    try:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def slice_of(
    items: Iterable[Item],
    number: int,
    stratum: Callable[[Item], Hashable] = lambda item: None,
    slices: int = SLICES,
) -> list[Item]:
    """Slice ``number`` of ``items``, in their order.

    Of every stratum it has each item number ``slices``; of a stratum with fewer items it has one. As many slices in a
    row (at most SLICES) together have all items.
    """
    strata: dict[Hashable, list[int]] = defaultdict(list)
    everything = list(items)
    for place, item in enumerate(everything):
        strata[stratum(item)].append(place)
    chosen: set[int] = set()
    for shift, places in enumerate(strata.values()):  # else the first slices would be the largest
        turn = (number + shift) % slices
        chosen.update(places[turn::slices] if len(places) >= slices else [places[turn % len(places)]])
    return [everything[place] for place in sorted(chosen)]


def rotated(
    items: Iterable[Item], stratum: Callable[[Item], Hashable] = lambda item: None, slices: int = SLICES
) -> list[Item]:
    """What this run plays of ``items``: all of them in the nightly tier, else this run's slice."""
    return list(items) if is_nightly() else slice_of(items, slice_number(), stratum, slices)


def of_this_slice(items: list[pytest.Item]) -> set[pytest.Item]:
    """Without what other slices play. Of a file marked ``rotated_by_file`` these are tests, and the mark may say how
    many runs play them all; of a test marked ``rotated``, parameters. Of other files they are tests that are slow or
    need Java, unless marked ``every_run``.
    """
    turning: list[pytest.Item] = []
    by_file: dict[int, list[pytest.Item]] = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("rotated_by_file")
        if mark is not None:
            by_file[mark.args[0] if mark.args else SLICES].append(item)
        elif item.get_closest_marker("rotated"):
            turning.append(item)
        elif takes_long(item) and not item.get_closest_marker("every_run"):
            by_file[SLOW_SLICES].append(item)
    played = {*items}.difference(turning, *by_file.values()) | {*rotated(turning, _function_and_named_values)}
    return played.union(*(rotated(tests, lambda item: item.path, slices) for slices, tests in by_file.items()))


def takes_long(item: pytest.Item) -> bool:
    """Whether `.ci/run fast` leaves it out."""
    return any(item.get_closest_marker(name) for name in ("slow", "jvm"))


def _function_and_named_values(item: pytest.Item) -> tuple[str, ...]:
    """A slice has every value of the parameters that the mark ``rotated`` names."""
    mark = item.get_closest_marker("rotated")
    assert mark is not None
    values = item.callspec.params if mark.args else {}  # type: ignore[attr-defined]  # those without parameters have none
    return str(item.path), getattr(item, "originalname", ""), *(repr(values[name]) for name in mark.args)


def examples(nightly: int) -> int:
    """Hypothesis's number of examples: ``nightly`` in the nightly tier, else a tenth. They differ in every run."""
    return nightly if is_nightly() else max(10, nightly // SLICES)
