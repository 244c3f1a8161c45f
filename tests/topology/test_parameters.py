"""Parameters of callables: which forms each call takes, and what it says of others."""

import functools
import inspect
import json
import operator

import pytest

from kstreams_replay.jobs.code_changes.step_text import describe_step
from kstreams_replay.jobs.functions.parameters import KEY_VALUE, VALUE, form_of, of_key_and_value
from kstreams_replay.jobs.topology import JoinWindows, SessionWindows, StreamsBuilder, TimeWindows
from kstreams_replay.state.errors import TopologyError
from tests.topology.streams import LONG, STRING, refused, stream, table

NEAR = JoinWindows.of_time_difference_with_no_grace(5)


def one(a):
    return a


def two(a, b):
    return a


def three(a, b, c):
    return a


def four(a, b, c, d):
    return a


# --- which form ------------------------------------------------------------------------------------------------


class Adder:
    def __call__(self, key, value):
        return value

    def of_value(self, value):
        return value


@pytest.mark.parametrize(
    ("function", "form"),
    [
        (one, VALUE),
        (two, KEY_VALUE),
        (len, VALUE),
        (str.upper, VALUE),
        (lambda value, digits=2: value, VALUE),
        (lambda value, *rest: value, VALUE),
        (lambda value=1: value, VALUE),
        (lambda value, *, digits=2: value, VALUE),
        (lambda key, value, digits=2: value, KEY_VALUE),
        (Adder(), KEY_VALUE),
        (Adder().of_value, VALUE),
        *((conversion, VALUE) for conversion in (str, int, float, bool, bytes, list, tuple, set, dict, frozenset)),
        *((method, VALUE) for method in (str.strip, str.split, round, json.loads, "of".__add__, operator.neg)),
        (operator.itemgetter("a"), VALUE),
        (functools.partial(int, base=16), VALUE),
        (functools.partial(two, 1), VALUE),
        (operator.add, KEY_VALUE),
        (type("Text", (str,), {}), VALUE),
        (type("Pair", (str,), {"__new__": lambda cls, key, value: value}), KEY_VALUE),
    ],
)
def test_a_callable_is_of_the_form_of_the_parameters_that_it_requires(function, form):
    assert form_of(function, "here", KEY_VALUE, VALUE) == form


def test_a_callable_of_the_value_is_called_with_it():
    assert of_key_and_value(one, "here", may_take_value=True)("a", 5) == 5
    assert of_key_and_value(two, "here", may_take_value=True)("a", 5) == "a"


@pytest.mark.parametrize(
    "call",
    [
        lambda step: stream().map_values(step, returns=LONG).node.mapper.function,
        lambda step: stream().flat_map_values(step, returns=LONG).node.function,
        lambda step: table().map_values(step, returns=LONG).node.mapper.function,
    ],
)
def test_where_kafka_takes_a_function_of_the_value_so_does_this(call):
    assert call(lambda value: [value, 1])("a", 5) == [5, 1]
    assert call(lambda key, value: [key, value])("a", 5) == ["a", 5]


def test_a_foreign_key_may_be_a_function_of_the_value():
    builder = StreamsBuilder()
    left, right = table("l", builder), table("r", builder)

    left.join(right, two, returns=LONG, foreign_key=lambda value: str(value), foreign_key_returns=STRING)

    (sends,) = (node for node in builder._graph.nodes.values() if hasattr(node, "foreign_key"))
    assert sends.foreign_key.function("a", 5) == "5"


def test_another_function_of_the_value_is_another_step():
    """
    What is compared when code changes is the code of the user's function, not of what calls it.
    """
    steps = [stream().map_values(step, returns=LONG).node.mapper for step in (lambda v: v + 1, lambda v: v + 2)]

    one, other = (describe_step(step, shows_functions=True) for step in steps)
    assert one != other
    assert one.startswith("<lambda> ")


