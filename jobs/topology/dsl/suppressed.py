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
    """Limits of a suppress buffer, and what happens beyond them.

    ``records_max``: keys, ``bytes_max``: bytes as Kafka counts them; each 0 or more, None: no limit, else ConfigError.
    ``when_full``: "shut-down" ends the run with BufferFull, "emit-early" forwards the oldest changes, "spill" continues
    on disk. ``limit``, of the calls, is one of the two limits. A buffer that emits early cannot wait for windows to
    close.
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
        """At most ``limit`` keys; emits early.

        Source: ``BufferConfig.maxRecords``.

            >>> buffer = BufferConfig.max_records(1)
            >>> show(points.suppress(Suppressed.until_time_limit("1h", buffer)))
            ann: 10 at 0
            bob: 7 at 100
        """
        return cls(records_max=limit)

    @classmethod
    def max_bytes(cls, limit: int) -> "BufferConfig":
        """At most ``limit`` bytes, as Kafka counts them; emits early.

        Source: ``BufferConfig.maxBytes``.

            >>> BufferConfig.max_bytes(1_000_000).when_full
            'emit-early'
        """
        return cls(bytes_max=limit)

    @classmethod
    def unbounded(cls) -> "BufferConfig":
        """Source: ``BufferConfig.unbounded``.

        >>> BufferConfig.unbounded()
        BufferConfig(records_max=None, bytes_max=None, when_full='shut-down')
        """
        return cls(when_full=SHUT_DOWN)

    def with_max_records(self, limit: int) -> "BufferConfig":
        """Source: ``BufferConfig.withMaxRecords``.

        >>> BufferConfig.max_bytes(1_000_000).with_max_records(1_000)
        BufferConfig(records_max=1000, bytes_max=1000000, when_full='emit-early')
        """
        return replace(self, records_max=limit)

    def with_max_bytes(self, limit: int) -> "BufferConfig":
        """Source: ``BufferConfig.withMaxBytes``.

        >>> BufferConfig.max_records(10).with_max_bytes(500).bytes_max
        500
        """
        return replace(self, bytes_max=limit)

    def with_no_bound(self) -> "BufferConfig":
        """Source: ``BufferConfig.withNoBound``.

        >>> BufferConfig.max_records(10).with_no_bound().records_max is None
        True
        """
        return BufferConfig.unbounded()

    def emit_early_when_full(self) -> "BufferConfig":
        """Source: ``BufferConfig.emitEarlyWhenFull``.

        >>> BufferConfig.unbounded().with_max_records(10).emit_early_when_full()
        BufferConfig(records_max=10, bytes_max=None, when_full='emit-early')
        """
        return replace(self, when_full=EMIT_EARLY)

    def shut_down_when_full(self) -> "BufferConfig":
        """Source: ``BufferConfig.shutDownWhenFull``.

        >>> BufferConfig.max_records(10).shut_down_when_full().is_strict
        True
        """
        return replace(self, when_full=SHUT_DOWN)

    def spill_to_disk_when_full(self) -> "BufferConfig":
        """KIP-328's third choice, which Kafka does not have.

        Source: KIP-328, not in Kafka Streams.

            >>> counts = orders.group_by_key().windowed_by(TimeWindows.of_size("10s")).count()
            >>> buffer = BufferConfig.max_records(1).spill_to_disk_when_full()
            >>> show(counts.suppress(Suppressed.until_window_closes(buffer)))
            ann [0, 10000]: 1 at 1000
            bob [0, 10000]: 1 at 2000
        """
        return replace(self, when_full=SPILL)

    @property
    def is_strict(self) -> bool:
        """Whether no change leaves the buffer before its time."""
        return self.when_full != EMIT_EARLY


@checked_class
@dataclass(frozen=True, slots=True)
class Suppressed(Hinting):
    """How ``KTable.suppress`` holds changes back: ``until`` "window-closes", or "time-limit" for ``wait_ms`` (0 or
    more).

    ``buffer``: its limits; ``max_records`` and ``max_bytes``, of the calls, set them without a BufferConfig. ``name``:
    of the processor, whose store is called after it.
    """

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

        Source: ``Suppressed.untilWindowCloses`` (KIP-328).

            >>> counts = clicks.group_by_key().windowed_by(TimeWindows.of_size("1m", grace="10s")).count()
            >>> show(counts.suppress(Suppressed.until_window_closes()))
            ann [0, 60000]: 2 at 2000
            bob [0, 60000]: 1 at 1000
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
        emits early when full. ConfigError for a negative ``wait``.

        Source: ``Suppressed.untilTimeLimit`` (KIP-328).

            >>> show(prices.suppress(Suppressed.until_time_limit("30s")))
            tea: 3.0 at 60000
            mug: 8.0 at 500
        """
        wait_ms = duration_ms(wait, "wait")
        if wait_ms < 0:
            raise ConfigError("until_time_limit wait", "0 ms or more", f"{wait_ms} ms", "correct the duration")
        return cls("time-limit", wait_ms, _chosen(buffer, max_records, max_bytes, EMIT_EARLY), name)

    def with_name(self, name: str) -> "Suppressed":
        """The same, the processor with this name.

        Source: ``Suppressed.withName``.

            >>> show(prices.suppress(Suppressed.until_time_limit("30s").with_name("wait")))
            tea: 3.0 at 60000
            mug: 8.0 at 500
        """
        return replace(self, name=name)


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
