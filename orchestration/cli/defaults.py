"""What a command takes where its line and the environment say nothing: the file ``replay.toml`` of the current folder.

Owns the names in it and which commands take them. Rule: a command that works on all pipelines, or on none, does so
whatever the file says: `pipeline` and `topology` fill in what a command must be given. Nothing else changes what a
command does.
"""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from ...state.errors import ConfigError
from ...state.near_names import did_you_mean

FILE = "replay.toml"
WAREHOUSE_VARIABLE = "REPLAY_WAREHOUSE"
STORAGE_OPTIONS = "storage_options"
"""A table in the file: what ``--storage-option`` says, name by name."""
_TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "warehouse": (str, "text"), "pipeline": (str, "text"), "topology": (str, "text"), "local": (bool, "true or false"),
    "master": (str, "text"), "storage_timeout": (str, "text"),
    "max_bad_share": ((float, int), "a number from 0 to 1"), STORAGE_OPTIONS: (dict, "a table of texts"),
}  # fmt: skip
_REQUIRED_ALONE = frozenset({"pipeline", "topology"})


def defaults_of(params: Iterable[click.Parameter]) -> dict[str, Any]:
    """The values that the file gives for ``params`` of a command, by their names; {} without a file. Raises ConfigError
    for a file that cannot be read, names that nobody has, and values of another type.
    """
    said = read_defaults(Path(FILE))
    if not said:
        return {}
    known = {
        param.name for param in params if param.name not in _REQUIRED_ALONE or param.required or _takes_default(param)
    }
    defaults = {name: value for name, value in said.items() if name in known}
    if STORAGE_OPTIONS in said and "storage_option" in known:
        defaults["storage_option"] = tuple(f"{name}={value}" for name, value in said[STORAGE_OPTIONS].items())
    return defaults


def _takes_default(param: click.Parameter) -> bool:
    return getattr(param, "takes_default", False)


def read_defaults(path: Path) -> dict[str, Any]:
    """What the file ``path`` says, by name; {} where there is none. Raises ConfigError; no message shows a value."""
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(str(path), "a file of TOML", str(error), "correct it, or run elsewhere") from None
    for name, value in said.items():
        if name not in _TYPES:
            next_step = did_you_mean(name, _TYPES, "leave it out")
            raise ConfigError(str(path), f"one of {', '.join(_TYPES)}", repr(name), next_step)
        kind, words = _TYPES[name]
        texts = value.values() if kind is dict and isinstance(value, dict) else ()
        if not isinstance(value, kind) or not all(isinstance(text, str) for text in texts):
            raise ConfigError(f"{path}, {name}", words, "a value of another type", "correct it")
    return said
