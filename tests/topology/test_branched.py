"""Branches that functions and consumers take, and printed streams."""

import pytest

from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Branched, Consumed, KStream, Printed, Serde, StreamsBuilder
from kstreams_replay.state.errors import TopologyError

LONG = Consumed(Serde.string(), Serde.long())


def stream() -> tuple[StreamsBuilder, KStream]:
    builder = StreamsBuilder()
    return builder, builder.stream("in", LONG)


def values(builder: StreamsBuilder, *outputs: str) -> list[list[int]]:
    driver = TopologyTestDriver(builder.build())
    for value in range(8):
        driver.pipe_input("in", "a", value, 0)
    return [[record.value for record in driver.read_outputs(output)] for output in outputs]


def test_what_takes_a_branch_says_what_stands_for_it():
    builder, numbers = stream()
    split = numbers.split(name="s-").branch("value > 5", Branched.with_consumer(lambda branch: branch.to("large")))
    split.branch("value > 3", Branched.with_function(lambda branch: branch.map_values("value * 10"), "middle"))
    split.branch("value > 2", Branched.with_function(lambda branch: None))
    left = split.branch("value > 1", name="two").default_branch(Branched.as_("small"))

    assert list(left) == ["s-middle", "s-two", "s-small"]
    for name, branch in left.items():
        branch.to(name)
    assert values(builder, "large", *left) == [[6, 7], [40, 50], [2], [0, 1]]


def test_branches_without_a_name_are_numbered_though_one_before_them_is_taken_away():
    _, numbers = stream()
    split = numbers.split(name="s-").branch("value > 5", Branched.with_consumer(lambda branch: None))

    assert list(split.branch("value > 3").no_default_branch()) == ["s-2"]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda s: s.split().branch("value > 1", "large"), "a Branched"),
        (lambda s: s.split().branch("value > 1", Branched.as_("a"), name="b"), "one name"),
        (lambda s: Branched.with_consumer(lambda: None), r"a callable of \(stream\)"),
        (lambda s: s.print(print), "a Printed"),
    ],
)
def test_what_is_no_branched_and_no_printed_is_refused(call, expected):
    with pytest.raises(TopologyError, match=f"expected {expected}"):
        call(stream()[1])


def test_records_are_printed_as_kafka_prints_them(capsys, tmp_path):
    builder, numbers = stream()
    numbers.print(Printed.to_sys_out())
    numbers.print(Printed.to_file(tmp_path / "lines").with_label("in").with_key_value_mapper(lambda k, v: f"{k}={v}"))
    driver = TopologyTestDriver(builder.build())
    for value in (5, None):
        driver.pipe_input("in", "a", value, 0)
    driver.run()

    assert capsys.readouterr().out == "[KSTREAM-SOURCE-0000000000]: a, 5\n[KSTREAM-SOURCE-0000000000]: a, null\n"
    assert (tmp_path / "lines").read_text() == "[in]: a=5\n[in]: a=None\n"