# --- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: stream().map_values(three, returns=LONG), "a callable of (key, value) or of (value)"),
        (lambda: table().map_values(three, returns=LONG), "a callable of (key, value) or of (value)"),
        (lambda: stream().flat_map_values(three, returns=LONG), "a callable of (key, value) or of (value)"),
        (lambda: stream().filter(one), "a callable of (key, value)"),
        (lambda: table().filter_not(one), "a callable of (key, value)"),
        (lambda: stream().select_key(one, returns=LONG), "a callable of (key, value)"),
        (lambda: stream().group_by(one, returns=LONG), "a callable of (key, value)"),
        (lambda: table().group_by(one, returns_key=LONG), "a callable of (key, value)"),
        (lambda: stream().map(one, returns_key=LONG, returns=LONG), "a callable of (key, value)"),
        (lambda: stream().map("value", one, returns=LONG), "a callable of (key, value)"),
        (lambda: stream().flat_map(one, returns_key=LONG, returns=LONG), "a callable of (key, value)"),
        (lambda: stream().peek(one), "a callable of (key, value)"),
        (lambda: stream().foreach(one), "a callable of (key, value)"),
        (lambda: stream().split().branch(one), "a callable of (key, value)"),
        (lambda: stream().deduplicate(one, 5, returns=LONG), "a callable of (key, value)"),
        (lambda: stream().group_by_key().reduce(one), "a callable of (aggregate, value)"),
        (lambda: table().group_by("value").reduce(two, one), "a callable of (aggregate, value)"),
        (
            lambda: table().group_by("value").aggregate(initializer=int, adder=two, subtractor=three, returns=LONG),
            "a callable of (key, value, aggregate)",
        ),
        (
            lambda: stream().group_by_key().aggregate(initializer=int, aggregator=two, returns=LONG),
            "a callable of (key, value, aggregate)",
        ),
        (
            lambda: stream().group_by_key().aggregate(initializer=one, aggregator=three, returns=LONG),
            "a callable of no parameters",
        ),
        (
            lambda: (
                stream()
                .group_by_key()
                .windowed_by(SessionWindows.with_inactivity_gap(5))
                .aggregate(initializer=int, aggregator=three, merger=two, returns=LONG)
            ),
            "a callable of (key, one, other)",
        ),
        (lambda: stream().group_by_key().cogroup(two), "a callable of (key, value, aggregate)"),
        (
            lambda: (
                stream().group_by_key().cogroup(three).windowed_by(TimeWindows.of_size(5)).aggregate(one, returns=LONG)
            ),
            "a callable of no parameters",
        ),
        (lambda: stream().join(table(), one, returns=LONG), "a callable of (left, right) or of (key, left, right)"),
        (lambda: table().join(table(), four, returns=LONG), "a callable of (left, right) or of (key, left, right)"),
        (
            lambda: stream().join(stream(), four, NEAR, returns=LONG),
            "a callable of (left, right) or of (key, left, right)",
        ),
    ],
)
def test_a_callable_of_other_parameters_is_refused_with_the_forms_that_are_taken(call, expected):
    said = refused(call)

    assert f"expected {expected}, got " in said
    assert said.endswith("; correct its parameters")


def test_the_callable_is_told_by_its_name_and_parameters():
    assert ", got three(a, b, c); " in refused(lambda: stream().filter(three))
    assert ", got a lambda of (a, *, b); " in refused(lambda: stream().filter(lambda a, *, b: a))
    assert ", got Adder(key, value); " in refused(lambda: stream().group_by_key().cogroup(Adder()))


def test_what_cannot_be_called_is_refused():
    with pytest.raises(TopologyError, match="expected a callable of no parameters, got 'x'; give a Python function"):
        stream().process("x")


# --- what may be meant in several ways ---------------------------------------------------------------------------

BOTH = "write lambda value: {0}(value) or lambda key, value: {0}(key, value)"


def wrapper(*arguments, **options):
    return two(*arguments, **options)


@pytest.mark.parametrize(
    ("function", "got", "name"),
    [
        (lambda *given: given, "a lambda of (*given)", "f"),
        (lambda one=1, other=2: one, "a lambda of (one=1, other=2)", "f"),
        (wrapper, "wrapper(*arguments, **options)", "wrapper"),
        (max, "max, whose parameters Python does not know", "max"),
        (str.startswith, "str.startswith, whose parameters Python does not know", "str.startswith"),
        (print, "print(*args, sep=' ', end='\\n', file=None, flush=False)", "print"),
    ],
)
def test_a_callable_that_may_be_meant_in_two_ways_is_refused_with_both(function, got, name):
    with pytest.raises(TopologyError) as error:
        form_of(function, "here", VALUE, KEY_VALUE)

    assert (error.value.got, error.value.next_step) == (got, BOTH.format(name))


def wrapping(call):
    """``two`` in the wrapper that ``call`` makes of it."""
    return functools.wraps(two)(call(two))


def run(function, *given, **options):
    return function(*given, **options)


def trying_again(function):
    def called(*given, **options):
        try:
            return function(*given, **options)
        except ValueError:
            return function(*given, **options)

    return called


def replacing(function):
    def called(*given):
        given = ("setting", *given)
        return function(*given)

    return called


class Holding:
    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, *given):
        return self.function(*given)


class Adding(Holding):
    def __call__(self, *given):
        return self.function("setting", *given)


class Dispatching:
    @functools.singledispatchmethod
    def of_value(self, value):
        return value

    @functools.lru_cache  # noqa: B019
    def kept(self, value):
        return value

    @trying_again
    def again(self, key, value):
        return value


def signed(function):
    called = wrapping(lambda f: lambda *given: f(*list(given)))
    called.__signature__ = inspect.signature(function)
    return called


@functools.singledispatch
def dispatched(value):
    return value


