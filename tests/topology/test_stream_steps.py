"""Steps of a stream that keep nothing: what they give, and what they refuse."""

import pytest

from kstreams_replay.jobs.graph.nodes import RepartitionNode
from kstreams_replay.jobs.operators.stateless_nodes import FilterNode, FlatMapNode, MergeNode
from kstreams_replay.jobs.topology import Consumed, JoinWindows, Serde, StreamsBuilder, TimeWindows
from tests.topology.streams import LONG, STRING, refused, stream, table


def pairs(key, value):
    return [(key, value)]


# --- types -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mapped", "key", "value"),
    [
        (lambda: stream().map("value", "record_key"), LONG, STRING),
        (lambda: stream().map("value", pairs, returns=STRING), LONG, STRING),
        (lambda: stream().map(lambda k, v: (v, k), returns_key=LONG, returns=STRING), LONG, STRING),
        (lambda: stream().flat_map(pairs, returns_key=LONG, returns=STRING), LONG, STRING),
        (lambda: stream().flat_map_values(pairs, returns=STRING), STRING, STRING),
        (lambda: stream().peek(print), STRING, LONG),
        (lambda: stream().process(dict, returns_key=LONG), LONG, LONG),
        (lambda: stream().process(dict), STRING, LONG),
        (lambda: stream().repartition(), STRING, LONG),
        (lambda: table().to_stream("value"), LONG, LONG),
    ],
)
def test_a_step_says_what_it_forwards(mapped, key, value):
    assert (mapped().shape.key, mapped().shape.value) == (key, value)


def windowed(builder=None):
    return stream(builder=builder).group_by_key().windowed_by(TimeWindows.of_size(10)).count().to_stream()


def test_steps_that_keep_the_key_keep_its_window():
    steps = windowed().peek(print).filter("TRUE").map_values("value").flat_map_values(pairs, returns=LONG)

    assert steps.shape.window == "time"
    assert steps.map("record_key", "value").shape.window is None


def test_a_function_that_gives_one_pair_runs_as_one_that_gives_a_list():
    node = stream().map(lambda key, value: (value, key), returns_key=LONG, returns=STRING).node

    assert isinstance(node, FlatMapNode)
    assert node.function("a", 5) == [(5, "a")]


# --- what they refuse ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "form"),
    [
        (lambda: stream().flat_map(5, returns_key=LONG, returns=LONG, name="here"), "(key, value)"),
        (lambda: stream().flat_map_values(5, returns=LONG, name="here"), "(key, value) or of (value)"),
        (lambda: stream().map(5, returns_key=LONG, returns=LONG, name="here"), "(key, value)"),
        (lambda: stream().peek(5, name="here"), "(key, value)"),
        (lambda: stream().foreach(5, name="here"), "(key, value)"),
        (lambda: stream().process(5, name="here"), "no parameters"),
    ],
    ids=["flat_map", "flat_map_values", "map", "peek", "foreach", "process"],
)
def test_a_function_is_one(call, form):
    assert refused(call) == f"here: expected a callable of {form}, got 5; give a Python function"


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (
            lambda: stream().map("value", name="here"),
            "here: expected a step for the key and one for the value, got one; give both",
        ),
        (
            lambda: stream().map(pairs, returns=LONG, name="here"),
            "here: expected returns_key= and returns= beside a Python callable, got only returns=; give both serdes",
        ),
        (
            lambda: stream().flat_map(pairs, returns_key=LONG, name="here"),
            "here: expected returns_key= and returns= beside a Python callable, got only returns_key=; "
            "give both serdes",
        ),
        (
            lambda: stream().flat_map_values(pairs, name="here"),
            "here: expected returns= beside a Python callable, got none; give the serde of the result",
        ),
        (
            lambda: stream().repartition(name="here", partitions=0),
            "here: expected 1 partition or more, got 0; correct the number",
        ),
        (
            lambda: stream().filter("TRUE", name="here").merge(stream().map_values("record_key"), name="both"),
            "both: expected records of Serde.string() and Serde.long(), got Serde.string() and Serde.string(); "
            "map them to the same",
        ),
        (
            lambda: stream().merge(windowed(), name="both"),
            "both: expected records of Serde.string() and Serde.long(), got Serde.string() and Serde.long(), "
            "windowed (time); map them to the same",
        ),
    ],
)
def test_a_step_that_cannot_work_is_refused(call, want):
    assert refused(call) == want


