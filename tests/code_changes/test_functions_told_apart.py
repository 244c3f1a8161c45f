"""A Python function that changed is seen, however it is given."""

from functools import partial
from typing import Any

import pytest

from kstreams_replay.jobs.topology import KStream, KTable, Serde, Topology
from tests.code_changes.changes import LONG, NAMED, STRING, clicks, said, verdict


class Times:
    """A function with a setting, as an object that is called."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, key: object, value: int) -> tuple[object, int]:
        return key, self.factor * value


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (lambda key, value: (key, value + 1), lambda key, value: (key, value + 2)),
        (lambda key, value, by=1: (key, value + by), lambda key, value, by=2: (key, value + by)),
        (Times(2), Times(3)),
        (Times(2).__call__, Times(3).__call__),
        (lambda key, value: (key, value in {1, 2}), lambda key, value: (key, value in {1, 3})),
        (partial(Times.__call__, Times(2)), partial(Times.__call__, Times(3))),
    ],
)
def test_a_function_above_a_store_that_changed_is_seen_however_it_is_given(before, now):
    def mapped(function: Any) -> Topology:
        def counted(stream: KStream) -> KTable:
            return stream.map(function, returns_key=STRING, returns=LONG).group_by_key().count(NAMED)

        return clicks(counted, value=LONG)

    assert said(verdict(mapped(before), mapped(before))) == []
    assert said(verdict(mapped(before), mapped(now))) == [("store 'store'", "steps", True)]


def test_a_reducer_of_a_table_that_changed_is_seen():
    def reduced(adder: Any) -> Topology:
        def table(stream: KStream) -> KTable:
            grouped = stream.to_table().group_by(lambda key, value: (key, value), returns_key=STRING, returns=LONG)
            return grouped.reduce(adder, lambda total, old: total - old, materialized=NAMED)

        return clicks(table, value=LONG)

    before, now = (lambda total, new: total + new), (lambda total, new: max(total, new))

    assert said(verdict(reduced(before), reduced(before))) == []
    assert said(verdict(reduced(before), reduced(now))) == [("store 'store'", "steps", True)]


def test_another_serde_of_ones_own_is_seen_as_another_step():
    def counted(encode: Any) -> Topology:
        serde = Serde.of(encode, bytes.decode, type="string")
        return clicks(lambda stream: stream.group_by_key().count(NAMED).to("out"), value=Serde.list(serde))

    before, same, now = (counted(one) for one in (str.encode, str.encode, lambda text: text.strip().encode()))

    assert verdict(before, same).changes == ()
    assert verdict(before, now).goes_on
    assert {(one.place, one.what) for one in verdict(before, now).changes} == {
        ("store 'store'", "steps"), ("output 'out'", "steps"),
    }  # fmt: skip
