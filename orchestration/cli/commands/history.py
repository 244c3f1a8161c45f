"""The commands that ask history: sql, inspect, explain.

Rule: answers go to stdout, as of whole increments; nothing is written to the warehouse.
"""

import sys
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from itertools import zip_longest
from textwrap import wrap
from typing import Any

import click

from ....jobs.explain.explanation import Step, deciding_steps, say_place
from ....jobs.explain.explanation import explain as explain_record
from ....jobs.explain.key_records import KeyRecords
from ....jobs.explain.output_rows import OutputRows, dropped_record, find_output_rows
from ....jobs.explain.record_values import values_of
from ....jobs.history.history import AsOf, History
from ....jobs.history.inspection import all_counters, counters_of, inspect_store, read_positions, task_positions
from ....jobs.history.landed_tables import landed_tables
from ....jobs.history.queries import run_query
from ....jobs.history.query_rules import time_hint
from ....jobs.topology import Topology
from ....state.errors import ReplayError
from ....state.tables.warehouse import WINDOW, Warehouse
from ...progress_lines import progress_on
from ...settings.topology_loading import load_topology
from ...text_tables import flat_row, print_json, print_table, utc
from .. import options
from ..book_lines import excluded_lines
from ..command import OneOf, argument, command, option

WIDTH_MAX, SAID_MIN = 120, 60
"""Of a line of `explain`, and of the sentence in it however long the names of the nodes are."""

SHOWN = ("partition", "offset", "increment", "key", *WINDOW, "value", "record_time_ms", "stream_time_ms")
REFUSED = ("node", "reason", "topic", "partition", "offset", "record_time_ms", "stream_time_ms", "limit_ms")
"""Columns of an output's rows and of refusals in the answer of `explain`."""

SENTENCES_MAX = 3
"""Of a node in the answer of `explain`: a record that moves stream time on may let thousands of results go."""


@command()
@argument("query", metavar="SELECT", help='over outputs, stores, dropped, dead_letter, "landed/TOPIC"')
@options.warehouse
@option(
    "--pipeline",
    metavar="NAME",
    takes_default=True,
    help='folder of its tables in the warehouse; none where "landed/TOPIC" alone is asked',
)
@options.topology_option("show stores as their readers see them")
@options.increment
@options.limit
@options.as_json
@options.raw
def sql(
    query: str, warehouse: str, pipeline: str | None, topology: str | None, increment: int | None, limit: int,
    as_json: bool, raw: bool,
) -> int:  # fmt: skip
    """Ask outputs and stores as of an increment, and landed topics, in the SQL of polars."""
    if (hint := time_hint(query)) is not None:
        print(f"replay: warning: {hint}", file=sys.stderr)
    opened = Warehouse(warehouse)
    landed = landed_tables(opened)
    asks_landed = any(name in query for name in landed)
    if pipeline is None or (asks_landed and History(opened, pipeline).ledger.last_done() is None):
        frame = run_query(query, landed)
    else:
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


@dataclass(frozen=True)
class ExplainOptions:
    """What the command was given: a field for each parameter that is declared above ``explain``."""

    record: str | None
    output: str | None
    key: str | None
    window: str | None
    dropped: int | None
    topology: str
    warehouse: str
    pipeline: str
    whole: bool
    order: str | None
    raw: bool

    def say_time(self, time_ms: int) -> str:
        """As the sentences say a time."""
        return str(time_ms) if self.raw else utc(time_ms)


@command(one_of=[OneOf(("record", "output", "dropped"), required=True)])
@option(
    "--record", metavar="TOPIC:PARTITION:OFFSET",
    help="the record, landed or of a repartition topic, by its place in `dropped`",
)  # fmt: skip
@option(
    "--output", metavar="NAME", help="the row of this output with --key, and --window: what caused it, or where it is"
)
@options.key
@options.window
@option(
    "--dropped",
    type=options.COUNT,
    metavar="N",
    help="the N-th row of `dropped`; 1 is the newest, which show prints last",
)
@options.topology_option(options.TOPOLOGY, required=True)
@options.warehouse
@options.pipeline
@option("--all", "whole", is_flag=True, help="what every operator did, and what came of it to the increment's end")
@option("--order", type=click.Choice(["time", "arrival"]), help="of its replay, which is the default")
@options.raw
def explain(**given: Any) -> int:
    """Say what became of a record and why, what caused a row of an output, or why a record was dropped."""
    asked = ExplainOptions(**given)
    _refuse_half(asked)
    loaded = load_topology(asked.topology, asked.warehouse)
    history = History(Warehouse(asked.warehouse), asked.pipeline, loaded)
    record = asked.record
    if asked.output is not None:
        record = _print_output(asked, history, loaded)
    elif asked.dropped is not None:
        record = _print_dropped(asked, history, loaded)
    if record is not None:
        _print_explanation(asked, loaded, record)
    return 0


def _refuse_half(asked: ExplainOptions) -> None:
    if (asked.output is None) != (asked.key is None) or (asked.window is not None and asked.output is None):
        raise click.UsageError("--output, --key and --window belong together; --window where the output has windows")


