"""Small tables as text, for the command line.

Rule: numbers to the right, text to the left, nothing wider than it must be; a struct becomes columns of its own.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH_MAX = 40


def text_table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None, *, thousands: bool = False
) -> str:
    """Lines of ``rows`` beneath their column names; a column that a row has not is empty there.

    ``thousands``: numbers are counts, so they get separators.
    """
    names = list(columns or dict.fromkeys(name for row in rows for name in row))
    cells = [[_text(row.get(name), thousands) for name in names] for row in rows]
    right = [any(_is_number(row.get(name)) for row in rows) for name in names]
    widths = [max([len(name), *(len(line[i]) for line in cells)]) for i, name in enumerate(names)]
    lines = [names, ["-" * width for width in widths], *cells]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def flat_row(row: Mapping[str, Any], *, as_numbers: bool = False) -> dict[str, Any]:
    """Fields of structs as columns, named after the struct too where the name is taken.

    Times (columns that end in ``_ms``) are in UTC unless ``as_numbers``; fields stay as they are.
    """
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            for field, part in value.items():
                flat[f"{name}.{field}" if field in flat or field in row else field] = part
        elif name.endswith("_ms") and not as_numbers:
            flat[name.removesuffix("_ms")] = None if value is None else utc(value)
        else:
            flat[name] = value
    return flat


def utc(time_ms: int) -> str:
    """A time as people read it, milliseconds only where there are any."""
    try:
        time = dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
    text = time.strftime("%Y-%m-%d %H:%M:%S")
    return text if time_ms % 1000 == 0 else f"{text}.{time_ms % 1000:03d}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any, thousands: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    if isinstance(value, float):
        value = round(value, 3)
    if thousands and _is_number(value):
        return f"{value:,}"
    text = str(value)
    return text if len(text) <= WIDTH_MAX else f"{text[: WIDTH_MAX - 1]}…"
