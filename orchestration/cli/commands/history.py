"""The commands that ask history: sql, inspect, explain.

Rule: answers go to stdout, as of whole increments; nothing is written to the warehouse.
"""

import sys
from contextlib import closing
from itertools import zip_longest
from textwrap import wrap

import click

from ....jobs.explain.explanation import Step, deciding_steps, say_place
from ....jobs.explain.explanation import explain as explain_record
from ....jobs.history.history import AsOf, History
from ....jobs.history.inspection import all_counters, counters_of, inspect_store, read_positions, task_positions
from ....state.tables.warehouse import Warehouse
from ...progress_lines import progress_on
from ...settings.topology_loading import load_topology
from ...text_tables import flat_row, print_json, print_table, utc
from .. import options
from ..book_lines import excluded_lines
from ..command import argument, command, option

WIDTH_MAX, SAID_MIN = 120, 60
"""Of a line of `explain`, and of the sentence in it however long the names of the nodes are."""

SENTENCES_MAX = 3
"""Of a node in the answer of `explain`: a record that moves stream time on may let thousands of results go."""


@command()
@argument("query", metavar="SELECT", help="over outputs, stores, dropped, dead_letter")
@options.warehouse
@options.pipeline
@options.topology_option("show stores as their readers see them")
@options.increment
@options.limit
@options.as_json
@options.raw
def sql(
    query: str, warehouse: str, pipeline: str, topology: str | None, increment: int | None, limit: int, as_json: bool,
    raw: bool,
) -> int:  # fmt: skip
    """Ask outputs and stores as of an increment, in SQL."""
    frame = _as_of(warehouse, pipeline, topology, increment).sql(query)
    rows = frame.head(limit).to_dicts()
    if as_json:
        print_json({"rows": rows, "total": frame.height})
        return 0
    print_table([flat_row(row, as_numbers=raw) for row in rows], None if rows else frame.columns)
    _count(len(rows), frame.height)
    return 0


@command()
@argument("store", required=False, metavar="STORE", help="a store (default: positions and clocks of all)")
@options.key
@options.warehouse
@options.pipeline
@options.topology_option("whose operators show the store", takes_default=True)
@options.increment
@options.limit
@options.as_json
@options.raw
def inspect(
    store: str | None, key: str | None, warehouse: str, pipeline: str, topology: str | None, increment: int | None,
    limit: int, as_json: bool, raw: bool,
) -> int:  # fmt: skip
    """Show the rows of a store and what waits in it, or without a store all positions."""
    as_of = _as_of(warehouse, pipeline, topology, increment)
    if store is None:
        _print_positions(as_of, as_json=as_json, raw=raw)
        return 0
    table = inspect_store(as_of, store, key)
    rows = table.slice(0, limit).to_pylist()
    if as_json:
        clocks = counters_of(as_of, store)
        print_json({"increment": as_of.increment, "rows": rows, "total": len(table), "clocks": clocks})
        return 0
    shown = [name for name in table.column_names if any(row[name] is not None for row in rows)]
    lines = [flat_row({name: row[name] for name in shown}, as_numbers=raw) for row in rows]
    print_table(lines, None if lines else table.column_names)
    _count(len(rows), len(table))
    print(f"\nclocks after increment {as_of.increment}")
    print_table([flat_row(row, as_numbers=raw) for row in counters_of(as_of, store)])
    return 0


@command()
@option(
    "--record", required=True, metavar="TOPIC:PARTITION:OFFSET",
    help="the record, landed or of a repartition topic, by its place in `dropped`",
)  # fmt: skip
@options.topology_option(options.TOPOLOGY, required=True)
@options.warehouse
@options.pipeline
@option("--all", "whole", is_flag=True, help="what every operator did, and what came of it to the increment's end")
@option("--order", type=click.Choice(["time", "arrival"]), default="time", help="as the pipeline was replayed")
@options.raw
def explain(record: str, topology: str, warehouse: str, pipeline: str, whole: bool, order: str, raw: bool) -> int:
    """Say what became of a record and why; with --all, what every operator did with it."""
    with closing(progress_on(sys.stderr)) as progress:
        progress.doing("looking for what became of the record")
        loaded, said = load_topology(topology, warehouse), str if raw else utc
        explanation = explain_record(
            Warehouse(warehouse), pipeline, loaded, record, order=order, say_time=said, whole=whole
        )
    print(f"{say_place(explanation.place)} was read by increment {explanation.increment}")
    if explanation.difference is not None:
        print("\n".join(["", *wrap(explanation.difference, WIDTH_MAX)]))
    if whole:
        lines = _lines(explanation.steps, None)
    else:
        lines = [*_lines(deciding_steps(explanation.steps), SENTENCES_MAX), "", "--all says what every operator did"]
    print("\n".join(lines))
    return 0


def _lines(steps: list[Step], most: int | None) -> list[str]:
    """A heading a row of a task, then its sentences, aligned behind the names of the nodes; of a node ``most``."""
    width = max((len(step.node) for step in steps), default=0)
    lines: list[str] = []
    before = None
    for step in steps:
        if (step.task, step.place) != before:
            before = step.task, step.place
            lines += ["", f"task {step.task} takes {say_place(step.place)}"]
        sentences = step.sentences[:most]
        if len(sentences) < len(step.sentences):
            sentences.append(f"and {len(step.sentences) - len(sentences):,} more")
        said = [line for sentence in sentences for line in wrap(sentence, max(SAID_MIN, WIDTH_MAX - width - 4))]
        lines += [f"  {name:<{width}}  {line}" for name, line in zip_longest([step.node], said, fillvalue="")]
    return lines


def _as_of(warehouse: str, pipeline: str, topology: str | None, increment: int | None) -> AsOf:
    loaded = None if topology is None else load_topology(topology, warehouse)
    return History(Warehouse(warehouse), pipeline, loaded).at(increment)


def _print_positions(as_of: AsOf, *, as_json: bool, raw: bool) -> None:
    tables = {
        "offsets": read_positions(as_of),
        "excluded": excluded_lines(as_of.history.warehouse, as_of.row.content),
        "tasks": task_positions(as_of),
        "clocks": all_counters(as_of),
    }
    if as_json:
        print_json({"increment": as_of.increment, **tables})
        return
    titles = {
        "offsets": f"offsets of the topics after increment {as_of.increment}",
        "excluded": "records that are taken out of play",
        "tasks": "stream times of the tasks, and the next offsets of what they write",
        "clocks": "clocks of the stores",
    }
    gap = ""
    for name, rows in tables.items():
        if rows or name in ("offsets", "tasks"):
            print(f"{gap}{titles[name]}")
            print_table([flat_row(row, as_numbers=raw) for row in rows])
            gap = "\n"


def _count(shown: int, total: int) -> None:
    if shown < total:
        print(f"{shown:,} of {total:,} rows; --limit shows more")
