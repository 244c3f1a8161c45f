"""Names of the fields that JSON texts have, whether anybody declared them or not."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

LEVELS = 8
"""Objects within one another; names below are not looked for."""


def field_names(texts: Iterable[bytes | None]) -> set[str]:
    """Of all objects among ``texts``; a.b is the field b of the object a. A text that is no JSON has none."""
    return {name for text in texts if text is not None for name in _names(_parsed(text), "", LEVELS)}


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _names(value: Any, above: str, levels: int) -> Iterator[str]:
    if isinstance(value, dict) and levels:
        for name, inner in value.items():
            yield above + name
            yield from _names(inner, f"{above}{name}.", levels - 1)
