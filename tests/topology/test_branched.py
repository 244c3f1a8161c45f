"""Branches that functions and consumers take, and printed streams."""

import math
from datetime import UTC, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest

from kstreams_replay.jobs.functions.java_text import java_text
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Branched, Consumed, KStream, Printed, Serde, StreamsBuilder, TimeWindows
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


def test_values_are_printed_as_javas_to_string_has_them(capsys):
    fields = (
        "f float, d double, b boolean, l array<float>, m map<string, boolean>, n decimal(5,2), t timestamp, s string"
    )
    row = {
        "f": 0.1, "d": 1e20, "b": True, "l": [0.1, None], "m": {"a": True, "b": None}, "n": Decimal("1.50"),
        "t": datetime(2026, 1, 31, 10, tzinfo=UTC), "s": "True",
    }  # fmt: skip
    want = {
        "f": "0.1", "d": "1.0E20", "b": "true", "l": "[0.1, null]", "m": "{a=true, b=null}", "n": "1.50",
        "t": "2026-01-31T10:00:00Z", "s": "True",
    }  # fmt: skip
    builder = StreamsBuilder()
    rows = builder.stream("in", Consumed(Serde.boolean(), Serde.json(fields)))
    for field in row:
        rows.map_values(field).print(Printed.to_sys_out().with_label(field))
    rows.map_values("l").group_by_key().windowed_by(TimeWindows.of_size(10)).count().to_stream().print(
        Printed.to_sys_out().with_label("w")
    )
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", False, row, 0)
    driver.run()

    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(
        [*(f"[{field}]: false, {text}" for field, text in want.items()), "[w]: [false@0/10], 1"]
    )


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (1e7, None, "1.0E7"), (9999999.0, None, "9999999.0"), (0.001, None, "0.001"), (1e-4, None, "1.0E-4"),
        (123456789.123, None, "1.23456789123E8"), (-0.0, None, "-0.0"), (5e-324, None, "4.9E-324"),
        (2e-323, None, "2.0E-323"), (100.0, None, "100.0"), (0.1 + 0.2, None, "0.30000000000000004"),
        (math.nan, None, "NaN"), (-math.inf, None, "-Infinity"),
        (1.7976931348623157e308, None, "1.7976931348623157E308"),
        (16777216.0, pa.float32(), "1.6777216E7"), (1.401298464324817e-45, pa.float32(), "1.4E-45"),
        (3.4028234663852886e38, pa.float32(), "3.4028235E38"), (-1.5e-5, pa.float32(), "-1.5E-5"),
        (datetime(2026, 1, 31, 10, 0, 0, 120_000, tzinfo=UTC), None, "2026-01-31T10:00:00.120Z"),
        (datetime(2026, 1, 31, 10), None, "2026-01-31T10:00"), (time(10), None, "10:00"),
        (datetime(2026, 1, 31, 10, 0, 5, 120_100), None, "2026-01-31T10:00:05.120100"),
        (time(10, 0, 5), None, "10:00:05"),
        ({"a": True}, pa.struct({"a": pa.bool_()}), "{'a': True}"), (b"a", pa.binary(), "b'a'"), (7, None, "7"),
    ],
)  # fmt: skip
def test_numbers_and_times_have_javas_text(value, kind, text):
    """As Java prints them: System.out.println of a double, a float, an Instant, a LocalDateTime and a LocalTime."""
    assert java_text(value, kind) == text
