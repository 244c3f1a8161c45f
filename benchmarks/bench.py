"""`replay bench`: the workloads by this project and by its peers on the same rows; a table, a plot and JSON.

``replay bench [--workloads W1,W3] [--nexmark [--queries q0,q5]] [--records N] [--peers kafka,spark,polars,duckdb|none]
[--runs N] [--json FILE] [--plot FILE] [--folder DIR]``, or ``python -m kstreams_replay.benchmarks.bench``.

Rule: every system is a program of its own, run in its own process one after the other, workload by workload. So memory
and CPU are its own, and other work of the machine hits neighbours alike. A program runs the workload ``--runs``
times in one process (starting Spark takes longer than most runs), and its first run is shown apart.
"""

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from json import dumps
from pathlib import Path
from typing import Any

from kstreams_replay.orchestration.cli import options
from kstreams_replay.orchestration.cli.command import command, option
from kstreams_replay.orchestration.cli.exit_codes import ExitCode
from kstreams_replay.state.errors import ConfigError, MachineError

from .comparison import OURS, Line, compare, table_text
from .measuring import ProgramFailed, run_program
from .plot import draw
from .typed_data import prepare
from .workloads import NEXMARK, WORKLOADS

_SESSIONS_TO_JOIN = ("W1", "W1u", "W2", "W3", "W4")
PEERS = {
    "kafka": ("kstreams_replay.benchmarks.peers.kafka", (*_SESSIONS_TO_JOIN, "W5", "W6", "W7", "W9")),
    "spark": ("kstreams_replay.benchmarks.peers.spark", ("W1", "W1u", "W2", "W3", "W10", "W11")),
    "polars": ("kstreams_replay.benchmarks.peers.polars_peer", (*_SESSIONS_TO_JOIN, "W10")),
    "duckdb": ("kstreams_replay.benchmarks.peers.duckdb_peer", _SESSIONS_TO_JOIN),
}
"""Program of each peer, and the workloads that it has a fair form of."""

NEXMARK_PEERS = {"polars": ("kstreams_replay.benchmarks.peers.nexmark_polars", tuple(NEXMARK))}
"""The same of Nexmark's queries."""

RUN_ONCE = ("kafka",)
"""A run takes minutes, each begins in a JVM of its own."""

PACKAGES = ("pyspark", "delta-spark", "deltalake", "polars", "duckdb", "pyarrow", "numpy", "numba")


EVERY = "W1,W1u,W2,W3,W4,W5,W6,W7,W8,W9,W10,W11"


@command()
@option("--workloads", default=EVERY, metavar="W,…", help=f"which (default {EVERY})")
@option("--nexmark", is_flag=True, help="Nexmark's queries in the place of the workloads")
@option("--queries", default=",".join(NEXMARK), metavar="q,…", help="which of them, with --nexmark (default all)")
@option(
    "--records",
    type=options.COUNT,
    default=10_000_000,
    metavar="N",
    help="clicks, or events of Nexmark (default 10,000,000)",
)
@option("--peers", metavar="P,…", help=f"which (default {','.join(PEERS)}; of Nexmark polars), or none")
@option("--runs", type=options.COUNT, default=4, metavar="N", help="runs of each, the first apart (default 4)")
@option("--json", type=Path, default=Path("bench.json"), metavar="FILE", help="default bench.json")
@option("--plot", type=Path, default=Path("bench.png"), metavar="FILE", help="default bench.png")
@option("--folder", type=Path, metavar="DIR", help="keep the data there (default: gone afterwards)")
def bench(
    workloads: str, nexmark: bool, queries: str, records: int, peers: str | None, runs: int, json: Path, plot: Path,
    folder: Path | None,
) -> int:  # fmt: skip
    """Measure this project and its peers on the same rows. The exit code is 4 when a program failed or results
    disagree.
    """
    if nexmark:
        chosen = _chosen(queries, tuple(NEXMARK), "queries")
    else:
        chosen = _chosen(workloads, tuple(name for name in WORKLOADS if name not in NEXMARK), "workloads")
    known = NEXMARK_PEERS if nexmark else PEERS
    rivals = [] if peers == "none" else _chosen(peers or ",".join(known), tuple(known), "peers")
    _check_packages()
    lines: list[Line] = []
    began = datetime.now().astimezone().isoformat(timespec="seconds")
    with _folder(folder) as topics_folder:
        for workload in chosen:
            print(f"{workload}: {WORKLOADS[workload].words}", file=sys.stderr, flush=True)
            measured = run_workload(workload, rivals, topics_folder, records=records, runs=runs)
            compare(measured, exact=WORKLOADS[workload].exact)
            lines += measured
            # after every workload, since all of them take an hour
            json.write_text(dumps(run_said(began, lines, records=records, runs=runs), indent=2) + "\n")
            draw(lines, plot)
    print(table_text(lines))
    print(f"\nwritten: {json}, {plot}", file=sys.stderr)
    return ExitCode.FAILED if any(line.problem for line in lines) else ExitCode.DONE


def run_workload(workload: str, peers: list[str], folder: Path, *, records: int, runs: int) -> list[Line]:
    """Ours, then each peer; a peer without a fair form has an empty line, one that failed a line with its problem."""
    prepare(folder, workload, records)
    arguments = ["--workload", workload, "--folder", str(folder), "--runs"]
    lines = _run(OURS, "kstreams_replay.benchmarks.ours", workload, [*arguments, str(runs)])
    for peer in peers:
        module, known = (NEXMARK_PEERS if workload in NEXMARK else PEERS)[peer]
        asked = [*arguments, str(1 if peer in RUN_ONCE else runs)]
        lines += _run(peer, module, workload, asked) if workload in known else [Line(workload, peer)]
    return lines


def _run(name: str, module: str, workload: str, arguments: list[str]) -> list[Line]:
    print(f"  {name} …", file=sys.stderr, flush=True)
    try:
        said = run_program(module, arguments)
    except ProgramFailed as error:
        return [Line(workload, name, problem=str(error))]
    return [Line(workload, line["system"], line["configuration"], line) for line in said]


def _chosen(text: str, known: tuple[str, ...], kind: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    strange = [name for name in names if name not in known]
    if strange or not names:
        raise ConfigError(f"--{kind}", ", ".join(known), ", ".join(strange) or "none", "choose among them")
    return names


def _check_packages() -> None:
    missing = [name for name in ("matplotlib", "psutil", "duckdb") if find_spec(name) is None]
    if missing:
        next_step = "pip install -e '.[bench]'"
        raise MachineError("replay bench", "the packages of the extra bench", f"no {', '.join(missing)}", next_step)


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    """``kept``, or one that is gone afterwards."""
    folder = Path(kept or tempfile.mkdtemp(prefix="replay-bench-"))
    try:
        yield folder
    finally:
        if kept is None:
            shutil.rmtree(folder, ignore_errors=True)


def run_said(began: str, lines: list[Line], *, records: int, runs: int) -> dict[str, Any]:
    """The JSON of a run: when, where, with what, and every line."""
    return {
        "began": began,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "records": records,
        "runs": runs,
        "lines": [line.to_dict() for line in lines],
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    from kstreams_replay.orchestration.cli.main import main

    sys.exit(main(["bench", *sys.argv[1:]]))
