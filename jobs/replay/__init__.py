"""Increments: plan a cut, run its tasks stage by stage, commit their tables, write the done row.

In: landed topics and the increment before. Out: one Delta commit a table, one done row. ``replay`` is the face. Not
here: what a task computes (``task``), where it runs (``execution``), commands that change history (``branches``).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .pipeline_run import replay

__all__ = ["replay"]


def __getattr__(name: str) -> Any:
    """Load the face when it is asked for: a module of this room comes without the others."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".pipeline_run", __name__), name)
