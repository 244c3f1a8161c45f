"""What cannot mean anything: results that nobody takes, bodies that nobody runs, results that are forgotten."""

import functools
import math
import re

import numpy as np
import polars as pl
import pytest

from kstreams_replay import (
    Branched,
    Consumed,
    FixedKeyProcessor,
    JoinWindows,
    KeyValues,
    Processor,
    PunctuationType,
    Serde,
    StreamsBuilder,
    TopologyTestDriver,
    fold,
)
from kstreams_replay.jobs.functions.callable_bodies import check_returns
from kstreams_replay.state.errors import ConfigError, ReplayError, TaskFailed, TopologyError

S, L = Serde.string(), Serde.long()
BAG = Serde.json("items array<long>")
BIGS = Serde.json("array<long>")


def play(build, value="v", serde=S):
    """What the topology forwards of one record of key k."""
    builder = StreamsBuilder()
    build(builder.stream("in", Consumed(S, serde)))
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "k", value, timestamp_ms=5)
    driver.run()
    return [(row.key, row.value) for row in driver.read_outputs("out")]


def said(build, value="v", serde=S) -> ReplayError:
    with pytest.raises(ReplayError) as error:
        play(build, value, serde)
    return error.value


# --- processors forward ----------------------------------------------------------------------------------------------


def processor(body, base=Processor):
    return type("Of", (base,), {"process": body})


def returned(self, record):
    return record


def forwarded(self, record):
    return self.context.forward(record)


@pytest.mark.parametrize("on_class", [Processor, FixedKeyProcessor])
def test_a_processor_that_returns_its_result_is_refused(on_class):
    call = "process" if on_class is Processor else "process_values"
    error = said(lambda s: getattr(s, call)(processor(returned, on_class)).to("out"))

    assert type(error) is ConfigError
    assert error.next_step.startswith("call self.context.forward(record) instead")
    assert play(lambda s: getattr(s, call)(processor(forwarded, on_class)).to("out")) == [("k", "v")]


def test_an_object_whose_process_waits_is_refused():
    class Waiting(Processor):
        async def process(self, record): ...

    error = said(lambda s: s.process(lambda: Waiting()))

    assert type(error) is TopologyError
    assert "nobody awaits it here: write def" in str(error)


@pytest.mark.parametrize("call", ["process", "process_values"])
@pytest.mark.parametrize(
    "made", [lambda cls: functools.partial(lambda one: one, cls()), functools.cache], ids=["one", "cache"]
)
def test_a_supplier_that_gives_the_same_object_again_is_refused(call, made):
    """
    Kafka's ApiUtils.checkSupplier. Its stores would be those of whoever called init last.
    """
    on_class = Processor if call == "process" else FixedKeyProcessor
    error = said(lambda s: getattr(s, call)(made(processor(forwarded, on_class))))

    assert type(error) is TopologyError
    assert "expected a supplier that gives a new object whenever it is called" in str(error)


class Supplier:
    def get(self):
        return processor(forwarded)()


@pytest.mark.parametrize(
    ("supplier", "next_step"),
    [
        (processor(forwarded)(), "every task makes its own: write Of, or lambda: Of(…)"),
        (Supplier(), "give its method get, without ()"),
        (lambda record: record, "give a class with process(); a function of records is for map_values(), foreach()"),
    ],
    ids=["processor", "supplier", "function"],
)
def test_what_is_given_in_the_place_of_a_supplier_is_told_what_to_give(supplier, next_step):
    error = said(lambda s: s.process(supplier))

    assert type(error) is TopologyError
    assert error.next_step.startswith(next_step)


@pytest.mark.parametrize(
    "asked", [lambda self, record: record.key(), lambda self, record: self.context().forward(record)]
)
def test_an_attribute_that_is_called_as_in_java_is_told_that_it_is_one(asked):
    assert "are attributes, without ()" in said(lambda s: s.process(processor(asked))).next_step


@pytest.mark.parametrize(
    ("name", "next_step"),
    [("count", "did you mean 'counts'?"), ("prices", "name it in the call: stores=['prices']")],
)
def test_a_processor_that_asks_for_another_store_than_its_own_is_told_the_near_one(name, next_step):
    counts = KeyValues("counts", S, L)
    error = said(lambda s: s.process(processor(lambda self, record: self.context.store(name)), [counts]))

    assert error.next_step.startswith(next_step)


class Punctual(Processor):
    callback = None

    def init(self, context):
        super().init(context)
        context.schedule(1, PunctuationType.STREAM_TIME, self.callback)

    def process(self, record): ...


