"""The command `replay`: the same work as Dagster's steps, without Dagster.

    replay land clicks --warehouse W --files DIR --timestamp ms --key user
    replay advance clicks --to 2026-01-01T00:00:00Z --warehouse W
    replay run shop.py:topology --warehouse W --pipeline shop
    replay warm-up shop.py:topology
    replay check shop.py:topology --warehouse W --pipeline shop
    replay books --warehouse W --pipeline shop
    replay show sessions --warehouse W --pipeline shop
    replay sql "SELECT key, count(*) FROM sessions GROUP BY key" --warehouse W --pipeline shop --increment 7
    replay inspect open-sessions --key ann --topology shop.py:topology --warehouse W --pipeline shop
    replay explain --record clicks:0:17 --topology shop.py:topology --warehouse W --pipeline shop
    replay describe shop.py:topology
    replay check-topology shop.py:topology --warehouse W --pipeline shop
    replay fork --warehouse W --pipeline shop --at 3 --as what-if
    replay diff shop what-if --warehouse W
    replay promote what-if --warehouse W
    replay vacuum --warehouse W --pipeline shop
    replay bench --workloads W1,W2 --records 1000000 --peers polars,duckdb

Owns the arguments and the exit codes: 0 done, 1 a guarantee does not hold or `diff` found some, 2 refused with a
sentence, 3 a bug, 130 stopped by Ctrl-C, 143 by SIGTERM.
Rule: an error is one sentence on stderr; the stack trace is for those who ask for it.
"""

import argparse
import importlib
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ...jobs.landing.file_source import FORMATS, TIMESTAMP_UNITS
from ...state.errors import ReplayError

REFUSED, BUG, INTERRUPTED, TERMINATED = 2, 3, 130, 143
RUNNING = "kstreams_replay.orchestration.cli.run_commands"
BRANCHES, MAINTENANCE = (
    "kstreams_replay.orchestration.cli.branch_commands",
    "kstreams_replay.orchestration.cli.vacuum_command",
)
TOPOLOGY = "module:attribute or file.py:attribute, where the attribute is a Topology or a function that builds one"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    options = build_parser().parse_args(argv)
    _log_to_stderr()
    try:
        with _sigterm_raises():
            code = _run(options)
            sys.stdout.flush()
        return code
    except (KeyboardInterrupt, _Terminated) as stop:
        print("replay: stopped; what is committed stays, and the next run goes on from there", file=sys.stderr)
        return TERMINATED if isinstance(stop, _Terminated) else INTERRUPTED
    except BrokenPipeError:  # whoever reads our output, `head` for one, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ReplayError as error:
        _tell(options, f"replay: {error}", error)
        return REFUSED
    except Exception as error:
        _tell(options, f"replay: {type(error).__name__}: {error}; this is a bug, --traceback shows where", error)
        return BUG


class _Terminated(BaseException):
    """SIGTERM came."""


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """SIGTERM ends the command as Ctrl-C does, from within; once, so that nothing disturbs the end."""
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return

    def stop(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise _Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(options: argparse.Namespace) -> int:
    commands = importlib.import_module(options.module)  # here, so that --help needs no Spark, Arrow or Numba
    code: int = getattr(commands, options.command.replace("-", "_"))(options)
    return code


def _log_to_stderr() -> None:
    """Our own remarks (jars being fetched), and only warnings of the libraries beneath."""
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: record.levelno >= logging.WARNING or record.name.startswith("jobs"))
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])
    logging.getLogger("jobs").setLevel(logging.INFO)


