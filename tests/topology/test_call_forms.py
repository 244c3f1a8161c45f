"""The law of call forms: every call that takes a callable × every form of callable. The callable is given what the call
is to give it, written down here by hand, or the call is refused when the topology is built.
"""

import copy
import functools
import json
import operator
import re
from dataclasses import dataclass
from typing import Any

import pytest

from kstreams_replay import (
    CONTINUE,
    Branched,
    Consumed,
    FixedKeyProcessor,
    JoinWindows,
    Materialized,
    Printed,
    Processor,
    PunctuationType,
    Repartitioned,
    Serde,
    SessionWindows,
    StreamsBuilder,
    TopologyTestDriver,
    ValueTransformerWithKey,
)
from kstreams_replay.state.errors import TopologyError

S = Serde.string()
STRINGS = Consumed(S, S)
NEAR = JoinWindows.of_time_difference_with_no_grace(5)
BOTH = {"returns_key": S, "returns": S}


def other(stream):
    return stream.builder.stream("other", STRINGS)


def table(stream, topic="other"):
    return stream.builder.table(topic, STRINGS, materialized=Materialized.as_(f"{topic}-store"))


def grouped(stream):
    return stream.group_by_key()


def tabled(stream):
    return stream.to_table(materialized=Materialized.as_("t"))


def regrouped(stream):
    return tabled(stream).group_by("'all'")


def failing(value):
    raise ValueError(value)


def handled(stream, function):
    builder = StreamsBuilder(config={"processing.exception.handler": function})
    stream.__dict__["builder"] = builder
    return builder.stream("in", STRINGS).map_values(failing, returns=S)


class Scheduled(Processor):
    callback: Any = None

    def init(self, context):
        super().init(context)
        context.schedule(1, PunctuationType.STREAM_TIME, self.callback)

    def process(self, record): ...


class Silent(Processor):
    def process(self, record): ...


class SilentValues(FixedKeyProcessor):
    def process(self, record): ...


class Same(ValueTransformerWithKey):
    def transform(self, key, value):
        return value


@dataclass(frozen=True)
class CallForm:
    """``build(stream, function)`` gives the call its callable, which returns ``answer``; ``given``: what it is called
    with first, by the number of the parameters that it requires.
    """

    name: str
    build: Any
    answer: Any
    given: dict[int, tuple[Any, ...]]


KV, V_KV = {2: ("k", "v")}, {1: ("v",), 2: ("k", "v")}
JOINED = {2: ("v", "w"), 3: ("k", "v", "w")}
ASKED = object()
"""An argument that is an object of the engine's."""

