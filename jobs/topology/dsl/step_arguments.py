"""Steps of the DSL, bound to the records that they see: a polars expression, an SQL string or a Python callable.

Rule: a callable needs ``returns``, the serde of what it gives. A call that takes fields by keyword takes a field whose
name is an option's in ``fields``; what may be either is refused, and nothing that was given is left out in silence.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import polars as pl

from ....state.errors import ConfigError, TopologyError
from ....state.near_names import did_you_mean
from ....state.serdes import Serde
from ....state.times import Duration, duration_ms
from ...functions.call_arguments import CallOptions
from ...functions.expressions import (
    Call,
    Columns,
    Expressible,
    Expression,
    Shape,
    Struct,
    bind,
    bind_predicate,
    bind_struct,
)
from ...functions.folds.fold import Fold
from ...functions.folds.python import Aggregator
from ...functions.parameters import MERGER, NOTHING, form_of, of_key_and_value
from ...graph.day_windows import DayWindows
from ...graph.graph import Graph, Node
from ...graph.name_rules import is_legal
from ...graph.own_windows import own_windows
from ...graph.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows
from ..materialized import Materialized

Step = Expressible | Callable[[Any, Any], Any]
"""Of (key, value) when it is a callable."""

ValueStep = Expressible | Callable[..., Any]
"""Of (key, value) or of (value) when it is a callable, as Kafka's mapValues takes both; the number is checked."""


def bind_step(
    step: ValueStep | CallOptions,
    shape: Shape,
    returns: Serde | None,
    place: str,
    *,
    may_take_value: bool = False,
    option: str = "returns",
) -> Expression | Call:
    """Raises TopologyError for anything else, for a callable without ``returns``, for one of other parameters, and for
    an expression whose result is of another type than ``returns``.

    ``may_take_value``: a callable of one parameter is one of the value. ``option``: what the call calls ``returns``.
    """
    if isinstance(step, str | pl.Expr):
        return _declared(bind(step, shape, place), returns, place, option)
    if not callable(step):
        expected = "an expression, SQL text or a callable of (key, value)"
        next_step = "give fields=" if isinstance(step, Mapping) else "correct the step"
        raise TopologyError(place, expected, repr(step), next_step)
    function = of_key_and_value(step, place, may_take_value=may_take_value)
    if returns is None:
        raise TopologyError(place, f"{option}= beside a Python callable", "none", "give the serde of the result")
    check_serdes(place, returns=returns)
    return Call(function, shape, returns, place)


_Bound = TypeVar("_Bound", Expression, Struct)


def _declared(bound: _Bound, returns: Serde | None, place: str, option: str = "returns") -> _Bound:
    """What expressions give, written by ``returns`` where it is given."""
    if returns is None:
        return bound
    check_serdes(place, returns=returns)
    if returns.arrow_type != bound.result.arrow_type:
        expected = f"{option}= of the type that the expression gives, {bound.result}"
        raise TopologyError(place, expected, f"{returns}", f"leave {option}= out, or CAST(...) in the expression")
    return replace(bound, result=returns)


