"""What the application continues without is a record of its topic of dead letters, as Kafka Streams writes it
(``errors.dead.letter.queue.topic.name``, KIP-1034).
"""

import subprocess
from pathlib import Path

import pytest

from kstreams_replay import (
    CONTINUE,
    Consumed,
    KeyValues,
    LogAndContinueExceptionHandler,
    Processor,
    PunctuationType,
    Serde,
    StreamsBuilder,
    Topology,
    TopologyTestDriver,
    Warehouse,
    replay,
)
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.explain.explanation import explain
from kstreams_replay.jobs.history.committed_tables import read_changelog, read_table
from kstreams_replay.state.errors import ConfigError, TopologyError
from tests.jvm.streams import STREAMS, TEST_UTILS, compiled
from tests.planted import LandedRecord, plant

STRING, LONG = Serde.string(), Serde.long()
LETTERS, PROCESSING = "errors.dead.letter.queue.topic.name", "processing.exception.handler"
DESERIALIZATION = "deserialization.exception.handler"
NAMES = ("exception", "message", "stacktrace", "topic", "partition", "offset")
RECORDS = [(1, 0), (-2, 10), (7, 20), (3, 30), (b"xx", 50), (5, 60)]
"""Values of the topic longs, and times."""


class Careless(Processor):
    def init(self, context):
        super().init(context)
        context.schedule(30, PunctuationType.STREAM_TIME, self.tick)

    def tick(self, time_ms: int):
        if time_ms >= 40:
            raise RuntimeError("odd")

    def process(self, record):
        if record.value == 7:
            raise RuntimeError("seven")
        self.context.forward(record)


class Keeping(Careless):
    """As it, with a store that another processor uses, so that the task runs record by record."""

    def init(self, context):
        self.kept = context.store("kept")
        super().init(context)

    def process(self, record):
        self.kept.put(record.key, record.value)
        super().process(record)


def checked(value: int) -> int:
    if value < 0:
        raise ValueError("negative")
    return value


def longs(*, repartitions: bool = True, **config) -> Topology:
    """The topology of tests/jvm/DeadLetters.java."""
    builder = StreamsBuilder(config={PROCESSING: LogAndContinueExceptionHandler, LETTERS: "letters"} | config)
    stream = builder.stream("longs", Consumed(STRING, LONG)).map_values(lambda value: checked(value), returns=LONG)
    if repartitions:
        stream = stream.select_key(lambda key, value: str(value), returns=STRING).repartition(name="again")
    stream.process(Careless).to("out")
    return builder.build()


def by_record() -> Topology:
    builder = StreamsBuilder(config={PROCESSING: LogAndContinueExceptionHandler, LETTERS: "letters"})
    kept = KeyValues("kept", STRING, LONG)
    stream = builder.stream("longs", Consumed(STRING, LONG)).map_values(lambda value: checked(value), returns=LONG)
    stream.process(Keeping, [kept]).process(Keeping, [kept], returns=LONG).to("out")
    return builder.build()


def piped(made: Topology, **options) -> TopologyTestDriver:
    driver = TopologyTestDriver(made, **options)
    for value, time_ms in RECORDS:
        if isinstance(value, bytes):
            driver.pipe_bytes("longs", b"k", value, time_ms)
        else:
            headers = (("h", b"1"),) if time_ms < 60 else ()
            driver.pipe_input("longs", "k", value, timestamp_ms=time_ms, headers=headers)
    return driver


def seen(headers, what: str) -> str | None:
    (content,) = (content for name, content in headers if name == f"__streams.errors.{what}")
    return None if content is None else content.decode()


def plant_longs(warehouse: Warehouse) -> None:
    values = [value if isinstance(value, bytes) else value.to_bytes(8, "big", signed=True) for value, _ in RECORDS]
    rows = [LandedRecord(0, b"k", value, time_ms) for value, (_, time_ms) in zip(values, RECORDS, strict=True)]
    plant(warehouse, "longs", rows, partitions=1)


