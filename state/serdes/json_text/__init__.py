"""JSON texts of declared types: the schema in Spark's words, reading, writing, and the codec over them."""

from .json_codec import JsonCodec
from .json_schema import parse_schema, schema_text, type_text

__all__ = ["JsonCodec", "parse_schema", "schema_text", "type_text"]