def test_a_punctuation_that_yields_or_waits_is_refused():
    class Yielding(Punctual):
        def callback(self, now):
            yield now

    assert "Yielding.callback, which yields" in str(said(lambda s: s.process(Yielding)))


def test_a_punctuation_may_be_a_lambda_of_a_call_that_returns_something():
    class Deleting(Punctual):
        callback = staticmethod(lambda now: now)

    class Returning(Punctual):
        def callback(self, now):
            return now

    assert play(lambda s: (s.process(Deleting), s.to("out"))) == [("k", "v")]
    assert "that returns 5; call self.context.forward(record) instead" in str(said(lambda s: s.process(Returning)))


@pytest.mark.parametrize("call", ["peek", "foreach"])
def test_a_generator_of_peek_is_refused_since_its_body_does_not_run(call):
    error = said(lambda s: getattr(s, call)(lambda key, value: (one for one in value)))

    assert "a generator that nobody runs" in str(error)


def test_a_generator_function_of_peek_is_not_told_to_return_its_result():
    def looked_at(key, value):
        yield value

    assert said(lambda s: s.peek(looked_at)).next_step == "nobody iterates it here: do the work without a yield"


def test_what_peek_returns_is_of_no_matter():
    assert play(lambda s: s.peek(lambda key, value: [value]).to("out")) == [("k", "v")]


# --- several results -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "next_step"),
    [
        ("abc", "return [value]"),
        (b"abc", "return [value]"),
        ({"a": 1}, "return [value]"),
        (None, "return [] where no record is meant"),
        (5, "return [value]"),
        ({"a"}, "a set has another order in every run: return sorted(…) of it"),
        (frozenset("a"), "a set has another order in every run: return sorted(…) of it"),
    ],
)
def test_a_flat_map_takes_no_text_and_nothing_without_an_order(result, next_step):
    error = said(lambda s: s.flat_map_values(lambda value: result, returns=S).to("out"))

    assert isinstance(error, TaskFailed)
    assert error.got.startswith(f"{result!r} ({type(result).__name__}), on key 'k'")
    assert error.next_step.startswith(next_step)


@pytest.mark.parametrize("result", [["a", "b"], ("a", "b"), iter(["a", "b"]), {"a": 1, "b": 2}.keys(), map(str, "ab")])
def test_a_flat_map_takes_what_has_an_order(result):
    assert play(lambda s: s.flat_map_values(lambda value: result, returns=S).to("out")) == [("k", "a"), ("k", "b")]


def test_a_flat_map_takes_no_iterator_of_a_set_whose_order_is_another_in_every_run():
    error = said(lambda s: s.flat_map_values(lambda value: iter({value, "a"}), returns=S).to("out"))

    assert error.next_step.startswith("a set has another order in every run: return sorted(…) of it")


def test_one_pair_is_no_list_of_pairs():
    error = said(lambda s: s.flat_map(lambda key, value: (key, value), returns_key=S, returns=S))

    assert error.next_step.startswith("return the tuple (key, value), and of flat_map a list of them")


@pytest.mark.parametrize(
    ("result", "got"),
    [("v", "'v'"), (None, "None"), ("xy", "'xy'"), (("k", "v", "w"), "('k', 'v', 'w')")],
    ids=["value", "None", "two letters", "three"],
)
def test_a_map_takes_nothing_but_a_pair(result, got):
    error = said(lambda s: s.map(lambda key, value: result, returns_key=S, returns=S).to("out"))

    assert isinstance(error, TaskFailed)
    assert (error.expected, error.got) == ("pairs of key and value", f"{got}, of the record in-0, offset 0")
    assert error.next_step.startswith("return the tuple (key, value), and of flat_map a list of them")


def filled_again(key, value):
    """One list, with other parts each time."""
    pair = [value, ""]
    for letter in "ab":
        pair[1] = letter
        yield pair


@pytest.mark.parametrize(
    ("call", "pairs"),
    [
        (lambda s: s.map(lambda key, value: [value, key], returns_key=S, returns=S), [("v", "k")]),
        (lambda s: s.flat_map(lambda key, value: [[value, key]] * 2, returns_key=S, returns=S), [("v", "k")] * 2),
        (lambda s: s.flat_map(filled_again, returns_key=S, returns=S), [("v", "a"), ("v", "b")]),
    ],
    ids=["map", "flat_map", "one list again"],
)
def test_a_list_of_two_is_a_pair(call, pairs):
    assert play(lambda s: call(s).to("out")) == pairs


