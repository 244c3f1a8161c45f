"""How many of the records that came somewhere were refused there: what every alarm of refusals asks.

Rule: an operator counts the records that came to it and those that it refused whole, whatever else became of them. Of a
stream with two branches one may refuse nearly all, and the other take every record; below a repartition a record's
landing says nothing. A record that only some of its windows refused is not refused.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..argument_types import check_fields
from ..errors import ConfigError


@dataclass(frozen=True)
class RefusedLimit:
    """How many of the records that came may be refused, or undecodable, without an alarm: a ``share`` from 0 to 1.
    ``severity`` of the alarm: a "warning" stops nobody, an "error" fails the run of what comes behind it.
    Raises ConfigError.
    """

    share: float = 0.01
    severity: Literal["error", "warning"] = "warning"

    def __post_init__(self) -> None:
        check_fields(self)
        if not 0 <= self.share <= 1:
            raise ConfigError("refused_max", "a share from 0 to 1", repr(self.share), "write 5 % as 0.05")
        if self.severity not in ("error", "warning"):
            expected = "'warning' or 'error'"
            raise ConfigError("refused_severity", expected, repr(self.severity), "choose one")

    @property
    def percent(self) -> str:
        """The share, as 1 or 2.5."""
        return f"{100 * self.share:.4g}"

    def allows(self, refused: int, came: int) -> bool:
        """Whether no alarm is due."""
        return refused <= self.share * came


DEFAULT_LIMIT = RefusedLimit()


@dataclass(frozen=True)
class RefusedShare:
    """Records that came to ``operator`` of ``sub_topology``, and those of them that it refused.

    ``operator`` None: the sub-topology's own books, records read and those that had no effect in it, as they were
    dropped.
    """

    sub_topology: str
    operator: str | None
    came: int
    refused: int

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.refused / self.came if self.came else 0.0

    def sentence(self) -> str:
        """As "480 of 720 records that came to counted (66.7%) were refused"."""
        where, verb = f"of sub-topology {self.sub_topology}", "dropped"
        if self.operator is not None:
            where, verb = f"that came to {self.operator}", "refused"
        return f"{self.refused:,} of {self.came:,} records {where} ({self.share:.1%}) were {verb}"


def refused_shares(books: Iterable[Mapping[str, Any]]) -> list[RefusedShare]:
    """Of the ``books`` of increments (of their done rows), summed: the largest share first, of equal ones an operator
    before its sub-topology. An increment of an earlier version counts for its sub-topologies alone.
    """
    sums: dict[tuple[str, str | None], list[int]] = {}
    for each in books:
        for sub, part in each.get("by_sub_topology", {}).items():
            numbers = {None: [part.get("read", 0), part.get("dropped", 0)], **part.get("by_operator", {})}
            for operator, (came, refused) in numbers.items():
                before = sums.get((sub, operator), [0, 0])
                sums[sub, operator] = [before[0] + came, before[1] + refused]
    shares = [RefusedShare(sub, operator, *numbers) for (sub, operator), numbers in sums.items()]
    return sorted(shares, key=lambda each: (-each.share, each.operator is None))


def too_many_refused(books: Iterable[Mapping[str, Any]], limit: RefusedLimit = DEFAULT_LIMIT) -> list[RefusedShare]:
    """Those above ``limit``, in that order. A sub-topology is left out where one of its operators is named."""
    above = [each for each in refused_shares(books) if not limit.allows(each.refused, each.came)]
    named = {each.sub_topology for each in above if each.operator is not None}
    return [each for each in above if each.operator is not None or each.sub_topology not in named]
