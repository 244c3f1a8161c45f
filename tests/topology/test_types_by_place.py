"""Each type by each serde in each place: as a value, a key, a header, in a fold, a join, a store, an output and in SQL.

The cells are made from CASES and PLACES; what comes out is said by hand in CASES: what Python sees (``value``), and
what expressions, tables and SQL see where that is something else (``seen``, ``stored``).
"""

import datetime as dt
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.jobs.execution.table_schemas import table_schema
from kstreams_replay.jobs.functions import folds as fold
from kstreams_replay.jobs.functions.processor_api import KeyValues, Processor, Record
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, StreamsBuilder, Topology
from kstreams_replay.state.tables.parquet_writer import write_task_file
from tests.rotation import rotated

ONE = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
STRING = Serde.string()
_SAME: Any = object()


@dataclass(frozen=True)
class Case:
    """``value``: in Python; ``seen``: what an expression gives of it; ``stored``: what a table and SQL have."""

    type: str
    serde: Serde
    value: Any
    seen: Any = _SAME
    stored: Any = _SAME

    def of(self, name: str) -> Any:
        found = getattr(self, name)
        return found if found is not _SAME else self.value if name == "seen" else self.of("seen")


def written(value: Any) -> bytes:
    return repr(value).encode()


def read(data: bytes) -> Any:
    return eval(data, {"datetime": dt, "Decimal": Decimal, "zoneinfo": __import__("zoneinfo")})


PLAIN = {  # type: a value, and what a table has of it where that is something else
    "string": ("ä", _SAME), "byte": (-7, _SAME), "short": (-300, _SAME), "int": (70_000, _SAME), "long": (2**40, _SAME),
    "float": (0.5, _SAME), "double": (0.1, _SAME), "decimal(10,2)": (Decimal("-1.50"), _SAME), "boolean": (True, _SAME),
    "binary": (b"\x00\xff", _SAME), "date": (dt.date(2026, 11, 24), _SAME),
    "time": (dt.time(1, 2, 3, 4), 3_723_000_004), "timestamp": (dt.datetime(2026, 11, 24, 1, tzinfo=dt.UTC), _SAME),
    "timestamp_ntz": (dt.datetime(2026, 11, 24, 1), _SAME), "array<date>": ([dt.date(2026, 11, 24), None], _SAME),
    "map<string, int>": ({"a": 1, "b": None}, [("a", 1), ("b", None)]),
    "struct<a int, b time>": ({"a": 1, "b": None}, _SAME),
}  # fmt: skip
KAFKAS = {
    "string": Serde.string(), "short": Serde.short(), "int": Serde.int(), "long": Serde.long(), "float": Serde.float(),
    "double": Serde.double(), "boolean": Serde.boolean(), "binary": Serde.byte_buffer(),
}  # fmt: skip


def cases() -> dict[str, Case]:
    found = {}
    for kind, (value, stored) in PLAIN.items():
        one = Case(kind, Serde.json(f"x {kind}"), {"x": value}, value, stored)
        found[f"{kind} by json"] = one
        is_fields = kind.startswith("struct")
        declared = kind[len("struct<") : -1] if is_fields else kind
        found[f"{kind} by a serde of one's own"] = Case(
            kind, Serde.of(written, read, type=declared), value, stored=stored
        )
        if not is_fields:
            found[f"{kind} by json alone"] = Case(kind, Serde.json(kind), value, stored=stored)
        if kind in KAFKAS:
            found[f"{kind} by Kafka's"] = Case(kind, KAFKAS[kind], value)
            found[f"{kind} by list"] = Case(kind, Serde.list(KAFKAS[kind]), [value, None])
    found["uuid by Kafka's"] = Case("uuid", Serde.uuid(), ONE, str(ONE))
    found["uuid by list"] = Case("uuid", Serde.list(Serde.uuid()), [None, ONE], [None, str(ONE)])
    found["void by Kafka's"] = Case("void", Serde.void(), None)
    return found


