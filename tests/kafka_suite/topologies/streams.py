"""KStream…Test and StreamsBuilderTest: steps of streams, processors, and streams that become tables."""

from typing import Any

from kstreams_replay import FixedKeyProcessor, FixedKeyRecord, KeyValues, Processor, Record
from kstreams_replay.jobs.topology import Consumed, Materialized
from tests.kafka_suite.playing import INT, INT_STRING, LONG, STRING, STRING_INT, Stage
from tests.kafka_suite.topologies import plays
from tests.kafka_suite.topologies.words import plus

# --- steps ---------------------------------------------------------------------------------------------------


@plays("KStreamFilterTest.testFilter", "KStreamFilterTest.testFilterNot")
def of_three(stage: Stage) -> None:
    stream = stage.stream("topic", INT_STRING)
    keeps = stream.filter_not if stage.tape.test.endswith("Not") else stream.filter
    stage.watch(keeps("record_key % 3 = 0"))


@plays("KStreamFlatMapTest.testFlatMap")
def flat_map(stage: Stage) -> None:
    def times(key: int, value: str) -> list[tuple[str, str]]:
        return [(str(key * 10 + number), value) for number in range(key)]

    stage.watch(stage.stream("topic", INT_STRING).flat_map(times, returns_key=STRING, returns=STRING))


@plays("KStreamFlatMapValuesTest.*")
def flat_map_values(stage: Stage) -> None:
    def values(key: int, value: int) -> list[str]:
        return [f"v{value}", f"k{key}" if stage.tape.test.endswith("WithKeys") else f"V{value}"]

    stage.watch(stage.stream("topic", Consumed(INT, INT)).flat_map_values(values, returns=STRING))


@plays("KStreamForeachTest.testForeach")
def each(stage: Stage) -> None:
    stage.watch(stage.stream("topic", INT_STRING))


@plays("KStreamMapTest.testMap")
def swapped(stage: Stage) -> None:
    stage.watch(stage.stream("topic", INT_STRING).map("value", "record_key"))


@plays("KStreamMapValuesTest.*")
def lengths(stage: Stage) -> None:
    more = " + record_key" if stage.tape.test.endswith("WithKeys") else ""
    stage.watch(stage.stream("topic", INT_STRING).map_values(f"CAST(LENGTH(value){more} AS INT)"))


@plays("KStreamPeekTest.shouldObserveStreamElements")
def peeked(stage: Stage) -> None:
    stage.watch(stage.stream("topic", INT_STRING).peek(lambda key, value: None))


@plays("KStreamSelectKeyTest.testSelectKey")
def selected(stage: Stage) -> None:
    names = {1: "ONE", 2: "TWO", 3: "THREE"}
    stream = stage.stream("topic_key_select", STRING_INT)
    stage.watch(stream.select_key(lambda key, value: names.get(value), returns=STRING))


def is_multiple_of(number: int) -> str:
    return f"record_key % {number} = 0"


SPLIT = "KStreamSplitTest."


@plays(f"{SPLIT}testKStreamSplit", f"{SPLIT}testBranchingWithNoTerminalOperation")
def branches(stage: Stage) -> None:
    ends = stage.tape.test.endswith("testKStreamSplit")
    numbers = (2, 3, 5) if ends else (2, 5)
    split = stage.stream("topic", INT_STRING).split()
    for number in numbers:
        split = split.branch(is_multiple_of(number), name=f"x{number}")
    made = split.no_default_branch()
    if ends:
        for name in ("x2", "x3", "x5"):
            stage.to(_branch(made, name), name)
    else:
        stage.to(_branch(made, "x2").merge(_branch(made, "x5")), "output")


def _branch(made: Any, name: str) -> Any:
    return next(stream for key, stream in made.items() if key.endswith(name))


@plays(f"{SPLIT}testResultingMap")
def named_branches(stage: Stage) -> None:
    """Branches that a consumer takes, or a function without a result, are in no map there; nothing follows them."""
    split = stage.stream("topic", INT_STRING).split(name="foo-")
    names = {2: "bar", 3: None, 5: None}
    for number, name in names.items():
        split = split.branch(is_multiple_of(number), name=name)
    made = split.branch("record_key < 0").branch(is_multiple_of(7)).default_branch()
    for name in stage.tape.line["outputs"]:
        stage.to(made[name], name)
    for name in ("foo-2", "foo-3"):
        stage.watch(made[name], name)


# --- merge, repartition, topics that are written and read ----------------------------------------------------


@plays("KStreamImplTest.shouldMergeTwoStreams", "StreamsBuilderTest.shouldMergeStreams")
def two_merged(stage: Stage) -> None:
    stage.watch(stage.stream("topic-1").merge(stage.stream("topic-2")))


@plays("KStreamImplTest.shouldMergeMultipleStreams")
def four_merged(stage: Stage) -> None:
    one, *others = (stage.stream(f"topic-{number}") for number in (1, 2, 3, 4))
    for other in others:
        one = one.merge(other)
    stage.watch(one)


@plays("KStreamImplTest.shouldSendDataThroughRepartitionTopicUsingRepartitioned")
def repartitioned(stage: Stage) -> None:
    stage.watch(stage.stream("topic").repartition())


