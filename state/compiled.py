"""How kernels are compiled: what Python calls, and what only kernels call.

Owns the decorators. Rule: a loop over records makes no array; who needs room takes it from the caller. Numba then
counts no references: where arrays are handed on in tuples, to count them for every record costs more than the record
(measured on sessions: four times as much). A function that makes one all the same does not compile (NRTRequired).

Nothing is compiled that nobody calls, which halved the time: a kernel for kernels has no entry from Python (to take
tuples of arrays apart is more code than most kernels are), none has an entry from C; and a number that one kernel hands
to another is an int64, be it a literal or narrower, so that the other has one version for all. A kernel for kernels is
inlined: a call hands over every array of its tuples in seven words (sessions took a third longer with calls).
"""

from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.core.registry import CPUDispatcher


def _decorator(*, is_inner: bool, makes_arrays: bool) -> Callable[[Callable[..., Any]], Any]:
    """``njit`` as above. ``_nrt`` and the methods replaced here are Numba's own names; its version is pinned."""
    options: dict[str, Any] = {
        "no_cfunc_wrapper": True,
        "no_cpython_wrapper": is_inner,
        "_nrt": makes_arrays,
        "forceinline": is_inner,
    }
    compiled: Any = njit(cache=True, **options)

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = compiled(function)
        if isinstance(dispatcher, CPUDispatcher):  # else it is the function itself: Numba is switched off
            _widen_numbers(dispatcher)
            if is_inner:
                _refuse_python(dispatcher)
        return dispatcher

    return decorate


def _widen_numbers(dispatcher: Any) -> None:
    """Let a kernel that calls this one find the version for int64."""
    template = dispatcher.get_call_template
    dispatcher.get_call_template = lambda args, kws: template(tuple(map(_widened, args)), kws)


def _widened(kind: Any) -> Any:
    kind = types.unliteral(kind)  # type: ignore[no-untyped-call]
    return types.int64 if kind in types.signed_domain else kind


def _refuse_python(dispatcher: Any) -> None:
    """Let a call from Python find no compiled version, since it could not enter it, and end in an error."""

    def add_overload(compiled: Any) -> None:
        dispatcher.overloads[tuple(compiled.signature.args)] = compiled

    def refuse(*_args: Any, **_kwargs: Any) -> None:
        name = f"{dispatcher.py_func.__module__}.{dispatcher.py_func.__qualname__}"
        raise TypeError(f"{name}: expected a call from a kernel, got one from Python; decorate it as `kernel`")

    dispatcher.add_overload = add_overload
    dispatcher._compile_for_args = refuse


kernel = _decorator(is_inner=False, makes_arrays=False)
"""Python calls it; so may kernels."""
inner_kernel = _decorator(is_inner=True, makes_arrays=False)
"""Kernels call it, Python does not."""
array_kernel = _decorator(is_inner=False, makes_arrays=True)
"""Python calls it, and it makes arrays: once a call, what is done for every record stands in another."""
inner_array_kernel = _decorator(is_inner=True, makes_arrays=True)
"""Kernels call it, and it makes arrays."""
