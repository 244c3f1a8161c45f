"""What the relational peers share: typed Parquet in, one Parquet file out, and the sums of what came out.

Rule: a form is timed from opening its files to the closed file; what it made is added up afterwards.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from kstreams_replay.state.tables.data_files import read_files

from ..landed_data import CLOSING
from ..measuring import Stopwatch, added_up, print_figures, program_options
from ..typed_data import typed_path
from ..workloads import WORKLOADS


@dataclass(frozen=True)
class PeerFiles:
    """Typed Parquet files of the stream and, for a join, of the table; and the file to write."""

    stream: list[str]
    table: list[str]
    target: str


Form = Callable[[PeerFiles], None]


def run_forms(words: str, system: str, forms: Mapping[str, Form], notes: Mapping[str, str]) -> None:
    """The whole program of a relational peer. Exits with 2 for a workload that it has no form of."""
    options = program_options(words, list(forms))
    topics = WORKLOADS[options.workload].topics
    sources = [typed_files(options.folder, topic) for topic in topics]
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
        checks=added_up([results]),
        notes=notes.get(options.workload, ""),
    )
    target.unlink()


def typed_files(folder: Path, topic: str) -> list[str]:
    """Live files of a typed topic."""
    path = typed_path(folder, topic)
    return [f"{path}/{file.path}" for file in read_files(str(path))]


def without_closing(results: pl.LazyFrame) -> pl.LazyFrame:
    """Results but for windows of the records that only close windows, since no streaming system ever emits these."""
    is_windowed = "total" in results.collect_schema().names()
    return results.filter(~pl.col("key").str.starts_with(CLOSING)) if is_windowed else results
