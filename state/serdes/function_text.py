"""What a Python function says, in a few digits, so that another one can be told from it.

Rule: the digits are of its code, its defaults and all that it encloses, not of the lines where it stands; they hold for
one version of Python, and of this module.
"""

import functools
import hashlib
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any


def function_text(function: Callable[..., Any]) -> str:
    """Its name and the digits of its code: "total 1f0c9a7b"."""
    name = getattr(function, "__qualname__", type(function).__qualname__).rpartition(".")[2]
    digest = hashlib.sha256("\n".join(_said(function, set())).encode()).hexdigest()[:8]
    return f"{name} {digest}"


def _said(thing: Any, seen: set[int]) -> Iterator[str]:
    """What a function's code says, or an object's that is called, with all that it encloses; not where it stands."""
    if isinstance(thing, CodeType):
        yield thing.co_code.hex()
        yield from thing.co_names
        for constant in thing.co_consts:
            yield from _said(constant, seen)
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
    elif isinstance(thing, dict):
        for name, value in sorted(thing.items(), key=repr):
            yield repr(name)
            yield from _said(value, seen)
    elif isinstance(thing, int | float | str | bytes | bool | None):
        yield repr(thing)
    elif callable(thing) and hasattr(thing, "__dict__") and id(thing) not in seen:
        seen.add(id(thing))
        yield from _said(type(thing), seen)
        yield from _said(vars(thing), seen)
    else:
        yield type(thing).__qualname__
