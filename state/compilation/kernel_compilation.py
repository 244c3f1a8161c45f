"""Kernels: Python functions that Numba compiles, and that also run interpreted.

Owns the decorators, and the tier (interpreted or compiled) of each thread. Rule: both tiers leave the same rows. Numba
is imported when a kernel is first compiled or loaded; a process that only interprets never imports it. The argument
types of interpreted calls are recorded, so that the same versions can be compiled (state/compilation/compiler.py).

A loop over records makes no array; who needs room takes it from the caller. Numba then counts no references: where
arrays are handed on in tuples, to count them for every record costs more than the record (measured on sessions: four
times as much). A function that makes one all the same does not compile (NRTRequired).

A bundle of arrays is a NamedTuple with a dtype a field. Python hands it over as a plain tuple, ``tuple(bundle)``, and
the kernel names it again before its loop: ``slots = SlotColumns(*slots)``. Fields by name cost nothing in compiled code
(sessions took 0.99 of the time of tuples, medians of 20 pairs of runs over 2 M records). To compile them took the same
31 s. But Numba takes 1 µs to see the kind of a NamedTuple argument (a call of the session kernel took 10.7 µs, not
3.3), which counts where a Python aggregator makes every record a call; interpreted calls refuse one. Numba's cache sees
neither that the fields of a bundle changed places nor that an inlined kernel changed: who edits one deletes the
``*.nbi`` and ``*.nbc`` files.

Only what is called is compiled, which halved the time. A kernel for kernels has no entry from Python (to unpack tuples
of arrays is more code than most kernels are), and none has an entry from C. A number that one kernel passes to another
is an int64, be it a literal or narrower, so that the other has one version for all. A kernel for kernels is inlined: a
call hands over every array of its tuples in seven words (sessions took a third longer with calls).
"""

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .numba_cache import write_in_turn

Kind = tuple[Any, ...]
"""What Numba would take an argument for, said without Numba."""


class _Tier(threading.local):
    """How kernels run in this thread. ``is_inside_kernel``: an interpreted kernel is running, so calls come from it."""

    is_interpreted = False
    is_inside_kernel = False


_tier = _Tier()
_IS_JIT_DISABLED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
"""Numba is switched off."""

called: dict["Kernel", dict[tuple[Kind, ...], None]] = {}
"""What interpreted kernels were called with from Python, in this process."""


@contextmanager
def interpreted(*, is_on: bool = True) -> Iterator[None]:
    """Within, kernels of this thread run interpreted; with ``is_on`` False compiled, which is the default elsewhere."""
    before, _tier.is_interpreted = _tier.is_interpreted, is_on
    try:
        yield
    finally:
        _tier.is_interpreted = before


def use_compiled() -> None:
    """Kernels of this thread run compiled until the end of the surrounding ``interpreted``."""
    _tier.is_interpreted = False


class Kernel:
    """A function, and, once somebody asks for it, Numba's dispatcher of it."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], *, is_inner: bool) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self._options, self.is_inner = function, options, is_inner

    def __call__(self, *arguments: Any) -> Any:
        if _tier.is_inside_kernel:
            return self.py_func(*arguments)
        if _tier.is_interpreted or _IS_JIT_DISABLED:
            return self._run(arguments)
        return self.dispatcher(*arguments)

    def _run(self, arguments: tuple[Any, ...]) -> Any:
        """Run interpreted, called from Python. Hashes overflow on purpose, so NumPy's warning about it is off."""
        if self.is_inner:
            self._refuse_python()
        called.setdefault(self, {})[tuple(map(kind_of, arguments))] = None
        _tier.is_inside_kernel = True
        try:
            with np.errstate(over="ignore"):
                return self.py_func(*arguments)
        finally:
            _tier.is_inside_kernel = False

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"

    def __reduce__(self) -> str:
        return self.__qualname__

    __qualname__: str

    @property
    def name(self) -> str:
        """With its module."""
        return f"{self.__module__}.{self.__qualname__}"

    @property
    def targetoptions(self) -> dict[str, Any]:
        """What Numba asks a function for that another calls."""
        options: dict[str, Any] = self.dispatcher.targetoptions
        return options

    @property
    def _numba_type_(self) -> Any:
        """What Numba asks a value for that a function names."""
        from numba import types

        return types.Dispatcher(self.dispatcher)  # type: ignore[no-untyped-call]

    @functools.cached_property
    def dispatcher(self) -> Any:
        """Numba's. ``_nrt`` and the methods replaced here are Numba's own names; its version is pinned."""
        from numba import njit

        try:
            dispatcher: Any = njit(cache=True, **self._options)(self.py_func)
        except RuntimeError:  # no folder that it could write to: compiled in every process anew
            dispatcher = njit(**self._options)(self.py_func)
        write_in_turn(dispatcher)
        if "inline" not in self._options:
            _widen_numbers(dispatcher)
        if self.is_inner:
            self._close_to_python(dispatcher)
        return dispatcher

    def _close_to_python(self, dispatcher: Any) -> None:
        """Let a call from Python find no compiled version, since it could not enter it, and end in an error."""

        def add_overload(compiled: Any) -> None:
            dispatcher.overloads[tuple(compiled.signature.args)] = compiled

        dispatcher.add_overload = add_overload
        dispatcher._compile_for_args = self._refuse_python

    def _refuse_python(self, *_args: Any, **_kwargs: Any) -> None:
        raise TypeError(f"{self.name}: expected a call from a kernel, got one from Python; decorate it as `kernel`")


