"""Headers that the user gives: to records that a processor forwards or a test pipes, and to values of stores."""

from typing import Any

from ...state.errors import ConfigError, shown
from .processor_api import Headers


def own_headers(given: Any, place: str, what: str = "headers") -> Headers:
    """``given`` as it is now, as pairs of a name and bytes; anything that has bytes (``bytearray``, ``memoryview``) is
    taken. ``place`` and ``what`` are named in errors. Raises ConfigError for what is no such pairs.
    """
    if type(given) is tuple and not given:
        return ()
    try:
        # A memoryview refuses numbers and lists of numbers, of which ``bytes`` alone would make content.
        kept = tuple((name, None if content is None else bytes(memoryview(content))) for name, content in given)
    except (TypeError, ValueError):
        kept = ((None, None),)
    if not all(isinstance(name, str) for name, _ in kept):
        next_step = "write [(name, bytes), …]; text.encode() gives bytes"
        raise ConfigError(place, f"{what} as (name, bytes or None) pairs", shown(given), next_step)
    return kept
