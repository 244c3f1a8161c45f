"""The last done row in the words of changed code: what follows a store, a table, a topic, and never a number."""

from typing import Any

from kstreams_replay.jobs.code_changes.code_snapshot import code_snapshot
from kstreams_replay.jobs.code_changes.ledger_remapping import carried
from kstreams_replay.jobs.topology import Consumed, KStream, Materialized, Serde, StreamsBuilder, Topology
from kstreams_replay.state.tables.ledger_rows import DoneRow
from kstreams_replay.state.tables.task_entry import TaskEntry

STRING = Serde.string()


def topology(*parts: Any) -> Topology:
    builder = StreamsBuilder()
    for part in parts:
        part(builder)
    return builder.build()


def stream(builder: StreamsBuilder, topic: str) -> KStream:
    return builder.stream(topic, Consumed(STRING, STRING))


def counted(topic: str, store: str) -> Any:
    return lambda builder: stream(builder, topic).group_by_key().count(Materialized.as_(store)).to_stream().to(store)


def merged(*topics: str) -> Any:
    def build(builder: StreamsBuilder) -> None:
        first, *others = (stream(builder, topic) for topic in topics)
        for other in others:
            first = first.merge(other)
        first.group_by_key().count(Materialized.as_("all")).to_stream().to("all")

    return build


def done(before: Topology, tasks: dict[str, TaskEntry], **fields: Any) -> DoneRow:
    return DoneRow(code=code_snapshot(before), tasks=tasks, **fields)


def task(stream_time_ms: int, **more: Any) -> TaskEntry:
    return TaskEntry(stream_time_ms=stream_time_ms, tape_time_ms=stream_time_ms, **more)


def test_clocks_and_offsets_follow_the_store_and_the_output_when_numbers_shift():
    before, now = topology(counted("a", "as")), topology(counted("b", "bs"), counted("a", "as"))
    mine = task(7, counters={"as": {"stream_time_ms": 7}}, next_offsets={"outputs/as": 3}, row_keys={"as": ["key"]})

    found = carried(done(before, {"0_1": mine}), code_snapshot(now), {"as": "as"}, 4)

    assert found.tasks == {"1_1": mine}


def test_a_store_with_another_name_takes_its_clocks_along():
    before, now = topology(counted("a", "old")), topology(counted("a", "new"))
    mine = task(7, counters={"old": {"stream_time_ms": 7}}, next_offsets={"outputs/old": 3})

    found = carried(done(before, {"0_0": mine}), code_snapshot(now), {"new": "old"}, 4)

    assert found.tasks["0_0"].counters == {"new": {"stream_time_ms": 7}}
    assert found.tasks["0_0"].next_offsets == {}


def test_of_sub_topologies_that_become_one_the_latest_time_holds_and_the_heap_begins_anew():
    before, now = topology(counted("a", "all"), counted("b", "bs")), topology(merged("a", "b"))
    tasks = {"0_0": task(7, counters={"all": {"stream_time_ms": 7}}), "1_0": task(9)}

    found = carried(done(before, tasks), code_snapshot(now), {"all": "all"}, 4)

    (one,) = found.tasks.values()
    assert (one.stream_time_ms, one.tape_time_ms, one.heap) == (9, 9, None)
    assert one.counters == {"all": {"stream_time_ms": 7}}
    assert found.tape_times == {"a": {"0": 7}, "b": {"0": 9}}


def test_a_topic_that_is_alone_now_keeps_the_time_of_its_own_tape():
    before, now = topology(merged("a", "b")), topology(merged("a"))
    content = done(before, {"0_0": task(9)}, tape_times={"a": {"0": 7}, "b": {"0": 9}})

    found = carried(content, code_snapshot(now), {"all": "all"}, 4)

    assert found.tape_times == {"a": {"0": 7}, "b": {"0": 9}}
    assert found.tasks["0_0"].tape_time_ms == 9


def test_the_heap_follows_the_topics_of_its_queues():
    before, now = topology(merged("a", "b", "c")), topology(merged("d", "c", "a"))
    content = done(before, {"0_0": task(9, heap=[2, 1, 0])}, cut_to={"a": {"0": 1}, "b": {"0": 1}, "c": {"0": 1}})

    found = carried(content, code_snapshot(now), {"all": "all"}, 4)

    assert found.tasks["0_0"].heap == [1, 2]  # c, a


def test_a_global_tables_partitions_are_queues_behind_the_topics():
    def looked_up(*topics: str) -> Topology:
        builder = StreamsBuilder()
        items = builder.global_table("items", Consumed(STRING, STRING))
        first, *others = (stream(builder, topic) for topic in topics)
        for other in others:
            first = first.merge(other)
        first.join(items, lambda one, other: "", selector="record_key", returns=STRING).to("out")
        return builder.build()

    cut = {"a": {"0": 1}, "items": {"0": 1, "1": 1}}
    content = done(looked_up("a"), {"0_0": task(9, heap=[2, 0, 1])}, cut_to=cut)

    found = carried(content, code_snapshot(looked_up("b", "a")), {}, 4)

    assert found.tasks["0_0"].heap == [3, 1, 2]  # items-1, a, items-0


def test_a_repartition_table_with_another_name_above_a_store_keeps_the_number_of_its_partitions():
    def grouped(name: str | None) -> Topology:
        builder = StreamsBuilder()
        stream(builder, "a").group_by("value", name=name).count(Materialized.as_("store"))
        return builder.build()

    content = done(grouped(None), {"1_0": task(9)}, partitions={"0": 4, "1": 4, "repartition/store-repartition": 4})

    found = carried(content, code_snapshot(grouped("by")), {"store": "store"}, 4)

    assert found.partitions == {"repartition/store-repartition": 4, "repartition/by-repartition": 4}
    assert found.tasks["1_0"].stream_time_ms == 9


def test_what_is_gone_is_remembered_with_its_offsets_and_its_last_increment():
    before, now = topology(counted("a", "as"), counted("b", "bs")), topology(counted("b", "bs"))
    tasks = {"0_0": task(1, next_offsets={"outputs/as": 3}), "1_0": task(1, next_offsets={"outputs/bs": 5})}

    found = carried(done(before, tasks), code_snapshot(now), {"bs": "bs"}, 4)
    again = carried(found, code_snapshot(before), {"bs": "bs"}, 6)

    assert found.code["removed"]["stores"]["as"]["increment"] == 4
    assert found.code["removed"]["outputs"]["as"]["increment"] == 4
    assert found.tasks["0_0"].next_offsets == {"outputs/bs": 5}
    assert again.tasks["0_0"].next_offsets == {"outputs/as": 3}
    assert again.code["removed"]["outputs"] == {}


def test_a_column_that_was_there_once_is_remembered():
    before, now = topology(counted("a", "as")), topology(counted("a", "as"))
    content = done(before, {})
    content.code["stores"]["as"]["schema"] = {"key": "string", "aggregate": "int64", "gone": "string"}

    found = carried(content, code_snapshot(now), {"as": "as"}, 4)

    assert found.code["stores"]["as"]["known"] == {
        "key": "string", "aggregate": "int64", "gone": "string", "record_time_ms": "int64",
    }  # fmt: skip


def test_a_field_of_a_later_version_goes_on_as_it_is():
    before, now = topology(counted("a", "old")), topology(counted("a", "new"))

    found = carried(done(before, {}, unknown={"later": [1]}), code_snapshot(now), {"new": "old"}, 4)

    assert found.to_json()["later"] == [1]
