"""Does an expression use NULL itself where something is compared, looked for in a list, or decided?

Rule: in SQL and in polars NULL equals nothing and is no truth: ``value <> NULL`` and ``value = 'a' AND NULL`` let
nothing through for any record, where Java's ``value != null`` lets all that is there. Nobody means that: it is refused.
"""

import re

import polars as pl

_NULL = r"null(?:\.(?:strict_)?cast\(\w+\))*"
"""As polars writes NULL, cast or not."""
_COMPARED = re.compile(rf"(?:==|!=|<|<=|>|>=) \({_NULL}\)|\({_NULL}\) (?:==|!=|<|<=|>|>=) ")
"""``==v`` is IS NOT DISTINCT FROM."""
_IN_A_LIST = re.compile(r"sql_is_in\((?:[^()]|\([^()]*\))*\)\) \| \(null\.cast\(Boolean\)\)")
_DECIDED = re.compile(rf"[&|^] \({_NULL}\)|\({_NULL}\) [&|^] |(?<![\w.]){_NULL}\.not\(\)|\.when\({_NULL}\)")
"""Beside AND, OR or XOR, behind NOT, and as what CASE and IF ask."""


def misuse_of_null(expression: pl.Expr, *, is_condition: bool = False) -> tuple[str, str, str] | None:
    """What is expected instead, what is there, and what to write, where NULL is compared, listed or decides; else None.
    ``is_condition``: the whole decides, too. The last is empty where the words differ between SQL and polars.
    """
    # Polars writes texts and names of columns in double quotes; what is within them may look like a comparison.
    text = re.sub(r'"[^"]*"', '""', str(expression))
    if _COMPARED.search(text):
        return "a comparison that can be true", "which compares with NULL: that is NULL for every record", ""
    if _IN_A_LIST.search(text):
        got = "which has NULL in a list: that equals nothing, so IN is never false, and NOT IN never true"
        return "a list without NULL", got, "leave NULL out of the list, and add OR … IS NULL if that was meant"
    without_lists = _IN_A_LIST.sub("", text)
    if _DECIDED.search(without_lists) or (is_condition and re.fullmatch(_NULL, text)):
        got = "which takes NULL for a condition: it is neither true nor false, for any record"
        return "conditions that can be true or false", got, "leave NULL out, or compare with IS NULL what may be it"
    return None