@pytest.mark.parametrize("chunk_records", [1, 3, None])
def test_what_an_application_continues_without_is_a_record_of_the_topic(chunk_records):
    """
    ExceptionHandlerUtils.buildDeadLetterQueueRecord: bytes of the record that the task took, time and headers of the
    one that failed, and six headers.
    """
    letters = piped(longs(), chunk_records=chunk_records).read_outputs("letters")

    assert [(one.key, one.value, one.timestamp_ms) for one in letters] == [
        (b"k", (-2).to_bytes(8, "big", signed=True), 10),
        (b"7", (7).to_bytes(8, "big"), 20),
        (b"k", b"xx", 50),
        (None, None, 60),
    ]
    given = [(), ("h",)]
    assert [[name for name, _ in one.headers] for one in letters] == [
        [*given[has_own], *(f"__streams.errors.{what}" for what in NAMES)] for has_own in (1, 1, 0, 0)
    ]
    unreadable = "org.apache.kafka.common.errors.SerializationException"
    assert [[seen(one.headers, what) for what in NAMES if what != "stacktrace"] for one in letters] == [
        ["ValueError", "negative", "longs", "0", "1"],
        ["RuntimeError", "seven", "again-repartition", "0", "1"],
        [unreadable, "value: expected 8 bytes of a long, got 2", "longs", "0", "4"],
        ["RuntimeError", "odd", None, "-1", "-1"],
    ]


def test_a_stack_names_functions_of_the_users_alone_and_files_without_their_places():
    letters = piped(longs()).read_outputs("letters")

    first, second, third, _ = (seen(one.headers, "stacktrace").splitlines() for one in letters)
    file = Path(__file__).name
    assert first[0] == "ValueError: negative"
    assert [line.rpartition(":")[0] for line in first[1:]] == [
        f"\tat checked({file}",
        f"\tat longs.<locals>.<lambda>({file}",
    ]
    assert [line.rpartition(":")[0] for line in second[1:]] == [f"\tat Careless.process({file}"]
    assert third == ["org.apache.kafka.common.errors.SerializationException: value: expected 8 bytes of a long, got 2"]


@pytest.mark.jvm
def test_letters_are_those_of_kafka_streams():
    with compiled(Path(__file__).parent.parent / "jvm" / "DeadLetters.java", packages=(STREAMS, TEST_UTILS)) as command:
        said = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert said.returncode == 0, said.stderr

    def shown(content: bytes | None) -> str:
        return "null" if content is None else content.hex()

    theirs = [line.split(" ") for line in said.stdout.splitlines()]
    ours = [
        [shown(one.key), shown(one.value), str(one.timestamp_ms), *(f"{name}={shown(it)}" for name, it in one.headers)]
        for one in piped(longs()).read_outputs("letters")
    ]
    topic = "=" + b"app-again-repartition".hex()
    theirs = [[field.replace(topic, "=" + b"again-repartition".hex()) for field in line] for line in theirs]
    of_a_language = ("__streams.errors.exception=", "__streams.errors.stacktrace=")
    for line in (*ours, *theirs):
        line[:] = [field.partition("=")[0] if field.startswith(of_a_language) else field for field in line]
    for line in (ours[2], theirs[2]):  # each says in words of its own what cannot be read
        line[:] = ["message" if field.startswith("__streams.errors.message=") else field for field in line]
    assert ours == theirs


@pytest.mark.sampled(share=4)
@pytest.mark.parametrize("max_records", [None, 1, 3])
@pytest.mark.parametrize("made", [longs, lambda: longs(repartitions=False), by_record], ids=["two", "one", "by record"])
def test_a_replay_writes_the_letters_of_the_driver_wherever_the_tape_is_cut(tmp_path, made, max_records):
    warehouse = Warehouse(tmp_path)
    plant_longs(warehouse)
    driver = TopologyTestDriver(made())
    for value, time_ms in RECORDS:
        raw = value if isinstance(value, bytes) else value.to_bytes(8, "big", signed=True)
        driver.pipe_bytes("longs", b"k", raw, time_ms)
    expected = [(one.key, one.value, one.timestamp_ms, one.headers) for one in driver.read_outputs("letters")]

    reports = list(replay(warehouse, made(), pipeline="p", runner=LocalRunner(), max_records=max_records))

    rows = read_changelog(warehouse, "p", "letters").to_pylist()
    found = [
        (row["key"], row["value"], row["record_time_ms"], tuple((h["key"], h["value"]) for h in row["headers"]))
        for row in rows
    ]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert len(found) >= 4
    assert sum(report.outputs["letters"] for report in reports) == len(found)
    books = [report.books for report in reports]
    assert all(each.balance for each in books)
    assert sum(each.undecodable for each in books) == 1
    assert len(read_table(warehouse, "p", "dead_letter")) == 1
    dropped = [row["topic"] for row in read_table(warehouse, "p", "dropped").to_pylist() if row["is_record"]]
    assert len(dropped) == 2
    assert sum(each.dropped for each in books) == dropped.count("longs")