CALLS = [
    CallForm("filter", lambda s, f: s.filter(f), True, KV),
    CallForm("filter_not", lambda s, f: s.filter_not(f), False, KV),
    CallForm("select_key", lambda s, f: s.select_key(f, returns=S), "x", KV),
    CallForm("map", lambda s, f: s.map(f, **BOTH), ("x", "y"), KV),
    CallForm("map key", lambda s, f: s.map(f, "value", returns_key=S), "x", KV),
    CallForm("map value", lambda s, f: s.map("record_key", f, returns=S), "x", KV),
    CallForm("map_values", lambda s, f: s.map_values(f, returns=S), "x", V_KV),
    CallForm("flat_map", lambda s, f: s.flat_map(f, **BOTH), [("x", "y")], KV),
    CallForm("flat_map_values", lambda s, f: s.flat_map_values(f, returns=S), ["x"], V_KV),
    CallForm("peek", lambda s, f: s.peek(f), None, KV),
    CallForm("foreach", lambda s, f: s.foreach(f), None, KV),
    CallForm("print", lambda s, f: s.print(Printed.to_sys_out().with_key_value_mapper(f)), "x", KV),
    CallForm("group_by", lambda s, f: s.group_by(f, returns=S).count(), "x", KV),
    CallForm("branch", lambda s, f: s.split(name="b-").branch(f), True, KV),
    CallForm("to", lambda s, f: s.to(f, topics=["out"]), "out", V_KV),
    CallForm("to partitioner", lambda s, f: s.to("out", partitioner=f, partitions=3), 0, {4: ("out", "k", "v", 1)}),
    CallForm("deduplicate", lambda s, f: s.deduplicate(f, "5s", returns=S), "x", KV),
    CallForm("reduce", lambda s, f: grouped(s).reduce(f), "x", {2: ("v", "v2")}),
    CallForm("initializer", lambda s, f: grouped(s).aggregate(f, lambda k, v, a: a, returns=S), "x", {0: ()}),
    CallForm("aggregator", lambda s, f: grouped(s).aggregate(lambda: "", f, returns=S), "x", {3: ("k", "v", "")}),
    CallForm(
        "merger",
        lambda s, f: (
            grouped(s)
            .windowed_by(SessionWindows.with_inactivity_gap(100))
            .aggregate(lambda: "", lambda k, v, a: v, f, returns=S)
        ),
        "x",
        {3: ("k", "", "v")},
    ),
    CallForm("cogroup", lambda s, f: grouped(s).cogroup(f).aggregate(lambda: "", returns=S), "x", {3: ("k", "v", "")}),
    CallForm("table filter", lambda s, f: tabled(s).filter(f), True, KV),
    CallForm("table map_values", lambda s, f: tabled(s).map_values(f, returns=S), "x", V_KV),
    CallForm("table group_by", lambda s, f: tabled(s).group_by(f, returns_key=S).count(), "x", KV),
    CallForm("table to_stream", lambda s, f: tabled(s).to_stream(f, returns=S), "x", KV),
    CallForm("table reduce adder", lambda s, f: regrouped(s).reduce(f, lambda a, v: a), "x", {2: ("v", "v2")}),
    CallForm(
        "table aggregate adder",
        lambda s, f: regrouped(s).aggregate(lambda: "", f, lambda k, v, a: a, returns=S),
        "x",
        {3: ("all", "v", "")},
    ),
    CallForm(
        "table aggregate subtractor",
        lambda s, f: regrouped(s).aggregate(lambda: "", lambda k, v, a: v, f, returns=S),
        "x",
        {3: ("all", "v", "v")},
    ),
    CallForm("stream join", lambda s, f: s.join(other(s), f, NEAR, returns=S), "x", JOINED),
    CallForm("table join", lambda s, f: s.join(table(s), f, returns=S), "x", JOINED),
    CallForm("tables join", lambda s, f: tabled(s).join(table(s), f, returns=S), "x", JOINED),
    CallForm(
        "global join",
        lambda s, f: s.join(s.builder.global_table("other", STRINGS), f, selector="record_key", returns=S),
        "x",
        JOINED,
    ),
    CallForm(
        "global selector",
        lambda s, f: s.join(
            s.builder.global_table("other", STRINGS), lambda a, b: a, selector=f, selector_returns=S, returns=S
        ),
        "k",
        KV,
    ),
    CallForm(
        "foreign key",
        lambda s, f: tabled(s).join(table(s), lambda a, b: a, foreign_key=f, foreign_key_returns=S, returns=S),
        "k",
        V_KV,
    ),
    CallForm(
        "timestamp extractor",
        lambda s, f: s.builder.stream("timed", Consumed(S, S, timestamp_extractor=f)),
        7,
        {1: (ASKED,), 2: (ASKED, -1)},
    ),
    CallForm(
        "repartition partitioner",
        lambda s, f: s.repartition(Repartitioned.as_("r").with_stream_partitioner(f)),
        0,
        {4: (ASKED, "k", "v", 1)},
    ),
    CallForm("exception handler", lambda s, f: handled(s, f), CONTINUE, {3: (ASKED, ASKED, ASKED)}),
    CallForm("process", lambda s, f: s.process(f), Silent(), {0: ()}),
    CallForm("process_values", lambda s, f: s.process_values(f), SilentValues(), {0: ()}),
    CallForm("transform_values", lambda s, f: tabled(s).transform_values(f), Same(), {0: ()}),
    CallForm(
        "schedule", lambda s, f: s.process(type("P", (Scheduled,), {"callback": staticmethod(f)})), None, {1: (5,)}
    ),
    CallForm(
        "with_function",
        lambda s, f: s.split(name="b-").branch("TRUE", Branched.with_function(f, "x")),
        None,
        {1: (ASKED,)},
    ),
    CallForm(
        "with_consumer",
        lambda s, f: s.split(name="b-").branch("TRUE", Branched.with_consumer(f, "x")),
        None,
        {1: (ASKED,)},
    ),
]

RECORDS = [("other", "k", "w"), ("in", "k", "v"), ("in", "k", "v2"), ("timed", "k", "v")]


# --- forms of callables: each makes one that requires ``n`` parameters, and notes what it was given ------------------


SUPPLIED = Processor, FixedKeyProcessor, ValueTransformerWithKey


