"""The application continues without the records on which something fails, or does not, as its exception handlers
say.
"""

import re

import pytest

from kstreams_replay import (
    CONTINUE,
    FAIL,
    ErrorHandlerContext,
    KeyValues,
    LogAndContinueExceptionHandler,
    LogAndFailExceptionHandler,
    Processor,
    PunctuationType,
    Record,
    TopologyTestDriver,
    Warehouse,
    replay,
)
from kstreams_replay.expectations.verdicts import check_increment
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_changelog, read_table
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.state.errors import ConfigError, TaskFailed
from tests.planted import LandedRecord, plant

STRING, LONG = Serde.string(), Serde.long()
PROCESSING, DESERIALIZATION = "processing.exception.handler", "deserialization.exception.handler"
WORDS = ["1", "x", "3", "", "5", "six", "7", "8"]


class NotingHandler:
    """A handler that notes what it was asked."""

    def __init__(self, *answers) -> None:
        self.answers, self.asked = list(answers), []

    def __call__(self, context, record, exception):
        self.asked.append((context, record, exception))
        return self.answers.pop(0) if self.answers else CONTINUE


def piped(made: Topology, words=WORDS, **options) -> TopologyTestDriver:
    driver = TopologyTestDriver(made, **options)
    for at, word in enumerate(words):
        driver.pipe_input("words", "k", word, timestamp_ms=10 * at, headers=(("h", b"1"),))
    return driver


def numbers(handler, **config) -> Topology:
    builder = StreamsBuilder(config={PROCESSING: handler, **config})
    words = builder.stream("words", Consumed(STRING, STRING))
    words.map_values(lambda word: int(word), returns=LONG, name="number").to("numbers")
    return builder.build()


@pytest.mark.parametrize(
    "handler",
    [
        LogAndContinueExceptionHandler,
        LogAndContinueExceptionHandler(),
        "LogAndContinueExceptionHandler",
        "org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler",
        lambda context, record, exception: CONTINUE,
    ],
    ids=["class", "object", "name", "Kafka's class", "callable"],
)
def test_the_records_on_which_a_step_fails_are_dropped(handler):
    driver = piped(numbers(handler), chunk_records=3)

    assert [record.value for record in driver.read_outputs("numbers")] == [1, 3, 5, 7, 8]
    assert [(row.node, row.reason, row.topic, row.offset, row.arrival) for row in driver.dropped] == [
        ("number", "processing-exception", "words", offset, offset) for offset in (1, 3, 5)
    ]
    assert driver.metrics()["dropped-records-total"] == 3


def test_what_goes_on_without_a_record_logs_it(caplog):
    piped(numbers(LogAndContinueExceptionHandler)).run()

    said = {record.getMessage() for record in caplog.records if record.name.endswith("exception_handlers")}
    assert any(re.search(r"task 0_0: \w+: .*\(topic \w+, partition 0, offset \d+\)$", one) for one in said)
    assert all(record.levelname == "WARNING" for record in caplog.records)


@pytest.mark.parametrize("handler", [LogAndFailExceptionHandler, "LogAndFailProcessingExceptionHandler"])
def test_a_handler_that_fails_ends_the_run_as_without_one(handler):
    with pytest.raises(TaskFailed, match=r"of the record words-0, offset 1; .* it is called in .*test_exception_handl"):
        piped(numbers(handler)).run()


def test_a_handler_is_told_where_it_was_and_of_what():
    handler = NotingHandler()
    piped(numbers(handler), ["1", "x"]).run()

    ((context, record, exception),) = handler.asked
    assert context == ErrorHandlerContext(
        topic="words",
        partition=0,
        offset=1,
        headers=(("h", b"1"),),
        processor_node_id="number",
        task_id="0_0",
        timestamp_ms=10,
        source_raw_key=b"k",
        source_raw_value=b"x",
    )
    assert record == Record("k", "x", 10, (("h", b"1"),))
    assert (type(exception), str(exception)) == (ValueError, "invalid literal for int() with base 10: 'x'")


