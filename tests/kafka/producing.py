"""Producing to the test broker, and remembering what was produced."""

from collections.abc import Sequence
from typing import Any

from examples.broker import Broker


class Producing:
    """Produces to a topic and remembers at which position the broker put each record."""

    def __init__(self, broker: Broker, topic: str, **settings: Any) -> None:
        self.topic = topic
        self.producer = broker.producer(**settings)
        self.positions: list[tuple[int, int, bytes]] = []
        if "transactional_id" in settings:
            self.producer.init_transactions(30)

    def send(self, values: Sequence[bytes], **fields: Any) -> None:
        for value in values:
            self.producer.produce(self.topic, value, on_delivery=self._delivered, **{"partition": 0, **fields})
        assert self.producer.flush(30) == 0

    def _delivered(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.positions.append((message.partition(), message.offset(), message.value()))

    def transaction(self, values: Sequence[bytes], *, commit: bool, **fields: Any) -> None:
        before = len(self.positions)
        self.producer.begin_transaction()
        self.send(values, **fields)
        if commit:
            self.producer.commit_transaction(30)
        else:
            self.producer.abort_transaction(30)
            del self.positions[before:]


def numbered(name: str, count: int) -> list[bytes]:
    return [f"{name}{number}".encode() for number in range(count)]