@pytest.mark.parametrize(
    ("call", "purpose"),
    [
        (lambda: windowed().to_table(), "make a table of"),
        (lambda: windowed().deduplicate_by_key(5), "deduplicate by"),
        (lambda: windowed().deduplicate("value", 5), "deduplicate"),
        (lambda: windowed().join(table(), "left"), "join by"),
        (lambda: windowed().join(stream(), "left", JoinWindows(5, 5, 0)), "join by"),
    ],
)
def test_a_windowed_key_is_made_plain_first(call, purpose):
    got = refused(call)

    assert f": expected a plain key to {purpose}, got a windowed key; " in got
    assert got.endswith('use select_key("record_key") first')


# --- branches --------------------------------------------------------------------------------------------------


def test_branches_are_named_after_the_split_and_their_number_or_name():
    split = stream().split(name="size-").branch("value > 5").branch("value > 3", name="middle")

    assert list(split.default_branch()) == ["size-1", "size-middle", "size-0"]
    assert list(stream().split().branch("TRUE").no_default_branch()) == ["KSTREAM-BRANCH-00000000011"]


def test_a_branch_filters_what_the_ones_before_it_left():
    branches = stream().split(name="size-").branch("value > 5").branch("value > 3").default_branch()
    first, second, default = (branches[f"size-{number}"].node for number in (1, 2, 0))
    graph = branches["size-1"].graph
    rest, rest_of_both = graph.parent(second), graph.parent(default)

    assert [node.keeps for node in (first, rest, second, rest_of_both)] == [True, False, True, False]
    assert rest.predicate is first.predicate
    assert graph.parent(rest) is graph.parent(first)
    assert graph.parent(rest_of_both) is rest
    assert isinstance(default, FilterNode)


# --- where a repartition comes -----------------------------------------------------------------------------------


def tables_above(records) -> list[RepartitionNode]:
    graph = records.graph
    return [node for node in graph.nodes.values() if isinstance(node, RepartitionNode)]


@pytest.mark.parametrize(
    ("rekeyed", "wants_one"),
    [
        (lambda s: s, False),
        (lambda s: s.filter("TRUE").map_values("value").peek(print), False),
        (lambda s: s.select_key("record_key"), True),
        (lambda s: s.select_key("record_key").filter("TRUE").map_values("value"), True),
        (lambda s: s.map("record_key", "value"), True),
        (lambda s: s.flat_map(pairs, returns_key=STRING, returns=LONG), True),
        (lambda s: s.process(dict), True),
        (lambda s: s.split().branch("TRUE").default_branch()["KSTREAM-BRANCH-00000000010"], False),
        (lambda s: s.select_key("record_key").split(name="b").default_branch()["b0"], True),
        (lambda s: s.merge(s.select_key("record_key")), True),
    ],
)
@pytest.mark.parametrize(
    "use",
    [
        lambda s, builder: s.group_by_key().count(),
        lambda s, builder: s.to_table(),
        lambda s, builder: s.join(table("t", builder), "left"),
        lambda s, builder: s.join(stream("other", builder), "left", JoinWindows(5, 5, 0)),
    ],
    ids=["group_by_key", "to_table", "table join", "stream join"],
)
def test_what_needs_equal_keys_together_comes_after_a_repartition_if_the_key_changed(rekeyed, wants_one, use):
    builder = StreamsBuilder()
    records = rekeyed(stream(builder=builder))
    use(records, builder)

    assert len(tables_above(records)) == wants_one


def test_records_that_were_repartitioned_are_not_again():
    records = stream().select_key("record_key").repartition(name="spread", partitions=3)
    records.group_by_key().count()
    (table_above,) = tables_above(records)

    assert (table_above.topic, table_above.partitions) == ("spread-repartition", 3)


def test_a_merge_of_a_stream_with_itself_reads_it_once():
    records = stream()
    node = records.merge(records).node

    assert isinstance(node, MergeNode)
    assert node.inputs == (records.node.name,)


def test_a_grouping_with_a_name_goes_through_one_repartition_table():
    grouped = stream().select_key("record_key").group_by_key(name="grouped")
    grouped.count()
    counts = grouped.windowed_by(TimeWindows.of_size(10)).count()

    assert [node.topic for node in tables_above(counts)] == ["grouped-repartition"]


def test_a_struct_keeps_its_serde_through_a_repartition():
    serde = Serde.json("dest string, minutes long")
    records = StreamsBuilder().stream("in", Consumed(STRING, serde)).select_key("dest").repartition()

    assert records.shape.value == serde
