"""An expression as text that is another one when the expression computes something else.

Polars' own text leaves out most arguments of functions (the format of ``strftime``, the digits of ``round``, values of
``IN``), so digits of the whole are put behind it where there are such arguments. Rule: they are of what polars
serializes, and of the code of the user's own functions in it, not of the lines where these are.
"""

import hashlib
import json
import pickle
from collections.abc import Iterator
from typing import Any

import polars as pl

from ...state.serdes.function_text import function_text

_FUNCTION = b"PLPYFN"
"""The first bytes of a function of the user's own as polars serializes it; its pickle is behind the head."""
_PICKLE = b"\x80\x05\x95"
_SMALL = 64 * 1024
"""Bytes up to which an expression is looked at. A longer one has a long list of values, which no text shows."""
_FAMILIES = frozenset({"ArrayExpr", "Bitwise", "Boolean", "ListExpr", "StringExpr", "StructExpr", "TemporalExpr"})
"""Of functions; one without arguments is a family and a name."""
_WITH_PARTS = {"BinaryExpr": ("left", "right"), "Ternary": ("predicate", "truthy", "falsy")}
_HIDDEN_VALUES = frozenset({"Array", "Binary", "List", "Object", "Struct"})
_TYPES_WITH_ARGUMENTS = frozenset({"Datetime", "Decimal", "Duration"})


def expression_text(expression: pl.Expr) -> str:
    """Polars' text, with eight digits where that does not say everything. The same for one version of polars alone."""
    text = str(expression)
    try:
        whole = expression.meta.serialize()
        tree = _tree(expression) if _FUNCTION in whole or len(whole) <= _SMALL else None
    except pl.exceptions.ComputeError:  # of a function that cannot be pickled
        return text
    if _FUNCTION in whole:
        whole = json.dumps(_with_texts(tree)).encode()
    elif tree is not None and _is_shown(tree):
        return text
    return f"{text} {hashlib.sha256(whole).hexdigest()[:8]}"


def expressible_text(given: Any) -> str:
    """What was given for an expression: SQL as it is written, constants by ``str``."""
    return expression_text(given) if isinstance(given, pl.Expr) else str(given)


def _tree(expression: pl.Expr) -> Any:
    return json.loads(expression.meta.serialize(format="json"))


def _is_shown(part: Any) -> bool:
    """Whether polars' text says all of a part of the tree, which has one entry: its kind."""
    if not isinstance(part, dict):
        return False
    kind, inner = next(iter(part.items()))
    if kind == "Function":
        return _is_plain(inner["function"]) and all(map(_is_shown, inner["input"]))
    if kind == "Literal":
        return "Dyn" in inner or ("Scalar" in inner and not _HIDDEN_VALUES & inner["Scalar"].keys())
    if kind == "Cast":
        kind_of = inner["dtype"].get("Literal")
        has_name = isinstance(kind_of, str) or (kind_of is not None and kind_of.keys() <= _TYPES_WITH_ARGUMENTS)
        return has_name and _is_shown(inner["expr"])
    if kind == "Alias":
        return _is_shown(inner[0])
    if kind in _WITH_PARTS:
        return all(_is_shown(inner[name]) for name in _WITH_PARTS[kind])
    return bool(kind == "Column")


def _is_plain(function: Any) -> bool:
    """Whether a function has no arguments, or is the field of a struct, which the text names."""
    if isinstance(function, str):
        return True
    (family, name), *_ = function.items()
    return family in _FAMILIES and (isinstance(name, str) or [*name] == ["FieldByName"])


def _with_texts(part: Any) -> Any:
    """The tree with functions of the user's own, which this process has just pickled, as texts."""
    if isinstance(part, dict):
        return {name: _with_texts(inner) for name, inner in part.items()}
    if not isinstance(part, list):
        return part
    if part[: len(_FUNCTION)] == [*_FUNCTION]:
        head, mark, rest = bytes(part).partition(_PICKLE)
        return [head.hex(), *_own_functions(pickle.loads(mark + rest))]
    return [_with_texts(inner) for inner in part]


def _own_functions(function: Any) -> Iterator[str]:
    """Those that a function of polars, or an object of its, encloses."""
    if str(function.__module__).partition(".")[0] != pl.__name__:
        yield function_text(function)
        return
    held = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    for one in (*held, *getattr(function, "__dict__", {}).values()):
        if callable(one) and not isinstance(one, type):
            yield from _own_functions(one)
