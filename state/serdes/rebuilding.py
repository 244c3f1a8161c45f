"""Functions that make a new object of a Python value: source that is written for the value's type and then compiled.

They are called once or twice for each record that a function of the user's gets. So a value is taken apart and put
together in one expression, which has the checks of its scalars, and nothing is called for a part that is as expected.
"""

from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

Take = Callable[[Any], Any]

_CLASSES = {one.__name__: one for one in (date, datetime, time, Decimal, type(None))}


class Unlike(Exception):
    """Some part is not as its type has it."""


def rebuilding(
    kind: pa.DataType, plain: Callable[[pa.DataType], str], other: Callable[[pa.DataType], Take], otherwise: Take
) -> Take:
    """What gives a new object of a value of ``kind``, with the value's own scalars.

    ``plain``: of a scalar type, the values ``v`` that are kept as they are, in Python, as what follows ``type(v) is``;
    None always is. ``other``: of a type inside ``kind``, what gives the part for any other scalar, or for a nested
    part. ``otherwise``: gives what is made of a whole value that is not of the expected class, that lacks a field, or
    for which ``other`` raised Unlike.
    """
    names: dict[str, Any] = {**_CLASSES, "Unlike": Unlike, "otherwise": otherwise}

    def part(inner: pa.DataType, value: str) -> str:
        """Source text that rebuilds ``value``, which is the variable ``v`` or an expression to be put into it."""
        name = f"other_{len(names)}"
        names[name] = other(inner)
        if pa.types.is_nested(inner):
            return f"{name}({value})"
        named = value if value == "v" else f"v := {value}"
        return f"v if type({named}) is {plain(inner)} or v is None else {name}(v)"

    if pa.types.is_struct(kind):
        expected = f"type(value) is dict and len(value) == {kind.num_fields}"
        # A field's name is the user's: ``!r`` makes a literal of it, which cannot become code.
        fields = [f"{field.name!r}: {part(field.type, f'value[{field.name!r}]')}" for field in kind]
        made = f"{{{', '.join(fields)}}}"
    elif pa.types.is_list(kind):
        expected, made = "type(value) is list", f"[{part(kind.value_type, 'v')} for v in value]"
    elif pa.types.is_map(kind):
        names["key_of"] = other(pa.string())
        key = "k if type(k) is str and k.isascii() else key_of(k)"
        # A null key is left to ``otherwise``, which refuses it. ``key_of`` would keep it, as it keeps any None.
        expected = "type(value) is dict and None not in value"
        made = f"{{{key}: {part(kind.item_type, 'v')} for k, v in value.items()}}"
    else:
        return _compiled(
            f"def take(v):\n    return v if type(v) is {plain(kind)} or v is None else otherwise(v)\n", names
        )
    source = f"""def take(value):
    if {expected}:
        try:
            return {made}
        except (KeyError, Unlike):
            pass
    return otherwise(value)
"""
    return _compiled(source, names)


def _compiled(source: str, names: dict[str, Any]) -> Take:
    """Its function ``take``."""
    exec(source, names)
    take: Take = names["take"]
    return take