def _tell(options: argparse.Namespace, sentence: str, error: BaseException) -> None:
    print(sentence, file=sys.stderr)
    if options.traceback:
        traceback.print_exception(error, file=sys.stderr)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; ``command`` names the function in ``module``."""
    parser = argparse.ArgumentParser(
        prog="replay", description="Replay Kafka topics through a topology, over Delta tables."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    landing = "kstreams_replay.orchestration.cli.landing_commands"
    _add_land(_command(commands, "land", "land what is new in a topic, from files or from Kafka", landing))
    advance = _command(
        commands,
        "advance",
        "record that stream time of a landed topic has reached a time",
        "kstreams_replay.orchestration.cli.advance_command",
    )
    _add_advance(advance)
    _add_run(_command(commands, "run", "replay what has landed, increment by increment", RUNNING))
    warm_up = _command(commands, "warm-up", "compile kernels, so that no run waits for them", RUNNING)
    warm_up.add_argument("topology", metavar="TOPOLOGY", nargs="?", help=f"{TOPOLOGY} (default: every operator)")
    _add_topology(_command(commands, "describe", "print a topology as Kafka Streams does"))
    _add_check_topology(
        _command(
            commands,
            "check-topology",
            "say whether a pipeline's state goes on under a changed topology",
            module="kstreams_replay.orchestration.cli.check_topology_command",
        )
    )
    _add_check(
        _command(
            commands,
            "check",
            "judge the guarantees of an increment",
            "kstreams_replay.orchestration.cli.check_commands",
        )
    )
    _add_books(_command(commands, "books", "what became of the records, increment by increment"))
    show = "kstreams_replay.orchestration.cli.show_commands"
    _add_show(_command(commands, "show", "show rows of an output, a store, the drops or the dead letters", show))
    history = "kstreams_replay.orchestration.cli.history_commands"
    _add_sql(_command(commands, "sql", "ask outputs and stores as of an increment, in SQL", history))
    _add_inspect(_command(commands, "inspect", "what a store holds and what waits, or all positions", history))
    _add_explain(_command(commands, "explain", "what every operator did with a record, and why", history))
    _add_branch_commands(commands)
    _add_vacuum(_command(commands, "vacuum", "find files that nobody can ask for any more", MAINTENANCE))
    _add_bench(
        _command(
            commands, "bench", "measure this project and its peers on the same rows", "kstreams_replay.benchmarks.bench"
        )
    )
    return parser


def _add_bench(parser: argparse.ArgumentParser) -> None:
    every = "W1,W1u,W2,W3,W4,W5,W6,W7,W8"
    parser.add_argument("--workloads", default=every, metavar="W,…", help=f"which (default {every})")
    parser.add_argument("--records", type=int, default=10_000_000, metavar="N", help="clicks (default 10,000,000)")
    peers = "kafka,spark,polars,duckdb"
    parser.add_argument("--peers", default=peers, metavar="P,…", help=f"which (default {peers}), or none")
    parser.add_argument("--runs", type=int, default=4, metavar="N", help="runs of each, the first apart (default 4)")
    parser.add_argument("--json", type=Path, default=Path("bench.json"), metavar="FILE", help="default bench.json")
    parser.add_argument("--plot", type=Path, default=Path("bench.png"), metavar="FILE", help="default bench.png")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep the data there (default: gone afterwards)")


def _add_branch_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    fork = _command(commands, "fork", "begin a branch with what a pipeline was, without copying it", BRANCHES)
    _add_pipeline(fork)
    fork.add_argument("--at", type=int, required=True, metavar="N", help="after this increment; 0: from the start")
    fork.add_argument(
        "--as", dest="name", required=True, metavar="NAME", help="name of the branch, a pipeline of its own"
    )
    fork.add_argument("--topology", metavar="TOPOLOGY", help="the changed code that it will be replayed with")
    _add_warehouse(_command(commands, "branches", "list the branches", BRANCHES))
    diff = _command(commands, "diff", "compare the outputs of two pipelines by key and window", BRANCHES)
    diff.add_argument("a", metavar="A", help="a pipeline")
    diff.add_argument("b", metavar="B", help="another one, or the same as of another increment")
    _add_warehouse(diff)
    diff.add_argument("--output", metavar="X", help="this output alone (default: all that both have)")
    diff.add_argument("--increment-a", type=int, metavar="N", help="A as of this increment (default: the last)")
    diff.add_argument("--increment-b", type=int, metavar="N", help="B as of this increment (default: the last)")
    diff.add_argument("--limit", type=int, default=20, metavar="N", help="so many rows an output (default 20)")
    diff.add_argument("--raw", action="store_true", help="times as milliseconds")
    for name, words in (("promote", "swap a branch into its parent"), ("drop", "remove a branch")):
        parser = _command(commands, name, words, BRANCHES)
        parser.add_argument("name", metavar="NAME", help="the branch")
        _add_warehouse(parser)
    restore = _command(commands, "restore", "make a pipeline go on from an increment, under a new epoch", BRANCHES)
    _add_pipeline(restore)
    restore.add_argument("--to", type=int, required=True, metavar="N", help="go on from here; 0: from the start")
    restore.add_argument("--abandon", action="store_true", help="give up an increment that is planned and not done")


def _add_vacuum(parser: argparse.ArgumentParser) -> None:
    _add_pipeline(parser)
    keep = parser.add_mutually_exclusive_group()
    keep.add_argument("--keep-increments", type=int, metavar="N", help="so many can be asked for (default: all)")
    keep.add_argument("--keep-days", type=float, metavar="D", help="those of so many days can be asked for")
    parser.add_argument("--delete", action="store_true", help="delete them; without it they are only listed")


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    words: str,
    module: str = "kstreams_replay.orchestration.cli.describe_commands",
) -> argparse.ArgumentParser:
    """``module``: has the function ``name`` that carries it out."""
    parser = commands.add_parser(name, help=words, description=words[0].upper() + words[1:] + ".")
    parser.set_defaults(module=module)
    parser.add_argument("--traceback", action="store_true", help="show the stack trace of an error too")
    return parser


def _add_land(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", help="name of the landed topic")
    _add_warehouse(parser)
    _add_engine(parser)
    parser.add_argument(
        "--idle-after",
        metavar="DURATION",
        help="record the time of partitions that lag behind the newest record by more, as in 5m (default: never)",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--files", metavar="DIR", help="a directory of files")
    source.add_argument("--kafka", metavar="SERVERS", help="bootstrap servers of a broker")
    files = parser.add_argument_group("files")
    files.add_argument("--format", choices=FORMATS, default="jsonl")
    files.add_argument("--timestamp", metavar="COLUMN", help="column of the record time")
    files.add_argument("--timestamp-unit", choices=TIMESTAMP_UNITS, default="ms")
    files.add_argument("--key", metavar="COLUMN", help="column of the key; without it all keys are null")
    files.add_argument("--value", metavar="COLUMN", nargs="+", help="columns of the value; without it the whole row")
    files.add_argument("--partition", metavar="COLUMN", help="column of the partition; without it murmur2 of the key")
    files.add_argument("--partitions", type=int, default=1, metavar="N", help="partitions of the topic (default 1)")
    files.add_argument("--pattern", default="*", help="names of the files, as in *.jsonl")
    files.add_argument("--delimiter", default=",", help="of CSV")
    kafka = parser.add_argument_group("Kafka")
    kafka.add_argument("--source-topic", metavar="NAME", help="the topic's name at the broker, if it is another one")
    kafka.add_argument("--option", metavar="NAME=VALUE", action="append", default=[], help="a setting of the client")
    kafka.add_argument("--on-gap", choices=("refuse", "skip"), default="refuse", help="when the broker deleted offsets")
    kafka.add_argument("--max-records", type=int, metavar="N", help="land at most so many")


def _add_advance(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", help="name of the landed topic")
    _add_warehouse(parser)
    parser.add_argument("--to", required=True, metavar="TIME", help="ISO 8601 (without a zone: UTC), or milliseconds")
    parser.add_argument("--partition", type=int, metavar="P", help="this one alone (default: every one)")


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_topology(parser)
    _add_pipeline(parser)
    _add_engine(parser)
    parser.add_argument("--max-records", type=int, metavar="N", help="cut into increments of at most so many records")
    parser.add_argument("--increments", type=int, metavar="N", help="stop after so many increments")
    parser.add_argument(
        "--idle",
        choices=("wait", "proceed"),
        default="wait",
        help="records that a lagging partition may still have to precede: keep them for later, or take them now",
    )
    parser.add_argument(
        "--flush-at-end", action="store_true", help="history is closed: close all windows; the pipeline ends there"
    )
    _add_code_change(parser)


def _add_check_topology(parser: argparse.ArgumentParser) -> None:
    _add_topology(parser)
    _add_pipeline(parser)
    _add_code_change(parser)


def _add_code_change(parser: argparse.ArgumentParser) -> None:
    code = parser.add_argument_group("changed code")
    code.add_argument(
        "--migrate", metavar="STORE=MODULE:FUNCTION", action="append", default=[],
        help="make the store's new rows of its old ones (two Arrow tables)",
    )  # fmt: skip
    code.add_argument(
        "--renamed", metavar="OLD=NEW", action="append", default=[],
        help="the rows of store OLD belong to store NEW now; OLD= lets them go",
    )  # fmt: skip


def _add_check(parser: argparse.ArgumentParser) -> None:
    _add_topology(parser)
    _add_pipeline(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--increment", type=int, metavar="N", help="this one (default: the last)")
    which.add_argument("--all", action="store_true", help="every increment")
    parser.add_argument("--engine", choices=("gx", "plain"), default="gx", help="Great Expectations, or plain code")


def _add_books(parser: argparse.ArgumentParser) -> None:
    _add_pipeline(parser)
    parser.add_argument("--last", type=int, default=20, metavar="N", help="so many increments (default 20)")


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="OUTPUT", help="an output, state/STORE, dropped or dead_letter")
    _add_pipeline(parser)
    parser.add_argument("--changelog", action="store_true", help="every record instead of the newest of each key")
    parser.add_argument("--topology", metavar="TOPOLOGY", help="for state/STORE: show values as its readers see them")
    parser.add_argument("--increment", type=int, metavar="N", help="as of this increment (default: the last)")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="so many rows (default 20)")
    parser.add_argument("--raw", action="store_true", help="times as milliseconds")


def _add_sql(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", metavar="SELECT", help="over outputs, stores, dropped, dead_letter")
    _add_pipeline(parser)
    _add_as_of(parser, topology="show stores as their readers see them")


def _add_inspect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", nargs="?", help="a store (default: positions and clocks of all)")
    parser.add_argument("--key", metavar="KEY", help="this key alone, as text, a number, or JSON")
    _add_pipeline(parser)
    _add_as_of(parser, topology="whose operators show the store")


def _add_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--record", required=True, metavar="TOPIC:PARTITION:OFFSET", help="the landed record")
    parser.add_argument("--topology", required=True, metavar="TOPOLOGY", help=TOPOLOGY)
    _add_pipeline(parser)
    parser.add_argument("--order", choices=("time", "arrival"), default="time", help="as the pipeline was replayed")
    parser.add_argument("--raw", action="store_true", help="times as milliseconds")


def _add_as_of(parser: argparse.ArgumentParser, *, topology: str) -> None:
    parser.add_argument("--topology", metavar="TOPOLOGY", help=topology)
    parser.add_argument("--increment", type=int, metavar="N", help="as of this increment (default: the last)")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="so many rows (default 20)")
    parser.add_argument("--raw", action="store_true", help="times as milliseconds")


def _add_topology(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topology", metavar="TOPOLOGY", help=TOPOLOGY)


def _add_pipeline(parser: argparse.ArgumentParser) -> None:
    _add_warehouse(parser)
    parser.add_argument("--pipeline", required=True, metavar="NAME", help="folder of its tables in the warehouse")


def _add_warehouse(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--warehouse", required=True, metavar="W", help="directory or URI of all tables")


def _add_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--local", action="store_true", help="in this process, without Spark and Java")
    parser.add_argument(
        "--master", metavar="URL", help="Spark's master (default: $REPLAY_SPARK_MASTER, else all cores)"
    )


if __name__ == "__main__":
    sys.exit(main())
