"""One checkpoint of Great Expectations, of an increment or of several: suites of all tables, and behind them of users.

Owns the run, and all that comes back from it. Rule: batches are Parquet files of a temporary folder, named as their
tables, since a checkpoint hands one data frame to all of its suites. Nothing of ours judges here: of a rule that rows
of several increments break, Great Expectations names the rows, and each row its increment. Small increments are judged
together, since a checkpoint and its pages cost the same for one and for many; a user's suite is about one increment's
rows, so it has a batch for each.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl

from ..audits import WITNESSES_MAX
from ..guarantees import Guarantee
from .data_docs import DataDocs, publish, site_folder
from .evidence import ROW, Evidence, batch_of, build_suite, rows_of, suite_name
from .library import load_great_expectations, open_context
from .project_suites import ProjectSuite, build_project_suite
from .results import raised, severity_of
from .run import JudgedRun
from .table_rows import keys_by_row

Name = str | tuple[str, int]
"""Of a validation: the table whose guarantees it judges, or a suite of a user and the increment."""


@dataclass(frozen=True)
class Failed:
    """An expectation of a user that does not hold. ``count``: so many rows are not as expected, 1 where it is about
    all rows at once; ``rows``: the first of them, with key and window where the table has them.
    """

    label: str
    severity: str
    count: int
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class SuiteAnswer:
    """What came of one suite of a user. ``error``: why it could not be judged, else "". ``without_rows``: expectations
    that had nothing to judge.
    """

    failed: tuple[Failed, ...] = ()
    error: str = ""
    without_rows: tuple[str, ...] = ()


@dataclass(frozen=True)
class SuiteRows:
    """A suite of a user, and the rows of an ``increment`` that it is about."""

    suite: ProjectSuite
    rows: pl.DataFrame
    increment: int


@dataclass(frozen=True)
class Judged:
    """``rules``: for each evidence, rule name to whether it holds. ``suites``: for each suite of a user and increment,
    what came of it. ``pages``: table, or suite of a user and increment, to the address of its page in Data Docs.
    """

    rules: list[dict[str, bool]]
    suites: list[SuiteAnswer]
    pages: dict[Name, str] = field(default_factory=dict)
    seconds: float = 0.0


def run_checkpoint(
    run: JudgedRun,
    evidence: Sequence[Evidence],
    suites: Sequence[SuiteRows] = (),
    docs: DataDocs | None = None,
) -> Judged:
    """Judge all of it, and build its Data Docs where ``docs`` says so.

    Raises what Great Expectations raises, RuntimeError when an expectation of a guarantee could not be computed, and
    OSError when pages could not be written. A user's suite that cannot be judged is reported in its answer.
    """
    gx, begun = load_great_expectations(), time.perf_counter()
    tables = {table: list(each) for table, each in groupby(sorted(evidence, key=_table), key=_table)}
    with tempfile.TemporaryDirectory(prefix="replay-batches-") as batches, site_folder(docs) as site:
        context = open_context(site)
        bench = _Bench(gx, context, context.data_sources.add_or_update_pandas_filesystem(
            run.pipeline, base_directory=Path(batches)
        ))  # fmt: skip
        for table, mine in tables.items():
            rows, suite = batch_of(mine), build_suite(table, _once(mine))
            bench.add(table, suite_name(table), rows, suite, suite.name)
            bench.rows_most = max(bench.rows_most, len(rows))  # all rows that break a rule are to be named
        added = [_added(bench, each, "" if run.last is None else f".{each.increment:06}") for each in suites]
        results = bench.run(run)
        pages = publish(context, docs, site, results) if docs is not None and site is not None else {}
    found_of = dict(zip(bench.names, results.values(), strict=True))
    rules = {id(each): answer for table, mine in tables.items() for each, answer in _answers(mine, found_of[table])}
    return Judged(
        rules=[rules[id(each)] for each in evidence],
        suites=[
            _answer(found_of.get(_name(each)), so_far, each.rows) for each, so_far in zip(suites, added, strict=True)
        ],
        pages={name: pages[identifier] for name, identifier in zip(bench.names, results, strict=True) if pages},
        seconds=time.perf_counter() - begun,
    )


def _once(evidence: Sequence[Evidence]) -> list[Guarantee]:
    """Guarantees of several increments, each with all rules that it has in one of them."""
    widest: dict[str, Guarantee] = {}
    for each in evidence:
        known = widest.setdefault(each.guarantee.id, each.guarantee)
        if len(each.guarantee.rules) > len(known.rules):
            widest[each.guarantee.id] = each.guarantee
    return list(widest.values())


def _answers(evidence: Sequence[Evidence], result: Any) -> Iterator[tuple[Evidence, dict[str, bool]]]:
    """Of a table's rules, for each evidence whether they hold: whether none of its rows is among the unexpected."""
    unexpected = {_type(each): _unexpected(each) for each in result.results}
    for each, rows in zip(evidence, rows_of(evidence), strict=True):
        for rule, mine in rows.items():
            if not mine:
                raise RuntimeError(f"{rule}: no row of the batch is of this rule")
        yield each, {rule: unexpected[rule].isdisjoint(row[ROW] for row in mine) for rule, mine in rows.items()}