def test_a_record_that_was_applied_elsewhere_is_applied_and_has_a_letter():
    builder = StreamsBuilder(config={PROCESSING: LogAndContinueExceptionHandler, LETTERS: "letters"})
    stream = builder.stream("longs", Consumed(STRING, LONG))
    stream.to("all")
    stream.map_values(lambda value: checked(value), returns=LONG).to("out")

    driver = piped(builder.build())

    assert [one.value for one in driver.read_outputs("all")] == [1, -2, 7, 3, 5]
    assert [one.timestamp_ms for one in driver.read_outputs("letters")] == [10, 50]


def merged_with_its_own_topic() -> Topology:
    builder = StreamsBuilder(config={PROCESSING: LogAndContinueExceptionHandler, LETTERS: "letters"})
    words = builder.stream("words", Consumed(STRING, STRING)).map_values("value || '!'")
    words.filter("value LIKE 't%'").map_values("value || '?'").to("marked")
    both = words.merge(builder.stream("marked", Consumed(STRING, STRING)))
    both.map_values(lambda value: int(value.rstrip("!")), returns=LONG).to("numbers")
    return builder.build()


@pytest.mark.parametrize("max_records", [None, 1])
def test_a_letter_has_the_bytes_of_a_record_that_an_earlier_part_handed_over(tmp_path, max_records):
    """
    The topology reads ``marked``, which it writes itself, so it runs in two parts.
    """
    warehouse = Warehouse(tmp_path)
    values = [b"1", b"t5", b"x"]
    plant(
        warehouse, "words", [LandedRecord(0, b"k", value, 100 + 20 * n) for n, value in enumerate(values)], partitions=1
    )

    for _ in replay(
        warehouse, merged_with_its_own_topic(), pipeline="p", runner=LocalRunner(), max_records=max_records
    ):
        pass

    letters = read_changelog(warehouse, "p", "letters").to_pylist()
    assert sorted((row["record_time_ms"], row["key"], row["value"]) for row in letters) == [
        (120, b"k", b"t5"),
        (120, b"k", b"t5!?"),
        (140, b"k", b"x"),
    ]


def test_a_letter_is_beside_what_a_flat_map_gave_before_it_failed():
    def several(value):
        yield value
        yield 10 * checked(value)

    builder = StreamsBuilder(config={PROCESSING: LogAndContinueExceptionHandler, LETTERS: "letters"})
    builder.stream("longs", Consumed(STRING, LONG)).flat_map_values(several, returns=LONG).to("out")

    driver = piped(builder.build())

    assert [one.value for one in driver.read_outputs("out")] == [1, 10, -2, 7, 70, 3, 30, 5, 50]
    letters = driver.read_outputs("letters")
    assert [(one.timestamp_ms, seen(one.headers, "offset")) for one in letters] == [(10, "1"), (50, "4")]


def test_a_handler_of_the_users_own_writes_none():
    """
    StreamsConfig: "If a custom … exception handler is set, this parameter is ignored for this handler."
    """
    made = longs(**{PROCESSING: lambda context, record, exception: CONTINUE, DESERIALIZATION: lambda *asked: CONTINUE})

    driver = piped(made)

    assert driver.read_outputs("letters") == []
    assert [one.value for one in driver.read_outputs("out")] == [1, 3, 5]


def test_a_step_with_dead_letters_of_its_own_writes_them_there_too():
    builder = StreamsBuilder(config={LETTERS: "letters", DESERIALIZATION: LogAndContinueExceptionHandler})
    stream = builder.stream("longs", Consumed(STRING, LONG))
    stream.map_values(lambda value: checked(value), returns=LONG, on_error="dead_letter").to("out")

    driver = piped(builder.build())

    letters = driver.read_outputs("letters")
    assert (seen(letters[0].headers, "message"), letters[0].headers[0]) == ("negative", ("h", b"1"))
    assert [one.timestamp_ms for one in letters] == [10, 50]
    assert [letter.offset for letter in driver.dead_letters] == [1, 4]


def test_both_ends_of_a_foreign_key_join_write_letters():
    """
    Below the response of such a join a sub-topology continues in a part of its own.
    """
    builder = StreamsBuilder(config={PROCESSING: LogAndContinueExceptionHandler, LETTERS: "letters"})
    left = builder.table("left", Consumed(STRING, STRING))
    right = builder.table("right", Consumed(STRING, LONG))
    joined = left.join(right, lambda ref, number: number, foreign_key="value", returns=LONG)
    joined.to_stream().map_values(lambda value: checked(value), returns=LONG).to("out")
    driver = TopologyTestDriver(builder.build())

    driver.pipe_input("right", "a", 1, timestamp_ms=0)
    driver.pipe_input("right", "b", -1, timestamp_ms=1)
    driver.pipe_bytes("right", b"c", b"short", 2)
    driver.pipe_input("left", "x", "a", timestamp_ms=3)
    driver.pipe_input("left", "y", "b", timestamp_ms=4)

    assert [(one.key, one.value) for one in driver.read_outputs("out")] == [("x", 1)]
    letters = driver.read_outputs("letters")
    assert [(seen(one.headers, "message"), one.timestamp_ms) for one in letters] == [
        ("value: expected 8 bytes of a long, got 5", 2),
        ("negative", 4),
    ]


