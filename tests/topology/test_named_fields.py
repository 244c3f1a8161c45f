"""Fields of a result beside options of the call: none vanishes, and an ambiguous name is refused with the text to write
instead.

`left_join(…, name="right.name")` took `name` as the operator's name, and the field was gone.
"""

import polars as pl
import pytest

from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import (
    Consumed,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Serde,
    SessionWindows,
    StreamsBuilder,
    fold,
)
from kstreams_replay.state.errors import ConfigError, TopologyError
from tests.topology.streams import refused

STRING = Serde.string()
CUSTOMERS = Consumed(STRING, Serde.json("name string, returns long, other string"))
ORDERS = Consumed(STRING, Serde.json("item string, name string, kind string"))
NEAR = JoinWindows.of_time_difference_with_no_grace("5m")


def orders(builder: StreamsBuilder) -> KStream:
    return builder.stream("orders", ORDERS)


def customers(builder: StreamsBuilder, **options) -> KTable:
    return builder.table("customers", CUSTOMERS, **options)


def enriched(**options):
    builder = StreamsBuilder()
    return orders(builder).left_join(customers(builder), item="left.item", **options)


def merged(**options):
    builder = StreamsBuilder()
    return customers(builder).join(builder.table("orders", ORDERS), item="right.item", **options)


def chosen(*steps, **options):
    return orders(StreamsBuilder()).map_values(*steps, **options)


def counted(*arguments, **options):
    grouped = orders(StreamsBuilder()).group_by_key()
    return grouped.windowed_by(SessionWindows.with_inactivity_gap(10)).aggregate(*arguments, **options)


# --- fields by keyword stay --------------------------------------------------------------------------------------


def test_an_order_gets_its_customers_name():
    builder = StreamsBuilder()
    prices = customers(builder)
    orders(builder).left_join(prices, item="left.item", fields={"name": "right.name"}).to("named")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("customers", "7", {"name": "Ann", "returns": 0, "other": ""}, timestamp_ms=0)
    driver.pipe_input("orders", "7", {"item": "tea", "name": "", "kind": ""}, timestamp_ms=1)

    assert driver.read_output("named").value == {"item": "tea", "name": "Ann"}


def test_a_session_keeps_the_last_merger_by_name():
    builder = StreamsBuilder()
    grouped = orders(builder).group_by_key().windowed_by(SessionWindows.with_inactivity_gap(10))
    grouped.aggregate(n=fold.count(), fields={"merger": fold.last("kind"), "name": fold.first("name")}).to("sessions")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("orders", "7", {"item": "tea", "name": "Ann", "kind": "new"}, timestamp_ms=0)

    assert driver.read_output("sessions").value == {"n": 1, "merger": "new", "name": "Ann"}


@pytest.mark.parametrize(
    ("table", "want"),
    [
        (lambda: enriched(left="left.kind", right="right.other", kind="left.kind"), "left string, right string"),
        (lambda: merged(left="left.name", right="right.kind", kind="right.kind"), "left string, right string"),
    ],
    ids=["stream with table", "tables"],
)
def test_no_field_meets_an_argument_of_the_engines_own(table, want):
    """`left`, `right` and `kind` were arguments of a function within, so these calls ended in a TypeError."""
    assert table().shape.value == Serde.json(f"item string, {want}, kind string")


@pytest.mark.parametrize(
    ("made", "want"),
    [
        (lambda: enriched(self="left.kind", other="right.other"), "item string, self string, other string"),
        (lambda: merged(self="left.name", other="left.other"), "item string, self string, other string"),
        (lambda: chosen("item", self="kind", steps="name"), "item string, self string, steps string"),
        (lambda: chosen(fields={"name": "name", "returns": pl.col("kind")}), "name string, returns string"),
        (lambda: counted(self=fold.count(), folds=fold.count()), "self long, folds long"),
        (lambda: counted(fields={"fields": fold.count()}), "fields long"),
        (lambda: counted(n=fold.count(), fields={"fold": fold.last("kind")}), "n long, fold string"),
    ],
)
def test_a_field_may_have_any_name(made, want):
    assert made().shape.value == Serde.json(want)


def test_fields_of_tables_have_any_name_too():
    table = customers(StreamsBuilder()).map_values("other", fields={"materialized": "name", "name": "name"})

    assert table.shape.value == Serde.json("other string, materialized string, name string")


def test_a_name_that_is_no_expression_is_the_operators():
    assert enriched(name="with-customer").node.name == "with-customer"
    assert chosen("item", name="items").node.name == "items"
    assert counted(n=fold.count(), name="kind").node.name == "kind"


def test_beside_a_joiner_or_a_callable_there_are_no_fields_so_a_name_is_a_name():
    builder = StreamsBuilder()
    made = orders(builder).join(customers(builder), "right.name", name="left")

    assert (made.node.name, made.shape.value) == ("left", STRING)
    assert chosen(lambda key, value: "", returns=STRING, name="kind").node.name == "kind"


