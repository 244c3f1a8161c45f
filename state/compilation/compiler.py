"""The compiler: a process of its own that compiles versions of kernels into Numba's cache, as many at once as there are
cores.

    python -m kstreams_replay.state.compilation.compiler < versions.json

Owns that process and those that it starts. Rule: one compiles at a time into a cache, which a lock on a file says; it
ends with its process, however that ends. Who asked for it need not wait and continues if it dies; it continues if who
asked dies, and what it has compiled is there for the next.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from ..child_python import environment_with_path
from .kernel_cache import Version, cache_folder, compile_version, from_json, missing, to_json
from .numba_cache import COMPILING, alone


def start_compiler(versions: Sequence[Version]) -> subprocess.Popen[str]:
    """Compile them, elsewhere. The process says nothing; what it has done is in the cache."""
    # A session of its own: Ctrl-C in the terminal ends who asked, and what is being compiled is there for the next run.
    process = subprocess.Popen(
        [sys.executable, "-m", "kstreams_replay.state.compilation.compiler"],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        env=environment_with_path(),
    )  # fmt: skip
    assert process.stdin is not None, "it was asked for"
    try:
        with process.stdin as pipe:
            json.dump([to_json(version) for version in versions], pipe)
    except BrokenPipeError:  # it has died; who asked will see that nothing comes
        process.wait()
    return process


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compile_side_by_side(versions: Sequence[Version]) -> bool:
    """Compile what the cache does not hold; False when something could not be compiled."""
    left = missing(versions)
    if not left:
        return True
    with alone(cache_folder(left[0]), COMPILING):
        shares = _shares(missing(left))
        processes = min(cores(), len(shares))
        if processes < 2:
            return all(list(map(_compile_share, shares)))
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            return all(list(pool.map(_compile_share, shares)))


def _shares(versions: Sequence[Version]) -> list[list[Any]]:
    """By module, since kernels of one call the same others; the largest first, so that all processes end together."""
    shares: dict[str, list[Version]] = {}
    for version in versions:
        shares.setdefault(version[0].__module__, []).append(version)

    def size(share: list[Version]) -> int:
        return sum(len(kernel.py_func.__code__.co_code) for kernel, _ in share)

    return [[to_json(version) for version in share] for share in sorted(shares.values(), key=size, reverse=True)]


def _compile_share(share: list[Any]) -> bool:
    is_whole = True
    for version in filter(None, map(from_json, share)):
        try:
            compile_version(*version)
        except Exception:  # who calls it compiles it, and is told why it cannot be
            is_whole = False
    return is_whole


def main() -> int:
    """Exit code 0: all that standard input names is in the cache."""
    versions = [version for written in json.load(sys.stdin) if (version := from_json(written)) is not None]
    return 0 if compile_side_by_side(versions) else 1


if __name__ == "__main__":
    sys.exit(main())