@pytest.mark.parametrize(
    ("function", "form"),
    [
        (wrapping(lambda f: lambda value: f("a", value)), VALUE),
        (wrapping(lambda f: lambda *given: f(*given)), KEY_VALUE),
        (wrapping(lambda f: lambda *given, **options: [f(*given, **options)]), KEY_VALUE),
        (wrapping(lambda f: lambda key, *given: f(key, *given)), KEY_VALUE),
        (wrapping(lambda f: lambda *given, **options: run(f, *given, **options)), KEY_VALUE),
        (wrapping(lambda f: lambda *given: run(lambda: f(*given))), KEY_VALUE),
        (wrapping(lambda f: lambda *given: (print(f.__name__, *given), f(*given))), KEY_VALUE),
        (wrapping(trying_again), KEY_VALUE),
        (functools.partial(wrapping(trying_again), "a"), VALUE),
        (Holding(two), KEY_VALUE),
        (signed(one), VALUE),
        (dispatched, VALUE),
        (Dispatching().of_value, VALUE),
        (Dispatching().kept, VALUE),
    ],
)
def test_a_decorated_function_is_called_as_its_decorator_is(function, form):
    assert form_of(function, "here", KEY_VALUE, VALUE) == form


@pytest.mark.parametrize(
    "function",
    [
        wrapping(lambda f: lambda *given: f("setting", *given)),
        wrapping(lambda f: lambda *given: f(*given, "setting")),
        wrapping(lambda f: lambda *given: f(*given, b="setting")),
        wrapping(lambda f: lambda *given, **options: f(*given, b="setting", **options)),
        wrapping(lambda f: lambda *given: f(*given[1:])),
        wrapping(lambda f: lambda *given: f(given[1], given[0])),
        wrapping(lambda f: lambda *given: f(*("setting", *given))),
        wrapping(lambda f: lambda *given: run(f, "setting", *given)),
        wrapping(lambda f: lambda *given: f(*given) if given else f("setting", *given)),
        wrapping(lambda f: lambda *given: (print(*given), f("setting", *given))),
        wrapping(replacing),
        Adding(two),
    ],
)
def test_a_decorator_that_changes_what_is_given_is_refused_with_both_readings(function):
    with pytest.raises(TopologyError, match=r"write lambda (key, )?value: \w+\((key, )?value\)") as error:
        form_of(function, "here", KEY_VALUE, VALUE)

    assert "*given" in error.value.got


def test_a_parameter_with_a_default_is_not_filled_where_there_is_one_form_only():
    said = refused(lambda: stream().filter(lambda value, wanted="a": value == wanted))

    assert "expected a callable of (key, value), got a lambda of (value, wanted='a')" in said
    assert "a parameter with a default keeps it: write lambda key, value: f(key, value)" in said


@pytest.mark.parametrize("function", [print, max, wrapper, lambda key, *rest: True, lambda key=1, value=2: True])
def test_where_there_is_one_form_only_that_it_can_be_called_with_it_is_called_so(function):
    assert form_of(function, "here", KEY_VALUE) == KEY_VALUE


# --- what nobody runs --------------------------------------------------------------------------------------------


class Waiting:
    async def process(self, record): ...

    async def __call__(self, key, value): ...


class Yielding:
    def init(self, context): ...

    def process(self, record):
        yield record


async def waited_for(key, value): ...


def yielding(key, value):
    yield value


@pytest.mark.parametrize("function", [waited_for, functools.partial(waited_for), Waiting(), Waiting().__call__])
@pytest.mark.parametrize(
    "call",
    [
        lambda function: stream().map_values(function, returns=LONG),
        lambda function: stream().peek(function),
        lambda function: stream().flat_map_values(function, returns=LONG),
        lambda function: stream().group_by_key().reduce(function),
    ],
)
def test_async_def_is_refused_when_the_topology_is_built(function, call):
    assert "nobody awaits it here: write def" in refused(lambda: call(function))


@pytest.mark.parametrize(
    "call",
    [
        lambda: stream().map_values(yielding, returns=LONG),
        lambda: stream().filter(yielding),
        lambda: stream().map(yielding, returns_key=LONG, returns=LONG),
    ],
)
def test_a_generator_is_refused_where_nobody_iterates_it(call):
    assert "got yielding, which yields; nobody iterates it here: return the result" in refused(call)


def test_a_generator_may_give_the_values_of_a_flat_map():
    stream().flat_map_values(yielding, returns=LONG)
    stream().flat_map(yielding, returns_key=LONG, returns=LONG)


@pytest.mark.parametrize("supplier", [Waiting, Yielding, functools.partial(Yielding)])
def test_a_class_of_processors_that_wait_or_yield_is_refused_when_the_topology_is_built(supplier):
    said = refused(lambda: stream().process(supplier))

    assert ".process" in said
    assert "write def" in said or "call self.context.forward(record) for each result" in said
