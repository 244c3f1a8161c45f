"""Does an expression compare something with NULL itself?

Rule: in SQL and in polars such a comparison is neither true nor false, for any record, so that ``value <> NULL`` lets
nothing through, where Java's ``value != null`` lets all that is there. Nobody means that: it is refused.
"""

import re

import polars as pl

_COMPARED = re.compile(r"(?:==|!=|<|<=|>|>=) \(null[).]|\(null(?:\.\w+\(\w+\))?\) (?:==|!=|<|<=|>|>=) ")
_IN_A_LIST = re.compile(r"sql_is_in\(.*\) \| \(null\.cast\(Boolean\)\)")
"""As polars writes a comparison with NULL, cast or not, and ``IN (1, NULL)``; ``==v`` is IS NOT DISTINCT FROM."""


def compares_with_null(expression: pl.Expr) -> bool:
    """True when one of its comparisons has NULL on a side, or NULL in a list."""
    text = re.sub(r'"[^"]*"', '""', str(expression))
    return bool(_COMPARED.search(text) or _IN_A_LIST.search(text))
