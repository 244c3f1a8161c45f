"""Each type by each serde in each place: as a value, a key, a header, in a fold, a join, a store, an output and in SQL.

The cells are made from CASES (``typed_cases.py``) and PLACES. Bytes come in and what comes out is said by hand in the
case: what Python sees (``value``), and what expressions, tables and SQL see where that is something else (``seen``,
``stored``).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.functions import folds as fold
from kstreams_replay.jobs.functions.processor_api import KeyValues, Processor, Record
from kstreams_replay.jobs.history.history import AsOf, History
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, StreamsBuilder, Topology
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant
from tests.sampling import sampled
from tests.topology.typed_cases import CASES, TypedCase

STRING = Serde.string()


def driven(topology: Topology, *records: tuple[str, Any, Any], headers: Any = ()) -> TopologyTestDriver:
    """After ``records`` (topic, key and value as bytes) were piped in."""
    driver = TopologyTestDriver(topology)
    for time_ms, (topic, key, value) in enumerate(records):
        driver.pipe_bytes(topic, key, value, timestamp_ms=time_ms, headers=headers)
    return driver


def as_a_value(case: TypedCase, folder: Path) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(STRING, case.serde))
    stream.filter("record_key = 'k'").to("same")
    if case.field:
        stream.map_values(case.field).to("out")
    stream.map_values(lambda key, value: value, returns=case.serde).to("python")
    driver = driven(builder.build(), ("in", b"k", case.data), ("in", b"k", None))

    for topic in ("same", "python"):
        assert [record.value for record in driver.read_outputs(topic)] == [case.value, None]
    if case.field:
        assert [record.value for record in driver.read_outputs("out")] == [case.of("seen"), None]
    assert case.serde.encode(case.serde.from_python([case.value, None])).to_pylist() == [case.data, None]


def as_a_key(case: TypedCase, folder: Path) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(case.serde, STRING))
    stream.group_by_key().count().to("counts")
    again = stream.map(lambda key, value: (key, value), returns_key=case.serde, returns=STRING).repartition()
    again.group_by_key().count().to("again")
    driver = driven(builder.build(), ("in", case.data, b"a"), ("in", case.data, b"b"))

    want = [] if case.value is None else [(case.value, 1), (case.value, 2)]  # Kafka drops null keys
    assert [(record.key, record.value) for record in driver.read_outputs("counts")] == want
    assert [(record.key, record.value) for record in driver.read_outputs("again")] == want


def in_a_header(case: TypedCase, folder: Path) -> None:
    class Reader(Processor):
        """The header's value becomes the record's."""

        def process(self, record: Record) -> None:
            (data,) = (value for name, value in record.headers if name == "h")
            decoded = case.serde.decode(pa.array([data], pa.binary()))
            self.context.forward(record.with_value(case.serde.to_python(decoded.values)[0]))

    builder = StreamsBuilder()
    builder.stream("in", Consumed(STRING, STRING)).process(Reader, returns=case.serde).to("out")
    driver = driven(builder.build(), ("in", b"k", b"v"), headers=(("h", case.data),))

    (record,) = driver.read_outputs("out")
    assert (record.value, record.headers) == (case.value, (("h", case.data),))


def in_a_fold(case: TypedCase, folder: Path) -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(STRING, case.serde)).group_by_key()
    name, seen = case.folded()
    grouped.aggregate(last=fold.last(name), all=fold.collect(name)).to("folds")
    grouped.aggregate(fold.last("record_key")).to("keys")
    grouped.aggregate(fold.any("record_key = 'k'")).to("any")
    grouped.reduce(lambda aggregate, value: value).to("reduced")
    driver = driven(builder.build(), ("in", b"k", case.data), ("in", b"k", case.data))

    is_none = case.value is None  # aggregates take no tombstones
    want = [] if is_none else [{"last": seen, "all": [seen]}, {"last": seen, "all": [seen, seen]}]
    assert [record.value for record in driver.read_outputs("folds")] == want
    for topic, one in (("keys", "k"), ("any", True)):  # of the value's type perhaps, and not by its serde
        assert [record.value for record in driver.read_outputs(topic)] == ([] if is_none else [one] * 2)
    assert [record.value for record in driver.read_outputs("reduced")] == ([] if is_none else [case.value] * 2)


def in_a_join(case: TypedCase, folder: Path) -> None:
    builder = StreamsBuilder()
    table = builder.table("table", Consumed(STRING, case.serde))
    stream = builder.stream("in", Consumed(STRING, case.serde))
    stream.left_join(table, lambda left, right: right, returns=case.serde).to("python")
    if case.field:
        name = "" if case.field == "value" else f".{case.field}"
        stream.left_join(table, left=f"left{name}", right=f"right{name}").to("out")
    driver = driven(builder.build(), ("table", b"k", case.data), ("in", b"k", case.data))

    is_none = case.value is None  # a stream-table join takes no tombstones
    assert [record.value for record in driver.read_outputs("python")] == ([] if is_none else [case.value])
    if case.field:
        both = {"left": case.of("seen"), "right": case.of("seen")}
        assert [record.value for record in driver.read_outputs("out")] == ([] if is_none else [both])


def in_a_store(case: TypedCase, folder: Path) -> None:
    class Keeper(Processor):
        """Forwards what its store has of a value that was put."""

        def process(self, record: Record) -> None:
            store = self.context.store("kept")
            store.put(record.key, record.value)
            self.context.forward(record.with_value(store.get(record.key)))

    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(STRING, case.serde))
    stream.process(Keeper, [KeyValues("kept", STRING, case.serde)], returns=case.serde).to("out")
    stream.to_table(materialized=Materialized.as_("table"))
    driver = driven(builder.build(), ("in", b"k", case.data))

    assert [record.value for record in driver.read_outputs("out")] == [case.value]
    assert driver.get_key_value_store("kept").get("k") == case.value
    assert driver.get_key_value_store("table").get("k") == case.value


def replayed(case: TypedCase, folder: Path) -> AsOf:
    """A landed record with such a key and value, and a tombstone, went through a replay to a Delta table."""
    builder = StreamsBuilder()
    builder.stream("in", Consumed(case.serde, case.serde)).to("out")
    topology, warehouse = builder.build(), Warehouse(folder)
    plant(
        warehouse, "in", [LandedRecord(0, case.data, case.data, 0), LandedRecord(0, case.data, None, 1)], partitions=1
    )
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), idle="proceed"))
    return History(warehouse, "p", topology).at(1)


def in_table(case: TypedCase) -> Any:
    return {"x": case.of("stored")} if case.field == "x" else case.of("stored")


def in_an_output(case: TypedCase, folder: Path) -> None:
    table = replayed(case, folder).changelog("out")

    assert table["key"].to_pylist() == [in_table(case)] * 2
    assert table["value"].to_pylist() == [in_table(case), None]


def in_sql(case: TypedCase, folder: Path) -> None:
    name = "value.x" if case.field == "x" else "value"
    found = replayed(case, folder).sql(f'SELECT {name} AS found FROM "outputs/out" WHERE "offset" = 0')

    stored = case.of("stored")
    is_map = isinstance(stored, list) and stored and isinstance(stored[0], tuple)
    assert found.to_dicts() == [{"found": dict(stored) if is_map else stored}]


PLACES: dict[str, Callable[[TypedCase, Path], None]] = {
    "value": as_a_value,
    "key": as_a_key,
    "header": in_a_header,
    "fold": in_a_fold,
    "join": in_a_join,
    "store": in_a_store,
    "output": in_an_output,
    "SQL": in_sql,
}
CELLS = [(place, case) for place in PLACES for case in CASES]


@pytest.mark.parametrize(("place", "case"), sampled(CELLS, "/".join, stratum=lambda cell: cell[0]))
def test_a_value_of_any_type_by_any_serde_stands_in_any_place(place, case, tmp_path):
    PLACES[place](CASES[case], tmp_path)


def test_the_page_of_types_has_the_table_of_the_cells():
    page = (Path(__file__).parents[2] / "docs" / "types.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and line.count("|") == 2 + len(PLACES)]

    assert rows[0] == f"| type by serde | {' | '.join(PLACES)} |"
    assert {row.split("|")[1].strip().replace("`", "") for row in rows[1:]} == set(CASES)
    assert all(row.split("|")[2:-1] == [" yes "] * len(PLACES) for row in rows[1:])
