"""In which order the files of a directory are read, and whether the times in them say that this order is wrong.

Owns the order of names and the comparison of times at the borders of files. Rule: names are in natural order, numbers
by their value: ``dump-2`` before ``dump-10``, ``hour=9/a`` before ``hour=10/a``. The order of files becomes the order
of the log. Where the times of a partition go back further at the border of two files than they do within any file, the
order of the files is probably not that of the log.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ....state.errors import LandingError

NameKey = tuple[tuple[int, int, str], ...]

_NUMBERS = re.compile(r"(\d+)")


def natural_order(name: str) -> NameKey:
    """By which names are sorted: runs of digits are numbers and come before text."""
    parts = (part for part in _NUMBERS.split(name) if part)
    # The text decides between 1 and 01, so that the order of any two names is fixed.
    return (*((0, int(part), part) if part.isdecimal() else (1, 0, part) for part in parts),)


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Times of consecutive records of one partition, in ms: the least and the largest, and by how much a time is below
    a larger one before it, at most.
    """

    least_ms: int
    largest_ms: int
    back_ms: int

    def before(self, later: "TimeSpan") -> "TimeSpan":
        """Of both, where ``later`` follows."""
        back_ms = max(self.back_ms, later.back_ms, self.largest_ms - later.least_ms)
        return TimeSpan(min(self.least_ms, later.least_ms), max(self.largest_ms, later.largest_ms), back_ms)


Spans = dict[int, TimeSpan]
"""By partition."""


def spans_of(time_ms: np.ndarray, partition: np.ndarray) -> Spans:
    """Of records in their order; arrays of equal length."""
    numbers = np.unique(partition).tolist()
    alone = len(numbers) == 1
    return {number: _span(time_ms if alone else time_ms[partition == number]) for number in numbers}


def _span(time_ms: np.ndarray) -> TimeSpan:
    reached = np.maximum.accumulate(time_ms)
    back_ms = int((reached.view(np.uint64) - time_ms.view(np.uint64)).max())  # may be longer than 63 bits
    return TimeSpan(int(time_ms.min()), int(time_ms.max()), back_ms)


def joined_spans(parts: Iterable[Spans]) -> Spans:
    """Of consecutive parts, in order."""
    joined: Spans = {}
    for part in parts:
        for number, span in part.items():
            joined[number] = joined[number].before(span) if number in joined else span
    return joined


def sorted_spans(spans: Spans) -> Spans:
    """Of the same records after they were sorted by their times."""
    return {number: replace(span, back_ms=0) for number, span in spans.items()}


_LAND_TOGETHER = "land all files in one landing, into a topic of another name"


