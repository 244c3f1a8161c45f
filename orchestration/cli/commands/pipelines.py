"""The command `pipelines`: what is in a warehouse. Rule: it only reads."""

from dataclasses import asdict

from ....jobs.branches.warehouse_contents import landed_topics, replayed_pipelines
from ....state.tables.warehouse import Warehouse
from ...text_tables import flat_row, print_json, print_table
from .. import options
from ..command import command


@command()
@options.warehouse
@options.as_json
@options.raw
def pipelines(warehouse: str, as_json: bool, raw: bool) -> int:
    """List what is in a warehouse: landed topics, and pipelines with their branches."""
    opened = Warehouse(warehouse)
    topics = [asdict(each) for each in landed_topics(opened)]
    replayed = [asdict(each) for each in replayed_pipelines(opened)]
    if as_json:
        print_json({"warehouse": opened.root, "topics": topics, "pipelines": replayed})
        return 0
    print(f"{opened.root}: {_count(len(topics), 'landed topic')}, {_count(len(replayed), 'pipeline')}")
    for lines in (topics, replayed):
        if lines:
            print()
            print_table([flat_row(line, as_numbers=raw) for line in lines])
    return 0


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
