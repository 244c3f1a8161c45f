"""Where the user called the DSL: the file and the line of the nearest frame that is none of this package.

Rule: it is looked up when a node is made, from frames that are there (a microsecond), and kept beside the graph. It is
never in a node, a fingerprint, a description or a pickle, since the same topology may be at another line tomorrow.
"""

import os
import sys
from types import FrameType, TracebackType
from typing import NamedTuple

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PACKAGE = tuple(
    os.path.join(_ROOT, part) + os.sep for part in ("state", "jobs", "expectations", "orchestration", "kstreams_replay")
)
"""Folders of this package, which in a checkout has others beside them."""


class CallSite(NamedTuple):
    """``file``: as Python was given it. ``function``: in which the ``line`` is; ``begins``: its first line."""

    file: str
    line: int
    function: str
    begins: int

    def __str__(self) -> str:
        """As "shop.py, line 41"."""
        return f"{self.file}, line {self.line}"


def call_site() -> CallSite | None:
    """The user's line; None when everything is of this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_the_users(frame):
            return _site(frame, frame.f_lineno)
        frame = frame.f_back
    return None


def call_site_of(traceback: TracebackType | None) -> CallSite | None:
    """As ``call_site``, of an error that was raised: the user's frame that is nearest to where it was."""
    site = None
    while traceback is not None:
        if _is_the_users(traceback.tb_frame):
            site = _site(traceback.tb_frame, traceback.tb_lineno)
        traceback = traceback.tb_next
    return site


def users_frames(traceback: TracebackType | None) -> list[str]:
    """The user's frames of an error that was raised, the nearest to it first, as "function(shop.py:41)"."""
    frames: list[str] = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if _is_the_users(traceback.tb_frame):
            frames.append(f"{code.co_qualname}({os.path.basename(code.co_filename)}:{traceback.tb_lineno})")
        traceback = traceback.tb_next
    return frames[::-1]


def _is_the_users(frame: FrameType) -> bool:
    """Neither of this package nor made by the standard library on the way (``__init__`` of a dataclass, an import)."""
    file = frame.f_code.co_filename
    return not file.startswith((*_PACKAGE, "<string>", "<frozen ")) and not file.endswith("functools.py")


def _site(frame: FrameType, line: int) -> CallSite:
    code = frame.f_code
    return CallSite(code.co_filename, line, code.co_qualname, code.co_firstlineno)