def noted(seen, answer):
    def function(*given, **own):
        seen.append((given, own))
        return (
            copy.copy(answer) if isinstance(answer, SUPPLIED) else answer
        )  # a supplier gives another object each time

    return function


def names(n):
    return ", ".join(f"p{number}" for number in range(n))


def written(parameters, passed, seen, answer, kind="lambda"):
    """A function of Python text, as a user writes it."""
    note, scope = noted(seen, answer), {}
    if kind == "lambda":
        return eval(f"lambda {parameters}: note({passed})", {"note": note})
    exec(f"def function({parameters}):\n    return note({passed})", {"note": note}, scope)
    return scope["function"]


def comma(*parts):
    return ", ".join(part for part in parts if part)


def bound_method(n, seen, answer):
    cls = type("Of", (), {"method": written(comma("self", names(n)), names(n), seen, answer, "def")})
    return cls().method


def class_itself(n, seen, answer):
    return type("Of", (), {"__new__": written(comma("cls", names(n)), names(n), seen, answer, "def")})


def callable_object(n, seen, answer):
    return type("Of", (), {"__call__": written(comma("self", names(n)), names(n), seen, answer, "def")})()


def decorated(n, seen, answer):
    plain = written(names(n), names(n), seen, answer)

    @functools.wraps(plain)
    def wrapper(*arguments, **options):
        return plain(*arguments, **options)

    return wrapper


def decorated_with_other_parameters(n, seen, answer):
    return functools.wraps(lambda one, two, three, four, five: None)(written(names(n), names(n), seen, answer))


TAKEN = {
    "lambda": lambda n, seen, answer: written(names(n), names(n), seen, answer),
    "def": lambda n, seen, answer: written(names(n), names(n), seen, answer, "def"),
    "default": lambda n, seen, answer: written(comma(names(n), "own=1"), comma(names(n), "own=own"), seen, answer),
    "two defaults": lambda n, seen, answer: written(
        comma(names(n), "own=1, more=2"), comma(names(n), "own=own"), seen, answer
    ),
    "keyword-only": lambda n, seen, answer: written(
        comma(names(n), "*, own=1"), comma(names(n), "own=own"), seen, answer
    ),
    "**options": lambda n, seen, answer: written(comma(names(n), "**own"), comma(names(n), "**own"), seen, answer),
    "positional-only": lambda n, seen, answer: written(comma(names(n), "/") if n else "", names(n), seen, answer),
    "partial": lambda n, seen, answer: functools.partial(
        written(comma("bound", names(n)), names(n), seen, answer), "bound"
    ),
    "partial by name": lambda n, seen, answer: functools.partial(
        written(comma(names(n), "own"), comma(names(n), "own=own"), seen, answer), own=1
    ),
    "bound method": bound_method,
    "class": class_itself,
    "callable object": callable_object,
    "decorated": decorated,
    "decorated with other parameters": decorated_with_other_parameters,
}


def played(call, function):
    builder = StreamsBuilder()
    stream = builder.stream("in", STRINGS)
    stream.__dict__["builder"] = builder
    found = call.build(stream, function)
    if hasattr(found, "to_stream"):
        found.to_stream().to("far")
    elif hasattr(found, "default_branch"):
        found.no_default_branch()
    elif hasattr(found, "to"):
        found.to("far")
    driver = TopologyTestDriver(stream.builder.build())
    for number, (topic, key, value) in enumerate(RECORDS):
        if topic in driver.topology.source_topics():
            driver.pipe_input(topic, key, value, timestamp_ms=5 * number)
    driver.run()


CASES = [
    (call, n, form)
    for call in CALLS
    for n in call.given
    for form in TAKEN
    if (call.name, form) != ("exception handler", "class")  # Kafka names a class, and an object of it is made
]


@pytest.mark.parametrize(("call", "n", "form"), CASES, ids=lambda part: getattr(part, "name", str(part)))
def test_a_callable_is_given_what_the_call_says_and_its_defaults_stay(call, n, form):
    seen: list[Any] = []
    played(call, TAKEN[form](n, seen, call.answer))

    given, own = seen[0]
    want = call.given[n]
    assert len(given) == len(want)
    assert [one for one, wanted in zip(given, want, strict=True) if wanted is not ASKED] == [
        one for one in want if one is not ASKED
    ]
    assert own in ({}, {"own": 1})


# --- what is refused when the call is made ---------------------------------------------------------------------------


async def waiting(*arguments): ...


