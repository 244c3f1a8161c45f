"""What windowed aggregates are set up with, whatever the kind of their windows."""

from dataclasses import dataclass

from ..base.store_segments import segment_ms
from .emit_on_close import FinalResults


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSettings:
    """``retention_ms``: how long the store keeps windows, by its own time; at least as long as they take records.

    ``is_persistent``: the store forgets by segments. ``emits_final``: results continue at the close of their windows
    only. ``is_kip``: semantics "kip", in which no result depends on the retention. ``inputs``: streams that share the
    store.
    """

    retention_ms: int
    is_persistent: bool = False
    emits_final: bool = False
    is_kip: bool = False
    inputs: int = 1

    def final(self, wait_ms: int, lag_ms: int) -> FinalResults | None:
        """Results at the close of windows, arguments as of FinalResults; None when every update is forwarded."""
        return FinalResults(wait_ms, lag_ms, is_lossless=self.is_kip) if self.emits_final else None

    @property
    def kept_by_start(self) -> tuple[int, int, int]:
        """Of a store that keeps windows by their start: (hidden, retention, length of a segment or 0), in ms. It shows
        starts from its newest less ``hidden`` on.
        """
        hidden_ms = self.retention_ms if self.is_persistent and self.emits_final else self.retention_ms - 1
        return hidden_ms, self.retention_ms, segment_ms(self.retention_ms, self.is_persistent)
