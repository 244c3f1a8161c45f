"""What the relational peers share: typed Parquet in, one Parquet file out, and the sums of what came out.

Rule: a form is timed from opening its files to the closed file; what it made is added up afterwards.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from polars import selectors as cs

from kstreams_replay.state.tables.data_files import read_files

from ..landed_data import CLOSING
from ..measuring import Stopwatch, added_up, print_figures, program_options, summed
from ..typed_data import landed_files, typed_path, warehouse_of
from ..workloads import WORKLOADS


@dataclass(frozen=True)
class PeerFiles:
    """Parquet files of the stream and, for a join, of the table: typed, or landed if all programs read these. And the
    file to write.
    """

    stream: list[str]
    table: list[str]
    target: str


Form = Callable[[PeerFiles], None]


def run_forms(words: str, system: str, forms: Mapping[str, Form], notes: Mapping[str, str]) -> None:
    """The whole program of a relational peer. Exits with 2 for a workload that it has no form of."""
    options = program_options(words, list(forms))
    workload = WORKLOADS[options.workload]
    sources = [files_of(options.folder, topic, landed=workload.landed) for topic in workload.topics]
    target = options.folder / f"{system.split()[0]}.parquet"
    files, clock = PeerFiles(sources[0], sources[1] if len(sources) > 1 else [], str(target)), Stopwatch()
    for _ in range(options.runs):
        target.unlink(missing_ok=True)
        clock.time(lambda: forms[options.workload](files))
    results = without_closing(pl.scan_parquet(target))
    print_figures(
        options,
        clock,
        system=system,
        configuration="Parquet to Parquet",
        rows_out=results.select(pl.len()).collect().item(),
        checks=checks_of(results, landed=workload.landed),
        notes=notes.get(options.workload, ""),
    )
    target.unlink()


def files_of(folder: Path, topic: str, *, landed: bool) -> list[str]:
    """Live files of a topic, landed or typed."""
    if landed:
        path = warehouse_of(folder).landed(topic)
        return [f"{path}/{file.path}" for file in landed_files(folder, topic)]
    path = str(typed_path(folder, topic))
    return [f"{path}/{file.path}" for file in read_files(path)]


def checks_of(results: pl.LazyFrame, *, landed: bool) -> dict[str, int]:
    """``checks`` of results, as ours are made."""
    return summed(results.select(cs.integer())) if landed else added_up([results])


def without_closing(results: pl.LazyFrame) -> pl.LazyFrame:
    """Results but for windows of the records that only close windows, since no streaming system ever emits these."""
    is_windowed = "total" in results.collect_schema().names()
    return results.filter(~pl.col("key").str.starts_with(CLOSING)) if is_windowed else results
