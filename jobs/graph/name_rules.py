"""Names that a user gives to nodes and stores: they become names of topics and tables (Kafka's Named.validate)."""

import hashlib
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


def check_node_name(name: str) -> str:
    """``name`` of a node of the Processor API, where Kafka takes any text. Raises TopologyError for none, for one with
    a colon, which nodes of ours have in their names, and for what cannot be printed.
    """
    if not isinstance(name, str) or not name.isprintable() or not name or ":" in name:
        expected, next_step = "text that can be printed, without a colon", "choose another name"
        raise TopologyError("name", expected, repr(name), next_step)
    return name


def table_name_of(node: str) -> str:
    """A legal table name for the state of ``node``: the node's name if that is legal, else its legal characters and
    eight digits of its hash, so that two names do not become one.
    """
    if _LEGAL.fullmatch(node):
        return node
    digits = hashlib.sha256(node.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^a-zA-Z0-9._]+', '-', node)[:200].strip('-')}-{digits}"


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
