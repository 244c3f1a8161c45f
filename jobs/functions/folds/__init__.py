"""Folds: what an aggregate is made of. ``fold.count()``, ``fold.sum("minutes")``, ``fold.max_by("dest",
"record_time_ms")``.
"""

from typing import TYPE_CHECKING, Any

from ..call_names import refuse
from .conditions import all_ as all
from .conditions import any_ as any
from .conditions import count_if
from .expressed.expression_fold import of
from .lists import collect
from .moments import stddev_pop, stddev_samp, var_pop, var_samp
from .numbers import count, mean
from .numbers import max_ as max
from .numbers import min_ as min
from .numbers import sum_ as sum
from .objects import count_distinct, top
from .references import earliest, first, last, latest, max_by, min_by

__all__ = [
    "all",
    "any",
    "collect",
    "count",
    "count_distinct",
    "count_if",
    "earliest",
    "first",
    "last",
    "latest",
    "max",
    "max_by",
    "mean",
    "min",
    "min_by",
    "of",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "top",
    "var_pop",
    "var_samp",
]

if not TYPE_CHECKING:  # to a type checker an unknown name is one

    def __getattr__(name: str) -> Any:
        raise refuse("fold", name, __all__)