def test_a_handler_of_the_users_own_may_continue_once_and_then_fail():
    asked = []

    def handler(context, record, exception):
        asked.append(record.value)
        return CONTINUE if record.value else FAIL

    with pytest.raises(TaskFailed, match="of the record words-0, offset 3"):
        piped(numbers(handler)).run()
    assert asked[:2] == ["x", ""]


def test_a_handler_that_raises_or_says_something_else_ends_the_run():
    def broken(context, record, exception):
        raise KeyError("no such answer")

    for handler, said in (
        (broken, "KeyError: 'no such answer', asked about ValueError"),
        (NotingHandler("yes"), "got 'yes'"),
    ):
        with pytest.raises(TaskFailed, match=said):
            piped(numbers(handler)).run()


def test_a_function_that_looks_on_sees_each_record_once():
    seen = []

    def look(key, word):
        seen.append(word)
        int(word)

    builder = StreamsBuilder(config={PROCESSING: LogAndContinueExceptionHandler})
    builder.stream("words", Consumed(STRING, STRING)).peek(look).to("numbers")
    driver = piped(builder.build())

    assert [record.value for record in driver.read_outputs("numbers")] == ["1", "3", "5", "7", "8"]
    assert seen == WORDS


class Careless(Processor):
    """Keeps the word and forwards it, and only then fails; it fails at every second punctuation, too."""

    def init(self, context):
        super().init(context)
        self.kept = context.store("kept")
        context.schedule(30, PunctuationType.STREAM_TIME, self.tick)

    def tick(self, time_ms: int):
        self.context.forward(Record("tick", ",".join(key for key, _ in self.kept.all()), time_ms))
        if time_ms % 20 == 10:
            raise RuntimeError("odd")
        self.context.forward(Record("tick", "went on", time_ms))

    def process(self, record):
        self.kept.put(record.value, record.value)
        self.context.forward(record)
        int(record.value)
        self.context.forward(record.with_value("went on"))


def careless(handler=LogAndContinueExceptionHandler) -> Topology:
    builder = StreamsBuilder(config={PROCESSING: handler})
    builder.stream("words", Consumed(STRING, STRING)).process(
        Careless, [KeyValues("kept", STRING, STRING)], name="careless"
    ).to("out")
    return builder.build()


@pytest.mark.parametrize("chunk_records", [1, 3, None])
def test_what_a_processor_did_before_it_failed_stays(chunk_records):
    """
    Kafka's ProcessorNode.process: what was put and forwarded before is not taken back.
    """
    handler = NotingHandler()
    driver = piped(careless(handler), ["1", "x", "3", "y"], chunk_records=chunk_records)

    assert [(record.key, record.value) for record in driver.read_outputs("out")] == [
        *(("k", "1"), ("k", "went on"), ("tick", "1"), ("tick", "went on")),
        *(("k", "x"), ("k", "3"), ("k", "went on"), ("k", "y"), ("tick", "1,3,x,y")),
    ]
    assert [(row.node, row.offset) for row in driver.dropped] == [("careless", offset) for offset in (1, 3, 3)]
    (context, record, exception) = handler.asked[-1]
    assert (context.topic, context.partition, context.offset, context.timestamp_ms) == (None, -1, -1, 30)
    assert (record, str(exception)) == (None, "odd")


def halves(word: str):
    """Fails, or gives what cannot be forwarded, between its two results."""
    yield f"{word}-a"
    if word == "raises":
        raise RuntimeError("between")
    if word == "misfits":
        yield 5
    yield f"{word}-b"


def pairs(key: str, word: str):
    for half in halves(word):
        yield [key, half]  # a list, which is a pair, too
        if word == "single":
            yield half


FLAT_MAPS = {
    "flat_map_values": lambda stream, **how: stream.flat_map_values(halves, returns=STRING, name="halves", **how),
    "flat_map": lambda stream, **how: stream.flat_map(pairs, returns_key=STRING, returns=STRING, name="halves", **how),
    "flat_map of JSON": lambda stream, **how: stream.flat_map(
        lambda key, word: (({"of": key}, half) for key, half in pairs(key, word)),
        returns_key=Serde.json("of string"),
        returns=STRING,
        name="halves",
        **how,
    ),
}


