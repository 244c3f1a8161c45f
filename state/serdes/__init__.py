"""Serdes: between the bytes that Kafka clients write and Arrow columns."""

from state.serdes.codec import Decoded
from state.serdes.serde import Serde

__all__ = ["Decoded", "Serde"]
