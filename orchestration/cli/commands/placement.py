"""The command `placement`: which worker runs which task of a pipeline, and what would change with more or fewer.

Rule: it reads the hint that the last increment left, and starts nothing.
"""

import click

from .. import options
from ..command import command, option


@command()
@options.warehouse
@options.pipeline
@option("--preview", is_flag=True, help="what would move if --members workers were there, and what must be copied")
@option("--members", type=options.COUNT, metavar="N", help="so many workers (default: those that are there)")
@options.as_json
def placement(warehouse: str, pipeline: str, preview: bool, members: int | None, as_json: bool) -> int:
    """Show workers, tasks, standbys and learners of the last increment, and the moves that are planned."""
    from ....jobs.execution.placement_hint import read_hint
    from ....state.errors import ConfigError
    from ....state.tables.warehouse import Warehouse
    from ...placement.tables import placed_tables, preview_lines
    from ...text_tables import print_json, print_table

    if members is not None and not preview:
        raise click.UsageError("--members needs --preview")
    hint = read_hint(Warehouse(warehouse).pipeline(pipeline))
    if hint is None:
        raise ConfigError(
            f"pipeline {pipeline!r}", "an increment whose tasks were placed", "none",
            "run it on a cluster with --placement high_availability or sticky",
        )  # fmt: skip
    if preview:
        lines = preview_lines(hint, members)
        if as_json:
            print_json({"preview": lines})
        else:
            print("\n".join(lines))
        return 0
    tables, said = placed_tables(hint)
    if as_json:
        named = {title.split(",")[0].split()[0]: rows for title, rows in tables}
        print_json({"increment": hint["increment"], **named, "said": said})
        return 0
    for title, rows in tables:
        print(f"{title}:")
        print_table(rows, wide=True)
        print()
    for line in said:
        print(line)
    return 0
