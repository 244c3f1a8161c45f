"""A short digest of a Python function's code, which differs when the code does.

Rule: the digits are of its code, its defaults and all that it encloses, not of the lines where it is; they hold for
one version of Python, and of this module.
"""

import datetime as dt
import functools
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from decimal import Decimal
from enum import Enum
from types import CodeType, MethodType
from typing import Any
from uuid import UUID

_VALUES = (
    int, float, str, bytes, bool, type(None), Decimal, Enum, UUID, re.Pattern, dt.date, dt.time, dt.timedelta,
)  # fmt: skip
"""Whose ``repr`` says what they are."""


def function_text(function: Callable[..., Any]) -> str:
    """Its name and the digits of its code: "total 1f0c9a7b"."""
    name = getattr(function, "__qualname__", type(function).__qualname__).rpartition(".")[2]
    digest = hashlib.sha256("\n".join(_said(function, set())).encode()).hexdigest()[:8]
    return f"{name} {digest}"


def _said(thing: Any, seen: set[int]) -> Iterator[str]:
    """What a function's code says, or an object's that is called, with all that it encloses; not where it is."""
    if isinstance(thing, CodeType):
        yield thing.co_code.hex()
        yield from thing.co_names
        for constant in thing.co_consts:
            yield from _said(constant, seen)
    elif isinstance(thing, MethodType):
        yield from _said(thing.__func__, seen)
        yield from _said(thing.__self__ if isinstance(thing.__self__, type) else _attributes(thing.__self__), seen)
    elif hasattr(thing, "__code__") and id(thing) not in seen:
        seen.add(id(thing))
        yield from _said(thing.__code__, seen)
        for value in (thing.__defaults__, thing.__kwdefaults__):
            yield from _said(value, seen)
        for cell in thing.__closure__ or ():
            yield from _said(cell.cell_contents, seen)
    elif isinstance(thing, type) and thing.__module__ != "builtins" and id(thing) not in seen:
        seen.add(id(thing))
        for value in vars(thing).values():
            if hasattr(value, "__code__"):
                yield from _said(value, seen)
    elif isinstance(thing, functools.partial):
        yield from _said((thing.func, thing.args, thing.keywords), seen)
    elif isinstance(thing, tuple | list):
        for one in thing:
            yield from _said(one, seen)
    elif isinstance(thing, set | frozenset):
        yield from sorted(map(repr, thing))
    elif isinstance(thing, dict):
        for name, value in sorted(thing.items(), key=repr):
            yield repr(name)
            yield from _said(value, seen)
    elif isinstance(thing, _VALUES):
        yield repr(thing)
    elif is_dataclass(thing) and id(thing) not in seen:
        seen.add(id(thing))
        yield from _said((type(thing), _attributes(thing)), seen)
    elif callable(thing) and hasattr(thing, "__dict__") and id(thing) not in seen:
        seen.add(id(thing))
        yield from _said(type(thing), seen)
        yield from _said(vars(thing), seen)
    else:
        yield type(thing).__qualname__


def _attributes(thing: Any) -> dict[str, Any]:
    """Attributes of an object; {} where it has no dictionary of them."""
    return dict(getattr(thing, "__dict__", {}))