CASES = cases()


def field(case: Case) -> str:
    """What an expression calls it."""
    return "x" if case.serde.is_struct and case.seen is not _SAME else "value"


def whole(case: Case) -> bool:
    """Whether the value has fields of its own and is no field."""
    return case.serde.is_struct and case.seen is _SAME


def driven(topology: Topology, *records: tuple[str, Any, Any], headers: Any = ()) -> TopologyTestDriver:
    driver = TopologyTestDriver(topology)
    for time_ms, (topic, key, value) in enumerate(records):
        driver.pipe_input(topic, key, value, timestamp_ms=time_ms, headers=headers)
    return driver


def as_a_value(case: Case, folder: Path) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(STRING, case.serde))
    stream.filter("record_key = 'k'").to("same")
    if not whole(case):
        stream.map_values(field(case)).to("out")
    stream.map_values(lambda key, value: value, returns=case.serde).to("python")
    driver = driven(builder.build(), ("in", "k", case.value), ("in", "k", None))

    for topic in ("same", "python"):
        assert [record.value for record in driver.read_outputs(topic)] == [case.value, None]
    if not whole(case):
        assert [record.value for record in driver.read_outputs("out")] == [case.of("seen"), None]


def as_a_key(case: Case, folder: Path) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(case.serde, STRING))
    stream.group_by_key().count().to("counts")
    again = stream.map(lambda key, value: (key, value), returns_key=case.serde, returns=STRING).repartition()
    again.group_by_key().count().to("again")
    driver = driven(builder.build(), ("in", case.value, "a"), ("in", case.value, "b"))

    want = [] if case.value is None else [(case.value, 1), (case.value, 2)]  # Kafka drops null keys
    assert [(record.key, record.value) for record in driver.read_outputs("counts")] == want
    assert [(record.key, record.value) for record in driver.read_outputs("again")] == want


def in_a_header(case: Case, folder: Path) -> None:
    class Reader(Processor):
        def process(self, record: Record) -> None:
            (data,) = (value for name, value in record.headers if name == "h")
            decoded = case.serde.decode(pa.array([data], pa.binary()))
            self.context.forward(record.with_value(case.serde.to_python(decoded.values)[0]))

    builder = StreamsBuilder()
    builder.stream("in", Consumed(STRING, STRING)).process(Reader, returns=case.serde).to("out")
    (data,) = case.serde.encode(case.serde.from_python([case.value])).to_pylist()
    driver = driven(builder.build(), ("in", "k", "v"), headers=(("h", data),))

    (record,) = driver.read_outputs("out")
    assert (record.value, record.headers) == (case.value, (("h", data),))


def in_a_fold(case: Case, folder: Path) -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(STRING, case.serde)).group_by_key()
    name = "a" if whole(case) else field(case)
    grouped.aggregate(last=fold.last(name), all=fold.collect(name)).to("folds")
    grouped.aggregate(fold.last("record_key")).to("keys")
    grouped.aggregate(fold.any("record_key = 'k'")).to("any")
    grouped.reduce(lambda aggregate, value: value).to("reduced")
    driver = driven(builder.build(), ("in", "k", case.value), ("in", "k", case.value))

    seen = case.value["a"] if whole(case) else case.of("seen")
    is_none = case.value is None  # aggregates take no tombstones
    want = [] if is_none else [{"last": seen, "all": [seen]}, {"last": seen, "all": [seen, seen]}]
    assert [record.value for record in driver.read_outputs("folds")] == want
    for topic, one in (("keys", "k"), ("any", True)):  # of the value's type perhaps, and not by its serde
        assert [record.value for record in driver.read_outputs(topic)] == ([] if is_none else [one] * 2)
    assert [record.value for record in driver.read_outputs("reduced")] == ([] if is_none else [case.value] * 2)


