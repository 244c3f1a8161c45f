"""Small tables for the command line: plain text, drawn by rich on a terminal, or as JSON.

Rule: numbers to the right, text to the left, nothing wider than it must be; a struct becomes columns of its own. What
is printed to a file or a pipe does not depend on rich. JSON has the values whole, under the names that they have.
"""

import datetime as dt
import json
import math
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

WIDTH_MAX = 40
_WHOLE = ("reason",)
"""Columns whose values stay whole: sentences that name the place last."""


def print_table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str] | None = None,
    *,
    thousands: bool = False,
    wide: bool = False,
) -> None:
    """Print ``rows``, as ``text_table``; on a terminal cut to its width, or with ``wide`` folded."""
    if not sys.stdout.isatty():
        print(text_table(rows, columns, thousands=thousands, wide=wide))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    names, cells, right = _cells(rows, columns, thousands, wide)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for name, to_right in zip(names, right, strict=True):  # a number is never cut: rich takes from other columns first
        table.add_column(Text(name), justify="right" if to_right else "left", no_wrap=to_right)
    for line in cells:
        table.add_row(*(Text(cell, no_wrap=not wide, overflow="fold" if wide else "ellipsis") for cell in line))
    Console(file=sys.stdout).print(table)


def print_offsets(offsets: Mapping[str, Mapping[str, int]]) -> None:
    """Print the next offset of each topic and partition."""
    rows = [
        {"topic": topic, "partition": int(partition), "next offset": offset}
        for topic, of_topic in offsets.items()
        for partition, offset in of_topic.items()
    ]
    print_table(rows, thousands=True)


def print_json(document: Mapping[str, Any]) -> None:
    """Print ``document`` as one line of JSON, with values as ``json_value`` has them."""
    print(json.dumps(json_value(document), ensure_ascii=False))


def json_value(value: Any) -> Any:
    """``value`` as JSON can have it. Times are milliseconds, bytes are their text where they are UTF-8 and else
    "0x…"; numbers that JSON does not have ("NaN", "Infinity", "-Infinity"), decimals and dates are text. A map is a
    list of pairs.
    """
    if isinstance(value, Mapping):
        return {str(name): json_value(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"0x{value.hex()}"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    return value if value is None or isinstance(value, str | int | float) else str(value)


def text_table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str] | None = None,
    *,
    thousands: bool = False,
    wide: bool = False,
) -> str:
    """Lines of ``rows`` beneath their column names; a column that a row has not is empty there.

    ``thousands``: numbers are counts, so they get separators. ``wide``: values longer than WIDTH_MAX stay whole, as a
    reason always does.
    """
    names, cells, right = _cells(rows, columns, thousands, wide)
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

    Times (columns that end in ``_ms``) are in UTC unless ``as_numbers``; fields stay as they are, and so does what is
    no number.
    """
    flat: dict[str, Any] = {}
    short = {} if as_numbers else {name: name.removesuffix("_ms") for name in row if name.endswith("_ms")}
    taken = {*row, *short.values()}
    for name, value in row.items():
        if isinstance(value, Mapping):
            for field, part in value.items():
                flat[f"{name}.{field}" if field in flat or field in taken else field] = part
        elif name in short:
            said = utc(value) if _is_number(value) or isinstance(value, Decimal) else value
            flat[name if short[name] in row else short[name]] = said
        else:
            flat[name] = value
    return flat


def utc(time_ms: float | Decimal) -> str:
    """A time as people read it, whole milliseconds only where there are any."""
    try:
        whole_ms = math.floor(time_ms)
        time = dt.datetime.fromtimestamp(whole_ms / 1000, dt.UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
    text = time.strftime("%Y-%m-%d %H:%M:%S")
    return text if whole_ms % 1000 == 0 else f"{text}.{whole_ms % 1000:03d}"


def _cells(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None, thousands: bool, wide: bool
) -> tuple[list[str], list[list[str]], list[bool]]:
    """Column names, the text of every cell, and for each column whether it has numbers."""
    names = list(columns or dict.fromkeys(name for row in rows for name in row))
    widths = [sys.maxsize if wide or name in _WHOLE else WIDTH_MAX for name in names]
    cells = [[_text(row.get(n), thousands, width) for n, width in zip(names, widths, strict=True)] for row in rows]
    return names, cells, [any(_is_number(row.get(name)) for row in rows) for name in names]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any, thousands: bool, width: int) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    if isinstance(value, float):
        value = round(value, 3)
    if thousands and _is_number(value):
        return f"{value:,}"
    text = str(value)
    if not text.isprintable():  # a key may have a line break, or what a terminal takes for a command
        text = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
    return text if len(text) <= width else f"{text[: width - 1]}…"
