"""What a command of `replay` has beyond click's own: sections in its help, options of which one may be given, an
option that takes several values at once, values from ``replay.toml``, and ``--traceback``.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource

from ...state.errors import ConfigError
from ...state.kafka.settings import provided
from .defaults import defaults_of

STORAGE_OPTION, STORAGE_TIMEOUT = "storage_option", "storage_timeout"
"""Parameters of all commands that have a warehouse."""

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def partition_and_offset(text: str, name: str) -> tuple[int, int]:
    """Of a record, as the option ``name`` takes it. Raises ConfigError for other text."""
    partition, _, offset = text.partition(":")
    if not (partition.isdecimal() and offset.isdecimal()):
        raise ConfigError(name, "PARTITION:OFFSET", repr(text), "write it as in 0:17")
    return int(partition), int(offset)


@dataclass
class Invocation:
    """What ``main`` must know of a command that failed or was stopped. It is the ``obj`` of click's context.

    ``kept``: what of its work stays. ``place``: its warehouse, where it has one.
    """

    shows_traceback: bool = False
    kept: str = "what was committed before stays"
    place: str = "this command"


@dataclass(frozen=True)
class OneOf:
    """Names of parameters of which at most one may be given; ``required``: one must be, ``unless`` that parameter is
    given.
    """

    names: tuple[str, ...]
    required: bool = False
    unless: str | None = None


class Option(click.Option):
    """``section``: heading in the help. ``takes_many``: ``--name A B`` means the same as ``--name A --name B``.
    ``takes_default``: of ``replay.toml``, also where it need not be given.
    """

    def __init__(
        self, *args: Any, section: str = "", takes_many: bool = False, takes_default: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(*args, **{"multiple": takes_many, **kwargs})
        self.section, self.takes_many, self.takes_default = section, takes_many, takes_default


class Command(click.Command):
    """``one_of``: choices among options that exclude each other."""

    def __init__(self, *args: Any, one_of: Sequence[OneOf] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.one_of = one_of
        self.params.append(_traceback())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Raises UsageError where ``one_of`` does not hold; ConfigError for a ``replay.toml`` that is none."""
        # A `replay.toml` that cannot be read must not stop a completion, or the help that says how to write it.
        if not (ctx.resilient_parsing or {"-h", "--help"} & set(args)):
            ctx.default_map = defaults_of(self.params)
        rest = super().parse_args(ctx, self._repeated(args))
        if ctx.params.get("warehouse") is not None:
            ctx.ensure_object(Invocation).place = f"warehouse {ctx.params['warehouse']}"
        _leave_out_what_contradicts(ctx)
        # A line that a shell completes need not be whole, and an error would leave the user without an answer.
        choices = () if ctx.resilient_parsing else self.one_of
        options = {param.name: param.opts[0] for param in self.params}
        for choice in choices:
            given = [name for name in choice.names if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
            if len(given) > 1:
                raise click.UsageError(f"{options[given[0]]} and {options[given[1]]} exclude each other", ctx)
            if choice.required and not given and not (choice.unless and ctx.params[choice.unless]):
                raise click.UsageError(f"give one of {', '.join(options[name] for name in choice.names)}", ctx)
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        """What ``--storage-option`` and ``--storage-timeout`` say of the warehouse's store is remembered; every
        Warehouse of it takes it.
        """
        pairs, timeout = ctx.params.pop(STORAGE_OPTION, ()), ctx.params.pop(STORAGE_TIMEOUT, None)
        if pairs or timeout is not None:
            if ctx.params.get("warehouse") is None:
                raise click.UsageError("options of a store need --warehouse", ctx)
            from ...state.tables.object_stores import remember_options  # here, since pyarrow's files take a moment

            options = dict(key_and_value(pair, "--storage-option") for pair in pairs)
            remember_options(ctx.params["warehouse"], options, timeout)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options without a section, then section by section."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for param in self.get_params(ctx):
            record = None if isinstance(param, click.Argument) else param.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(param, "section", "") or "Options", []).append(record)
        for name, records in sections.items():
            with formatter.section(name):
                formatter.write_dl(records)

    def _repeated(self, args: Sequence[str]) -> list[str]:
        many = {opt for param in self.params if getattr(param, "takes_many", False) for opt in param.opts}
        repeated: list[str] = []
        option, values = "", 0
        for argument in args:
            if argument.startswith("-"):
                option, values = (argument if argument in many else ""), 0
            elif option:
                values += 1
                if values > 1:
                    repeated.append(option)
            repeated.append(argument)
        return repeated


def _leave_out_what_contradicts(ctx: click.Context) -> None:
    """Of what the file says: `local` beside ``--master``, and options of a store beside a warehouse on a disk."""
    is_local_disk = "://" not in str(ctx.params.get("warehouse"))
    names: list[tuple[str, Any]] = [("local", False)] if "master" in ctx.params and is_given("master", ctx) else []
    names += [(STORAGE_OPTION, ()), (STORAGE_TIMEOUT, None)] if is_local_disk else []
    for name, nothing in names:
        if name in ctx.params and not is_given(name, ctx):
            ctx.params[name] = nothing


def is_given(name: str, ctx: click.Context | None = None) -> bool:
    """Whether the line of the command names the parameter ``name``: neither a default nor ``replay.toml`` does."""
    context = click.get_current_context() if ctx is None else ctx
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def key_and_value(pair: str, option: str) -> tuple[str, str]:
    """``KEY=VALUE``. ``${env:NAME}`` in the value, as Kafka's configuration providers write it (KIP-887), is the value
    of that environment variable: so that no credential is an argument, which all users of a machine may read. So are
    ``${dir:…}`` and ``${file:…}`` what ``provided`` says. Raises BadParameter, which never shows the value.
    """
    key, is_pair, value = pair.partition("=")
    if not (key and is_pair):
        raise click.BadParameter("expected KEY=VALUE, got something without a key", param_hint=option)

    def variable(name: str) -> str:
        if name not in os.environ:
            raise click.BadParameter(f"{key}: the environment variable {name} is not set", param_hint=option)
        return os.environ[name]

    return key, provided(value, variable)


def keep(words: str) -> None:
    """Say what stays of the command's work when it is stopped from now on."""
    click.get_current_context().ensure_object(Invocation).kept = words


def command(*, one_of: Sequence[OneOf] = ()) -> Callable[[Callable[..., int]], Command]:
    """Make a command of a function, whose docstring is its help and whose result is the exit code."""
    return click.command(cls=Command, one_of=one_of)


def option(*names: str, **settings: Any) -> Decorator:
    """``click.option``, with what Option has."""
    return click.option(*names, cls=Option, **settings)


def argument(name: str, **settings: Any) -> Decorator:
    """``click.argument``, which has a ``help`` since click 8.5."""
    return click.argument(name, **settings)


def _traceback() -> click.Option:
    def remember(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        ctx.ensure_object(Invocation).shows_traceback = value

    return click.Option(
        ["--traceback"], is_flag=True, expose_value=False, is_eager=True, callback=remember,
        help="show the stack trace of an error too",
    )  # fmt: skip