# --- yes and no ------------------------------------------------------------------------------------------------------


def branch(stream, predicate):
    stream.split(name="by-").branch(predicate, Branched.with_consumer(lambda taken: taken.to("out")))


CONDITIONED = {
    "filter": lambda s, predicate: s.filter(predicate).to("out"),
    "filter_not": lambda s, predicate: s.filter_not(predicate).to("out"),
    "filter of a table": lambda s, predicate: s.to_table().filter(predicate).to("out"),
    "filter_not of a table": lambda s, predicate: s.to_table().filter_not(predicate).to("out"),
    "branch": branch,
}


@pytest.mark.parametrize("call", CONDITIONED)
@pytest.mark.parametrize(
    ("predicate", "got"),
    [
        (lambda key, value: re.match("v", value), "<re.Match object; span=(0, 1), match='v'> (Match)"),
        (lambda key, value: len(value) - 1, "0 (int)"),
        (lambda key, value: len(value), "1 (int)"),
        (lambda key, value: value, "'v' (str)"),
        (lambda key, value: value[1:], "'' (str)"),
        (lambda key, value: math.nan, "nan (float)"),
    ],
    ids=["match", "0", "1", "text", "no text", "nan"],
)
def test_a_condition_is_a_bool_and_nothing_that_python_takes_for_one(call, predicate, got):
    """In Java it is a boolean. What is true of a number, a text or NaN is another thing in SQL, so nothing is
    guessed.
    """
    record = "" if "table" in call else ", of the record in-0, offset 0"

    error = said(lambda s: CONDITIONED[call](s, predicate))

    assert isinstance(error, TaskFailed)
    assert (error.expected, error.got) == ("a result of Serde.boolean()", f"{got} on key 'k'{record}")
    assert error.next_step.startswith("return True or False, as bool(…) gives")


@pytest.mark.parametrize(
    ("call", "passed"),
    [
        (lambda s, no: s.filter(no).to("out"), False),
        (lambda s, no: s.filter_not(no).to("out"), True),
        (lambda s, no: s.to_table().filter_not(no).to("out"), True),
        (branch, False),
        (lambda s, no: s.split(name="by-").branch(no).default_branch(name="rest")["by-rest"].to("out"), True),
    ],
    ids=["filter", "filter_not", "filter_not of a table", "branch", "default branch"],
)
@pytest.mark.parametrize(
    "no",
    [
        lambda key, value: None,
        lambda key, value: False,
        lambda key, value: bool(re.match("w", value)),
        lambda key, value: np.bool_(False),
    ],
    ids=["None", "False", "bool", "numpy"],
)
def test_none_is_no_as_false_is(call, no, passed):
    assert play(lambda s: call(s, no)) == ([("k", "v")] if passed else [])


# --- results that are forgotten --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.group_by_key().aggregate(lambda: {"items": []}, lambda k, v, a: a["items"].append(v), returns=BAG),
        lambda s: s.group_by_key().aggregate(dict, lambda k, v, a: a.update({k: v}), returns=BAG),
        lambda s: s.map_values(lambda v: v["parts"][0].sort(), returns=L),
        lambda s: s.filter(
            lambda k, v: v.extend(
                [1],
            )
        ),
    ],
)
def test_a_lambda_that_only_changes_what_it_is_given_is_refused_since_it_gives_none(call):
    error = said(call)

    assert type(error) is TopologyError
    assert (error.got.split(" of ")[0], error.next_step) == ("a lambda", "write def, and return what was changed")


def test_a_lambda_that_changes_and_gives_a_result_is_taken():
    def build(s):
        grown = s.map_values(lambda v: v.extend([1]) or v, returns=BIGS)
        grown.filter(lambda k, v: v.append(2) is None).map_values(lambda v: [v.pop()] and v, returns=BIGS).to("out")

    assert play(build, [5, 6], BIGS) == [("k", [5, 6])]


def forgets(key, value, bag):
    bag["items"].append(value)


def forgets_at_the_end(key, value, bag):
    if value > 5:
        bag["items"].append(value)
    else:

        def inner():
            return bag

        inner()


def deletes(key, value, bag):
    bag["items"].clear()
    return


def raises(key, value, bag):
    print(key)
    raise ValueError(value)


def returns_within(key, value, bag):
    for each in bag["items"]:
        if each == value:
            return bag
    return None


