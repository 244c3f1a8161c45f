"""How a landing handles bad or unusual input: the settings of one call, beside the mapping of its source.

Owns settings and their defaults, the same for the command, Python and Dagster. What decides about records (not about
whether to land at all) is in the plan, so that a plan is finished by the rules that it was made with.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...state.argument_types import check_fields
from ...state.errors import ConfigError
from ...state.times import duration_ms, instant_ms

DAY_MS = 86_400_000
STOP, DEAD_LETTER, WARN = "stop", "dead_letter", "warn"
REFUSE, IGNORE, ERASE = "refuse", "ignore", "erase"


@dataclass(frozen=True, slots=True)
class LandingRules:
    """Settings of a landing.

    ``on_bad_row``: a row of a file that does not fit the mapping is a ``"dead_letter"``, kept in the table
    `landed_dead_letter/<topic>`, or lets the landing ``"stop"``, which then has committed nothing.
    ``on_disorder``: times go back further from one file to the next than within any file, so the natural order of the
    names is probably not that of the log. The landing does ``"warn"``, or it ``"stop"``s and has committed nothing.
    ``max_late_share``, beside ``"stop"``: it only warns if the order of the files makes at most this share of the
    landing's records late (0.01: 1 %). For that, their files are read once more.
    ``on_change``: records that landed from a table are gone from it or have other bytes there: ``"refuse"`` the
    landing, or ``"ignore"`` it, which keeps the records as they landed; the ledger notes their offsets. A topic that
    lies in place then has them as they are now. ``"erase"``: those that are gone are erased from the topic, too, as by
    ``erase``; others are refused.
    ``max_bad_share``: the landing stops, too, where more than this share of a file's rows do not fit (0.01: 1 %).
    One bad row of several is allowed, unless it is 0.
    ``max_future``: a record whose time is later than the machine's clock by more is a dead letter ("1d"); None: none
    is, as in Kafka. In place, where there are no dead letters, it is refused, as every bad row is.
    ``plausible_since``: a day (ISO 8601); the landing warns of records before it, and of those later than a day after
    the machine's clock.

    For one call only: ``allow_same_content``: land files whose content has landed under another name or from another
    folder; ``new_mapping``: continue with another mapping than the landing before, which the ledger notes;
    ``allow_empty``: a pattern may match none of the files; ``abandon``: give up an increment that is planned and not
    committed; ``reopen``: land more of a topic that was recorded to be complete. ``copy``: write the records that lie
    in files of a table (in place) into the topic's own, and land nothing.
    """

    on_bad_row: str = DEAD_LETTER
    on_disorder: str = WARN
    on_change: str = REFUSE
    max_late_share: float = 0.0
    max_bad_share: float = 0.01
    max_future: str | int | None = None
    plausible_since: str = "1980-01-01"
    allow_same_content: bool = False
    new_mapping: bool = False
    allow_empty: bool = False
    abandon: bool = False
    reopen: bool = False
    copy: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        known = self.on_bad_row in (STOP, DEAD_LETTER)
        _refuse("on_bad_row", self.on_bad_row, known, f'"{STOP}" or "{DEAD_LETTER}"')
        _refuse("on_disorder", self.on_disorder, self.on_disorder in (STOP, WARN), f'"{STOP}" or "{WARN}"')
        _refuse("max_late_share", self.max_late_share, 0 <= self.max_late_share <= 1, "a share from 0 to 1")
        known = self.on_disorder == STOP or not self.max_late_share
        _refuse("max_late_share", self.max_late_share, known, f'it beside on_disorder "{STOP}"')
        known = self.on_change in (REFUSE, IGNORE, ERASE)
        _refuse("on_change", self.on_change, known, f'"{REFUSE}", "{IGNORE}" or "{ERASE}"')
        _refuse("max_bad_share", self.max_bad_share, 0 <= self.max_bad_share <= 1, "a share from 0 to 1")
        if self.max_future is not None:
            duration_ms(self.max_future, "max_future")
        instant_ms(self.plausible_since, "plausible_since")

    def earliest_ms(self) -> int:
        """The earliest plausible time."""
        return instant_ms(self.plausible_since, "plausible_since")

    def latest_ms(self, clock_ms: int) -> int | None:
        """The latest time that lands when the machine's clock shows ``clock_ms``; None: any."""
        return None if self.max_future is None else clock_ms + duration_ms(self.max_future, "max_future")


@dataclass(frozen=True, slots=True)
class RowRules:
    """What decides about single rows of a planned increment; is in its plan."""

    keeps_bad: bool = False
    latest_ms: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"keeps_bad": self.keeps_bad, "latest_ms": self.latest_ms}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "RowRules":
        """The reverse of ``to_dict``; {} of plans from before, which had no bad rows."""
        return cls(**fields)


def _refuse(name: str, got: object, is_right: bool, expected: str) -> None:
    if not is_right:
        raise ConfigError(f"LandingRules {name}", expected, repr(got), "correct the setting")
