"""A global table as a stream's task sees it: null keys are passed over, and its keys may be of another serde."""

import numpy as np
import pyarrow as pa

from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.operators.base.operator import TableView
from kstreams_replay.jobs.operators.tables.global_table import GlobalTableView
from kstreams_replay.jobs.topology import Serde, StreamsBuilder, Topology
from kstreams_replay.state.records.batches import Batch, Values
from kstreams_replay.state.records.keys import Keys
from tests.operators.cut_tapes import TEXTS, play_task, topology_of

SLOTS = 1024
"""That a table has at first; the null key's code counts from their end."""


def looked_up() -> Topology:
    """Stream S, whose values are keys of the global table G."""

    def build(builder: StreamsBuilder):
        table = builder.global_table("G", TEXTS)
        return builder.stream("S", TEXTS).join(table, "left || '=' || right", selector="value")

    return topology_of(build)


def test_a_null_key_is_no_key_of_the_table_and_takes_no_others_place():
    names = [f"k{number}" for number in range(SLOTS)]
    puts = [("G", name, f"v{name}", 0) for name in names]
    asked = [("S", None, name, 1) for name in names]
    want = [f"{name}=v{name}" for name in names]

    for chunks in ([], [SLOTS + 1]):  # asked in the chunk of the puts, and in the next
        played = play_task(looked_up(), [*puts, ("G", None, "nobody", 0), *asked], chunks=chunks)

        assert [out.value for out in played.outputs] == want
        assert played.dropped == []


def of(key: Serde, keys: Keys) -> GlobalTableView:
    return GlobalTableView("G", Shape(key, Serde.string()), keys)


def records(keys: Keys, names: list[bytes | None]) -> Batch:
    """Of the table's topic; the value of key number n is "vn"."""
    codes, n = keys.intern(pa.array(names, pa.binary())), len(names)
    value = Values(pa.array([f"v{number}" for number in range(n)]))
    return Batch(
        cause=np.arange(n, dtype=np.int32),
        key=codes,
        keys=keys,
        time_ms=np.zeros(n, np.int64),
        valid=np.ones(n, np.bool_),
        value=value,
    )


def test_keys_of_another_serde_than_the_streams_do_not_come_among_the_streams_keys():
    """
    The bytes of the long -1 are no text: among the stream's keys they would be a key that cannot be decoded.
    """
    streams, topics = Keys(Serde.string()), Keys(Serde.long())
    view = of(Serde.long(), streams)
    view.feed({("G", TableView.PUT): records(topics, [b"\xff" * 8, None, b"\0" * 8])})

    assert view.keys.serde == Serde.long()
    assert view.keys.typed(np.array([0, 1], np.int32)).to_pylist() == [-1, 0]
    assert (len(streams), streams.undecodable()) == (0, {})


def test_keys_of_the_streams_serde_are_coded_once_for_both():
    streams = Keys(Serde.string())
    view = of(Serde.string(), streams)
    view.feed({("G", TableView.PUT): records(Keys(Serde.string()), [b"x", None])})

    assert view.keys is streams
    assert (streams.lookup(b"x"), len(streams)) == (0, 1)
