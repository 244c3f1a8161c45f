"""Serdes of Kafka's ``Serdes`` that are neither numbers nor text: UUIDs, nothing, and lists."""

from .list_codec import ListCodec
from .uuid_codec import UuidCodec
from .void_codec import VoidCodec

__all__ = ["ListCodec", "UuidCodec", "VoidCodec"]