def loop_of_steps() -> Topology:
    """What is too small is added to and goes round."""
    builder = StreamsBuilder(config={LETTERS: "letters"})
    longs = builder.stream("longs", Consumed(STRING, LONG))
    good = longs.map_values(lambda value: checked(value), returns=LONG, on_error="dead_letter")
    all_ = good.merge(builder.stream("again", Consumed(STRING, LONG)))
    all_.filter("value < 6").map_values("value + 2").to("again")
    return builder.build()


def loop_by_handler() -> Topology:
    """What goes round gets less, until it is negative."""
    builder = StreamsBuilder(config={PROCESSING: LogAndContinueExceptionHandler, LETTERS: "letters"})
    longs = builder.stream("longs", Consumed(STRING, LONG)).merge(builder.stream("again", Consumed(STRING, LONG)))
    longs.map_values(lambda value: checked(value - 2), returns=LONG).to("again")
    return builder.build()


@pytest.mark.parametrize("max_records", [None, 1])
@pytest.mark.parametrize(("made", "times"), [(loop_of_steps, [1, 2]), (loop_by_handler, [0, 1, 2])])
def test_a_loop_writes_each_letter_once(tmp_path, made, times, max_records):
    """
    Before it is known which records go round there are trials, which write none.
    """
    warehouse = Warehouse(tmp_path)
    values = [(5).to_bytes(8, "big"), (-1).to_bytes(8, "big", signed=True), b"xx"]
    plant(warehouse, "longs", [LandedRecord(0, b"k", value, at) for at, value in enumerate(values)], partitions=1)

    list(replay(warehouse, made(), pipeline="p", runner=LocalRunner(), max_records=max_records))

    assert sorted(row["record_time_ms"] for row in read_changelog(warehouse, "p", "letters").to_pylist()) == times


@pytest.mark.sampled(share=4)
@pytest.mark.parametrize("repartitions", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_explaining_a_record_says_that_it_became_a_letter(tmp_path, repartitions, whole):
    warehouse, made = Warehouse(tmp_path), longs(repartitions=repartitions)
    plant_longs(warehouse)
    list(replay(warehouse, made, pipeline="p", runner=LocalRunner()))

    for offset in (1, 4):
        explanation = explain(warehouse, "p", made, f"longs:0:{offset}", whole=whole)
        said = [sentence for step in explanation.steps for sentence in step.sentences]
        assert explanation.difference is None
        assert "becomes a record of the topic of dead letters" in said
        assert len([one for one in said if one.startswith("writes outputs/letters offset")]) == 1


def test_kafkas_description_does_not_have_the_topic():
    assert longs().describe() == longs(**{LETTERS: None}).describe()


@pytest.mark.parametrize("name", ["dead_letter", "", "a b", 3])
def test_a_topic_that_cannot_be_is_refused(name):
    with pytest.raises(ConfigError, match="the name of a topic, and none of"):
        longs(**{LETTERS: name})


def test_a_topic_that_the_topology_names_itself_is_refused():
    with pytest.raises(TopologyError, match="neither reads nor writes, got one that KSTREAM-SOURCE-0000000000 reads"):
        longs(**{LETTERS: "longs"})
    with pytest.raises(TopologyError, match=r"neither reads nor writes, got one that .*SINK.* names"):
        longs(**{LETTERS: "out"})


def test_what_a_letter_says_of_an_error_is_the_same_in_every_run():
    """
    Python names an object by its address, which is another one in every process.
    """

    def refuse(value: int) -> int:
        raise ValueError(object())

    builder = StreamsBuilder(config={PROCESSING: LogAndContinueExceptionHandler, LETTERS: "letters"})
    builder.stream("longs", Consumed(STRING, LONG)).map_values(lambda value: refuse(value), returns=LONG).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("longs", "k", 1, timestamp_ms=0)
    (letter,) = driver.read_outputs("letters")
    headers = {name: value.decode() for name, value in letter.headers}

    assert headers["__streams.errors.message"] == "<object object>"
    assert headers["__streams.errors.stacktrace"].startswith("ValueError: <object object>\n")
