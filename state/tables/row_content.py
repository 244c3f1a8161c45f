"""What all rows of ledgers have in common: fields, and their form as JSON.

Rule: a field that is None (or False) is left out of the JSON; a field that this version does not know is kept as it is,
wherever a row is rewritten.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class RowContent:
    """The fields of one kind of row. ``unknown``: those that a later version, or another program, has put in."""

    unknown: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The row that ``content`` is; a field that it leaves out has its default."""
        known = {each.name for each in fields(cls)} - {"unknown"}
        return cls(
            **{name: value for name, value in content.items() if name in known},
            unknown={name: value for name, value in content.items() if name not in known},
        )

    def to_json(self) -> dict[str, Any]:
        """The reverse of ``from_json``."""
        written = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "unknown"}
        nulls = self._nulls()
        written_fields = {n: v for n, v in written.items() if n in nulls or (v is not None and v is not False)}
        return {**self.unknown, **written_fields}

    @property
    def replaces(self) -> bool:
        """Whether it is in the place of other increments, so that theirs cannot be done any more."""
        return any(getattr(self, name, None) is not None for name in ("restates", "instead_of", "gives_up"))

    def _nulls(self) -> tuple[str, ...]:
        """Fields that are written as null when they are None."""
        return ()