def steps_of_pair(function: Any, place: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """The steps for the key and for the value of a callable of (key, value) that gives both, as Kafka's KeyValueMapper.

    Raises TopologyError for anything else. The steps raise TypeError for what is no pair.
    """
    if isinstance(function, str | pl.Expr):
        expected, next_step = "a step for the value, whose serde returns= is", "give both steps, or leave returns= out"
        raise TopologyError(place, expected, "none", next_step)
    called = of_key_and_value(function, place)

    def part(number: int) -> Callable[[Any, Any], Any]:
        def given(key: Any, value: Any) -> Any:
            pair = called(key, value)
            if not isinstance(pair, tuple) or len(pair) != 2:
                msg = f"expected a pair of a key and a value, got {pair!r}"
                raise TypeError(msg)
            return pair[number]

        given.__name__ = given.__qualname__ = getattr(function, "__name__", type(function).__name__)
        return given

    return part(0), part(1)


def bind_condition(step: Step, shape: Shape, place: str) -> Expression | Call:
    """A step that gives a boolean."""
    if isinstance(step, str | pl.Expr):
        return bind_predicate(step, shape, place)
    return bind_step(step, shape, Serde.boolean(), place)


def bind_mapper(
    steps: tuple[ValueStep | CallOptions, ...],
    columns: dict[str, Expressible],
    returns: Serde | None,
    shape: Shape,
    place: str,
) -> Expression | Struct | Call:
    """One step gives a plain value; several, or named ones, the fields of a struct."""
    if len(steps) == 1 and not columns:
        return bind_step(steps[0], shape, returns, place, may_take_value=True)
    if not steps and not columns:
        raise TopologyError(place, "at least one step", "none", 'give for example "air_time / 60 AS hours"')
    struct: dict[str, Expression] = {}
    for step in steps:
        bound = bind_step(step, shape, returns if callable(step) else None, place, may_take_value=True)
        if not isinstance(bound, Expression):
            raise TopologyError(place, "expressions side by side", "a Python callable", "give the callable alone")
        if bound.name in struct | columns:
            got, next_step = f"{bound.name!r} twice", f'name this one, as "{step} AS …" or by keyword'
            if isinstance(step, pl.Expr):
                next_step = f"name this one, with .alias() or by keyword: {step}"
            raise TopologyError(place, "fields of different names", got, next_step)
        struct[bound.name] = bound
    named = {column: bind(step, shape, place) for column, step in columns.items()}
    return _declared(bind_struct(struct | named, place), returns, place)


_TYPES: dict[str, tuple[type, str]] = {
    "name": (str, "text, the operator's name"),
    "returns": (Serde, "a serde"),
    "selector_returns": (Serde, "a serde"),
    "foreign_key_returns": (Serde, "a serde"),
    "materialized": (Materialized, "a Materialized"),
    "on_error": (str, '"stop" or "dead_letter"'),
}


def named_fields(
    call: str,
    by_keyword: Mapping[str, Any],
    fields: Mapping[str, Any] | None,
    options: Mapping[str, Any],
    columns: Columns | None = None,
) -> dict[str, Any]:
    """Fields that a call of the DSL was given by keyword, then those in ``fields``.

    ``options``: the call's own options, as they were given. ``columns``: what the text of a field may name; None where
    text is no field. Raises TopologyError for a field that is given twice, for an option that is a fold or is not of
    its type, and for a ``name`` that is an expression of the columns too.
    """
    for option, value in options.items():
        kind, expected = _TYPES.get(option, (object, ""))
        if value is None or (isinstance(value, kind) and not isinstance(value, Fold)):
            continue
        expected = expected or "what it is an option for"
        raise TopologyError(call, f"{option}= to be {expected}", repr(value), as_field(option))
    name = options.get("name")
    if name is not None and not is_legal(name):
        expected = "name= to be the operator's name (1 to 249 ASCII letters, digits, dots, underscores and hyphens)"
        raise TopologyError(call, expected, repr(name), f"choose another name; {as_field('name')}")
    if name is not None and columns is not None and _names_columns(name, columns):
        next_step = f"choose another name; {as_field('name')}"
        raise TopologyError(call, "name= to be the operator's name alone", f"{name!r}, a column too", next_step)
    if fields is not None and not isinstance(fields, Mapping):
        raise TopologyError(call, "fields= to be a mapping of names to fields", repr(fields), as_field("fields"))
    fields_by_name = dict(by_keyword)
    for field, step in fields_by_name.items():
        next_step = did_you_mean(field, [*options, "fields"], "", likeness=0.75)
        if field == "key_returns" and "selector_returns" in options:
            next_step = "the serde of what selector= gives is selector_returns="
        if next_step and not isinstance(step, str | pl.Expr | Fold):
            raise TopologyError(call, "options that there are", f"{field}={step!r}", next_step)
    for field, step in (fields or {}).items():
        if not isinstance(field, str) or not field or field in fields_by_name:
            expected = "fields of different names, each some text"
            raise TopologyError(
                call, expected, f"{field!r} in fields=", "give each field once, by keyword or in fields="
            )
        fields_by_name[field] = step
    return fields_by_name


def mapped_fields(
    steps: tuple[ValueStep | CallOptions, ...],
    by_keyword: Mapping[str, Any],
    fields: Mapping[str, Any] | None,
    options: Mapping[str, Any],
    shape: Shape,
) -> dict[str, Any]:
    """As ``named_fields``, of ``map_values``: beside a callable there are no fields."""
    has_fields = all(isinstance(step, str | pl.Expr) for step in steps)
    return named_fields("map_values", by_keyword, fields, options, shape if has_fields else None)


def joined_fields(
    kind: str,
    joiner: Any,
    by_keyword: Mapping[str, Any],
    fields: Mapping[str, Any] | None,
    options: Mapping[str, Any],
    pair: Columns,
) -> dict[str, Any]:
    """As ``named_fields``, of a join: beside a joiner there are no fields."""
    call = "join" if kind == "inner" else f"{kind}_join"
    return named_fields(call, by_keyword, fields, options, pair if joiner is None else None)


@contextmanager
def option_or_field(option: str, value: Any) -> Iterator[None]:
    """An option that is refused within, and may have been meant as a field, is refused with what to do then."""
    try:
        yield
    except ConfigError as error:
        if not isinstance(value, str | pl.Expr):
            raise
        raise type(error)(error.place, error.expected, error.got, f"{error.next_step}; {as_field(option)}") from error


def as_field(option: str) -> str:
    """What to do when a field was meant."""
    return f"a field called {option} is given by fields={{{option!r}: …}}"


def _names_columns(text: str, columns: Columns) -> bool:
    try:
        return bool(bind(text, columns, "name").expression.meta.root_names())
    except TopologyError:
        return False


def on_error_of(graph: Graph, name: str, above: Node, on_error: str, *, may_be_field: bool = False) -> None:
    """What becomes of records on which the step ``name``, of what ``above`` forwards, fails: "stop" ends the run,
    "dead_letter" keeps them as dead letters.

    Raises ConfigError for anything else; TopologyError for dead letters if the step does not read the records of a
    topic or a repartition one by one: a dead letter could not name its record.
    """
    if on_error not in ("stop", "dead_letter"):
        with option_or_field("on_error", on_error if may_be_field else None):
            raise ConfigError(f"{name} on_error", '"stop" or "dead_letter"', repr(on_error), "choose one")
    if on_error == "stop":
        return
    waiting = [above]
    while waiting:
        node = waiting.pop()
        if not node.is_source and not node.forwards_at_once:
            expected = 'a step that records reach straight from a topic or a repartition, for on_error="dead_letter"'
            next_step = "put the step ahead of it, or let it give null (TRY_CAST)"
            raise TopologyError(name, expected, f"one below {node.name}", next_step)
        waiting += [graph.nodes[each] for each in node.inputs if not node.is_source]
    graph.dead_lettering.add(name)


def whole_value(shape: Shape, place: str) -> Expression | Struct:
    """The value as it is."""
    if not shape.value.is_struct:
        return bind("value", shape, place)
    return bind_struct({name: bind(pl.col(name), shape, place) for name in shape.fields()}, place)


def plain_key(shape: Shape, place: str, purpose: str) -> None:
    """Raises TopologyError when the key is windowed."""
    if shape.window is not None:
        next_step = 'use select_key("record_key") first'
        raise TopologyError(place, f"a plain key to {purpose}", "a windowed key", next_step)


def same_keys(left: Shape, right: Shape, place: str) -> None:
    """Raises TopologyError when keys of the two never compare."""
    if (left.key, left.window) != (right.key, right.window):
        next_step = "select keys of one type"
        if (left.key.arrow_type, left.window) == (right.key.arrow_type, right.window):
            next_step = 'write those of one side as the other\'s, by select_key("record_key", returns=...)'
        raise TopologyError(place, f"keys of {_key(left)} on both sides", _key(right), next_step)


def check_selected(bound: Expression | Call, wanted: Serde, place: str, what: str, option: str) -> None:
    """Raises TopologyError for selected keys that are not of the table's serde. ``what``: what they are called;
    ``option``: what the call calls their ``returns``.
    """
    if bound.result != wanted:
        next_step = "select keys of the table's type"
        if bound.result.arrow_type == wanted.arrow_type:
            next_step = f"give {option}= the serde of the table's keys"
        raise TopologyError(place, f"{what} of {wanted}", f"{bound.result}", next_step)


def _key(shape: Shape) -> str:
    return str(shape.key) if shape.window is None else f"{shape.key}, windowed ({shape.window})"


def not_negative(duration: Duration, place: str) -> int:
    """``duration`` in milliseconds, 0 or more, else ConfigError."""
    duration_in_ms = duration_ms(duration, place)
    if duration_in_ms < 0:
        raise ConfigError(place, "0 ms or more", f"{duration_in_ms} ms", "correct the duration")
    return duration_in_ms


def check_serdes(place: str, **serdes: Any) -> None:
    """``serdes`` by the option that they were given in. Raises TopologyError for anything but a Serde or None."""
    for option, serde in serdes.items():
        if serde is not None and not isinstance(serde, Serde):
            next_step = "use for example Serde.string()"
            raise TopologyError(place, f"{option}= to be a serde", repr(serde), next_step)


def both_serdes(place: str, returns_key: Serde | None, returns: Serde | None) -> tuple[Serde, Serde]:
    """Those of a callable that gives keys and values. Raises TopologyError when one is missing, or is no serde."""
    if returns_key is None or returns is None:
        got = "none"
        if returns_key is not None or returns is not None:
            got = "only returns=" if returns_key is None else "only returns_key="
        raise TopologyError(place, "returns_key= and returns= beside a Python callable", got, "give both serdes")
    check_serdes(place, returns_key=returns_key, returns=returns)
    return returns_key, returns


def check_one_builder(graph: Graph, other: Graph, place: str) -> None:
    """Raises TopologyError for streams and tables of two topologies."""
    if graph is not other:
        next_step = "make both with the same StreamsBuilder"
        raise TopologyError(place, "streams and tables of one StreamsBuilder", "one of another builder", next_step)


def functions_of(
    place: str, given: tuple[Any, ...], fold: Fold | None, by_keyword: Mapping[str, Any]
) -> dict[str, Any]:
    """The functions of an aggregate by name, and "fold". ``given``: without a name, one fold, or functions in the order
    of ``by_keyword``, which is Kafka's. TopologyError for more of them, for what is neither, and for one that is given
    twice.
    """
    functions = {**by_keyword, "fold": fold}
    for one in (*given, fold):
        if inspect.isfunction(one) and (one.__module__ or "").startswith(Fold.__module__.rpartition(".")[0]):
            name = one.__name__.rstrip("_")
            got, next_step = f"fold.{name}, which makes one", f"call it: fold.{name}(…)"
            raise TopologyError(place, "a fold", got, next_step)
    names = ["fold"] if given and isinstance(given[0], Fold) else list(by_keyword)
    expected = f"one fold, or {', '.join(by_keyword)} in this order"
    for number, one in enumerate(given):
        if isinstance(one, Serde):
            raise TopologyError(place, expected, f"{one!r} without a name", "name the serde of the result, returns=…")
        if number == len(names):
            raise TopologyError(place, expected, f"{one!r}, too", "name folds, as in n=fold.count(), or leave it out")
        if one is not None and not isinstance(one, Fold) and not callable(one):
            raise TopologyError(place, expected, repr(one), "give Python functions, or a fold")
        if isinstance(one, Fold) and names != ["fold"]:
            raise TopologyError(place, expected, f"{one!r} as {names[number]}", "give functions or folds, not both")
        if one is not None and functions[names[number]] is not None:
            got, next_step = f"{names[number]}= beside it", "give it once"
            raise TopologyError(place, f"one {names[number]}", got, next_step)
        functions[names[number]] = functions[names[number]] if one is None else one
    return functions


def check_initializer(initializer: Callable[[], Any], returns: Serde, place: str) -> None:
    """Raises TopologyError when it takes parameters, or fails. What it gives need not be of ``returns``: Kafka
    serializes what the aggregator makes of it (``initial_misfit`` names it when that does not fit either).
    """
    form_of(initializer, place, NOTHING)
    check_serdes(place, returns=returns)
    try:
        initializer()
    except Exception as error:
        got = f"{type(error).__name__}: {error}"
        raise TopologyError(place, "an initializer that does not fail", got, "correct the initializer") from error


def checked_windows(windows: Any) -> Windows:
    """``windows``, of a class of the user's own too. Raises TopologyError for anything but windows of records."""
    if isinstance(windows, TimeWindows | SessionWindows | SlidingWindows | UnlimitedWindows | DayWindows):
        return windows
    own = own_windows(windows)
    if own is None:
        expected = "TimeWindows, SlidingWindows, SessionWindows or UnlimitedWindows"
        next_step = 'use for example TimeWindows.of_size("1h")'
        if not isinstance(windows, int | str | None):
            next_step += ', TimeWindows.of_days(zone="Europe/Oslo") of days in a time zone'
            next_step += ", or an object with windows_for(timestamp_ms), size() and grace_period_ms()"
        raise TopologyError("windowed_by", expected, repr(windows), next_step)
    return own


def checked_merger(windows: Windows | None, merger: Any, place: str) -> Aggregator | None:
    """``merger``. Raises TopologyError when sessions have none, for one without sessions, and for what is none."""
    is_of_sessions = isinstance(windows, SessionWindows)
    if is_of_sessions and merger is None:
        next_step = "give merger=(key, one, other) -> aggregate"
        raise TopologyError(place, "a merger, since sessions merge", "none", next_step)
    if merger is None:
        return None
    form_of(merger, place, MERGER)
    if not is_of_sessions:
        got = "no windows" if windows is None else type(windows).__name__
        raise TopologyError(place, "SessionWindows beside a merger", got, "leave the merger out")
    checked: Aggregator = merger
    return checked


def check_merges(windows: Windows | None, folds: Iterable[Fold], place: str) -> None:
    """Raises TopologyError for sessions of a fold that cannot merge two aggregates."""
    if isinstance(windows, SessionWindows) and not all(fold.merges for fold in folds):
        next_step = 'give for example merge="aggregate + other"'
        raise TopologyError(place, "merge= beside the step of fold.of, since sessions merge", "none", next_step)
