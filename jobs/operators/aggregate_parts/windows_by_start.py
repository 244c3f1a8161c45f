"""What time and sliding windows share: their store shows windows by start, and forgets them by start."""

import numpy as np

from .aggregate import Aggregate
from .emit_on_close import key_ranks
from .kernel_decisions import Decisions


class WindowsByStart(Aggregate):
    """``kept``: (hidden, retention, length of a segment or 0), as of WindowSettings."""

    kept: tuple[int, int, int]

    @property
    def _put_limits(self) -> tuple[int, int]:  # type: ignore[override]
        return self.kept[1], self.kept[2]

    def _is_over(self, start_ms: np.ndarray, end_ms: np.ndarray, store_time_ms: int, emitted_ms: int) -> np.ndarray:
        return start_ms < store_time_ms - self.kept[0]

    def _visible_at(self, store_time_ms: np.ndarray) -> np.ndarray:
        return store_time_ms - self.kept[0]

    def _order(self, decided: Decisions) -> np.ndarray:
        assert decided.window_start_ms is not None
        return np.lexsort((key_ranks(self.context.keys, decided.key), decided.window_start_ms, decided.row))