def passing_results(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


def returning_the_bag(function):
    @functools.wraps(function)
    def wrapper(key, value, bag):
        function(key, value, bag)
        return bag

    return wrapper


def forgetting_results(function):
    @functools.wraps(function)
    def wrapper(*args):
        function(*args)

    return wrapper


def yields(key, value, bag):
    yield value


@pytest.mark.parametrize(
    "function", [returning_the_bag(forgets), passing_results(returning_the_bag(forgets)), passing_results(yields)]
)
def test_a_wrapper_that_returns_a_value_is_taken_whatever_it_wraps(function):
    check_returns(function, "here")


@pytest.mark.parametrize(
    "function",
    [
        forgets,
        forgets_at_the_end,
        functools.partial(forgets, 1),
        passing_results(forgets),
        forgetting_results(returning_the_bag(forgets)),
    ],
)
def test_a_function_without_return_is_refused_when_the_topology_is_built(function):
    with pytest.raises(TopologyError, match="has no return; return the result; return None where none is meant"):
        check_returns(function, "here")


@pytest.mark.parametrize("function", [deletes, raises, returns_within, print, lambda bag: bag.clear()])
def test_a_function_that_may_return_is_taken(function):
    check_returns(function, "here")


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.group_by_key().aggregate(lambda: {"items": []}, forgets, returns=BAG),
        lambda s: s.map(print_it, returns_key=S, returns=L),
        lambda s: s.group_by_key().reduce(print_it),
        lambda s: s.process(print_nothing),
    ],
)
def test_calls_that_need_a_result_refuse_a_function_without_return(call):
    assert "which has no return" in str(said(call, 1, L))


def print_it(one, other):
    print(one, other)


def print_nothing():
    print("nothing")


def test_calls_for_their_effect_take_a_function_without_return():
    assert play(lambda s: s.peek(print_it).to("out")) == [("k", "v")]


def test_an_aggregate_that_was_changed_and_not_returned_is_refused():
    """
    A function that returns None where it changed something is seen when it has done so.
    """

    def added(key, value, bag):
        return bag["items"].append(value)

    error = said(
        lambda s: s.group_by_key().aggregate(lambda: {"items": []}, added, returns=BAG),
        1,
        L,
    )

    assert "expected an aggregate, or None to delete it, got None, and a change of {'items': []}" in str(error)
    assert "return the aggregate" in str(error)


def test_an_initial_value_that_was_changed_and_not_returned_is_refused_though_no_serde_writes_it():
    def added(key, value, numbers):
        return numbers.append(value)

    error = said(lambda s: s.group_by_key().aggregate(lambda: [0], added, returns=L), 1, L)

    assert "got None, and a change of [0] into [0, 1]" in str(error)


def test_none_deletes_an_aggregate_that_nobody_changed():
    got = play(lambda s: s.group_by_key().aggregate(lambda: "", lambda k, v, a: None, returns=S).to_stream().to("out"))

    assert got == [("k", None)]


# --- NULL is compared with nothing -----------------------------------------------------------------------------------

COMPARISONS = [
    "value = NULL",
    "value != null",
    "value <> NULL",
    "NULL < value",
    "value >= CAST(NULL AS BIGINT)",
    "value BETWEEN NULL AND 3",
    "value NOT BETWEEN 3 AND NULL",
    "NOT (value = NULL)",
    "CASE value WHEN NULL THEN TRUE ELSE FALSE END",
    "CASE WHEN value = NULL THEN TRUE ELSE FALSE END",
    "value > 3 OR NULL = value",
]


LISTS = ["value IN (1, NULL)", "value NOT IN (1, NULL)", "value = 3 OR value IN (NULL)"]
CONDITIONS = [
    "value = 1 AND NULL",
    "NULL AND value = 1",
    "value = 1 OR NULL",
    "value = 1 AND (CAST(NULL AS BOOLEAN) OR value < 3)",
    "NOT (value = 1 AND NULL)",
    "NOT CAST(NULL AS BOOLEAN)",
    "CASE WHEN NULL THEN TRUE ELSE value = 1 END",
    "IF(NULL, value = 1, value = 2)",
]
AS_STEPS = [
    lambda s, text: s.filter(text),
    lambda s, text: s.to_table().filter_not(text),
    lambda s, text: s.split().branch(text),
    lambda s, text: s.map_values(text),
    lambda s, text: s.map_values(n=text),
    lambda s, text: s.select_key(text),
    lambda s, text: s.group_by_key().aggregate(n=fold.count_if(text)),
]
AS_JOINS = [
    lambda s, text: s.join(s.to_table(), text.replace("value", "right")),
    lambda s, text: s.join(s, text.replace("value", "right"), JoinWindows.of_time_difference_with_no_grace(5)),
    lambda s, text: s.to_table().join(s.to_table(), n=text.replace("value", "left")),
]


