"""Credentials that this process was given, kept out of what it says.

Owns the values, not their names. Rule: whoever is given settings of a client or a store hands them over once; errors,
logs and pages then show ``[hidden]`` in their place. Nothing of it is written down.
"""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote

HIDDEN = "[hidden]"
LENGTH_MIN = 6
"""What is shorter is a word of many sentences, and no secret for long."""

_SECRET_NAMES = re.compile(
    r"secret|passw|token|credential|jaas|private|access.?key|account.?key|api.?key|sas.?key|user\.info", re.IGNORECASE
)
_WITHIN = re.compile(r"""(?:passw\w*|secret\w*)\s*=\s*["']?([^"';\s]+)|://[^/@:\s]*:([^/@\s]+)@""", re.IGNORECASE)
"""Of a setting's value: a password of a login module, or one in an address."""

_hidden: set[str] = set()


def hide(settings: Mapping[str, str]) -> None:
    """From now on the values of those of ``settings`` that are credentials, by their names, are not shown."""
    for name, value in settings.items():
        for secret in _secrets(name, str(value)):
            if len(secret) >= LENGTH_MIN:
                _hidden.update({secret, quote(secret, safe="")})


def is_credential(name: str) -> bool:
    """Whether a setting of that name is one."""
    return _SECRET_NAMES.search(name) is not None


def _secrets(name: str, value: str) -> Iterator[str]:
    if is_credential(name):
        yield value
    for match in _WITHIN.finditer(value):
        yield match[1] or match[2]


def without_hidden(text: str) -> str:
    """``text`` without what was hidden."""
    for value in sorted(_hidden, key=len, reverse=True) if _hidden else ():
        text = text.replace(value, HIDDEN)
    return text
