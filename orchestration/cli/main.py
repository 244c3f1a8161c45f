"""The command `replay`: the same work as Dagster's steps, without Dagster.

    replay init shop
    replay doctor --warehouse W
    replay land clicks --warehouse W --files DIR --timestamp ms --key user
    replay advance clicks --to 2026-01-01T00:00:00Z --warehouse W
    replay exclude clicks --record 0:17 --reason "time of the year 57972" --warehouse W
    replay erase --key user-4711 --topics clicks --reason "request 4711" --warehouse W
    replay run shop.py:topology --warehouse W --pipeline shop
    replay warm-up shop.py:topology
    replay publish sessions --topology shop.py:topology --warehouse W --pipeline shop --kafka localhost:9092 --topic t
    replay check shop.py:topology --warehouse W --pipeline shop
    replay verify shop.py:topology --warehouse W --pipeline shop --from 3 --to 9 --increments 1,7,random
    replay compare sessions --with-topic live_sessions --topology shop.py:topology --warehouse W --pipeline shop
    replay advise grace shop.py:topology --warehouse W --pipeline shop --grace 10s,1m,10m
    replay report --warehouse W --out quality.html
    replay metrics --warehouse W --pipeline shop
    replay lineage shop.py:topology --warehouse W --pipeline shop --send
    replay fsck --warehouse W --pipeline shop
    replay pipelines --warehouse W
    replay books --warehouse W --pipeline shop
    replay current sessions --warehouse W --pipeline shop
    replay show sessions --warehouse W --pipeline shop
    replay export sessions --out sessions.parquet --warehouse W --pipeline shop
    replay sql "SELECT key, count(*) FROM sessions GROUP BY key" --warehouse W --pipeline shop --increment 7
    replay inspect open-sessions --key ann --topology shop.py:topology --warehouse W --pipeline shop
    replay explain --record clicks:0:17 --topology shop.py:topology --warehouse W --pipeline shop
    replay explain --output sessions --key ann --topology shop.py:topology --warehouse W --pipeline shop
    replay account sessions --topology shop.py:topology --warehouse W --pipeline shop
    replay describe shop.py:topology
    replay errors LedgerError
    replay placement --warehouse W --pipeline shop --preview --members 8
    replay check-topology shop.py:topology --warehouse W --pipeline shop
    replay upgrade-advice shop.py:topology --from 3.9 --to 4.4
    replay fork --warehouse W --pipeline shop --at 3 --as what-if
    replay backfill shop --from 2026-01-05 --to 2026-01-06 --topology changed.py:topology --as monday --warehouse W
    replay diff shop what-if --warehouse W
    replay promote what-if --warehouse W
    replay vacuum --warehouse W --pipeline shop
    replay bench --workloads W1,W2 --records 1000000 --peers polars,duckdb
    replay --version

Owns the list of commands, and what happens when one fails or is stopped; exit codes are those of exit_codes.py.
Rule: an error is one sentence on stderr, with the command that says what to do about it; the stack trace is for those
who ask for it.
"""

import gc
import importlib
import logging
import os
import re
import select
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO, cast

import click
from click.shell_completion import shell_complete

from ...state.error_page import see
from ...state.errors import ConfigError
from ...state.failures import failure_of, stop_below
from ...state.hidden_values import without_hidden
from ...state.version import VERSION
from .command import Invocation
from .defaults import FILE, WAREHOUSE_VARIABLE
from .exit_codes import ExitCode, exit_code_of
from .span_export import spans_exported