@pytest.mark.parametrize("text", COMPARISONS)
@pytest.mark.parametrize("call", AS_STEPS + AS_JOINS)
def test_a_comparison_with_null_is_refused_in_every_step(call, text):
    error = said(lambda s: call(s, text), 1, L)

    assert error.next_step == "write IS NULL or IS NOT NULL"


@pytest.mark.parametrize("text", LISTS)
@pytest.mark.parametrize("call", AS_STEPS + AS_JOINS)
def test_null_in_a_list_is_refused_with_what_it_does_there(call, text):
    """``1 IN (1, NULL)`` is true: it is not NULL for every record."""
    error = said(lambda s: call(s, text), 1, L)

    assert error.got.endswith(
        "which has NULL in a list: that equals nothing, so IN is never false, and NOT IN never true"
    )
    assert error.next_step == "leave NULL out of the list, and add OR … IS NULL if that was meant"


@pytest.mark.parametrize("text", CONDITIONS)
@pytest.mark.parametrize("call", AS_STEPS + AS_JOINS)
def test_null_as_a_condition_is_refused_in_every_step(call, text):
    error = said(lambda s: call(s, text), 1, L)

    assert error.got.endswith("which takes NULL for a condition: it is neither true nor false, for any record")
    assert error.next_step == "leave NULL out, or compare with IS NULL what may be it"


def test_null_as_the_whole_condition_is_refused_and_as_a_value_it_is_one():
    error = said(lambda s: s.filter("CAST(NULL AS BOOLEAN)"), 1, L)

    assert error.next_step == "leave NULL out, or compare with IS NULL what may be it"
    assert play(lambda s: s.map_values("CAST(NULL AS BOOLEAN)").to("out"), 1, L) == [("k", None)]


@pytest.mark.filterwarnings("ignore:Comparisons with None")
@pytest.mark.parametrize("step", [lambda c: c == None, lambda c: c != None, lambda c: pl.lit(None) > c])  # noqa: E711
def test_a_comparison_of_polars_with_none_is_refused(step):
    error = said(lambda s: s.filter(step(pl.col("value"))), 1, L)

    assert error.next_step == "write .is_null() or .is_not_null()"


@pytest.mark.parametrize(
    "text",
    [
        "value IS NOT NULL",
        "value IS DISTINCT FROM NULL",
        "COALESCE(value, NULL) = 1",
        "CASE WHEN value = 1 THEN TRUE ELSE NULL END",
        "NULLIF(value, 2) = 1",
        "value IN (1, 2)",
        "value IN (1, 2) OR value IS NULL",
        "CASE WHEN value = 1 THEN TRUE ELSE CAST(NULL AS BOOLEAN) END",
        "(value IS NOT DISTINCT FROM NULL) OR value = 1",
        "CAST(value AS VARCHAR) <> '= (null)'",
    ],
)
def test_null_beside_a_comparison_is_taken(text):
    assert play(lambda s: s.filter(text).to("out"), 1, L) == [("k", 1)]


# --- callables whose signature a decorator hides ---------------------------------------------------------------------


@functools.cache
def upper(value):
    return value.upper()


def test_a_function_behind_a_cache_is_called_by_its_own_parameters():
    assert play(lambda s: s.map_values(upper, returns=S).to("out")) == [("k", "V")]


# --- forward, as Kafka has it ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("on_class", "call"), [(Processor, "process"), (FixedKeyProcessor, "process_values")])
def test_a_record_goes_to_the_child_that_is_named_behind_it(on_class, call):
    def build(stream):
        both = getattr(stream, call)(processor(lambda self, record: self.context.forward(record, "large"), on_class))
        both.map_values(lambda value: f"large {value}", returns=S, name="large").to("out")
        both.map_values(lambda value: f"small {value}", returns=S, name="small").to("out")

    assert play(build) == [("k", "large v")]


def test_a_record_with_a_value_beside_it_is_refused():
    error = said(lambda s: s.process(processor(lambda self, record: self.context.forward(record, 5))).to("out"))

    assert "expected a Record alone, or with the name of a child, got a Record and 5" in str(error)
