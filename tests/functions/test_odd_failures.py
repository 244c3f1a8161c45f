"""Functions that fail in odd ways: exits, errors and objects without a text, too little memory."""

import sys

import pytest

from kstreams_replay import (
    Consumed,
    LogAndContinueExceptionHandler,
    Processor,
    PunctuationType,
    Serde,
    StreamsBuilder,
    TopologyTestDriver,
)
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import TaskFailed
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

STRING = Serde.string()


def mapped(function, config=None, **options):
    builder = StreamsBuilder(config=config)
    builder.stream("in", Consumed(STRING, STRING)).map_values(function, returns=STRING, **options).to("out")
    return builder.build()


def processed(cls):
    builder = StreamsBuilder()
    builder.stream("in", Consumed(STRING, STRING)).process(cls, returns_key=STRING, returns=STRING).to("out")
    return builder.build()


def run(topology):
    driver = TopologyTestDriver(topology)
    driver.pipe_input("in", "k", "good", timestamp_ms=0)
    driver.pipe_input("in", "k", "bad", timestamp_ms=1)
    driver.run()


def failure(topology):
    with pytest.raises(TaskFailed) as raised:
        run(topology)
    return raised.value


def leave(value):
    return sys.exit(0) if value == "bad" else value


class Leaving(Processor):
    def process(self, record):
        leave(record.value)


class LeavingAtOnce(Processor):
    def init(self, context):
        sys.exit(0)

    def process(self, record):
        pass


class LeavingOnTime(Processor):
    def init(self, context):
        context.schedule(1, PunctuationType.STREAM_TIME, lambda now: leave("bad"))

    def process(self, record):
        pass


def extracted():
    builder = StreamsBuilder()
    consumed = Consumed(STRING, STRING, timestamp_extractor=lambda record: leave("bad"))
    builder.stream("in", consumed).to("out")
    return builder.build()


class Closing(Processor):
    def process(self, record):
        raise GeneratorExit


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class Unreadable:
    def __repr__(self):
        raise RuntimeError("no text")


# --- what would end the process ---------------------------------------------------------------------------------


LEAVING = {
    "mapper": (mapped(leave), "SystemExit: 0"),
    "processor": (processed(Leaving), "SystemExit: 0"),
    "init": (processed(LeavingAtOnce), "SystemExit: 0"),
    "punctuator": (processed(LeavingOnTime), "SystemExit: 0"),
    "extractor": (extracted(), "SystemExit: 0"),
    "GeneratorExit": (processed(Closing), "GeneratorExit"),
}


@pytest.mark.parametrize("case", LEAVING)
def test_a_function_that_ends_the_process_ends_the_run_with_its_line(case):
    topology, got = LEAVING[case]

    error = failure(topology)

    expected = "a function of the topology: expected functions that leave the process alone"
    assert str(error).startswith(f"{expected}, got {got} in {__file__}, line ")
    assert error.next_step == "raise an exception that says what is wrong"


def test_no_handler_and_no_dead_letter_takes_an_exit():
    handled = mapped(leave, config={"processing.exception.handler": LogAndContinueExceptionHandler})

    assert "SystemExit: 0" in failure(handled).got
    assert "SystemExit: 0" in failure(mapped(leave, on_error="dead_letter")).got


def test_the_record_that_made_a_function_exit_is_found():
    assert failure(mapped(leave)).record.value == "bad"


def test_ctrl_c_goes_on_as_it_is():
    def interrupt(value):
        raise KeyboardInterrupt

    driver = TopologyTestDriver(mapped(interrupt))
    driver.pipe_input("in", "k", "v", timestamp_ms=0)

    with pytest.raises(KeyboardInterrupt):
        driver.run()


def test_a_run_in_which_a_function_exits_has_the_exit_code_of_an_error(tmp_path, capsys):
    (tmp_path / "leaving.py").write_text(
        "import sys\n"
        "from kstreams_replay import Consumed, Serde, StreamsBuilder\n"
        "builder = StreamsBuilder()\n"
        "words = builder.stream('in', Consumed(Serde.string(), Serde.string()))\n"
        "words.map_values(lambda word: sys.exit(0), returns=Serde.string()).to('out')\n"
        "topology = builder.build()\n"
    )
    plant(Warehouse(tmp_path / "W"), "in", [LandedRecord(0, b"k", b"v", 0)], partitions=1)

    code = main(
        ["run", f"{tmp_path}/leaving.py:topology", "--warehouse", f"{tmp_path}/W", "--pipeline", "p", "--local"]
    )

    assert code == 1
    assert "functions that leave the process alone, got SystemExit: 0 in" in capsys.readouterr().err


def test_a_file_that_exits_when_it_is_read_is_no_success(tmp_path, capsys):
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit(0)\n")

    code = main(["describe", f"{tmp_path}/leaving.py:topology"])

    assert code == 2
    assert "got SystemExit: 0" in capsys.readouterr().err


# --- what says nothing of itself --------------------------------------------------------------------------------


def test_an_error_whose_text_fails_is_named_by_its_class():
    def fail(value):
        raise Silent

    assert failure(mapped(fail)).got.startswith("Silent: (its text fails with RuntimeError) on key 'k', value 'good'")


def test_an_error_without_text_is_its_class():
    def fail(value):
        raise AssertionError

    assert failure(mapped(fail)).got.startswith("AssertionError on key 'k', value 'good'")


def test_a_result_whose_repr_fails_is_named_by_its_class():
    got = failure(mapped(lambda value: Unreadable())).got

    assert got.startswith("<Unreadable, whose repr fails> (Unreadable) on key 'k'")


# --- what every run must say in the same words ------------------------------------------------------------------


def reason(function):
    driver = TopologyTestDriver(mapped(function, on_error="dead_letter"))
    driver.pipe_input("in", "k", "read at 0x7f0000000000", timestamp_ms=0)
    driver.run()
    (letter,) = driver.dead_letters
    return letter.reason


def test_a_dead_letter_has_no_address_of_an_object():
    def fail(value):
        raise ValueError(f"no {object()}")

    value = "on key 'k', value 'read at 0x7f0000000000'"  # what a record says is kept
    assert reason(fail) == f"step: ValueError: no <object object> {value}"
    assert reason(lambda value: object()) == "step: <object object> (object) on key 'k'"
    assert reason(lambda value: len) == (
        "step: <built-in function len> (builtin_function_or_method), which nobody calls on key 'k'"
    )


def test_too_little_memory_makes_no_dead_letter():
    def fail(value):
        raise MemoryError

    driver = TopologyTestDriver(mapped(fail, on_error="dead_letter"))
    driver.pipe_input("in", "k", "v", timestamp_ms=0)

    with pytest.raises(MemoryError):
        driver.run()