# --- what may be either is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (
            lambda: enriched(name="right.name"),
            "left_join: expected name= to be the operator's name alone, got 'right.name', a column too; choose another "
            "name; a field called name is given by fields={'name': …}",
        ),
        (
            lambda: merged(name="left.name"),
            "join: expected name= to be the operator's name alone, got 'left.name', a column too; choose another name; "
            "a field called name is given by fields={'name': …}",
        ),
        (
            lambda: chosen("item", name="kind"),
            "map_values: expected name= to be the operator's name alone, got 'kind', a column too; choose another "
            "name; a field called name is given by fields={'name': …}",
        ),
        (
            lambda: enriched(name="UPPER(right.name)"),
            "left_join: expected name= to be the operator's name (1 to 249 ASCII letters, digits, dots, underscores "
            "and hyphens), got 'UPPER(right.name)'; choose another name; a field called name is given by "
            "fields={'name': …}",
        ),
        (
            lambda: enriched(returns="right.returns"),
            "left_join: expected returns= to be a serde, got 'right.returns'; a field called returns is given by "
            "fields={'returns': …}",
        ),
        (
            lambda: chosen(returns="item"),
            "map_values: expected returns= to be a serde, got 'item'; a field called returns is given by "
            "fields={'returns': …}",
        ),
        (
            lambda: merged(materialized="right.kind"),
            "join: expected materialized= to be a Materialized, got 'right.kind'; a field called materialized is given "
            "by fields={'materialized': …}",
        ),
        (
            lambda: enriched(fields="left.kind"),
            "left_join: expected fields= to be a mapping of names to fields, got 'left.kind'; a field called fields is "
            "given by fields={'fields': …}",
        ),
        (
            lambda: enriched(fields={"item": "left.kind"}),
            "left_join: expected fields of different names, each some text, got 'item' in fields=; give each field "
            "once, by keyword or in fields=",
        ),
        (
            lambda: counted(fields={"": fold.count()}),
            "aggregate: expected fields of different names, each some text, got '' in fields=; give each field "
            "once, by keyword or in fields=",
        ),
    ],
)
def test_what_may_be_an_option_and_a_field_is_refused(call, want):
    assert refused(call) == want


@pytest.mark.parametrize("option", ["name", "merger", "initializer", "aggregator", "returns", "materialized"])
def test_a_fold_is_no_option(option):
    got = refused(lambda: counted(n=fold.count(), **{option: fold.count()}))

    assert got.startswith(f"aggregate: expected {option}= to be ")
    assert got.endswith(f"; a field called {option} is given by fields={{{option!r}: …}}")


@pytest.mark.parametrize("option", ["name", "returns"])
def test_a_polars_expression_is_no_option(option):
    got = refused(lambda: chosen("item", **{option: pl.col("kind")}))

    assert got.endswith(f"; a field called {option} is given by fields={{{option!r}: …}}")


@pytest.mark.parametrize(
    ("option", "call"),
    [
        ("grace", lambda: enriched(grace="left.kind")),
        ("selector", lambda: enriched(selector="left.kind")),
        ("windows", lambda: enriched(windows="left.kind")),
        ("joiner", lambda: enriched(joiner="left.kind")),
        ("joiner", lambda: merged(joiner="left.kind")),
        ("history", lambda: merged(history="left.kind")),
        ("foreign_key", lambda: merged(foreign_key="left.name")),
    ],
)
def test_an_option_that_is_refused_and_is_text_may_have_been_a_field(option, call):
    with pytest.raises(ConfigError) as caught:
        call()

    assert str(caught.value).endswith(f"; a field called {option} is given by fields={{{option!r}: …}}")


def test_python_functions_without_an_aggregator_are_not_left_out_in_silence():
    got = refused(lambda: counted(n=fold.count(), initializer=int, name="here"))

    assert got == (
        "here: expected an aggregator beside initializer, got none; give aggregator=, or leave initializer= out"
    )


def test_a_join_of_streams_has_fields_of_any_name_too():
    builder = StreamsBuilder()
    made = orders(builder).join(
        builder.stream("more", ORDERS), windows=NEAR, a="left.kind", fields={"windows": "left.item"}
    )

    assert made.shape.value == Serde.json("a string, windows string")
    stored = Materialized.as_("pairs")
    assert orders(b := StreamsBuilder()).join(b.stream("more", ORDERS), "left.kind", NEAR, materialized=stored)


def test_fields_in_a_dictionary_alone_are_told_where_to_be_given():
    builder = StreamsBuilder()
    words = builder.stream("words", Consumed(Serde.string(), Serde.string()))
    table = builder.table("names", Consumed(Serde.string(), Serde.string()))

    for call in (lambda: words.map_values({"word": "value"}), lambda: words.join(table, {"name": "right"})):
        with pytest.raises(TopologyError, match=r"got \{.*\}; give fields="):
            call()
