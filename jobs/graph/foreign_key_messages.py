"""Messages of a foreign-key join: what travels from the left table to the right one, and back.

Owns their shapes and numbers. Rule: a subscription is keyed by the foreign key, which may be null, a response by the
primary key. Hashes are the two longs of Kafka's Murmur3 of the serialized left value, both null for a null value.
"""

from enum import IntEnum

import pyarrow as pa
import pyarrow.compute as pc

from ...state.serdes import Serde
from ...state.serdes.json_text import JsonCodec
from ...state.serdes.packed import packed
from ..functions.expressions import Shape


class Instruction(IntEnum):
    """What a subscription asks for (Kafka's SubscriptionWrapper.Instruction)."""

    DELETE_NO_PROPAGATE = 0
    """Forget the subscription, answer nothing."""
    DELETE_AND_PROPAGATE = 1
    """Forget the subscription, answer null."""
    PROPAGATE_NULL_IF_NO_FK = 2
    """Subscribe, answer the right value or null."""
    PROPAGATE_ONLY_IF_FK = 3
    """Subscribe, answer the right value if there is one."""


def subscription_shape(primary_key: Serde, foreign_key: Serde) -> Shape:
    """Of a registration: ``primary_key`` goes as bytes, exactly as they came; ``partition``: of the left record."""
    del primary_key
    value = packed(
        primary_key=Serde.bytes(),
        instruction=Serde.int(),
        hash_a=Serde.long(),
        hash_b=Serde.long(),
        partition=Serde.int(),
    )
    return Shape(foreign_key, value)


_NEVER_EMPTY = Serde.short(), Serde.int(), Serde.long(), Serde.float(), Serde.double(), Serde.boolean(), Serde.uuid()
"""Serdes, beside JSON, that write no value as no bytes."""


def without_empty(right: pa.Array, serde: Serde) -> pa.Array:
    """``right`` with null for values of no bytes: Kafka's responses do not distinguish them
    (SubscriptionResponseWrapperSerde).
    """
    if serde in _NEVER_EMPTY or isinstance(serde.codec, JsonCodec):
        return right
    return pc.if_else(pa.array(serde.sizes(right) > 0), right, pa.scalar(None, right.type))


def response_shape(primary_key: Serde, right_value: Serde) -> Shape:
    """Of a response: the hash of the left value that it answers, and the right value or null."""
    value = packed(hash_a=Serde.long(), hash_b=Serde.long(), right=right_value, partition=Serde.int())
    return Shape(primary_key, value)