def _widen_numbers(dispatcher: Any) -> None:
    """Let a kernel that calls this one find the version for int64."""
    from numba import types

    def widened(kind: Any) -> Any:
        kind = types.unliteral(kind)  # type: ignore[no-untyped-call]
        return types.int64 if kind in types.signed_domain else kind

    template = dispatcher.get_call_template
    dispatcher.get_call_template = lambda args, kws: template(tuple(map(widened, args)), kws)


def kind_of(value: Any) -> Kind:
    """What Numba would take ``value`` for: an array's dtype, dimensions, order in memory and whether it is read-only, a
    number's dtype, or the kinds of a tuple's parts. Raises TypeError for a NamedTuple, which costs 1 µs a call.
    """
    if isinstance(value, np.ndarray):
        flags = value.flags
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        return ("array", value.dtype.str, value.ndim, layout, not flags.writeable)
    if isinstance(value, tuple):
        if type(value) is not tuple:
            name = type(value).__name__
            raise TypeError(f"a kernel's arguments: expected plain tuples, got a {name}; hand over tuple(…) of it")
        return ("tuple", *map(kind_of, value))
    if isinstance(value, np.generic):
        return ("number", value.dtype.str)
    if value is None:
        return ("none",)
    assert isinstance(value, bool | int | float), f"a kernel takes arrays and numbers, got {type(value).__name__}"
    return ("number", np.asarray(value).dtype.str)


def _decorator(*, is_inner: bool, **options: Any) -> Callable[[Callable[..., Any]], Kernel]:
    return lambda function: Kernel(function, options, is_inner=is_inner)


def _options(*, is_inner: bool, makes_arrays: bool, frees_python: bool = False) -> dict[str, Any]:
    return {
        "no_cfunc_wrapper": True, "no_cpython_wrapper": is_inner, "_nrt": makes_arrays, "forceinline": is_inner,
        "nogil": frees_python,
    }  # fmt: skip


kernel = _decorator(is_inner=False, **_options(is_inner=False, makes_arrays=False))
"""Python calls it; so may kernels."""
long_kernel = _decorator(is_inner=False, **_options(is_inner=False, makes_arrays=False, frees_python=True))
"""As ``kernel``, for calls that last: other threads run Python meanwhile."""
inner_kernel = _decorator(is_inner=True, **_options(is_inner=True, makes_arrays=False))
"""Kernels call it, Python does not."""
array_kernel = _decorator(is_inner=False, **_options(is_inner=False, makes_arrays=True))
"""Python calls it, and it makes arrays: once a call, what is done for every record is in another."""
inner_array_kernel = _decorator(is_inner=True, **_options(is_inner=True, makes_arrays=True))
"""Kernels call it, and it makes arrays."""
inlined_kernel = _decorator(is_inner=False, inline="always")
"""Kernels call it, and so may Python; a few lines that Numba inlines at the call, before it infers types."""
