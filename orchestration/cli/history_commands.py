"""What the commands that ask history do: sql, inspect, explain.

Rule: answers go to stdout, as of whole increments; nothing is written to the warehouse.
"""

from argparse import Namespace
from itertools import zip_longest
from textwrap import wrap
from typing import Any

from ...jobs.explain.explanation import Step, say_place
from ...jobs.explain.explanation import explain as explain_record
from ...jobs.history.history import AsOf, History
from ...jobs.history.inspection import all_clocks, clocks_of, inspect_store, read_positions, task_positions
from ...state.tables.warehouse import Warehouse
from ..text_tables import flat_row, text_table, utc
from .topology_loading import load_topology

WIDTH_MAX, SAID_MIN = 120, 60
"""Of a line of `explain`, and of the sentence in it however long the names of the nodes are."""


def sql(options: Namespace) -> int:
    """Answer a SELECT over the outputs and stores of an increment."""
    frame = _as_of(options).sql(options.query)
    rows = frame.head(options.limit).to_dicts()
    print(text_table([flat_row(row, as_numbers=options.raw) for row in rows], None if rows else frame.columns))
    _count(len(rows), frame.height)
    return 0


def inspect(options: Namespace) -> int:
    """What a store holds, or without a store how far everything has come."""
    as_of = _as_of(options)
    if options.store is None:
        _print_positions(as_of, raw=options.raw)
        return 0
    table = inspect_store(as_of, options.store, options.key)
    rows = table.slice(0, options.limit).to_pylist()
    shown = [name for name in table.column_names if any(row[name] is not None for row in rows)]
    lines = [flat_row({name: row[name] for name in shown}, as_numbers=options.raw) for row in rows]
    print(text_table(lines, None if lines else table.column_names))
    _count(len(rows), len(table))
    print(f"\nclocks after increment {as_of.increment}")
    print(text_table([flat_row(row, as_numbers=options.raw) for row in clocks_of(as_of, options.store)]))
    return 0


def explain(options: Namespace) -> int:
    """What became of one record, node by node."""
    explanation = explain_record(
        Warehouse(options.warehouse),
        options.pipeline,
        load_topology(options.topology),
        options.record,
        order=options.order,
        say_time=str if options.raw else utc,
    )
    print(f"{say_place(explanation.place)} was read by increment {explanation.increment}")
    for line in _lines(explanation.steps):
        print(line)
    return 0


def _lines(steps: list[Step]) -> list[str]:
    """A heading a row of a task, then its sentences, aligned behind the names of the nodes."""
    width = max((len(step.node) for step in steps), default=0)
    lines: list[str] = []
    before = None
    for step in steps:
        if (step.task, step.place) != before:
            before = step.task, step.place
            lines += ["", f"task {step.task} takes {say_place(step.place)}"]
        said = [line for sentence in step.sentences for line in wrap(sentence, max(SAID_MIN, WIDTH_MAX - width - 4))]
        lines += [f"  {name:<{width}}  {line}" for name, line in zip_longest([step.node], said, fillvalue="")]
    return lines


def _as_of(options: Namespace) -> AsOf:
    topology = None if options.topology is None else load_topology(options.topology)
    return History(Warehouse(options.warehouse), options.pipeline, topology).at(options.increment)


def _print_positions(as_of: AsOf, *, raw: bool) -> None:
    def flat(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [flat_row(row, as_numbers=raw) for row in rows]

    print(f"offsets of the topics after increment {as_of.increment}")
    print(text_table(flat(read_positions(as_of))))
    print("\nstream times of the tasks, and the next offsets of what they write")
    print(text_table(flat(task_positions(as_of))))
    counters = all_clocks(as_of)
    if counters:
        print("\nclocks of the stores")
        print(text_table(counters))


def _count(shown: int, total: int) -> None:
    if shown < total:
        print(f"{shown:,} of {total:,} rows; --limit shows more")
