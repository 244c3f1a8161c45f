"""Finds the topology, or the function, that a command names: `module:attribute` or `path/to/file.py:attribute`.

Owns the loading of a user's file. Rule: whatever is wrong with it is one sentence that names file and line. The file's
functions travel to Spark's workers by value, since workers need not have it.
"""

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from ...jobs.topology import Topology
from ...state.call_sites import call_site_of
from ...state.errors import ConfigError, ReplayError
from ...state.tables.warehouse import Warehouse

ATTRIBUTES = ("topology", "build")
"""Tried in this order when no attribute is named."""
_folders: set[Path] = set()
"""Those of all files that were loaded."""


class _NoSuchFile(Exception):
    """Of the topology itself."""


def load_topology(reference: str, warehouse: Warehouse | str | None = None) -> Topology:
    """The topology that ``reference`` names: a Topology, or a function without arguments that builds one. A
    pattern is replaced by the topics that have landed in ``warehouse``.

    Raises ConfigError for what cannot be found, loaded or built, and what the DSL raises while it is built.
    """
    named = _named(reference)
    try:
        topology = named if isinstance(named, Topology) or not callable(named) else named()
    except ReplayError as error:
        _say_where(error)
        raise
    except (Exception, SystemExit) as error:
        raise _broken(reference, error) from error
    if not isinstance(topology, Topology):
        raise ConfigError(
            reference,
            "a Topology, or a function that builds one",
            f"{type(topology).__name__}",
            "name another attribute",
        )
    opened = Warehouse(warehouse) if isinstance(warehouse, str) else warehouse
    return topology if opened is None else topology.reading(opened.topics)


def load_function(reference: str) -> Callable[..., Any]:
    """The function that ``reference`` names. Raises ConfigError as ``load_topology`` does, and for anything else."""
    function: Callable[..., Any] = _named(reference)
    if not callable(function) or not reference.rpartition(":")[1]:
        raise ConfigError(reference, "module:function or file.py:function", type(function).__name__, "name a function")
    return function


def _named(reference: str) -> Any:
    source, separator, attribute = reference.rpartition(":")
    if not separator:
        source, attribute = reference, ""
    return _attribute(_load(source, reference), attribute, reference)


def _load(source: str, reference: str) -> ModuleType:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does; a console script does not
    try:
        module = _load_file(Path(source)) if source.endswith(".py") else importlib.import_module(source)
    except _NoSuchFile as error:
        raise _not_there(reference, error) from error
    except ModuleNotFoundError as error:
        # Not one that it imports, of which its own line speaks.
        if not source.endswith(".py") and f"{source}.".startswith(f"{error.name}."):
            raise _not_there(reference, error) from error
        raise _broken(reference, error) from error
    except ReplayError as error:
        _say_where(error)
        raise
    # A script that ends with `sys.exit()` would end the command without a sentence.
    except (Exception, SystemExit) as error:
        raise _broken(reference, error) from error
    cloudpickle.register_pickle_by_value(module)
    return module


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise _NoSuchFile(f"no file {path}")
    folder = path.parent.resolve()
    name = f"replay_topology_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Before the file runs: a dataclass in it looks its module up there, to resolve annotations that are text.
    sys.modules[name] = module
    _forget_namesakes(folder)
    if str(folder) in sys.path:
        sys.path.remove(str(folder))
    sys.path.insert(0, str(folder))  # first, as of a script: another topology's folder may have equal names
    _folders.add(folder)
    spec.loader.exec_module(module)
    return module


def _forget_namesakes(folder: Path) -> None:
    """Modules beside other topologies that ``folder`` has, too: the next import is of its own. Who has the others keeps
    them.
    """
    others = _folders - {folder}
    beside = {name for name, module in [*sys.modules.items()] if others and _folder_of(name, module) in others}
    for name in [*sys.modules]:
        top = name.partition(".")[0]
        if top in beside and ((folder / f"{top}.py").is_file() or (folder / top).is_dir()):
            del sys.modules[name]


def _folder_of(name: str, module: ModuleType) -> Path | None:
    """In which the file of a module, or the folder of a package, lies; None of one below a package, or without file."""
    places = [*(getattr(module, "__path__", None) or ()), getattr(module, "__file__", None)]
    return Path(places[0]).parent if "." not in name and isinstance(places[0], str) else None


def _attribute(module: ModuleType, attribute: str, reference: str) -> object:
    names = (attribute,) if attribute else ATTRIBUTES
    for name in names:
        if hasattr(module, name):
            return getattr(module, name)
    public = [name for name in vars(module) if not name.startswith("_")]
    got = f"a file with {', '.join(public[:10])}" if public else "an empty file"
    raise ConfigError(reference, f"an attribute {' or '.join(names)}", got, "name it after a colon")


def _say_where(error: ReplayError) -> None:
    """Let the error of a call end with the user's line."""
    site = call_site_of(error.__traceback__)
    if site is not None:
        error.say(f"it is called in {site}")


def _not_there(reference: str, error: Exception) -> ConfigError:
    return ConfigError(reference, "a module or a file", str(error), "check the path, or run it from its folder")


def _broken(reference: str, error: BaseException) -> ConfigError:
    """An error of the user's own code, with its line."""
    if isinstance(error, SyntaxError):
        where = f"{error.filename}, line {error.lineno}"
    else:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = str(call_site_of(error.__traceback__) or f"{frame.filename}, line {frame.lineno}")
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    next_step = "correct the file" if missing is None else f"install what has {missing}, or correct the import"
    return ConfigError(
        reference,
        "a file that runs",
        f"{type(error).__name__}: {error} ({where})",
        f"{next_step}; --traceback shows more",
    )
