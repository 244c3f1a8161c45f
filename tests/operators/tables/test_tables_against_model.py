"""Topologies of tables against plain Python that goes record by record: same results, same drops, wherever cut."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.topology import Consumed, KTable, Materialized, Serde, StreamsBuilder, Suppressed
from tests.operators.cut_tapes import Output, play_task, topology_of
from tests.operators.tables.table_model import JoinedTables, ModelSource, ModelStep, ModelTable
from tests.operators.tables.table_model import ModelSuppress as SuppressedModel
from tests.playing import InputRecord
from tests.sampling import examples

TOPICS = ("a", "b", "c")
KEYS = ("k", "l", None)
OLD, STORED = {"sends_old": True, "is_stored": True}, {"sends_old": False, "is_stored": True}
BARE = {"sends_old": False, "is_stored": False}
BARE_OLD = {"sends_old": True, "is_stored": False}

records = st.lists(
    st.builds(
        InputRecord, st.sampled_from(TOPICS), st.sampled_from(KEYS), st.sampled_from((None, 1, 2, 3)), st.integers(0, 9)
    ),
    max_size=24,
)
places = st.sets(st.integers(0, 24), max_size=3)

Sources = dict[str, ModelSource]
Tables = Callable[[str], KTable]


def pair(left: Any, right: Any) -> str:
    return f"({left},{right})"


def odd(value: int) -> bool:
    return value % 2 == 1


def big(value: int) -> bool:
    return value > 1


def paired(left: KTable, right: KTable, kind: str = "inner", **options: Any) -> KTable:
    method = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[kind]
    return method(right, pair, returns=Serde.string(), **options)


def kept(test: Callable[[int], bool]) -> Callable[[int], int | None]:
    return lambda value: value if test(value) else None


# Each topology twice: with the DSL, and as a model, which says itself what is stored and who sends old values.


def filter_of_a_plain_table(table: Tables) -> KTable:
    return table("a").filter(lambda key, value: odd(value))


def filter_of_a_plain_table_model(a: ModelSource, *_: ModelSource) -> ModelTable:
    return ModelStep(a, kept(odd), is_filter=True, **BARE)


def stored_filter_of_a_stored_map(table: Tables) -> KTable:
    mapped = table("a").map_values("value + 1", materialized=Materialized("mapped"))
    return mapped.filter_not("value > 2", materialized=Materialized("kept"))


def stored_filter_of_a_stored_map_model(a: ModelSource, *_: ModelSource) -> ModelTable:
    mapped = ModelStep(a, lambda value: value + 1, is_filter=False, **OLD)
    return ModelStep(mapped, kept(lambda value: value <= 2), is_filter=True, **OLD)


def join_of(kind: str) -> tuple[Callable[[Tables], KTable], Callable[..., ModelTable]]:
    def build(table: Tables) -> KTable:
        return paired(table("a"), table("b"), kind)

    def model(a: ModelSource, b: ModelSource, _: ModelSource) -> ModelTable:
        return JoinedTables(a, b, kind, pair, **BARE)

    return build, model


def chained_joins(table: Tables) -> KTable:
    first = paired(table("a"), table("b"), "outer")
    return paired(first, table("c"), "left")


def chained_joins_model(a: ModelSource, b: ModelSource, c: ModelSource) -> ModelTable:
    return JoinedTables(JoinedTables(a, b, "outer", pair, **BARE_OLD), c, "left", pair, **BARE)


def table_joined_with_what_was_made_of_it(table: Tables) -> KTable:
    a = table("a")
    return paired(a.filter("value > 1"), a.map_values("value * 10"), "outer")


def table_joined_with_what_was_made_of_it_model(a: ModelSource, *_: ModelSource) -> ModelTable:
    left = ModelStep(a, kept(big), is_filter=True, **BARE_OLD)
    right = ModelStep(a, lambda value: value * 10, is_filter=False, **BARE_OLD)
    return JoinedTables(left, right, "outer", pair, **BARE)


def stored_join_below_a_join(table: Tables) -> KTable:
    first = paired(table("a"), table("b"), "inner", materialized=Materialized("first"))
    return paired(table("c"), first, "outer", materialized=Materialized("second"))


def stored_join_below_a_join_model(a: ModelSource, b: ModelSource, c: ModelSource) -> ModelTable:
    return JoinedTables(c, JoinedTables(a, b, "inner", pair, **OLD), "outer", pair, **STORED)


def suppressed_table_in_a_join(table: Tables) -> KTable:
    held = table("a").suppress(Suppressed.until_time_limit(3))
    return paired(table("b"), held, "outer")


def suppressed_table_in_a_join_model(a: ModelSource, b: ModelSource, _: ModelSource) -> ModelTable:
    return JoinedTables(b, SuppressedModel(a, 3, sends_old=True), "outer", pair, **BARE)


def suppressed_table_joined_with_itself(table: Tables) -> KTable:
    held = table("a").suppress(Suppressed.until_time_limit(2))
    return paired(held, held.filter("value > 1"), "left")


def suppressed_table_joined_with_itself_model(a: ModelSource, *_: ModelSource) -> ModelTable:
    held = SuppressedModel(a, 2, sends_old=True)
    return JoinedTables(held, ModelStep(held, kept(big), is_filter=True, **BARE_OLD), "left", pair, **BARE)


# name: (DSL, model, sources that send old values, sources that are stored)
TOPOLOGIES: dict[str, tuple[Callable[[Tables], KTable], Callable[..., ModelTable], str, str]] = {
    "filter": (filter_of_a_plain_table, filter_of_a_plain_table_model, "", ""),
    "stored steps": (stored_filter_of_a_stored_map, stored_filter_of_a_stored_map_model, "", ""),
    "inner": (*join_of("inner"), "", "ab"),
    "left": (*join_of("left"), "a", "ab"),
    "outer": (*join_of("outer"), "ab", "ab"),
    "chain": (chained_joins, chained_joins_model, "ab", "abc"),
    "diamond": (table_joined_with_what_was_made_of_it, table_joined_with_what_was_made_of_it_model, "a", "a"),
    "stored joins": (stored_join_below_a_join, stored_join_below_a_join_model, "abc", "abc"),
    "suppressed": (suppressed_table_in_a_join, suppressed_table_in_a_join_model, "ab", "ab"),
    "suppressed diamond": (suppressed_table_joined_with_itself, suppressed_table_joined_with_itself_model, "a", "a"),
}


def built(name: str):
    def build(builder: StreamsBuilder) -> KTable:
        tables: dict[str, KTable] = {}

        def table(topic: str) -> KTable:
            return tables.setdefault(topic, builder.table(topic, Consumed(Serde.string(), Serde.long())))

        return TOPOLOGIES[name][0](table)

    return topology_of(build)


BUILT = {name: built(name) for name in TOPOLOGIES}


def played_by_model(name: str, tape: list[InputRecord]) -> tuple[list[Output], list[tuple[int, str]]]:
    _, model, sends_old, stored = TOPOLOGIES[name]
    outputs: list[Output] = []
    drops: list[tuple[int, str]] = []
    step = 0

    sources: Sources = {
        topic: ModelSource(
            lambda: drops.append((step, "null-key")), is_stored=topic in stored, sends_old=topic in sends_old
        )
        for topic in TOPICS
    }
    result = model(*sources.values())
    result.children.append(lambda change: outputs.append(Output(step, change.key, change.new, change.time)))
    topics = {node.topic for node in BUILT[name].sub_topologies[0].sources}
    for step, record in enumerate(tape):  # noqa: B007 (the callbacks above read it)
        if record.topic in topics:
            sources[record.topic].receive(record.key, record.value, record.time_ms)
    return outputs, drops


@pytest.mark.slow
@pytest.mark.parametrize("name", TOPOLOGIES)
@settings(max_examples=examples(150), deadline=None)
@given(tape=records, cuts=places, chunks=places)
def test_a_topology_of_tables_does_what_its_processors_do_one_after_the_other(name, tape, cuts, chunks):
    topics = {node.topic for node in BUILT[name].sub_topologies[0].sources}
    tape = [record for record in tape if record.topic in topics]

    got = play_task(BUILT[name], tape, cuts=cuts, chunks=chunks)

    outputs, drops = played_by_model(name, tape)
    assert got.outputs == outputs
    assert got.dropped == drops
    assert got.counts == (len(tape) - len(drops), len(drops))
