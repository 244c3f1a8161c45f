"""Names that a user gives to nodes and stores: they become names of topics and tables (Kafka's Named.validate)."""

import re
from typing import Any

from ...state.errors import TopologyError

_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")


RESERVED = frozenset({"dropped", "dead_letter"})
"""Tables that every pipeline has beside its outputs and stores (docs/tables.md)."""


def check_table_name(kind: str, name: str) -> str:
    """``name`` of an output or a store. Raises TopologyError for one that a table of the pipeline has already."""
    if name in RESERVED:
        raise TopologyError(
            f"{kind} {name!r}", "a name that no table of the pipeline has", "that of its drops or dead letters",
            "choose another name",
        )  # fmt: skip
    return name


def check_name(name: str) -> str:
    """``name``. Raises TopologyError for one that Kafka refuses."""
    if not is_legal(name):
        expected = "1 to 249 ASCII letters, digits, dots, underscores and hyphens, and not . or .."
        raise TopologyError("name", expected, repr(name), "choose another name")
    return name


def check_topic(call: str, topic: Any, of_several: str) -> str:
    """``topic`` of the ``call``. Raises TopologyError for anything but the name of one topic; ``of_several``: what to
    do with several, a pattern or a function.
    """
    if is_legal(topic):
        return str(topic)
    expected = "the name of one topic (1 to 249 ASCII letters, digits, dots, underscores and hyphens, not . or ..)"
    raise TopologyError(f"{call} topic", expected, repr(topic), "correct it" if isinstance(topic, str) else of_several)


def is_legal(name: Any) -> bool:
    """Whether Kafka takes it."""
    return isinstance(name, str) and _LEGAL.fullmatch(name) is not None and name not in (".", "..")
