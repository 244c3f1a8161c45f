"""What the command `show` does.

Rule: as in `orchestration/cli/commands/describe.py`; to look at rows imports neither Spark nor Numba.
"""

import pyarrow as pa
import pyarrow.compute as pc

from ....jobs.history.committed_tables import count_rows, read_newest, read_state, read_table
from ....state.errors import ConfigError
from ....state.tables.names import DEAD_LETTER, DROPPED, LANDED_DEAD_LETTER, OUTPUTS, STATE, TableName
from ....state.tables.warehouse import HEADERS, Warehouse
from ...text_tables import flat_row, print_table
from .. import options
from ..command import argument, command, option

HIDDEN = ("partition", "offset", "increment", "cause_offset", "stream_time_ms", "arrival", "deleted")
"""Columns that the newest rows are shown without; ``headers`` is one too where no row has any."""


@command()
@argument("name", metavar="OUTPUT", help="an output, state/STORE, dropped, dead_letter or landed_dead_letter/TOPIC")
@options.warehouse
@option("--pipeline", metavar="NAME", help="folder of its tables in the warehouse; none for landed_dead_letter/TOPIC")
@option("--changelog", is_flag=True, help="every record instead of the newest of each key")
@options.topology_option("for state/STORE: show values as its readers see them")
@options.increment
@options.limit
@option("--wide", is_flag=True, help="whole values, however long")
@options.raw
def show(
    name: str, warehouse: str, pipeline: str | None, changelog: bool, topology: str | None, increment: int | None,
    limit: int, wide: bool, raw: bool,
) -> int:  # fmt: skip
    """Show rows of an output, a store, the drops or the dead letters."""
    table = name if "/" in name or name in (DROPPED, DEAD_LETTER) else TableName.output(name)
    kind = table.partition("/")[0]
    if kind == LANDED_DEAD_LETTER:
        given = {"--pipeline": pipeline, "--increment": increment, "--topology": topology, "--changelog": changelog}
        _refuse_options(name, [option for option, value in given.items() if value is not None and value is not False])
        rows, total = _landed_dead_letters(Warehouse(warehouse), table.partition("/")[2])
    elif pipeline is None:
        raise ConfigError(f"show {name}", "the pipeline whose table it is", "none", "name it with --pipeline")
    elif kind == STATE and topology is not None and not changelog:
        rows, total = _as_readers_see_it(warehouse, pipeline, table, topology, increment)
    else:
        rows, total = _stored(Warehouse(warehouse), pipeline, table, increment, limit, changelog=changelog)
    shown = rows.slice(0, limit).to_pylist()
    lines = [flat_row(row, as_numbers=raw) for row in shown]
    print_table(lines or [dict.fromkeys(rows.column_names)], wide=wide)
    if kind == STATE and topology is None:
        print("rows as they are stored; with --topology, what the store shows (without those past its retention)")
    if total > len(shown):
        print(f"… {len(shown):,} of {total:,} rows; --limit shows more")
    return 0


def _refuse_options(name: str, given: list[str]) -> None:
    """Raises ConfigError: options of a pipeline's tables say nothing about a topic's landing."""
    if given:
        next_step = "leave it out: a topic's landing belongs to no pipeline, and rows of all its increments are shown"
        raise ConfigError(f"show {name}", f"no {given[0]}", " ".join(given), next_step)


def _landed_dead_letters(warehouse: Warehouse, topic: str) -> tuple[pa.Table, int]:
    """What became no record; of files without the columns of Kafka's records. ConfigError for a topic that was never
    landed.
    """
    from ....jobs.landing.bad_rows import landed_dead_letters

    known = warehouse.topics()
    if topic not in known:
        expected = f"a topic that has landed, one of {', '.join(known) or '(none)'}"
        raise ConfigError(f"show {LANDED_DEAD_LETTER}/{topic}", expected, repr(topic), "name one of them")
    rows = landed_dead_letters(warehouse, topic)
    nothing = [name for name in rows.column_names if rows[name].null_count == len(rows)]
    return (rows if not len(rows) else rows.drop_columns(nothing)), len(rows)


def _as_readers_see_it(
    warehouse: str, pipeline: str, table: str, topology: str, increment: int | None
) -> tuple[pa.Table, int]:
    """Rows of a store as ``read_store``, and how many there are."""
    from ....jobs.history.store_reader import read_store
    from ...settings.topology_loading import load_topology

    store = table.partition("/")[2]
    rows = read_store(Warehouse(warehouse), pipeline, load_topology(topology, warehouse), store, increment=increment)
    return rows, len(rows)


def _stored(
    warehouse: Warehouse, pipeline: str, table: str, increment: int | None, limit: int, *, changelog: bool
) -> tuple[pa.Table, int]:
    """The newest row of each key, or of a table without keys (and of a changelog) the last rows; and how many there
    are.
    """
    kind, _, name = table.partition("/")
    if changelog or kind not in (OUTPUTS, STATE):
        rows = read_table(warehouse, pipeline, table, increment=increment, last=limit)
        return rows, count_rows(warehouse, pipeline, table, increment=increment)
    read = read_newest if kind == OUTPUTS else read_state
    rows = read(warehouse, pipeline, name, increment=increment)
    return rows.drop_columns(_hidden(rows)), len(rows)


def _hidden(rows: pa.Table) -> list[str]:
    headers = rows["headers"] if "headers" in rows.column_names else pa.chunked_array([], HEADERS)
    has_headers = pc.any(pc.greater(pc.list_value_length(headers), 0)).as_py()
    return [name for name in rows.column_names if name in HIDDEN or (name == "headers" and not has_headers)]
