"""Arguments of public functions and settings are of the types that they are annotated with, or an error says so.

Owns which annotations are looked at: classes, unions of them, and a mapping's or a sequence's own class, not what is in
it. One text where several are expected is refused, since its letters would be taken for them. Rule: what is annotated
in another way is not looked at, and whoever takes it checks it.
"""

import inspect
import os
import re
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin

from .errors import ConfigError

P = ParamSpec("P")
R = TypeVar("R")

_WIDER: Mapping[Any, Any] = {int: Integral, float: Real, tuple: Sequence}
"""NumPy's numbers count as Python's, and a list as a tuple."""
_SEVERAL = (Sequence, Collection, Iterable, tuple, list)


def checked_types(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, which raises ConfigError for an argument that is not of its annotation, before anything is done."""
    signature = inspect.signature(function)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        given = signature.bind(*args, **kwargs).arguments
        for name, value in given.items():
            annotation = signature.parameters[name].annotation
            if not _fits(value, annotation):
                raise _refused(function.__qualname__, name, annotation, value)
        return function(*args, **kwargs)

    return checked


def check_fields(settings: Any) -> None:
    """Raises ConfigError for a field of a dataclass whose value is not of its annotation."""
    for name, annotation in inspect.get_annotations(type(settings)).items():
        value = getattr(settings, name)
        if not _fits(value, annotation):
            raise _refused(type(settings).__name__, name, annotation, value)


def path_text(path: Any, place: str) -> str:
    """A path or a URI as text, without slashes at its end. ConfigError for neither text nor a ``pathlib.Path``."""
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(place, "a path, as text or a pathlib.Path", repr(path), "name the directory, file or URI")
    return str(path).rstrip("/")


def _fits(value: Any, annotation: Any) -> bool:
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in get_args(annotation))
    if annotation is None or annotation is Any:
        return value is None or annotation is Any
    kind = annotation if origin is None else origin
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return True
    if kind in _SEVERAL and isinstance(value, str | bytes):
        return False
    return isinstance(value, _WIDER.get(kind, kind))


def _refused(place: str, name: str, annotation: Any, value: Any) -> ConfigError:
    expected = re.sub(r"(\w+\.)+", "", inspect.formatannotation(annotation))
    said = repr(value)
    got = said if len(said) <= 80 else f"{said[:77]}..."
    return ConfigError(f"{place}, {name}", expected, got, f"help({place}) says what it is")