def in_a_join(case: Case, folder: Path) -> None:
    builder = StreamsBuilder()
    table = builder.table("table", Consumed(STRING, case.serde))
    stream = builder.stream("in", Consumed(STRING, case.serde))
    stream.left_join(table, lambda left, right: right, returns=case.serde).to("python")
    if not whole(case):
        name = f".{field(case)}" if case.serde.is_struct else ""
        stream.left_join(table, left=f"left{name}", right=f"right{name}").to("out")
    driver = driven(builder.build(), ("table", "k", case.value), ("in", "k", case.value))

    is_none = case.value is None  # a stream-table join takes no tombstones
    assert [record.value for record in driver.read_outputs("python")] == ([] if is_none else [case.value])
    if not whole(case):
        seen = case.of("seen")
        assert [record.value for record in driver.read_outputs("out")] == (
            [] if is_none else [{"left": seen, "right": seen}]
        )


def in_a_store(case: Case, folder: Path) -> None:
    class Keeper(Processor):
        def process(self, record: Record) -> None:
            store = self.context.store("kept")
            store.put(record.key, record.value)
            self.context.forward(record.with_value(store.get(record.key)))

    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(STRING, case.serde))
    stream.process(Keeper, [KeyValues("kept", STRING, case.serde)], returns=case.serde).to("out")
    stream.to_table(materialized=Materialized.as_("table"))
    driver = driven(builder.build(), ("in", "k", case.value))

    assert driver.read_output("out").value == case.value  # type: ignore[union-attr]
    assert driver.get_key_value_store("kept").get("k") == case.value
    assert driver.get_key_value_store("table").get("k") == case.value


def rows_of_an_output(case: Case, folder: Path) -> pa.Table:
    """Read from the file of an output's table, as readers have it."""
    builder = StreamsBuilder()
    builder.stream("in", Consumed(case.serde, case.serde)).to("out")
    schema = table_schema(builder.build(), "outputs/out")
    column = case.serde.from_python([case.value, None])
    columns = {"key": column, "value": column}
    rows = {name: columns.get(name, pa.nulls(2, kind)) for name, kind in zip(schema.names, schema.types, strict=True)}
    file = write_task_file(str(folder), pa.table(rows), partition=-1, name="00000001")
    table = pq.ParquetFile(folder / file.path).read()
    assert table.schema.field("value").type == schema.field("value").type
    return table


def in_an_output(case: Case, folder: Path) -> None:
    table = rows_of_an_output(case, folder)

    stored = {"x": case.of("stored")} if field(case) == "x" else case.of("stored")
    assert table["value"].to_pylist() == [stored, None]
    assert table["key"].to_pylist() == [stored, None]


def in_sql(case: Case, folder: Path) -> None:
    name = "value.x" if field(case) == "x" else "value"
    frame = pl.SQLContext(out=pl.from_arrow(rows_of_an_output(case, folder))).execute(  # type: ignore[arg-type]
        f"SELECT {name} AS found FROM out WHERE {name} IS NOT NULL"
    )

    stored = case.of("stored")
    want = dict(stored) if case.type.startswith("map") else stored
    assert frame.collect()["found"].to_list() == ([] if stored is None else [want])


PLACES: dict[str, Callable[[Case, Path], None]] = {
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


@pytest.mark.parametrize(("place", "case"), rotated(CELLS, stratum=lambda cell: cell[0]))
def test_a_value_of_any_type_by_any_serde_stands_in_any_place(place, case, tmp_path):
    PLACES[place](CASES[case], tmp_path)


def test_the_page_of_types_has_the_table_of_the_cells():
    page = (Path(__file__).parents[2] / "docs" / "types.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and line.count("|") == 2 + len(PLACES)]

    assert rows[0] == f"| type by serde | {' | '.join(PLACES)} |"
    assert {row.split("|")[1].strip().replace("`", "") for row in rows[1:]} == set(CASES)
    assert all(row.split("|")[2:-1] == [" yes "] * len(PLACES) for row in rows[1:])
