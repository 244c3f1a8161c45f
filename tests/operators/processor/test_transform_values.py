"""Values of a table that a transformer makes: what it is asked, what it knows, and what becomes of its answers."""

import pytest

from kstreams_replay.jobs.functions.processor_api import ValueTransformerWithKey
from kstreams_replay.jobs.topology import Consumed, KTable, Materialized, Serde, StreamsBuilder
from kstreams_replay.state.errors import ConfigError, TaskFailed
from tests.operators.cut_tapes import play_task
from tests.playing import InputRecord

LONG, TEXT = Serde.long(), Serde.string()


class AskedTransformer(ValueTransformerWithKey):
    """Says what it was asked; fails for 13."""

    def transform(self, key, value):
        if value == 13:
            raise ValueError("unlucky")
        return f"{key} {value} at {self.context.timestamp_ms}"


class Hasty(AskedTransformer):
    """Asks for a time before there is one."""

    def init(self, context):
        super().init(context)
        self.context.timestamp_ms  # noqa: B018


class Odd(ValueTransformerWithKey):
    """Odd values alone."""

    def transform(self, key, value):
        return value if value is not None and value % 2 else None


def played(
    transformer, *values: int | None, materialized: Materialized | None = None, returns: Serde = TEXT, steps=None
):
    """Values of the key k at times 0, 1, ... through a transformer."""

    def build(builder: StreamsBuilder) -> KTable:
        table = builder.table("in", Consumed(TEXT, LONG))
        return table.transform_values(transformer, returns=returns, materialized=materialized)

    return play_task(build, [InputRecord("in", "k", value, time) for time, value in enumerate(values)])


def test_every_change_is_transformed_and_forwarded_deletions_too():
    got = played(AskedTransformer, 1, None, None)

    assert [output.value for output in got.outputs] == ["k 1 at 0", "k None at 1", "k None at 2"]
    assert got.stores == {}


def test_a_store_has_what_the_transformer_made():
    got = played(Odd, 1, 3, 4, 5, 6, returns=LONG, materialized=Materialized("odd"))

    assert [output.value for output in got.outputs] == [1, 3, None, 5, None]
    assert got.stores["odd"] == []


def test_a_store_keeps_the_time_of_the_change():
    got = played(Odd, 2, 3, returns=LONG, materialized=Materialized("odd"))

    assert got.stores["odd"] == [{"key": "k", "value": 3, "record_time_ms": 1}]


def test_a_failing_transformer_is_named_with_its_key():
    with pytest.raises(TaskFailed, match="ValueError: unlucky on key 'k'"):
        played(AskedTransformer, 13)


def test_a_result_of_another_type_is_refused():
    with pytest.raises(TaskFailed, match="or the serde in returns"):
        played(AskedTransformer, 1, returns=LONG)


def test_there_is_no_time_before_the_first_value():
    with pytest.raises(ConfigError, match="ask in transform"):
        played(Hasty, 1)
