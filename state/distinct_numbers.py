"""Sets of whole numbers as NumPy arrays.

Owns the way that is quick for many distinct numbers. NumPy's own ``unique`` and ``setdiff1d`` hash them since 2.3: of
2 M distinct numbers that takes 2.9 s, and sorting takes a tenth of it (a hundredth where they rise already). Where few
numbers are distinct (partitions, verdicts), NumPy's own are as quick.
"""

import numpy as np
import polars as pl


def distinct(numbers: np.ndarray) -> np.ndarray:
    """The distinct ``numbers``, rising."""
    rising: np.ndarray = np.sort(numbers, axis=None, kind="stable")
    if not len(rising):
        return rising
    return rising[np.append(True, rising[1:] != rising[:-1])]


def without(numbers: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The distinct ``numbers`` that are not among ``others``, rising."""
    return np.setdiff1d(distinct(numbers), distinct(others), assume_unique=True)


def are_among(numbers: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Of each of ``numbers`` whether it is ``among`` the others, which are of the same type."""
    if not len(among):
        return np.zeros(len(numbers), np.bool_)
    is_there: np.ndarray = pl.Series(numbers).is_in(pl.Series(among).implode()).to_numpy()
    return is_there
