"""What suppress holds back, and how much of it, as configuration that checks itself (KIP-328)."""

from dataclasses import dataclass, replace

from ....state.errors import ConfigError
from ....state.times import Duration, duration_ms
from ...functions.call_arguments import checked_class
from ...functions.call_names import Hinting

EMIT_EARLY, SHUT_DOWN, SPILL = "emit-early", "shut-down", "spill"


@checked_class
@dataclass(frozen=True, slots=True)
class BufferConfig(Hinting):
    """Limits of a buffer, None for none, and what happens beyond them: the run ends with BufferFull, the oldest changes
    go on early, or the buffer goes on from disk.

    A buffer that emits early is no strict one, so it cannot wait for windows to close.
    """

    records_max: int | None = None
    bytes_max: int | None = None
    when_full: str = EMIT_EARLY

    def __post_init__(self) -> None:
        for limit, most in (("max_records", self.records_max), ("max_bytes", self.bytes_max)):
            if most is not None and (type(most) is not int or most < 0):
                raise ConfigError(f"Suppressed {limit}", "0 or more", repr(most), "correct the limit")

    @classmethod
    def max_records(cls, limit: int) -> "BufferConfig":
        """At most ``limit`` keys; emits early."""
        return cls(records_max=limit)

    @classmethod
    def max_bytes(cls, limit: int) -> "BufferConfig":
        """At most ``limit`` bytes, as Kafka counts them; emits early."""
        return cls(bytes_max=limit)

    @classmethod
    def unbounded(cls) -> "BufferConfig":
        return cls(when_full=SHUT_DOWN)

    def with_max_records(self, limit: int) -> "BufferConfig":
        return replace(self, records_max=limit)

    def with_max_bytes(self, limit: int) -> "BufferConfig":
        return replace(self, bytes_max=limit)

    def with_no_bound(self) -> "BufferConfig":
        return BufferConfig.unbounded()

    def emit_early_when_full(self) -> "BufferConfig":
        return replace(self, when_full=EMIT_EARLY)

    def shut_down_when_full(self) -> "BufferConfig":
        return replace(self, when_full=SHUT_DOWN)

    def spill_to_disk_when_full(self) -> "BufferConfig":
        """KIP-328's third choice, which Kafka does not have."""
        return replace(self, when_full=SPILL)

    @property
    def is_strict(self) -> bool:
        return self.when_full != EMIT_EARLY


@checked_class
@dataclass(frozen=True, slots=True)
class Suppressed(Hinting):
    """Hold a table's changes back: ``until`` "window-closes" or "time-limit" (then for ``wait_ms``, 0 or more)."""

    until: str
    wait_ms: int
    buffer: BufferConfig
    name: str | None = None

    @classmethod
    def until_window_closes(
        cls,
        buffer: BufferConfig | None = None,
        *,
        max_records: int | None = None,
        max_bytes: int | None = None,
        name: str | None = None,
    ) -> "Suppressed":
        """One change a window, when it closes. The two limits are those of a strict buffer that shuts down when full.

        Raises ConfigError for a buffer that emits early.
        """
        buffer = _chosen(buffer, max_records, max_bytes, SHUT_DOWN)
        if not buffer.is_strict:
            next_step = "add shut_down_when_full() or spill_to_disk_when_full()"
            raise ConfigError("until_window_closes buffer", "a strict buffer", "one that emits early", next_step)
        return cls("window-closes", 0, buffer, name)

    @classmethod
    def until_time_limit(
        cls,
        wait: Duration,
        buffer: BufferConfig | None = None,
        *,
        max_records: int | None = None,
        max_bytes: int | None = None,
        name: str | None = None,
    ) -> "Suppressed":
        """The newest change of a key, ``wait`` after the first one held back. The two limits are those of a buffer that
        emits early when full.
        """
        wait_ms = duration_ms(wait, "wait")
        if wait_ms < 0:
            raise ConfigError("until_time_limit wait", "0 ms or more", f"{wait_ms} ms", "correct the duration")
        return cls("time-limit", wait_ms, _chosen(buffer, max_records, max_bytes, EMIT_EARLY), name)


def _chosen(
    buffer: BufferConfig | None, max_records: int | None, max_bytes: int | None, when_full: str
) -> BufferConfig:
    if buffer is not None and not isinstance(buffer, BufferConfig):
        next_step = "use for example BufferConfig.max_records(1000)"
        raise ConfigError("Suppressed buffer", "a BufferConfig", repr(buffer), next_step)
    if buffer is None:
        return BufferConfig(max_records, max_bytes, when_full)
    if max_records is not None or max_bytes is not None:
        raise ConfigError("Suppressed", "a buffer or its limits", "both", "give one of them")
    return buffer