@plays("StreamsBuilderTest.shouldProcessViaRepartitionTopic")
def before_and_after_repartition(stage: Stage) -> None:
    source = stage.stream("topic-source")
    repartitioned = source.repartition()
    stage.watch(source)
    stage.watch(repartitioned)


@plays("KStreamImplTest.shouldSendDataToTopicUsingProduced")
def written_and_read(stage: Stage) -> None:
    stage.to(stage.stream("topic"), "to-topic")
    stage.watch(stage.stream("to-topic"))


@plays("StreamsBuilderTest.shouldProcessingFromSinkTopic")
def written_and_watched(stage: Stage) -> None:
    source = stage.stream("topic-source")
    stage.to(source, "topic-sink")
    stage.watch(source)


@plays("StreamsBuilderTest.shouldUseSerdesDefinedInMaterializedToConsumeTable")
def table_of_longs(stage: Stage) -> None:
    stage.watch(stage.table("topic", Consumed(LONG, STRING), materialized=Materialized.as_("store")))


# --- processors ----------------------------------------------------------------------------------------------


class Sums(Processor):
    """Sum of the lengths of a key's values."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.sums = context.store("sum")

    def process(self, record: Record) -> None:
        before = self.sums.get(record.key)
        self.sums.put(record.key, len(record.value) + (before or 0))


@plays("KStreamImplTest.shouldBindStateWithProcessorSupplier", "KStreamImplTest.shouldProcessWithProcessorAndState")
def summed(stage: Stage) -> None:
    """The test's processor, which forwards nothing, received what the stream has."""
    stream = stage.stream("input")
    stream.process(Sums, [KeyValues("sum", STRING, INT)], name="p")
    stage.watch(stream, "p")


class Lengths(FixedKeyProcessor):
    def process(self, record: FixedKeyRecord) -> None:
        self.context.forward(record.with_value(len(record.value)))


@plays("KStreamImplTest.shouldProcessValues")
def processed_values(stage: Stage) -> None:
    stage.to(stage.stream("input").process_values(Lengths, returns=INT, name="fkp"), "output")


@plays("RepartitionOptimizingTest.shouldNotPushRepartitionAcrossValueChangingOperation")
def processed_and_reduced(stage: Stage) -> None:
    lengths = stage.stream("input").map("UPPER(record_key)", "value").process_values(Lengths, returns=INT)
    stage.to(lengths.group_by_key().reduce(lambda one, other: one + other), "outputTopic_1")


class FirstValueKept(FixedKeyProcessor):
    """Keeps the first value of a key."""

    def process(self, record: FixedKeyRecord) -> None:
        updated = record.with_value(f"{record.value}Updated")
        self.context.store("store").put_if_absent(record.key, updated.value)
        self.context.forward(updated)


@plays("KStreamProcessorApiTest.*")
def updated_values(stage: Stage) -> None:
    stage.to(stage.stream("input").process_values(FirstValueKept, [KeyValues("store", STRING, STRING)]), "output")


# --- streams as tables ---------------------------------------------------------------------------------------

IMPL = "KStreamImplTest."


@plays(f"{IMPL}shouldMaterializeKTableFromKStream")
def stored_table(stage: Stage) -> None:
    stage.stream("input").to_table(materialized=Materialized.as_("store", store="in_memory"))


@plays(f"{IMPL}shouldNotMaterializedKTableFromKStream")
def table(stage: Stage) -> None:
    stage.to(stage.stream("input").to_table(), "output")


@plays(f"{IMPL}shouldSupportKeyChangeKTableFromKStream")
def table_of_letters(stage: Stage) -> None:
    stream = stage.stream("input").map(
        lambda key, value: (ord(key[0]) - ord("A"), value), returns_key=INT, returns=STRING
    )
    stage.to(stream.to_table(), "output")


@plays(f"{IMPL}shouldSupportTriggerMaterializedWithKTableFromKStream")
def first_letters(stage: Stage) -> None:
    table = stage.stream("input").to_table()
    stored = Materialized.as_("store")
    stage.to(table.map_values(lambda value: ord(value[0]) - ord("a"), returns=INT, materialized=stored), "output")


@plays(f"{IMPL}shouldSupportGroupByCountWithKStreamToKTable")
def counted(stage: Stage) -> None:
    stage.to(stage.stream("input").to_table().group_by("value").count(), "output")


@plays(f"{IMPL}shouldSupportTableTableJoinWithKStreamToKTable")
def tables_joined(stage: Stage) -> None:
    left, right = stage.stream("left").to_table(), stage.stream("right").to_table()
    stage.to(left.join(right, plus, returns=STRING), "output")


@plays(f"{IMPL}shouldSupportStreamTableJoinWithKStreamToKTable")
def stream_joined(stage: Stage) -> None:
    stream, table = stage.stream("streamTopic"), stage.stream("tableTopic").to_table()
    stage.to(stream.join(table, plus, returns=STRING), "output")


@plays(f"{IMPL}shouldSupportForeignKeyTableTableJoinWithKTableFromKStream")
def foreign_key_joined(stage: Stage) -> None:
    left, right = stage.stream("input1").to_table(), stage.stream("input2").to_table()
    joined = left.join(
        right,
        lambda one, other: f"({one},{other})",
        foreign_key="SPLIT_PART(value, '|', 2)",
        returns=STRING,
    )
    stage.to(joined, "output")
