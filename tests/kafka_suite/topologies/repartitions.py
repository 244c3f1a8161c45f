"""RepartitionOptimizingTest and RepartitionWithMergeOptimizingTest. The optimized topologies have fewer repartition
topics.
"""

from kstreams_replay.jobs.topology import JoinWindows, Materialized
from tests.kafka_suite.playing import INT, STRING, Stage
from tests.kafka_suite.topologies import plays


@plays("RepartitionOptimizingTest.shouldSendCorrect*")
def four_uses_of_a_key(stage: Stage) -> None:
    mapped = stage.stream("input").map("UPPER(record_key)", "value", name="source-map")
    stage.watch(mapped.filter("record_key = 'B'").map_values("UPPER(value)"), "process")
    counts = mapped.group_by_key(name="count-groupByKey").count(Materialized.as_("count-store", store="in_memory"))
    stage.to(counts, "outputTopic_0")
    lengths = mapped.group_by_key(name="aggregate-groupByKey").aggregate(
        initializer=lambda: 0,
        aggregator=lambda key, value, aggregate: aggregate + len(value),
        returns=INT,
        materialized=Materialized.as_("aggregate-store", store="in_memory"),
    )
    stage.to(lengths, "outputTopic_1")
    reduced = mapped.filter("TRUE").peek(lambda key, value: None).group_by_key(name="reduce-groupByKey")
    stored = Materialized.as_("reduce-store", store="in_memory")
    stage.to(reduced.reduce(lambda one, other: f"{one}:{other}", materialized=stored), "outputTopic_2")
    joined = mapped.filter("record_key = 'A'").join(
        counts.to_stream(),
        lambda left, right: f"{left}:{right}",
        JoinWindows.of_time_difference_and_grace("5s", "24h"),
        returns=STRING,
        materialized=Materialized(store="in_memory"),
        name="join",
    )
    stage.to(joined, "joinedOutputTopic")


@plays("RepartitionWithMergeOptimizingTest.shouldSendCorrect*")
def two_uses_of_merged_keys(stage: Stage) -> None:
    key = "SPLIT_PART(value, ':', 1)"
    one, other = (stage.stream(topic).map(key, "value") for topic in ("inputA", "inputB"))
    merged = one.merge(other)
    longs = merged.group_by_key(name="long-groupByKey").count(Materialized.as_("long-store", store="in_memory"))
    stage.to(longs, "outputTopic_0")
    texts = merged.group_by_key(name="string-groupByKey").count(Materialized.as_("string-store", store="in_memory"))
    stage.to(texts.to_stream().map_values("CAST(value AS STRING)"), "outputTopic_1")