def some_defaults(number):
    """Of a number of parameters, of which all have defaults."""
    return written(", ".join(f"p{one}=None" for one in range(number)), "", [], None)


def refused(call, function):
    builder = StreamsBuilder()
    stream = builder.stream("in", STRINGS)
    stream.__dict__["builder"] = builder
    with pytest.raises(TopologyError) as error:
        call.build(stream, function)
    return error.value


AT_RUN = {"schedule", "exception handler"}
"""Calls that are made when a task begins, or beside the stream."""

BUILT = [call for call in CALLS if call.name not in AT_RUN]


@pytest.mark.parametrize("call", BUILT, ids=lambda call: call.name)
def test_async_def_is_refused_wherever_a_callable_is_taken(call):
    assert refused(call, waiting).next_step == "nobody awaits it here: write def"


@pytest.mark.parametrize("call", BUILT, ids=lambda call: call.name)
def test_more_parameters_than_any_form_has_are_refused(call):
    next_step = refused(call, written(names(5), names(5), [], None)).next_step

    is_supplier = call.name in ("process", "process_values", "transform_values")
    assert next_step.startswith("give a class with " if is_supplier else "correct its parameters")


@pytest.mark.parametrize("call", BUILT, ids=lambda call: call.name)
def test_a_keyword_that_no_call_gives_is_refused(call):
    error = refused(call, written(comma(names(min(call.given)), "*, own"), "", [], None))

    assert error.next_step == "no call gives own by name: take it by position, or give it a default"


@pytest.mark.parametrize("call", [call for call in BUILT if len(call.given) > 1], ids=lambda call: call.name)
@pytest.mark.parametrize("kind", ["*rest alone", "defaults alone", "unknown to Python"])
def test_what_may_be_meant_in_two_ways_is_refused_with_both(call, kind):
    ambiguous = {"*rest alone": print, "defaults alone": some_defaults(max(call.given)), "unknown to Python": max}
    error = refused(call, ambiguous[kind])

    assert error.next_step.startswith("write lambda ")
    assert error.next_step.count(": ") in ((2, 3) if call.name == "to" else (2,))  # an extractor may take a context
    assert " or lambda " in error.next_step


@pytest.mark.parametrize("call", [call for call in BUILT if min(call.given) > 1], ids=lambda call: call.name)
def test_a_default_is_not_filled_where_one_parameter_fails(call):
    n = min(call.given)
    function = written(comma(names(n - 1), "own=1"), names(n - 1), [], None)
    error = refused(call, function)

    assert "lambda " in error.next_step


# --- functions of Python's own, written in C or not ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "value", "want"),
    [
        (str.upper, " a b ", " A B "),
        (str.strip, " a b ", "a b"),
        (str.rstrip, " a b ", " a b"),
        (str.title, "a b", "A B"),
        (str, "a", "a"),
        (repr, "a", "'a'"),
        (json.loads, '"a"', "a"),
        (json.dumps, "a", '"a"'),
        ("pre".__add__, "a", "prea"),
        ("-".join, "abc", "a-b-c"),
        (operator.itemgetter(0), "abc", "a"),
        (operator.methodcaller("replace", "a", "b"), "aa", "bb"),
        (functools.partial(re.sub, "a", "b"), "aa", "bb"),
    ],
)
def test_a_function_of_pythons_own_maps_the_value(function, value, want):
    builder = StreamsBuilder()
    builder.stream("in", STRINGS).map_values(function, returns=S).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "another key", value, timestamp_ms=0)

    assert driver.read_output("out").value == want


@pytest.mark.parametrize(
    ("function", "serde", "value", "want"),
    [
        (int, Serde.long(), " 12 ", 12),
        (float, Serde.double(), "1.5", 1.5),
        (len, Serde.long(), "abc", 3),
        (functools.partial(int, base=16), Serde.long(), "ff", 255),
    ],
)
def test_a_conversion_converts_the_value(function, serde, value, want):
    builder = StreamsBuilder()
    builder.stream("in", STRINGS).map_values(function, returns=serde).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "another key", value, timestamp_ms=0)

    assert driver.read_output("out").value == want


def test_words_are_split_by_the_method_itself():
    builder = StreamsBuilder()
    builder.stream("in", STRINGS).flat_map_values(str.split, returns=S).group_by("value").count().to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "line 1", "to be or not to be", timestamp_ms=0)

    assert {row.key: row.value for row in driver.read_outputs("out")} == {"to": 2, "be": 2, "or": 1, "not": 1}
