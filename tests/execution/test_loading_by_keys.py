"""A large store is loaded by the keys of the tape, in whatever form a landed topic has them."""

from typing import Any

import pytest

from kstreams_replay.jobs.execution import task_stores
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, StreamsBuilder, Topology
from kstreams_replay.state.tables import key_dictionaries
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant, tables_of


def counts(key: Serde, **of_time: Any) -> Topology:
    builder = StreamsBuilder()
    read = builder.stream("clicks", Consumed(key, Serde.long(), **of_time))
    read.group_by_key().count(Materialized.as_("counts")).to_stream().to("counted")
    return builder.build()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("topology", "keys"),
    [
        (lambda: counts(Serde.string()), [b"a", b"b", b"c"]),
        (lambda: counts(Serde.string(), timestamp_extractor="value"), [b"a", b"b", b"c"]),
        (lambda: counts(Serde.json("n long")), [b'{"n":1}', b'{"n": 1}', b'{"n":2}']),
    ],
    ids=["text", "with an extractor", "json in two forms"],
)
def test_increments_over_a_large_store_leave_what_one_big_increment_leaves(tmp_path, monkeypatch, topology, keys):
    monkeypatch.setattr(key_dictionaries, "_DICTIONARY_ROWS", 1)
    monkeypatch.setattr(key_dictionaries, "_KEY_BYTES", 1e9)
    monkeypatch.setattr(task_stores, "ALL_BELOW_ROWS", 0)
    monkeypatch.setattr(task_stores, "ALL_BELOW_SHARE", 0)
    warehouse = Warehouse(str(tmp_path))
    for part in range(3):
        rows = [LandedRecord(0, keys[n % 3], n.to_bytes(8, "big"), n) for n in range(20 * part, 20 * part + 20)]
        plant(warehouse, "clicks", rows, partitions=1)
        list(replay(warehouse, topology(), pipeline="cut", runner=LocalRunner()))

    list(replay(warehouse, topology(), pipeline="whole", runner=LocalRunner()))

    assert tables_of(warehouse, "cut", topology()) == tables_of(warehouse, "whole", topology())
    newest = tables_of(warehouse, "whole", topology())["outputs/counted"][-1]["value"]
    assert newest in (20, 40)


def test_a_warm_copy_made_under_another_key_serde_is_not_looked_into(tmp_path, monkeypatch):
    """
    Its hashes are of keys as the other serde writes them, so nobody would find the rows.
    """
    monkeypatch.setattr(task_stores, "ALL_BELOW_ROWS", 0)
    monkeypatch.setattr(task_stores, "ALL_BELOW_SHARE", 0)
    small = Serde.of(str.encode, bytes.decode, type="string")
    capital = Serde.of(lambda text: text.upper().encode(), lambda data: data.decode().lower(), type="string")
    warehouse, cache = Warehouse(str(tmp_path / "warehouse")), tmp_path / "cache"
    cache.mkdir(mode=0o700)
    for part, key in enumerate((small, capital)):
        rows = [LandedRecord(0, name, bytes(8), n) for n, name in enumerate((b"a", b"a", b"b"), 3 * part)]
        plant(warehouse, "clicks", rows, partitions=1)
        list(replay(warehouse, counts(key), pipeline="p", runner=LocalRunner(str(cache))))

    counted = tables_of(warehouse, "p", counts(capital))["outputs/counted"]

    assert [(row["key"], row["value"]) for row in counted[3:]] == [("a", 3), ("a", 4), ("b", 2)]
