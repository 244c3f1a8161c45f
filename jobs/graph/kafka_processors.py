"""What Kafka Streams makes of our nodes: processors, sources and sinks, as its description of a topology prints them.

Several of its processors are one node here: a join of streams is five, a grouping through a repartition table four.
"""

from dataclasses import dataclass

SOURCE, PROCESSOR, SINK = "Source", "Processor", "Sink"


@dataclass(frozen=True)
class KafkaNode:
    """``topic``: of a source or a sink; ``topics``: of a source of several; ``pattern``: of a source of all that match;
    ``stores``: that the processor is connected with.
    """

    kind: str
    name: str
    above: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    topic: str = ""
    is_global: bool = False
    topics: tuple[str, ...] = ()
    pattern: str = ""
    extractor: str = ""
    """Of a sink that asks it for the topic of each record."""


def kafka_processor(name: str, above: tuple[str, ...], stores: tuple[str, ...] = ()) -> KafkaNode:
    """A processor below those of ``above``."""
    return KafkaNode(PROCESSOR, name, tuple(dict.fromkeys(above)), stores)
