"""What the command `show` does.

Rule: as in `orchestration/cli/commands/describe.py`; to look at rows imports neither Spark nor Numba.
"""

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ....jobs.history.committed_tables import count_rows, read_newest, read_state, read_table
from ....jobs.history.landed_records import last_landed
from ....jobs.history.row_choice import RowChoice
from ....state.errors import ConfigError
from ....state.near_names import did_you_mean
from ....state.tables.names import DEAD_LETTER, DROPPED, LANDED, LANDED_DEAD_LETTER, OUTPUTS, STATE, TableName
from ....state.tables.warehouse import HEADERS, Warehouse
from ...text_tables import flat_row, print_json, print_table
from .. import options
from ..command import argument, command, is_given, option
from ..no_rows import why_no_rows

HIDDEN = ("partition", "offset", "increment", "cause_offset", "stream_time_ms", "arrival", "deleted")
"""Columns that the newest rows are shown without; ``headers`` is one too where no row has any."""
LOOKED_AT = 100_000
"""Last rows of a changelog or a landed topic that are looked at for other keys than one that no row has."""


@dataclass(frozen=True)
class ShowOptions:
    """What the command was given: a field for each parameter that is declared above ``show``."""

    name: str
    warehouse: str
    pipeline: str | None
    changelog: bool
    topology: str | None
    increment: int | None
    key: str | None
    window: str | None
    last: int | None
    limit: int
    wide: bool
    as_json: bool
    raw: bool

    @property
    def chosen(self) -> RowChoice:
        """Which rows of the table are asked for."""
        return RowChoice(self.key, self.window, self.last)


@command()
@argument(
    "name",
    metavar="OUTPUT",
    help="an output, state/STORE, dropped, dead_letter, landed/TOPIC or landed_dead_letter/TOPIC",
)
@options.warehouse
@option(
    "--pipeline",
    metavar="NAME",
    takes_default=True,
    help="folder of its tables in the warehouse; none for landed/TOPIC and landed_dead_letter/TOPIC",
)
@option("--changelog", is_flag=True, help="every record instead of the newest of each key")
@options.topology_option("for state/STORE: show values as its readers see them")
@options.increment
@options.key
@options.window
@option("--last", type=options.COUNT, metavar="N", help="the N rows that were written last, the newest last")
@options.limit
@option("--wide", is_flag=True, help="whole values, however long")
@options.as_json
@options.raw
def show(**given: Any) -> int:
    """Show rows of an output, a store, the drops or the dead letters, or the last records of a landed topic."""
    asked = ShowOptions(**given)
    table = table_of(asked.name)
    rows, total = _rows(asked, table)
    shown = rows.slice(0, asked.limit if asked.last is None else asked.last).to_pylist()
    if asked.as_json:
        print_json({"table": table, "rows": shown, "total": total})
        return 0
    lines = [flat_row(row, as_numbers=asked.raw) for row in shown]
    print_table(lines or [dict.fromkeys(rows.column_names)], wide=asked.wide)
    if not lines and (asked.key, asked.window) != (None, None):
        everything, _ = _rows(replace(asked, key=None, window=None, last=None, limit=LOOKED_AT), table)
        print(why_no_rows(everything, asked.key, asked.window, as_numbers=asked.raw))
    if table.startswith(f"{STATE}/") and asked.topology is None:
        print("rows as they are stored; with --topology, what the store shows (without those past its retention)")
    if total > len(shown):
        print(f"… {len(shown):,} of {total:,} rows; {'--limit' if asked.last is None else '--last'} shows more")
    return 0


def table_of(name: str) -> str:
    """The table's name in the ledger: on the command line that of an output is written without its kind."""
    return name if "/" in name or name in (DROPPED, DEAD_LETTER) else TableName.output(name)


