"""Where the rows of a pipeline's table are, as of an increment. Everything that opens a table of the past asks here."""

from typing import Any, NamedTuple

from state.errors import ConfigError
from state.tables import PipelineTables, Warehouse


class TablePart(NamedTuple):
    """A Delta table, and the version to read it at."""

    path: str
    version: int


def parts_of(warehouse: Warehouse, pipeline: str, content: dict[str, Any], table: str) -> list[TablePart]:
    """Parts of ``table`` (its name in the ledger), oldest first; ``content``: of the increment's done row.

    Raises ConfigError for a table that the increment does not have.
    """
    versions: dict[str, int] = content["versions"]
    if table not in versions:
        raise ConfigError(
            f"pipeline {pipeline!r}", f"one of {', '.join(sorted(versions))}", repr(table), "name one of them"
        )
    return [TablePart(path_of(warehouse.pipeline(pipeline), table), versions[table])]


def path_of(tables: PipelineTables, table: str) -> str:
    """Path of a table by its name in the ledger ("outputs/x", "dropped", ...)."""
    kind, _, name = table.partition("/")
    if not name:
        return {"dropped": tables.dropped, "dead_letter": tables.dead_letter}[kind]
    return {"outputs": tables.output, "state": tables.state, "repartition": tables.repartition}[kind](name)