def halved(kind: str, handler=LogAndContinueExceptionHandler) -> Topology:
    builder = StreamsBuilder(config={PROCESSING: handler})
    FLAT_MAPS[kind](builder.stream("words", Consumed(STRING, STRING))).to("halves")
    return builder.build()


@pytest.mark.parametrize("chunk_records", [1, 3, None])
@pytest.mark.parametrize("bad", ["raises", "misfits"])
@pytest.mark.parametrize("kind", FLAT_MAPS)
def test_what_a_flat_map_gave_before_it_failed_stays(kind, bad, chunk_records):
    """
    KStreamFlatMap and KStreamFlatMapValues forward each result before they ask for the next.
    """
    handler = NotingHandler()

    driver = piped(halved(kind, handler), ["u", bad, "v", bad], chunk_records=chunk_records)

    expected = ["u-a", "u-b", f"{bad}-a", "v-a", "v-b", f"{bad}-a"]
    assert [record.value for record in driver.read_outputs("halves")] == expected
    assert [(row.node, row.offset, row.reason) for row in driver.dropped] == [
        ("halves", offset, "processing-exception") for offset in (1, 3)
    ]
    assert [(context.offset, record.value) for context, record, _ in handler.asked] == [(1, bad), (3, bad)]


def test_what_is_no_pair_ends_a_record_after_the_pairs_before_it():
    driver = piped(halved("flat_map"), ["u", "single", "v"])

    assert [record.value for record in driver.read_outputs("halves")] == ["u-a", "u-b", "single-a", "v-a", "v-b"]
    assert [row.offset for row in driver.dropped] == [1]


@pytest.mark.parametrize("max_records", [None, 1])
@pytest.mark.parametrize("kind", FLAT_MAPS)
def test_a_replay_of_what_a_flat_map_gave_before_it_failed_balances(tmp_path, kind, max_records):
    warehouse, made = Warehouse(tmp_path), halved(kind)
    words = [b"u", b"raises", b"v", b"misfits"]
    plant(warehouse, "words", [LandedRecord(0, b"k", word, at) for at, word in enumerate(words)], partitions=1)

    reports = list(replay(warehouse, made, pipeline="p", runner=LocalRunner(), max_records=max_records))

    rows = read_changelog(warehouse, "p", "halves").to_pylist()
    assert [row["value"] for row in rows] == ["u-a", "u-b", "raises-a", "v-a", "v-b", "misfits-a"]
    assert [row["cause_offset"] for row in rows] == [0, 0, 1, 2, 2, 3]
    dropped = read_table(warehouse, "p", "dropped").to_pylist()
    assert sorted((row["offset"], row["is_record"]) for row in dropped) == [(1, False), (3, False)]
    assert sum(report.books.applied for report in reports) == 4  # a part of each reached the output
    assert all(report.books.balance for report in reports)
    assert {v.guarantee: v.answer for v in check_increment(warehouse, "p", replay_facts(made), engine="plain")}[
        "G3"
    ] == "true"


@pytest.mark.parametrize("kind", FLAT_MAPS)
def test_a_dead_letter_of_the_step_stands_for_all_that_a_flat_map_gave(kind):
    builder = StreamsBuilder(config={PROCESSING: LogAndContinueExceptionHandler})
    FLAT_MAPS[kind](builder.stream("words", Consumed(STRING, STRING)), on_error="dead_letter").to("halves")

    driver = piped(builder.build(), ["u", "raises", "v", "misfits"])

    assert [record.value for record in driver.read_outputs("halves")] == ["u-a", "u-b", "v-a", "v-b"]
    assert [letter.offset for letter in driver.dead_letters] == [1, 3]
    assert driver.dropped == []


class Numbers(Processor):
    """Fails before it does anything."""

    def process(self, record):
        self.context.forward(record.with_value(int(record.value)))