def _rows(asked: ShowOptions, table: str) -> tuple[pa.Table, int]:
    """Rows of the table, at least those that are shown, and how many it has of what is asked for."""
    kind, warehouse, chosen = table.partition("/")[0], Warehouse(asked.warehouse), asked.chosen
    if kind in (LANDED, LANDED_DEAD_LETTER):
        given = {
            "--pipeline": is_given("pipeline"), "--increment": asked.increment is not None,
            "--topology": asked.topology is not None, "--changelog": asked.changelog,
        }  # fmt: skip
        refuse_options(f"show {asked.name}", [option for option, is_there in given.items() if is_there])
        topic = table.partition("/")[2]
        return _landed(asked, warehouse, topic) if kind == LANDED else chosen.of(_landed_dead_letters(warehouse, topic))
    if asked.pipeline is None:
        raise ConfigError(f"show {asked.name}", "the pipeline whose table it is", "none", "name it with --pipeline")
    if kind == STATE and asked.topology is not None and not asked.changelog:
        return chosen.of(_as_readers_see_it(warehouse, asked.pipeline, table, asked.topology, asked.increment))
    if asked.changelog or kind not in (OUTPUTS, STATE):
        return _records(asked, warehouse, asked.pipeline, table)
    read = read_newest if kind == OUTPUTS else read_state
    rows, total = chosen.of(read(warehouse, asked.pipeline, TableName(table).name, increment=asked.increment))
    return rows.drop_columns(_hidden(rows)), total


def _records(asked: ShowOptions, warehouse: Warehouse, pipeline: str, table: str) -> tuple[pa.Table, int]:
    """Of a table without keys, and of a changelog, the last rows."""
    limit = asked.limit if asked.last is None else asked.last
    if asked.key is None and asked.window is None:
        rows = read_table(warehouse, pipeline, table, increment=asked.increment, last=limit)
        return rows, count_rows(warehouse, pipeline, table, increment=asked.increment)
    everything = read_table(warehouse, pipeline, table, increment=asked.increment)
    rows, total = RowChoice(asked.key, asked.window).of(everything)
    return rows.slice(max(len(rows) - limit, 0)), total


def refuse_options(place: str, given: list[str]) -> None:
    """Raises ConfigError: options of a pipeline's tables say nothing about a topic's landing."""
    if given:
        next_step = "leave it out: a topic's landing belongs to no pipeline, and rows of all its increments are shown"
        raise ConfigError(place, f"no {given[0]}", " ".join(given), next_step)


def _landed(asked: ShowOptions, warehouse: Warehouse, topic: str) -> tuple[pa.Table, int]:
    """Its last records; ``headers`` only where one of them has any."""
    refuse_unknown(f"show {asked.name}", warehouse, topic)
    if asked.window is not None:
        query = f"""SELECT * FROM "{LANDED}/{topic}" WHERE record_time_ms >= …"""
        raise ConfigError(f"show {asked.name}", "no --window", asked.window, f"ask by time: `replay sql '{query}'`")
    limit = asked.limit if asked.last is None else asked.last
    rows, total = last_landed(warehouse, topic, limit, asked.key)
    return rows if _has_headers(rows) else rows.drop_columns("headers"), total


def refuse_unknown(place: str, warehouse: Warehouse, topic: str) -> None:
    """Raises ConfigError for a topic that was never landed."""
    known = warehouse.topics()
    if topic not in known:
        expected = f"a topic that has landed, one of {', '.join(known) or '(none)'}"
        next_step = did_you_mean(topic, known, "name one of them")
        raise ConfigError(place, expected, repr(topic), next_step)


def _landed_dead_letters(warehouse: Warehouse, topic: str) -> pa.Table:
    """What became no record; of files without the columns of Kafka's records. ConfigError for a topic that was never
    landed.
    """
    from ....jobs.landing.bad_rows import landed_dead_letters

    refuse_unknown(f"show {LANDED_DEAD_LETTER}/{topic}", warehouse, topic)
    rows = landed_dead_letters(warehouse, topic)
    nothing = [name for name in rows.column_names if rows[name].null_count == len(rows)]
    return rows if not len(rows) else rows.drop_columns(nothing)


def _as_readers_see_it(
    warehouse: Warehouse, pipeline: str, table: str, topology: str, increment: int | None
) -> pa.Table:
    """Rows of a store as ``read_store``."""
    from ....jobs.history.store_reader import read_store
    from ...settings.topology_loading import load_topology

    loaded = load_topology(topology, warehouse)
    return read_store(warehouse, pipeline, loaded, TableName(table).name, increment=increment)


def _hidden(rows: pa.Table) -> list[str]:
    has_headers = _has_headers(rows)
    return [name for name in rows.column_names if name in HIDDEN or (name == "headers" and not has_headers)]


def _has_headers(rows: pa.Table) -> bool:
    headers = rows["headers"] if "headers" in rows.column_names else pa.chunked_array([], HEADERS)
    return bool(pc.any(pc.greater(pc.list_value_length(headers), 0)).as_py())
