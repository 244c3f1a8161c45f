"""Protocol Buffers: messages of a descriptor, between bytes and Arrow columns."""

from .protobuf_codec import ProtobufCodec, descriptor_set

__all__ = ["ProtobufCodec", "descriptor_set"]
