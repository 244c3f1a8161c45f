"""Avro: values as Apache Avro's binary encoding has them, between bytes and Arrow columns.

schema reads a schema's text, layout names the columns it becomes, resolution turns a writer's schema and the reader's
into a small program, and decoding and encoding run programs over whole columns.
"""

from .avro_codec import AvroCodec, schema_text
from .kept_schemas import keep_schemas, kept_schemas
from .records_codec import confluent_avro

__all__ = ["AvroCodec", "confluent_avro", "keep_schemas", "kept_schemas", "schema_text"]
