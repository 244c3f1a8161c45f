"""Explanations show values that Python's own words would hide: decimals, dates, times, maps."""

from uuid import UUID

from kstreams_replay.jobs.explain.readable_values import readable
from kstreams_replay.jobs.functions.expressions import Windowed
from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, StreamsBuilder, Topology
from tests.explain.explained import by, explained, played

VALUE = Serde.json("price decimal(5,2), day date, ts timestamp, tags array<time>, attrs map<string, date>")


def newest() -> Topology:
    builder = StreamsBuilder()
    table = (
        builder.stream("in", Consumed(Serde.string(), VALUE))
        .select_key("day")
        .to_table(materialized=Materialized.as_("newest"))
    )
    table.map_values("price").to("out")
    return builder.build()


def test_values_are_said_as_their_digits_and_in_iso_8601(tmp_path):
    text = (
        '{"price":1.5,"day":"2026-01-02","ts":"2026-01-02T03:00:00+01:00","tags":["10:00",null],'
        '"attrs":{"a":"2026-01-03"}}'
    )
    warehouse = played(tmp_path, newest(), {"in": [("a", text, 3)]})

    found = explained(warehouse, newest(), "in:0:0")

    said = (
        "{'price': 1.50, 'day': 2026-01-02, 'ts': 2026-01-02T02:00:00Z, 'tags': [10:00:00, None], "
        "'attrs': {'a': 2026-01-03}}"
    )
    assert by("SourceNode", found) == [f"read: 'a' = {said}, time 3"]
    assert by("SinkNode", found) == ["writes outputs/out offset 0: 2026-01-02 = 1.50, time 3"]
    assert f"2026-01-02: begins with {said}" in by("TableNode", found)


def test_uuids_and_windowed_keys_are_said_as_they_are_written():
    one = UUID("01234567-89ab-cdef-0123-456789abcdef")
    windowed, listed = Serde.time_windowed(Serde.uuid(), 10), Serde.list(Serde.uuid())

    assert repr(readable(windowed.from_python([Windowed(one, 0, 10)]), windowed)) == (
        f"[Windowed(key={one}, window_start_ms=0, window_end_ms=10)]"
    )
    assert repr(readable(listed.from_python([None, [one, None]]), listed)) == f"[None, [{one}, None]]"
    assert repr(readable(Serde.uuid().from_python([None, one]), Serde.uuid())) == f"[None, {one}]"