class _Bench:
    """The parts of a checkpoint, in the order in which they are made. ``names``: of its validations."""

    def __init__(self, gx: Any, context: Any, source: Any) -> None:
        self.gx, self.context, self.source = gx, context, source
        self.names: list[Name] = []
        self.definitions: list[Any] = []
        self.batches: dict[str, Any] = {}
        self.suites: dict[str, Any] = {}
        self.rows_most = WITNESSES_MAX

    def add(self, name: Name, batch: str, rows: pl.DataFrame, suite: Any, definition: str) -> None:
        """Have ``suite`` judge ``rows``, the batch of this name."""
        if batch not in self.batches:
            rows.write_parquet(f"{self.source.base_directory}/{batch}.parquet")
            asset = self.source.add_parquet_asset(batch, dtype_backend="numpy_nullable")
            self.batches[batch] = asset.add_batch_definition_path(batch, path=f"{batch}.parquet")
        if suite.name not in self.suites:
            self.suites[suite.name] = self.context.suites.add_or_update(suite)
        made = self.gx.ValidationDefinition(name=definition, data=self.batches[batch], suite=self.suites[suite.name])
        self.definitions.append(self.context.validation_definitions.add_or_update(made))
        self.names.append(name)

    def run(self, run: JudgedRun) -> dict[Any, Any]:
        """Results by their identifier, in the order of ``names``."""
        if not self.definitions:
            return {}
        form = {
            "result_format": "SUMMARY",
            "unexpected_index_column_names": [ROW],
            "partial_unexpected_count": self.rows_most,
        }
        checkpoint = self.context.checkpoints.add_or_update(
            self.gx.Checkpoint(name=run.pipeline, validation_definitions=self.definitions, result_format=form)
        )
        return dict(checkpoint.run(run_id=self.gx.RunIdentifier(run_name=run.name)).run_results)


def _name(each: SuiteRows) -> Name:
    return each.suite.name, each.increment


def _added(bench: _Bench, each: SuiteRows, whose: str) -> SuiteAnswer:
    """Add a suite of a user; what is known of its answer before it is judged. ``whose``: behind the names of what is of
    one increment among several.
    """
    suite = each.suite
    try:
        built, without_rows = build_project_suite(suite, bench.gx, each.rows)
        if whose and without_rows:
            built.name = f"{suite.name}.without-rows"  # not the suite that other increments are judged by
        bench.add(_name(each), f"{suite_name(suite.table)}.rows{whose}", each.rows, built, f"{suite.name}{whose}")
    except Exception as error:  # whatever a user's suite makes Great Expectations raise is the answer to that suite
        return SuiteAnswer(error=f"{suite.file}: {error}")
    return SuiteAnswer(without_rows=without_rows)


def _answer(result: Any, so_far: SuiteAnswer, judged: pl.DataFrame) -> SuiteAnswer:
    if result is None:
        return so_far
    errors = [f"{_label(each)}: {message}" for each in result.results if (message := raised(each))]
    if errors:
        return SuiteAnswer(error="; ".join(errors))
    return replace(so_far, failed=tuple(_failed(each, judged) for each in result.results if not each.success))


def _failed(result: Any, judged: pl.DataFrame) -> Failed:
    """``judged``: the rows that the suite was about."""
    details = result.result or {}
    broken = (details.get("partial_unexpected_index_list") or [])[:WITNESSES_MAX]
    keys = keys_by_row(judged, [str(row.get(ROW)) for row in broken])
    rows = [
        {
            "expectation": _label(result),
            **{name: _plain(value) for name, value in (keys.get(str(row.get(ROW)), {}) | row).items()},
        }
        for row in broken
    ]
    if not rows and "observed_value" in details:
        rows = [{"expectation": _label(result), "observed_value": _plain(details["observed_value"])}]
    return Failed(_label(result), severity_of(result), int(details.get("unexpected_count") or 1), rows)


def _label(result: Any) -> str:
    """An expectation and the columns that are passed to it; one that has a column of its own gets none."""
    kwargs = result.expectation_config.kwargs
    columns = [
        kwargs[name] for name in ("column", "column_A", "column_B", "column_list", "column_set") if kwargs.get(name)
    ]
    words = ", ".join(
        ", ".join(map(str, each)) if isinstance(each, list | tuple | set) else str(each) for each in columns
    )
    return f"{_type(result)}({words})" if words else _type(result)


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _table(evidence: Evidence) -> str:
    return evidence.table


def _type(result: Any) -> str:
    return str(result.expectation_config.type)


def _unexpected(result: Any) -> set[str]:
    """Rows that break a rule. Raises RuntimeError where that cannot be said; an expectation that saw no row has judged
    nothing.
    """
    if message := raised(result):
        raise RuntimeError(f"{_type(result)}: {message}")
    if not result.result.get("element_count"):
        raise RuntimeError(f"{_type(result)}: no row of the batch is of this rule")
    rows = {str(row[ROW]) for row in result.result.get("partial_unexpected_index_list") or []}
    if bool(result.success) == bool(rows):
        raise RuntimeError(f"{_type(result)}: {'success' if result.success else 'failure'}, and {len(rows)} rows")
    return rows
