"""Folds: what an aggregate is made of. ``fold.count()``, ``fold.sum("minutes")``, ``fold.max_by("dest",
"record_time_ms")``.
"""

from jobs.folds.lists import collect
from jobs.folds.numbers import count, mean
from jobs.folds.numbers import max_ as max
from jobs.folds.numbers import min_ as min
from jobs.folds.numbers import sum_ as sum
from jobs.folds.references import first, last, max_by, min_by

__all__ = ["collect", "count", "first", "last", "max", "max_by", "mean", "min", "min_by", "sum"]
