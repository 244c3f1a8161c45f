"""Requests to object stores that are made again, until they are answered or the time is up.

Owns what the stores' own client gives up at once: it makes most requests again by itself, but no conditional put, no
delete of several, and no listing whose body broke off. Rule: only what may be done twice comes here. A commit may: it
names itself, and is looked for before it counts as lost (state/tables/commit.py).
"""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from ..failures import is_passing

T = TypeVar("T")
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0
"""Seconds."""


def patiently(work: Callable[[], T], seconds: float) -> T:
    """What ``work`` returns. Where it raises what may pass, it is done again after a wait that doubles, with some
    chance in it, until so many ``seconds`` are over. Then, and for any other error, that error is raised.
    """
    until, wait = time.monotonic() + seconds, _FIRST_WAIT
    while True:
        try:
            return work()
        except Exception as error:
            if not is_passing(error) or time.monotonic() >= until:
                raise
        time.sleep(random.uniform(wait / 2, wait))
        wait = min(2 * wait, _LONGEST_WAIT)
