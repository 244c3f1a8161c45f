"""What the command `vacuum` does. Rule: as in `orchestration/cli/describe_commands.py`; it only tells, unless asked to
delete.
"""

from argparse import Namespace
from typing import Any

from ...jobs.branches.vacuum import vacuum as vacuum_pipeline
from ...state.tables.warehouse import Warehouse
from ..text_tables import text_table


def vacuum(options: Namespace) -> int:
    """Files that may go, by table and reason; with --delete they do."""
    done = vacuum_pipeline(
        Warehouse(options.warehouse),
        options.pipeline,
        keep_increments=options.keep_increments,
        keep_days=options.keep_days,
        delete=options.delete,
    )
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    for waste in done.waste:
        first = {"table": waste.table, "why": waste.reason, "files": 0, "bytes": 0}
        line = lines.setdefault((waste.table, waste.reason), first)
        line["files"] += 1
        line["bytes"] += waste.bytes
    total = {"table": "all", **{name: sum(line[name] for line in lines.values()) for name in ("files", "bytes")}}
    if lines:
        print(text_table([*lines.values(), total], ["table", "why", "files", "bytes"], thousands=True))
    what = "deleted" if done.is_deleted else "would be deleted by --delete"
    print(f"{total['files']:,} files, {total['bytes']:,} bytes {what}" if lines else "nothing to delete")
    if done.oldest:
        tense = "can" if done.is_deleted else "could then"
        print(f"the oldest increment that {tense} be asked for is {done.oldest}")
    return 0