BENCHMARKS = "kstreams_replay.benchmarks"
COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Begin": {
        "init": (".commands.init", "make a project that runs as it is"),
        "doctor": (".commands.doctor", "look whether this machine has what a replay needs, and say what to do"),
    },
    "Replay": {
        "land": (".commands.land", "land what is new in a topic, from files or from Kafka"),
        "advance": (".commands.advance", "record that stream time of a landed topic has reached a time"),
        "exclude": (".commands.exclude", "take landed records out of play, with the reason"),
        "erase": (".commands.erase", "erase the records of a key from every file, and prove it"),
        "run": (".commands.run", "replay what has landed, increment by increment"),
        "bootstrap": (".commands.bootstrap", "begin a pipeline with the state of a live application"),
        "hand-over": (".commands.hand_over", "let a live application begin with a pipeline's state"),
        "publish": (".commands.publish", "publish an output to a topic of Kafka, exactly once"),
        "warm-up": (".commands.run", "compile kernels, so that no run waits for them"),
    },
    "Look": {
        "pipelines": (".commands.pipelines", "what is in a warehouse: topics, pipelines, branches, their last run"),
        "books": (".commands.describe", "what became of the records, increment by increment"),
        "current": (".commands.current", "keep the newest value of every key and window of an output as a table"),
        "show": (".commands.show", "show rows of an output, a store, the drops or the dead letters"),
        "export": (".commands.export", "write the rows of an output or a store into a file"),
        "sql": (".commands.history", "ask outputs and stores as of an increment, in SQL"),
        "inspect": (".commands.history", "the rows of a store and what waits in it, or all positions"),
        "explain": (".commands.history", "what every operator did with a record, and why"),
        "account": (".commands.account", "where the records of an output have gone, to the unit"),
        "describe": (".commands.describe", "print a topology as Kafka Streams does"),
        "errors": (".commands.describe", "say what to do about an error"),
        "placement": (".commands.placement", "which worker runs which task, and what more workers would change"),
    },
    "Judge": {
        "check": (".commands.check", "judge the guarantees of an increment"),
        "judge": (".commands.judge", "compare a pipeline with the Java application that it was ported from"),
        "verify": (".commands.verify", "prove that results do not depend on where the input was cut"),
        "compare": (".commands.compare", "put the rows that production wrote beside ours, and say why they differ"),
        "advise": (".commands.quality", "what another grace would have done to the landed history"),
        "report": (".commands.quality", "write a page about quality over time, without a server"),
        "metrics": (".commands.quality", "print the numbers of a pipeline as OpenMetrics text"),
        "lineage": (".commands.lineage", "print increments as OpenLineage's events, or send them"),
        "fsck": (".commands.fsck", "read everything, and say what is damaged and how to repair it"),
        "check-topology": (".commands.check_topology", "say whether a changed topology can continue with the state"),
        "upgrade-advice": (".commands.upgrade_advice", "what another version of Kafka Streams changes for a topology"),
        "bench": (f"{BENCHMARKS}.bench", "measure this project and its peers on the same rows"),
    },
    "Go back": {
        "fork": (".commands.branches", "begin a branch with what a pipeline was, without copying it"),
        "backfill": (".commands.backfill", "make the rows of a range of time again, on a branch, and prove them"),
        "branches": (".commands.branches", "list the branches"),
        "diff": (".commands.branches", "compare the outputs of two pipelines by key and window"),
        "promote": (".commands.branches", "swap a branch into its parent"),
        "drop": (".commands.branches", "remove a branch"),
        "restore": (".commands.branches", "make a pipeline continue from an increment, under a new epoch"),
        "take-back": (".commands.take_back", "take back what others committed to a table"),
        "vacuum": (".commands.vacuum", "find files that nobody can ask for any more"),
    },
}  # fmt: skip
"""Module of every command and its line in ``replay --help``, by section. The function is named as the command is."""