def _print_explanation(
    asked: ExplainOptions, topology: Topology, record: str, path: Collection[str] | None = None
) -> None:
    """``path``: names of the nodes whose sentences are wanted, though they decide nothing; None: all that decide."""
    with closing(progress_on(sys.stderr)) as progress:
        progress.doing("looking for what became of the record")
        explanation = explain_record(
            Warehouse(asked.warehouse), asked.pipeline, topology, record, order=asked.order, say_time=asked.say_time,
            whole=asked.whole,
        )  # fmt: skip
    print(f"{say_place(explanation.record)} was read by increment {explanation.increment}")
    if explanation.difference is not None:
        print("\n".join(["", *wrap(explanation.difference, WIDTH_MAX)]))
    on_path = [step for step in explanation.steps if path is not None and step.node in path]
    if asked.whole:
        lines = _lines(explanation.steps, None)
    elif on_path:
        lines = _lines(on_path, SENTENCES_MAX)
    else:
        lines = [*_lines(deciding_steps(explanation.steps), SENTENCES_MAX), "", "--all says what every operator did"]
    print("\n".join(lines))


def _print_output(asked: ExplainOptions, history: History, topology: Topology) -> str | None:
    """The rows of the key and window, or where else they are; the record that caused the newest, if one alone can."""
    assert asked.output is not None, "it is asked for"
    assert asked.key is not None, "both or none"
    output_rows = find_output_rows(history, topology, asked.output, asked.key, asked.window)
    what = f"{asked.output}, key {asked.key}" + ("" if asked.window is None else f", window from {asked.window}")
    if output_rows.rows:
        print(f"{what}: {output_rows.total:,} {'row' if output_rows.total == 1 else 'rows'} of the changelog")
        print_table([flat_row({name: row[name] for name in SHOWN if name in row}, as_numbers=asked.raw)
                     for row in output_rows.rows])  # fmt: skip
    else:
        print(f"{what}: no row")
    for store, rows in output_rows.waiting.items():
        print(f"\nwaits in {store}:")
        print_table([flat_row(row, as_numbers=asked.raw) for row in rows])
    if output_rows.records is not None:
        _print_missing(asked, topology, output_rows, output_rows.records)
    if len(output_rows.causes) == 1:
        print(f"\nthe newest row was {'closed' if output_rows.is_final else 'caused'} by")
        return say_place(output_rows.causes[0])
    for cause in output_rows.causes:
        print(f"\nperhaps caused by {say_place(cause)}: `replay explain --record {say_place(cause)} …`")
    return None


def _print_missing(asked: ExplainOptions, topology: Topology, missing: OutputRows, records: KeyRecords) -> None:
    """Why there is no row: the window, what windows refused, and what became of the key's records."""
    if missing.beside is not None:
        before, after = map(asked.say_time, missing.beside)
        print(f"\nno window of {asked.output} begins then; one begins at {before}, the next at {after}")
    if missing.starts:
        print(f"\nwindows of this key that have rows begin at {', '.join(map(asked.say_time, missing.starts))}")
    if missing.dropped:
        whose = "of this key" if records.changed_by is None else "whatever their key"
        print(f"\nrefused by windows that begin then, {whose}; `explain --record TOPIC:PARTITION:OFFSET`:")
        print_table([flat_row({name: row[name] for name in REFUSED}, as_numbers=asked.raw) for row in missing.dropped])
    if records.changed_by is not None:
        print(
            f"\n{records.changed_by} gives records of {records.input_topic} another key, so none is looked for by it;"
        )
        print("find one by its value, and ask for it with --record")
    for topic in records.topics:
        print(f"\n{_number(topic.total)} of {topic.topic} {'has' if topic.total < 2 else 'have'} this key")
    for place, _ in [each for topic in records.topics[:1] for each in topic.nearest]:
        print()
        try:
            _print_explanation(asked, topology, say_place(place), records.path)
        except ReplayError as error:  # it is landed and not yet read, or its increment is not there any more
            print(f"{say_place(place)}: {error}")


def _number(records: int) -> str:
    return f"{records:,} records" if records > 1 else "1 record" if records else "no record"


def _print_dropped(asked: ExplainOptions, history: History, topology: Topology) -> str:
    assert asked.dropped is not None, "it is asked for"
    record, row = dropped_record(history, asked.dropped)
    print(f"increment {row['increment']}, {row['node']}: {row['reason']}")
    values = values_of(history, topology, record)
    if values is not None:
        said = f"{values.key!r} = {values.value!r}, time {asked.say_time(values.time_ms)}"
        print(f"{values.source}: {said}")
    print()
    return record


def _lines(steps: list[Step], most: int | None) -> list[str]:
    """A heading a row of a task, then its sentences, aligned behind the names of the nodes; of a node ``most``."""
    width = max((len(step.node) for step in steps), default=0)
    lines: list[str] = []
    before = None
    for step in steps:
        if (step.task, step.record) != before:
            before = step.task, step.record
            lines += ["", f"task {step.task} takes {say_place(step.record)}"]
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