def by_a_processor(handler) -> Topology:
    builder = StreamsBuilder(config={PROCESSING: handler})
    words = builder.stream("words", Consumed(STRING, STRING))
    words.process(Numbers, returns=LONG, name="number").to("numbers")
    return builder.build()


@pytest.mark.slow
@pytest.mark.parametrize("max_records", [None, 1, 3])
@pytest.mark.parametrize("topology", [numbers, by_a_processor])
def test_a_replay_gives_the_same_wherever_the_tape_is_cut(tmp_path, topology, max_records):
    warehouse, made = Warehouse(tmp_path), topology(LogAndContinueExceptionHandler)
    plant(warehouse, "words", [LandedRecord(0, b"k", word.encode(), at) for at, word in enumerate(WORDS)], partitions=1)

    reports = list(replay(warehouse, made, pipeline="p", runner=LocalRunner(), max_records=max_records))

    dropped = read_table(warehouse, "p", "dropped").to_pylist()
    assert sorted((row["offset"], row["node"], row["reason"], row["is_record"]) for row in dropped) == [
        (offset, "number", "processing-exception", True) for offset in (1, 3, 5)
    ]
    assert [row["value"] for row in read_changelog(warehouse, "p", "numbers").to_pylist()] == [1, 3, 5, 7, 8]
    books = [report.books for report in reports]
    assert (sum(each.applied for each in books), sum(each.dropped for each in books)) == (5, 3)
    assert all(each.balance for each in books)
    verdicts = check_increment(warehouse, "p", replay_facts(made), engine="plain")
    assert {v.guarantee: v.answer for v in verdicts}["G3"] == "true"


def joined(handler) -> TopologyTestDriver:
    builder = StreamsBuilder(config={PROCESSING: handler})
    table = builder.table("names", Consumed(STRING, STRING))
    words = builder.stream("words", Consumed(STRING, STRING))
    words.join(table, lambda word, name: f"{int(word)} {name}", returns=STRING, name="joined").to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("names", "k", "Ann", timestamp_ms=0)
    for at, (key, word) in enumerate([("k", "1"), (None, "2"), ("k", "x"), ("k", "4"), (None, "y"), ("k", "z")]):
        driver.pipe_input("words", key, word, timestamp_ms=at)
    return driver


def test_a_joiner_of_a_table_fails_on_its_own_records_and_others_are_refused_once():
    driver = joined(LogAndContinueExceptionHandler)

    assert [record.value for record in driver.read_outputs("out")] == ["1 Ann", "4 Ann"]
    assert sorted((row.offset, row.reason) for row in driver.dropped) == [
        *((1, "null-key"), (2, "processing-exception"), (4, "null-key"), (5, "processing-exception")),
    ]


def test_a_joiner_that_ends_the_run_names_the_record():
    with pytest.raises(
        TaskFailed, match=r"on 'x' and 'Ann', of the record words-0, offset 2; correct the joiner; it is"
    ):
        joined(lambda context, record, exception: FAIL).run()


def undecodable(handler) -> TopologyTestDriver:
    builder = StreamsBuilder(config={DESERIALIZATION: handler})
    builder.stream("words", Consumed(STRING, LONG)).to("numbers")
    driver = TopologyTestDriver(builder.build())
    for offset, value in enumerate((bytes(8), b"short", bytes(8))):
        driver.pipe_bytes("words", b"k", value, 10 * offset)
    return driver


def test_what_cannot_be_decoded_is_a_dead_letter_if_its_handler_continues():
    handler = NotingHandler()
    driver = undecodable(handler)

    assert [record.value for record in driver.read_outputs("numbers")] == [0, 0]
    assert [(letter.offset, letter.value) for letter in driver.dead_letters] == [(1, b"short")]
    ((context, record, exception),) = handler.asked
    assert (context.topic, context.partition, context.offset, context.timestamp_ms) == ("words", 0, 1, 10)
    assert context.processor_node_id == "KSTREAM-SOURCE-0000000000"
    assert (record.key, record.value) == (context.source_raw_key, context.source_raw_value) == (b"k", b"short")
    assert str(exception).startswith("value: ")


