"""A topic of a broker to which an output is published, as a user names it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...state.argument_types import check_fields
from ...state.errors import ConfigError
from ...state.hidden_values import hide

_OWN = (
    "bootstrap.servers", "transactional.id", "enable.idempotence", "acks", "group.id", "isolation.level",
    "enable.auto.commit", "auto.offset.reset", "enable.partition.eof",
)  # fmt: skip
"""Settings on which exactly once depends."""


@dataclass(frozen=True, slots=True)
class KafkaTarget:
    """A topic that is there already, with the partitions that its readers expect.

    ``bootstrap_servers``: "host:port", several with commas. ``options``: settings of the client, as librdkafka or
    Java's clients name them (``security.protocol``, ``sasl.username``, ``compression.type``, …); they are never written
    down, and what is a credential among them is not shown. ``position_topic``: where the published position is; None:
    the topic's name and ``-replay-position``.

    ``registry``: address of a Schema Registry whose ids are written, those of the subjects TOPIC-key and TOPIC-value;
    None: the ids that the topology's serdes write. ``registry_options``: settings of its client, as confluent-kafka
    names them (``basic.auth.user.info``, ``ssl.ca.location``, …). ``register_schemas``: register a schema that its
    subject does not have; else that is refused.

    Raises ConfigError for settings that publishing chooses itself, and for those of a registry without its address.
    """

    bootstrap_servers: str
    topic: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    position_topic: str | None = None
    registry: str | None = None
    registry_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    register_schemas: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        hide({**self.options, **self.registry_options, "registry": self.registry or ""})
        if self.registry is None and (self.registry_options or self.register_schemas):
            expected, got = "the address of the registry", "settings for it alone"
            raise ConfigError("KafkaTarget registry", expected, got, "name it, or leave them out")
        taken = sorted({*self.options} & {*_OWN})
        if taken:
            expected = "settings of the client that publishing does not choose itself"
            raise ConfigError("KafkaTarget options", expected, ", ".join(taken), "leave them out")

    @property
    def positions(self) -> str:
        """The topic in which its position is."""
        return self.position_topic or f"{self.topic}-replay-position"

    @property
    def transactional_id(self) -> str:
        """One for each topic, so that the broker fences all publishers of the topic but the last one."""
        return f"replay-publish-{self.topic}"
