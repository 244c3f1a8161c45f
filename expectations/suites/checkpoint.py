"""One checkpoint of Great Expectations an increment: the suites of all tables, and behind them those of users.

Owns the run, and all that comes back from it. Rule: batches are Parquet files of a temporary folder, named as their
tables, since a checkpoint hands one data frame to all of its suites. Nothing of ours judges here.
"""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl

from ..audits import WITNESSES_MAX
from .data_docs import DataDocs, publish, site_folder
from .evidence import ROW, Evidence, batch_of, build_suite, suite_name
from .library import load_great_expectations, open_context
from .project_suites import ProjectSuite, build_project_suite
from .run import JudgedRun

_FORMAT = {
    "result_format": "SUMMARY",
    "unexpected_index_column_names": [ROW],
    "partial_unexpected_count": WITNESSES_MAX,
}


@dataclass(frozen=True)
class Failed:
    """An expectation of a user that does not hold. ``count``: so many rows are not as expected, 1 where it is about
    all rows at once; ``rows``: the first of them.
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
class Judged:
    """``rules``: for each evidence, rule name to whether it holds. ``suites``: for each suite of a user, what came of
    it. ``pages``: suite name to the address of its page in Data Docs.
    """

    rules: list[dict[str, bool]]
    suites: list[SuiteAnswer]
    pages: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


def run_checkpoint(
    run: JudgedRun,
    evidence: Sequence[Evidence],
    suites: Sequence[tuple[ProjectSuite, pl.DataFrame]] = (),
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
        for table, found in tables.items():
            bench.add(suite_name(table), batch_of(found), build_suite(table, [each.guarantee for each in found]))
        added = [_added(bench, suite, rows) for suite, rows in suites]
        results = bench.run(run)
        pages = publish(context, docs, site, results) if docs is not None and site is not None else {}
    by_suite = {result.suite_name: result for result in results.values()}
    rules = {table: {_type(each): _holds(each) for each in by_suite[suite_name(table)].results} for table in tables}
    return Judged(
        rules=[{rule.name: rules[each.table][rule.name] for rule in each.guarantee.rules} for each in evidence],
        suites=[_answer(by_suite.get(suite.name), so_far) for (suite, _), so_far in zip(suites, added, strict=True)],
        pages=pages,
        seconds=time.perf_counter() - begun,
    )


class _Bench:
    """The parts of a checkpoint, in the order in which they are made."""

    def __init__(self, gx: Any, context: Any, source: Any) -> None:
        self.gx, self.context, self.source = gx, context, source
        self.definitions: list[Any] = []
        self.batches: dict[str, Any] = {}

    def add(self, batch: str, rows: pl.DataFrame, suite: Any) -> None:
        """Have ``suite`` judge ``rows``, the batch of this name."""
        if batch not in self.batches:
            rows.write_parquet(f"{self.source.base_directory}/{batch}.parquet")
            asset = self.source.add_parquet_asset(batch, dtype_backend="numpy_nullable")
            self.batches[batch] = asset.add_batch_definition_path(batch, path=f"{batch}.parquet")
        kept = self.context.suites.add_or_update(suite)
        definition = self.gx.ValidationDefinition(name=kept.name, data=self.batches[batch], suite=kept)
        self.definitions.append(self.context.validation_definitions.add_or_update(definition))

    def run(self, run: JudgedRun) -> dict[Any, Any]:
        """Results by their identifier."""
        if not self.definitions:
            return {}
        checkpoint = self.context.checkpoints.add_or_update(
            self.gx.Checkpoint(name=run.pipeline, validation_definitions=self.definitions, result_format=_FORMAT)
        )
        return dict(checkpoint.run(run_id=self.gx.RunIdentifier(run_name=run.name)).run_results)


def _added(bench: _Bench, suite: ProjectSuite, rows: pl.DataFrame) -> SuiteAnswer:
    """Add a suite of a user; what is known of its answer before it is judged."""
    try:
        built, without_rows = build_project_suite(suite, bench.gx, rows)
        bench.add(f"{suite_name(suite.table)}.rows", rows, built)
    except Exception as error:  # whatever a user's suite makes Great Expectations raise is the answer to that suite
        return SuiteAnswer(error=f"{suite.place}: {error}")
    return SuiteAnswer(without_rows=without_rows)


def _answer(result: Any, so_far: SuiteAnswer) -> SuiteAnswer:
    if result is None:
        return so_far
    raised = [f"{_label(each)}: {message}" for each in result.results if (message := _raised(each))]
    if raised:
        return SuiteAnswer(error="; ".join(raised))
    return replace(so_far, failed=tuple(_failed(each) for each in result.results if not each.success))


def _failed(result: Any) -> Failed:
    found = result.result or {}
    rows = [
        {"expectation": _label(result), **{name: _plain(value) for name, value in row.items()}}
        for row in found.get("partial_unexpected_index_list") or []
    ]
    if not rows and "observed_value" in found:
        rows = [{"expectation": _label(result), "observed_value": _plain(found["observed_value"])}]
    severity = getattr(result.expectation_config, "severity", None)
    return Failed(
        _label(result), str(getattr(severity, "value", severity) or "critical"),
        int(found.get("unexpected_count") or 1), rows[:WITNESSES_MAX],
    )  # fmt: skip


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


def _raised(result: Any) -> str:
    info = result.exception_info or {}
    details = [info] if "raised_exception" in info else list(info.values())
    return "; ".join(str(each.get("exception_message")) for each in details if each.get("raised_exception"))


def _holds(result: Any) -> bool:
    """Raises RuntimeError where that cannot be said; an expectation that saw no row has judged nothing."""
    if message := _raised(result):
        raise RuntimeError(f"{_type(result)}: {message}")
    if not result.result.get("element_count"):
        raise RuntimeError(f"{_type(result)}: no row of the batch is of this rule")
    return bool(result.success)
