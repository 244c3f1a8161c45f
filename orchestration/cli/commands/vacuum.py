"""The command `vacuum`. Rule: it only lists, unless asked to delete."""

from ....jobs.branches.vacuum import vacuum as vacuum_pipeline
from ....state.tables.warehouse import Warehouse
from ...text_tables import print_json, print_table
from .. import options
from ..command import OneOf, command, option


@command(one_of=[OneOf(("keep_increments", "keep_days"))])
@options.warehouse
@options.pipeline
@option("--keep-increments", type=options.COUNT, metavar="N", help="so many can be asked for (default: all)")
@option("--keep-days", type=options.FiniteNumber(min=0), metavar="D", help="those of so many days can be asked for")
@option("--delete", is_flag=True, help="delete them; without it they are only listed")
@options.as_json
def vacuum(
    warehouse: str, pipeline: str, keep_increments: int | None, keep_days: float | None, delete: bool, as_json: bool
) -> int:
    """Find files that nobody can ask for any more, by table and reason."""
    done = vacuum_pipeline(
        Warehouse(warehouse), pipeline, keep_increments=keep_increments, keep_days=keep_days, delete=delete
    )
    lines = done.lines()
    if as_json:
        print_json({"tables": lines, "is_deleted": done.is_deleted, "oldest": done.oldest})
        return 0
    total = {"table": "all", **{name: sum(line[name] for line in lines) for name in ("files", "bytes")}}
    if lines:
        print_table([*lines, total], ["table", "why", "files", "bytes"], thousands=True)
    what = "deleted" if done.is_deleted else "would be deleted by --delete"
    print(f"{total['files']:,} files, {total['bytes']:,} bytes {what}" if lines else "nothing to delete")
    if done.oldest:
        tense = "can" if done.is_deleted else "could then"
        print(f"the oldest increment that {tense} be asked for is {done.oldest}")
    return 0