@dataclass(frozen=True, slots=True)
class Disorder:
    """The border at which times go back furthest: after ``earlier``, in ``later``, by ``back_ms``, where they go back
    by at most ``within_ms`` within a file of that partition.
    """

    earlier: str
    later: str
    partition: int
    back_ms: int
    within_ms: int

    def words(self) -> str:
        """Between which files times go back, and by how much."""
        return (
            f"times go back by {_length(self.back_ms)} from {self.earlier} to {self.later} (partition "
            f"{self.partition}), and within a file by {_length(self.within_ms)} at most"
        )

    def sentence(self, topic: str, *, are_sorted: bool = False) -> str:
        """The warning to a user."""
        question = "is the natural order of the names, in which files are read, that of the log?"
        if are_sorted:
            question = f"--order-by orders each landing by itself; {_LAND_TOGETHER}."
        return f"{topic}: {self.words()}; {question} Windows drop what comes late"

    def booked(self, files: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """``files`` of a plan, of which ``later`` has it."""
        own = {name: of for name, of in asdict(self).items() if name != "later"}
        return [{**file, "disorder": own} if file["name"] == self.later else {**file} for file in files]

    @classmethod
    def of_file(cls, file: Mapping[str, Any]) -> "Disorder | None":
        """As a file of a plan has it."""
        return cls(later=file["name"], **file["disorder"]) if "disorder" in file else None

    def refuse(self, topic: str, folder: str, late: str = "", *, are_sorted: bool = False) -> None:
        """Raises LandingError. ``late``: how many records the border makes late, where somebody asked."""
        remedy = _LAND_TOGETHER if are_sorted else "name the files so that their natural order is that of the log"
        raise LandingError(
            f"topic {topic}, directory {folder}",
            "files whose times continue from one to the next",
            f"times that go back by {_length(self.back_ms)} from {self.earlier} to {self.later}{late}",
            f"{remedy}, or land them all the same (--on-disorder warn)",
        )


LandedTimes = Mapping[str, Sequence[Any]]
"""By partition, as JSON has it: the largest time that has landed, in ms, by how much times go back within a file, and
the name of the file with that time.
"""


def landed_times(parts: Iterable[LandedTimes]) -> LandedTimes:
    """Of all ``parts`` together, in which later ones come after earlier ones."""
    together: dict[str, Sequence[Any]] = {}
    for part in parts:
        for number, (largest_ms, back_ms, name) in part.items():
            before = together.get(number, (largest_ms, back_ms, name))
            last = (before[0], before[2]) if before[0] > largest_ms else (largest_ms, name)
            together[number] = [last[0], max(before[1], back_ms), last[1]]
    return together


def times_of_file(name: str, spans: Spans) -> LandedTimes:
    """Of one file."""
    return {str(number): [span.largest_ms, span.back_ms, name] for number, span in spans.items()}


def find_disorder(
    files: Sequence[tuple[str, Spans]], landed: LandedTimes, *, are_sorted: bool = False
) -> Disorder | None:
    """The worst border of files that are (name, spans), in their order, behind what has ``landed`` of other files; None
    where no border is worse than a file. ``are_sorted``: their rows land in another order than that of the files, so
    each file is only behind what has landed.
    """
    borders = [border for border, _ in _worse_borders(files, landed, are_sorted)]
    return max(borders, key=lambda border: border.back_ms, default=None)


LateBefore = dict[str, dict[int, int]]
"""By file and partition: records with times below these ms are late because of the order of the files."""


def late_before(files: Sequence[tuple[str, Spans]], landed: LandedTimes, *, are_sorted: bool = False) -> LateBefore:
    """Of files and ``landed`` times as for `find_disorder`. A record is late because of the order of the files if it
    is further behind an earlier file than any record is behind another one of its own file.
    """
    late: LateBefore = {}
    for border, time_ms in _worse_borders(files, landed, are_sorted):
        late.setdefault(border.later, {})[border.partition] = time_ms
    return late


def _worse_borders(
    files: Sequence[tuple[str, Spans]], landed: LandedTimes, are_sorted: bool
) -> Iterator[tuple[Disorder, int]]:
    """Borders at which times go back further than within a file, and below which time the later file's records do."""
    within = {int(number): int(back_ms) for number, (_, back_ms, _) in landed.items()}
    for _, spans in files:
        for number, span in spans.items():
            within[number] = max(within.get(number, 0), span.back_ms)
    before = {int(p): (f"{name} (landed before)", int(largest)) for p, (largest, _, name) in landed.items()}
    for name, spans in files:
        for number, span in spans.items():
            earlier, largest_ms = before.get(number, (name, span.least_ms))
            back_ms = largest_ms - span.least_ms
            if back_ms > within[number]:
                yield Disorder(earlier, name, number, back_ms, within[number]), largest_ms - within[number]
            # Compared with the largest time of all files before, not
            # of the last: a short file between two hides no step back.
            if not are_sorted and (number not in before or span.largest_ms > largest_ms):
                before[number] = name, span.largest_ms


def _length(duration_ms: int) -> str:
    """As in "9 h 5 min"."""
    seconds, ms = divmod(duration_ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s"), (ms, "ms")]
    shown = [f"{number:,} {unit}" for number, unit in parts if number]
    return " ".join(shown[:2]) or "0 ms"
