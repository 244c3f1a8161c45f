"""Serdes: between the bytes that Kafka clients write and Arrow columns."""

from .codec import Decoded
from .serde import Serde

__all__ = ["Decoded", "Serde"]
