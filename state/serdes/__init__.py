"""Serdes: between the bytes that Kafka clients write and Arrow columns."""

from .codec import Decoded
from .computed_types import computed_type
from .serde import Serde

__all__ = ["Decoded", "Serde", "computed_type"]
