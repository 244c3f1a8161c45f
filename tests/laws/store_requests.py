"""``python -m tests.laws.store_requests``: what an object store is asked for by an increment and by an idle run.

Rule: counted by the proxy, so Delta's logs are in it. The pipeline counts sessions of 8 partitions: 8 tasks, one
output, two stores. benchmarks/README.md has the figures and their targets.
"""

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import StreamsBuilder, Topology, fold
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.clicks import CLICKS, final_sessions
from tests.laws.failing import StutteringStore, stuttering
from tests.laws.object_stores import played_store
from tests.planted import LandedRecord, plant

TASKS = 8
PIPELINE = "p"
TARGETS = {"GET + PUT a task": 12, "LIST a table": 1}


@dataclass(frozen=True)
class Asked:
    """``requests``: kind and path, in their order; ``report``: those for files, as the increment's report has them."""

    name: str
    requests: list[str]
    report: dict[str, int]

    def counts(self, *, of_logs: bool | None = None) -> Counter[str]:
        """By kind; ``of_logs``: only for Delta's logs, or only for others."""
        return Counter(
            each.partition(" ")[0] for each in self.requests if of_logs is None or ("_delta_log" in each) == of_logs
        )

    def by_place(self) -> Counter[str]:
        """By kind and table; names of files and numbers of versions left out."""
        return Counter(map(_place, self.requests))


def sessions() -> Topology:
    """One sub-topology, two stores."""
    builder = StreamsBuilder()
    folds = {"clicks": fold.count(), "total": fold.sum("ms")}
    final_sessions(builder.stream("clicks", CLICKS), store="sessions-store", held="held", **folds).to("sessions")
    return builder.build()


def asked(there: StutteringStore, folder: Path, records: int) -> Iterator[Asked]:
    """Of three increments of ``records``, and of a run that has nothing new."""
    landed = Warehouse(str(folder / "warehouse"))
    tape = [
        LandedRecord(number % TASKS, b"k%d" % (number % 997), b'{"page": "home", "ms": 1}', number // TASKS)
        for number in range(3 * records)
    ]
    plant(landed, "clicks", tape, partitions=TASKS)
    warehouse, topology = there.store.filled(folder / "warehouse"), sessions()
    for name in ("first increment", "increment", "next increment", "nothing new"):
        there.proxy.begin()
        reports = list(
            replay(
                warehouse, topology, pipeline=PIPELINE, runner=LocalRunner(str(folder / "cache")),
                max_records=records, increments=1, idle="proceed",
            )
        )  # fmt: skip
        yield Asked(name, there.proxy.asked(), reports[0].requests if reports else {})


def _place(request: str) -> str:
    kind, _, target = request.partition(" ")
    path = re.sub(r".*?/warehouse/?", "", target.partition("?")[0])
    prefix = re.search(r"prefix=([^&]*)", target)
    if prefix is not None:
        path = re.sub(r".*?warehouse(%2F|/)?", "", prefix[1]).replace("%2F", "/")
    return f"{kind} {re.sub(r'[0-9a-f]{16}|[0-9]+', 'N', path)}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.laws.store_requests", description=__doc__)
    parser.add_argument("--records", type=int, default=10_000, metavar="N", help="of an increment (default 10000)")
    parser.add_argument("--places", action="store_true", help="show what is asked for, by table")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, played_store() as store, stuttering(store) as there:
        for each in asked(there, Path(folder), chosen.records):
            files, logs = each.counts(of_logs=False), each.counts(of_logs=True)
            print(f"{each.name}: files {dict(sorted(files.items()))}, Delta's logs {dict(sorted(logs.items()))}, "
                  f"report {each.report}", flush=True)  # fmt: skip
            if chosen.places:
                print("".join(f"{count:5} {place}\n" for place, count in sorted(each.by_place().items())), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
