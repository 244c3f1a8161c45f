"""Names that a user gives to nodes and stores: they become names of topics and tables (Kafka's Named.validate)."""

import re

from ...state.errors import TopologyError

_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def check_name(name: str) -> str:
    """``name``. Raises TopologyError for one that Kafka refuses."""
    if not is_legal(name):
        expected = "1 to 249 ASCII letters, digits, dots, underscores and hyphens, and not . or .."
        raise TopologyError("name", expected, repr(name), "choose another name")
    return name


def is_legal(name: str) -> bool:
    """Whether Kafka takes it."""
    return isinstance(name, str) and _LEGAL.fullmatch(name) is not None and name not in (".", "..")
