"""`replay compare` beside the replay whose rows it compares, both in this process.

``python -m kstreams_replay.benchmarks.production [--records 10000000] [--runs 3] [--folder DIR]``

The topology counts and sums clicks by windows, and every update of a window is a row; a fifth of the records are out of
order and some of them late. Production's topic has the same rows, serialized as Kafka does; so nothing differs, and
every row of both sides is read. The first number of each line is the cold run.
"""

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from kstreams_replay.jobs.compare.comparison import Comparison, compare
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.publish.committed_rows import CommittedOutput
from kstreams_replay.jobs.publish.published_output import PublishedOutput
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, TimeWindows, Topology, fold
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import Warehouse

from .landed_data import land, land_tables
from .measuring import Stopwatch
from .workloads import GRACE_MS, WINDOW_MS

OUTPUT, LIVE, PIPELINE, PARTITIONS = "updates", "live_updates", "bench", 4


def updates() -> Topology:
    """Every update of counts and sums by windows."""
    builder = StreamsBuilder()
    (
        builder.stream("clicks", Consumed(Serde.string(), Serde.long()))
        .group_by_key()
        .windowed_by(TimeWindows.of_size(WINDOW_MS, grace=GRACE_MS))
        .aggregate(clicks=fold.count(), total=fold.sum())
        .to_stream()
        .to(OUTPUT)
    )
    return builder.build()


def replay_once(warehouse: Warehouse) -> None:
    """From the first record, in a new pipeline."""
    shutil.rmtree(warehouse.pipeline(PIPELINE).root, ignore_errors=True)
    list(replay(warehouse, updates(), pipeline=PIPELINE, runner=LocalRunner()))


def production(warehouse: Warehouse) -> Iterator[pa.Table]:
    """The rows of the output as production's topic has them, in their order."""
    output = PublishedOutput(updates(), OUTPUT)
    row = Ledger(warehouse.pipeline(PIPELINE).ledger).last_done()
    assert row is not None, "replayed before"
    committed = CommittedOutput(warehouse, PIPELINE, output, row)
    for increment in committed.increments(0):
        for piece in committed.pieces(increment):
            rows = output.outgoing(piece, PARTITIONS)
            columns = {"partition": rows.partition, "key": rows.key, "value": rows.value, "timestamp": rows.time_ms}
            yield pa.table(columns)


def measure(options: argparse.Namespace, folder: Path) -> None:
    """Print seconds of both, run by run."""
    warehouse = Warehouse(str(folder))
    land(warehouse, "clicks", records=options.records, partitions=PARTITIONS)
    replayed, compared = Stopwatch(), Stopwatch()
    replayed.time(lambda: replay_once(warehouse))
    land_tables(warehouse, LIVE, production(warehouse), partitions=PARTITIONS)

    def once() -> Comparison:
        return compare(warehouse, updates(), OUTPUT, with_topic=LIVE, pipeline=PIPELINE, form=options.form)

    for number in range(options.runs):
        if number:
            replayed.time(lambda: replay_once(warehouse))
        found = compared.time(once)
        assert found.is_equal, found.verdicts
    print(f"{found.rows[0]:,} rows beside {found.rows[1]:,}")
    for words, clock in (("replay", replayed), ("compare", compared)):
        seconds, cpu = (" ".join(f"{each:.2f}" for each in column) for column in (clock.seconds, clock.cpu_seconds))
        print(f"{words:8} {seconds} s, CPU {cpu} s")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--form", choices=("events", "changelog"), help="default: that of the output, changelog")
    parser.add_argument("--folder", type=Path, help="kept (default: a temporary one)")
    options = parser.parse_args()
    if options.folder is not None:
        measure(options, options.folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        measure(options, Path(folder))


if __name__ == "__main__":
    main()
