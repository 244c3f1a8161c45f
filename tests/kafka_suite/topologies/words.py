"""What the tests' topologies are made of: joiners, adders and serdes under short names.

Rule: in Java's text a value that is not there is ``null``.
"""

from typing import Any


def text(value: Any) -> str:
    return "null" if value is None else str(value)


def plus(one: Any, other: Any) -> str:
    """``one+other``: a joiner, and a reducer."""
    return f"{text(one)}+{text(other)}"


def minus(one: Any, other: Any) -> str:
    return f"{text(one)}-{text(other)}"


def added(key: Any, value: Any, aggregate: Any) -> str:
    """An aggregator: ``aggregate+value``."""
    return plus(aggregate, value)


def removed(key: Any, value: Any, aggregate: Any) -> str:
    return minus(aggregate, value)


def merged(key: Any, one: Any, other: Any) -> str:
    """Of sessions."""
    return plus(one, other)


def zero() -> str:
    """An initial value."""
    return "0"


def java_text(key: Any) -> str:
    """A windowed key as Java prints it."""
    return f"[{key.key}@{key.window_start_ms}/{key.window_end_ms}]"
