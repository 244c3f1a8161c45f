"""What Numba's cache on disk holds of kernels, and compiling into it.

Owns the way from what a kernel was called with to Numba's name of that version. Rule: to look reads the cache's
index and no code. Nobody need look where few records come, since this imports Numba.
"""

import importlib
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from .kernel_compilation import Kernel, Kind, called

Version = tuple[Kernel, tuple[Kind, ...]]
"""A kernel, and the kinds of the arguments that it is compiled for."""


def versions_called() -> list[Version]:
    """What interpreted kernels of this process were called with from Python, in the order of the first calls."""
    return [(kernel, kinds) for kernel, versions in list(called.items()) for kinds in list(versions)]


def missing(versions: Iterable[Version]) -> list[Version]:
    """Those that are not in the cache. Kernels that have none, since no folder can be written to, never miss."""
    return [(kernel, kinds) for kernel, kinds in versions if not _is_cached(kernel, kinds)]


def _is_cached(kernel: Kernel, kinds: tuple[Kind, ...]) -> bool:
    dispatcher = kernel.dispatcher
    cache = getattr(dispatcher, "_cache", None)
    file = getattr(cache, "_cache_file", None)
    if cache is None or file is None:
        return True
    key = cache._index_key(_signature(kinds), dispatcher.targetdescr.target_context.codegen())
    name = file._load_index().get(key)
    return name is not None and os.path.exists(file._data_path(name))


def compile_version(kernel: Kernel, kinds: tuple[Kind, ...]) -> None:
    """Compile it, or load it, so that it is in the cache."""
    kernel.dispatcher.compile(_signature(kinds))


def cache_folder(version: Version) -> str:
    """Where it is kept, one of ``missing``."""
    folder: str = version[0].dispatcher._cache.cache_path
    return folder


def _signature(kinds: tuple[Kind, ...]) -> tuple[Any, ...]:
    """As Numba's dispatcher would have chosen it."""
    return tuple(map(_type_of, kinds))


def _type_of(kind: Kind) -> Any:
    from numba import from_dtype, types

    name, *rest = kind
    if name == "array":
        dtype, dimensions, layout, is_readonly = rest
        return types.Array(from_dtype(np.dtype(dtype)), dimensions, layout, readonly=is_readonly)  # type: ignore[no-untyped-call]
    if name == "tuple":
        return types.BaseTuple.from_types([_type_of(part) for part in rest])  # type: ignore[no-untyped-call]
    if name == "number":
        return from_dtype(np.dtype(rest[0]))
    assert name == "none", f"a kind of argument that is not known: {kind}"
    return types.none


# --- as text, for another process -------------------------------------------------------------------------------


def to_json(version: Version) -> list[Any]:
    """Module, name and kinds."""
    kernel, kinds = version
    return [kernel.__module__, kernel.__qualname__, kinds]


def from_json(written: list[Any]) -> Version | None:
    """The version that ``to_json`` has written; None where this process cannot import it."""
    module, name, kinds = written
    try:
        kernel = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return None
    return (kernel, _tuples(kinds)) if isinstance(kernel, Kernel) else None


def _tuples(parts: Any) -> Any:
    return tuple(map(_tuples, parts)) if isinstance(parts, list) else parts
