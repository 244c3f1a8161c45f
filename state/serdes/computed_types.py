"""Types that expressions give, as the types that serdes and tables have.

Rule: a type keeps every value of the one it represents: a long for an unsigned 32-bit integer, an int for a short.
Times are of microseconds; one that has a finer fraction does not fit, and says so when it comes. Zones are UTC: an
instant is the same one in each.
"""

import pyarrow as pa

from ..buffers import is_list

_SHORT = (pa.int8(), pa.int16(), pa.uint8(), pa.uint16())


def computed_type(kind: pa.DataType) -> pa.DataType:
    """The declared type that holds what an expression gives as ``kind``; ``kind`` itself where there is none."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, computed_type(field.type)) for field in kind])
    if is_list(kind):
        return pa.list_(computed_type(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(computed_type(kind.key_type), computed_type(kind.item_type))
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_integer(kind) and kind != pa.int32():
        return pa.int32() if kind in _SHORT else pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_time(kind):
        return pa.time64("us")
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    return pa.date32() if pa.types.is_date(kind) else kind
