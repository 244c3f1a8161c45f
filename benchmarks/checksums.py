"""What it costs that nothing is believed unchecked: a whole replay with all checks, over one with none.

``python -m kstreams_replay.benchmarks.checksums [--records 1000000] [--pairs 10] [--workload W1]``

Without: pages have no checksum and none is verified, footers no seal, rows of ledgers and Delta logs no digest. Both
kinds run in this process, in pairs of which now the one and now the other begins, each from nothing. CPU seconds are
compared, since on a shared machine they move least.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import pyarrow.parquet as pq

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.tables import data_files, footer_seal, ledger, parquet_reader, parquet_writer
from kstreams_replay.state.tables.warehouse import Warehouse

from .landed_data import land
from .workloads import WORKLOADS

_UNSEALED = footer_seal.UNSEALED


class _Parquet:
    """pyarrow's module of Parquet, without checksums of pages."""

    def __init__(self) -> None:
        vars(self).update({name: value for name, value in vars(pq).items() if not name.startswith("__")})
        self.ParquetWriter = lambda *given, write_page_checksum, **more: pq.ParquetWriter(*given, **more)
        self.ParquetFile = lambda *given, page_checksum_verification, **more: pq.ParquetFile(*given, **more)


class _Digest(str):
    """Equal to any other."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


@contextmanager
def unchecked() -> Iterator[None]:
    """Within it nothing is checked, and what is written has nothing to check it by."""
    with ExitStack() as stack:
        for module in (parquet_reader, parquet_writer):
            stack.enter_context(patch.object(module, "pq", _Parquet()))
        stack.enter_context(patch.object(parquet_reader, "holds", lambda footer, token: True))
        stack.enter_context(patch.object(footer_seal, "_digest", lambda footer, token: _UNSEALED))
        for module in (data_files, ledger):
            stack.enter_context(patch.object(module, "_digest_of", lambda *given: _Digest()))
        yield


def cpu_seconds(warehouse: Warehouse, workload: str, cache: Path) -> float:
    """Of one replay from nothing."""
    for left in (Path(warehouse.pipeline("bench").root), cache):
        shutil.rmtree(left, ignore_errors=True)
    began = time.process_time()
    topology, runner = WORKLOADS[workload].build(), LocalRunner(str(cache))
    for _ in replay(warehouse, topology, pipeline="bench", runner=runner, idle="proceed"):
        pass
    return time.process_time() - began


def paired(folder: Path, workload: str, records: int, pairs: int) -> Iterator[tuple[float, float]]:
    """Of each pair: CPU seconds with all checks, and without."""
    warehouse, cache = Warehouse(str(folder / "warehouse")), folder / "cache"
    land(warehouse, WORKLOADS[workload].topics[0], records=records)
    cpu_seconds(warehouse, workload, cache)  # compiles
    for pair in range(pairs):
        seconds = {}
        for is_checked in (True, False) if pair % 2 else (False, True):
            if is_checked:
                seconds[True] = cpu_seconds(warehouse, workload, cache)
            else:
                with unchecked():
                    seconds[False] = cpu_seconds(warehouse, workload, cache)
        print(f"{seconds[True]:.2f} with, {seconds[False]:.2f} without", flush=True)
        yield seconds[True], seconds[False]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--workload", default="W1")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pairs = list(paired(Path(folder), chosen.workload, chosen.records, chosen.pairs))
    low, middle, high = statistics.quantiles([checked / bare for checked, bare in pairs], n=4)
    quick_checked, quick_bare = (statistics.quantiles(each, n=4)[0] for each in zip(*pairs, strict=True))
    print(f"{chosen.workload}, {chosen.records:,} records, {chosen.pairs} pairs, with all checks over without:")
    quick = quick_checked / quick_bare
    print(f"median {middle:.3f}, quartiles {low:.3f} and {high:.3f}; of lower quartiles {quick:.3f}")


if __name__ == "__main__":
    main()
