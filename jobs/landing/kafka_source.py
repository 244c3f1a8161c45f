"""A topic of a Kafka broker, as a user names it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...state.argument_types import check_fields
from ...state.errors import ConfigError
from ...state.hidden_values import hide


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """A topic of a broker.

    ``bootstrap_servers``: "host:port", several with commas. ``topic``: its name there; None: that of the landed topic.
    ``options``: client settings, as Java's clients name them or librdkafka (``security.protocol``, …); they are never
    written down, and what is a credential among them is not shown.
    ``on_gap``: what to do when the broker deleted offsets that come next: ``"refuse"`` raises RetentionGap, ``"skip"``
    continues behind them and records them in the ledger. A first landing begins at the earliest offset there is.
    """

    bootstrap_servers: str
    topic: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    on_gap: str = "refuse"

    def __post_init__(self) -> None:
        check_fields(self)
        hide(self.options)
        if self.on_gap not in ("refuse", "skip"):
            raise ConfigError("KafkaSource on_gap", '"refuse" or "skip"', repr(self.on_gap), "correct the argument")
