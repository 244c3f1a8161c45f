"""Where the user called the DSL: the file and the line of the nearest frame that is none of this package.

Rule: it is looked up when a node is made, from frames that are there (a microsecond), and kept beside the graph. It is
never in a node, a fingerprint, a description or a pickle, since the same topology may be at another line tomorrow.
"""

import os
import sys
from types import FrameType, TracebackType

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PACKAGE = tuple(
    os.path.join(_ROOT, part) + os.sep for part in ("state", "jobs", "expectations", "orchestration", "kstreams_replay")
)
"""Folders of this package, which in a checkout has others beside them."""


def call_site() -> str | None:
    """ "shop.py, line 41", with the file as Python was given it; None when everything is of this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_the_users(frame):
            return _said(frame, frame.f_lineno)
        frame = frame.f_back
    return None


def call_site_of(traceback: TracebackType | None) -> str | None:
    """As ``call_site``, of an error that was raised: the user's frame that is nearest to where it was."""
    site = None
    while traceback is not None:
        if _is_the_users(traceback.tb_frame):
            site = _said(traceback.tb_frame, traceback.tb_lineno)
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


def _said(frame: FrameType, line: int) -> str:
    return f"{frame.f_code.co_filename}, line {line}"