@pytest.mark.parametrize("handler", [LogAndFailExceptionHandler, lambda context, record, exception: FAIL])
def test_what_cannot_be_decoded_ends_the_run_if_its_handler_fails(handler):
    with pytest.raises(TaskFailed, match=r"a record that its serdes can read, got value: .*words-0, offset 1; "):
        undecodable(handler).run()


def test_a_step_with_dead_letters_of_its_own_does_not_ask_the_handler():
    handler = NotingHandler()
    builder = StreamsBuilder(config={PROCESSING: handler})
    words = builder.stream("words", Consumed(STRING, STRING))
    words.map_values(lambda word: int(word), returns=LONG, on_error="dead_letter").to("numbers")

    driver = piped(builder.build())

    assert [record.value for record in driver.read_outputs("numbers")] == [1, 3, 5, 7, 8]
    assert (len(driver.dead_letters), driver.dropped, handler.asked) == (3, [], [])


class HandlerOfLimit:
    def __init__(self, limit):
        self.limit = limit

    def handle(self, context, record, exception):
        return CONTINUE


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"processing.exception.handlers": CONTINUE}, "did you mean 'processing.exception.handler' or"),
        ({"topology.optimization": "all"}, "share a repartition by stream.repartition"),
        ({"topology.optimization": "single.store.self.join"}, "a topology runs as it is written"),
        ({"statestore.cache.max.bytes": 10}, "there are no record caches, whose updates no replay could repeat"),
        ({"my.setting": 2}, "expected names of Kafka Streams' settings, got 'my.setting'"),
        ({PROCESSING: "IgnoreEverything"}, "got 'IgnoreEverything'; name one of these"),
        ({PROCESSING: lambda record: CONTINUE}, r"a callable of \(context, record, exception\)"),
        (
            {PROCESSING: HandlerOfLimit},
            r"StreamsBuilder config processing.exception.handler: expected a class that is made without arguments, "
            r"got HandlerOfLimit\(limit\); give an object of it: HandlerOfLimit\(…\)",
        ),
        ({PROCESSING: CONTINUE}, r"a callable of \(context, record, exception\)"),
        (LogAndContinueExceptionHandler, "StreamsBuilder config: expected a mapping of Kafka's names"),
    ],
)
def test_what_is_no_handler_is_refused_when_the_builder_is_made(config, said):
    with pytest.raises(ConfigError, match=said):
        StreamsBuilder(config=config)


def test_settings_that_say_what_is_done_anyway_are_taken():
    settings = {"topology.optimization": "none", "statestore.cache.max.bytes": 0}
    assert len(piped(numbers(LogAndContinueExceptionHandler, **settings)).read_outputs("numbers")) == 5
    StreamsBuilder(config={"topology.optimization": "reuse.ktable.source.topics"})


def test_a_class_with_kafkas_method_is_a_handler():
    class Handler:
        def handle(self, context, record, exception):
            return CONTINUE

    assert len(piped(numbers(Handler)).read_outputs("numbers")) == 5


def test_handlers_change_nothing_about_rows_that_there_are():
    assert numbers(LogAndContinueExceptionHandler).fingerprint == numbers(LogAndFailExceptionHandler).fingerprint


def test_the_deserialization_handler_is_told_the_time_at_which_the_record_landed(tmp_path):
    asked = NotingHandler()
    builder = StreamsBuilder(config={DESERIALIZATION: asked})
    builder.stream("longs", Consumed(STRING, LONG, timestamp_extractor="value")).to("out")
    warehouse = Warehouse(str(tmp_path))
    plant(warehouse, "longs", [LandedRecord(0, b"k", b"xx", 77)], partitions=1)

    list(replay(warehouse, builder.build(), pipeline="p", runner=LocalRunner()))

    assert [(context.timestamp_ms, record.timestamp_ms) for context, record, _ in asked.asked] == [(77, 77)]