class _Commands(click.Group):
    """Loads the module of a command when the command is called or its help is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the help."""
        return [name for section in COMMANDS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """None for a name that is not in COMMANDS."""
        entry = next((section[cmd_name] for section in COMMANDS.values() if cmd_name in section), None)
        if entry is None:
            return None
        try:
            module = importlib.import_module(entry[0], __package__)
        except ModuleNotFoundError as error:
            # Any other module that is missing is an extra's, of which `failure_of` says how to install it.
            if error.name != BENCHMARKS:
                raise
            expected, next_step = "a checkout, which has the benchmarks", "run it there, as benchmarks/README.md says"
            raise ConfigError(cmd_name, expected, "an installed package", next_step) from error
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raises NoSuchCommand, which names the commands with names near to it."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            known = self.list_commands(ctx)
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=known, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Section by section, without loading any."""
        width = max(map(len, self.list_commands(ctx)))
        for title, section in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), words) for name, (_, words) in section.items()])


COMPLETE = "_REPLAY_COMPLETE"
"""Variable by which a shell asks click what may follow, as in "bash_source" and "bash_complete"."""
HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        print(f"replay {VERSION}")
        ctx.exit()


@click.group(cls=_Commands, name="replay", context_settings=HELP)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="print the version"
)
def _replay() -> None:
    """Replay Kafka topics through a topology, over Delta tables.

    An error ends with the command that says what to do about it, as [replay errors ConfigError].
    """


def program() -> int:
    """What is installed as ``replay``: the process ends with its command, or with the names that complete a line in a
    shell (docs/commands.md).
    """
    sys.stderr = cast(TextIO, _LastingStream(sys.stderr))
    asked = os.environ.get(COMPLETE)
    code = main() if asked is None else shell_complete(_replay, {}, "replay", COMPLETE, asked)
    gc.freeze()  # else Python's end looks through all that was imported, for up to a second
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    invocation = Invocation()
    _log_to_stderr()
    try:
        with _sigterm_raises(), spans_exported():
            code = _run(list(sys.argv[1:] if argv is None else argv), invocation)
            # Here and not at the interpreter's end, where nobody catches what a closed pipe or a full disk raises.
            sys.stdout.flush()
        return code
    except (KeyboardInterrupt, _Terminated) as stop:
        return _stopped(invocation, stop)
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _is_unread(sys.stdout):  # the reader, `head` for one, saw enough
            _write_nowhere(sys.stdout)
            return ExitCode.DONE
        signalled = stop_below(error)
        if signalled is not None:
            return _stopped(invocation, signalled)
        failure = failure_of(error, invocation.place)
        if failure is None:
            words = f"{type(error).__name__}: {error}; this is a bug, --traceback shows where"
            _say(invocation, f"replay: {words}", error)
            return ExitCode.ERROR
        _say(invocation, f"replay: {_in_options(str(failure))} [{see(type(failure))}]", error)
        return exit_code_of(failure)


class _LastingStream:
    """A stream of remarks. When its reader has gone, the command works on without them: its work is elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """All of it, or nothing to nobody."""
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            _write_nowhere(self._stream)
            return len(text)

    def flush(self) -> None:
        """What was written before, too."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            _write_nowhere(self._stream)


def _is_unread(stream: TextIO) -> bool:
    """Whether it is a pipe that nobody reads any more. Another pipe may have broken: that of a broker, of the JVM."""
    poll = select.poll()
    try:
        poll.register(stream.fileno(), 0)
    except OSError:  # a stream of a test has no number
        return False
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _write_nowhere(stream: TextIO) -> None:
    """From now on, what it still holds too; else Python's end would fail on that."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _in_options(said: str) -> str:
    """What an error says to write in Python, as options of the command."""
    return re.sub(
        r"renamed=\{'([^']+)': (?:'([^']+)'|None)\}", lambda match: f"--renamed {match[1]}={match[2] or ''}", said
    )


def _run(arguments: list[str], invocation: Invocation) -> int:
    """Not by click's own ``main``, which has other exit codes and words for what stops a command."""
    try:
        with _replay.make_context("replay", arguments, obj=invocation) as context:
            code: int = _replay.invoke(context)
        return code
    except click.exceptions.Exit as done:  # after --help
        return done.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return ExitCode.USAGE
    except click.UsageError as error:
        asked = "replay" if error.ctx is None else error.ctx.command_path
        print(f"replay: {_said_of(error)} {asked} --help", file=sys.stderr)
        return ExitCode.USAGE


def _said_of(error: click.UsageError) -> str:
    """What is wrong, what may be meant, and "see"."""
    near = getattr(error, "possibilities", None)  # of a command or an option that is not there
    if near:
        return f"{error.message.rstrip('.')}, did you mean {' or '.join(map(repr, sorted(near)))}? See"
    said = error.format_message().rstrip(".")
    missing = error.param if isinstance(error, click.MissingParameter) else None
    if missing is not None and missing.name in ("warehouse", "pipeline", "topology"):
        variable = f" or set {WAREHOUSE_VARIABLE}," if missing.name == "warehouse" else ""
        said = f'{said}; name it,{variable} or write {missing.name} = "…" into {FILE}'
    return f"{said}; see"


class _Terminated(BaseException):
    """SIGTERM came."""


def _stopped(invocation: Invocation, stop: BaseException) -> int:
    is_terminated = isinstance(stop, _Terminated)
    _ignore_interrupts()
    print(f"replay: stopped by {'SIGTERM' if is_terminated else 'Ctrl-C'}", file=sys.stderr)
    print(f"replay: {invocation.kept}; the same command continues from there", file=sys.stderr)
    return ExitCode.TERMINATED if is_terminated else ExitCode.INTERRUPTED


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


def _ignore_interrupts() -> None:
    """A second Ctrl-C must not disturb the end."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _log_to_stderr() -> None:
    """Our own remarks (jars being fetched), and only warnings of the libraries beneath."""
    ours = __name__.partition(".")[0]
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: record.levelno >= logging.WARNING or record.name.startswith(ours))
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])
    logging.getLogger(ours).setLevel(logging.INFO)


def _say(invocation: Invocation, sentence: str, error: BaseException) -> None:
    print(without_hidden(sentence), file=sys.stderr)
    if invocation.shows_traceback:
        print(without_hidden("".join(traceback.format_exception(error))), end="", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(program())
