"""A key that is bytes in a landed topic is a value in other tables: `erase` finds it in each form of a serde."""

import uuid
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

from kstreams_replay.jobs.branches.erasure import Erasure, erase
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.fsck import fsck
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, TimeWindows, Topology
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.tables.sought import Sought
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.branches.test_erasure import holding
from tests.planted import LandedRecord, plant

TEXT = Serde.string()
ANN_ID, BOB_ID = "0f8fad5b-d9cb-469f-a165-70867728950e", "7c9e6679-7425-40de-944b-e07fc1f90ae7"
RECORD = (
    '{"type": "record", "name": "User", "fields": [{"name": "user", "type": "string"}, {"name": "n", "type": "int"}]}'
)


class Form(NamedTuple):
    """Keys of two persons in a landed topic, what of the first is given to erase it, and what no table may hold."""

    serde: Serde
    ann: bytes
    bob: bytes
    given: tuple[bytes, ...]
    words: tuple[str, ...]


def avro(text: str) -> bytes:
    return bytes([2 * len(text)]) + text.encode()


def user(syntax: str) -> bytes:
    """A descriptor of messages with one text; by proto2 it is required."""
    file = FileDescriptorProto(name="user.proto", package="shop", syntax=syntax)
    label = FieldDescriptorProto.LABEL_REQUIRED if syntax == "proto2" else FieldDescriptorProto.LABEL_OPTIONAL
    kind = FieldDescriptorProto.TYPE_STRING
    file.message_type.add(name="User").field.add(name="user", number=1, type=kind, label=label)
    return FileDescriptorSet(file=[file]).SerializeToString()


def message(text: str) -> bytes:
    return b"\x0a" + bytes([len(text)]) + text.encode()


PROTO2, PROTO3 = (Serde.protobuf(user(syntax), "shop.User") for syntax in ("proto2", "proto3"))
CONFLUENT_PROTO = Serde.confluent_protobuf(user("proto3"), "shop.User", write_id=7)
ALICE = "alice.liddell"
CONFLUENT = Serde.confluent_avro('"string"', ids={7: '"string"'})
HEAD = b"\0\0\0\0\7"
FORMS = {
    "json-text": Form(Serde.json("string"), b'"alice.liddell"', b'"bob"', (ALICE.encode(),), (ALICE,)),
    "json-as-landed": Form(Serde.json("string"), b'"alice.liddell"', b'"bob"', (b'"alice.liddell"',), (ALICE,)),
    "short-json": Form(Serde.json("string"), b'"al"', b'"bob"', (b"al",), ()),
    "avro": Form(Serde.avro('"string"'), avro(ALICE), avro("bob"), (ALICE.encode(),), (ALICE,)),
    "avro-as-landed": Form(Serde.avro('"string"'), avro(ALICE), avro("bob"), (avro(ALICE),), (ALICE,)),
    "confluent": Form(CONFLUENT, HEAD + avro(ALICE), HEAD + avro("bob"), (ALICE.encode(),), (ALICE,)),
    "confluent-as-landed": Form(CONFLUENT, HEAD + avro(ALICE), HEAD + avro("bob"), (HEAD + avro(ALICE),), (ALICE,)),
    "short-confluent": Form(CONFLUENT, HEAD + avro("alice"), HEAD + avro("bob"), (b"alice",), ("alice",)),
    "uuid-in-capitals": Form(
        Serde.uuid(), ANN_ID.upper().encode(), BOB_ID.encode(), (ANN_ID.upper().encode(),), (ANN_ID, ANN_ID.upper())
    ),
    "uuid-as-tables-have-it": Form(
        Serde.uuid(), ANN_ID.upper().encode(), BOB_ID.encode(), (ANN_ID.encode(),), (ANN_ID, ANN_ID.upper())
    ),
    "binary-uuid": Form(
        Serde.bytes(), uuid.UUID(ANN_ID).bytes, uuid.UUID(BOB_ID).bytes, (ANN_ID.encode(),), (ANN_ID,)
    ),
    "long": Form(Serde.long(), (4711).to_bytes(8, "big"), (4712).to_bytes(8, "big"), (b"4711",), ()),
    "int": Form(Serde.int(), (4711).to_bytes(4, "big"), (4712).to_bytes(4, "big"), (b"4711",), ()),
    "double": Form(Serde.double(), b"\x40\xb2\x67\0\0\0\0\0", b"\x3f\xf8\0\0\0\0\0\0", (b"4711",), ()),
    "json-object": Form(
        Serde.json("user string, n long"), b'{"n": 1,  "user": "alice.liddell"}', b'{"user":"bob","n":1}',
        (b'{"user":"alice.liddell","n":1}',), (ALICE,),
    ),
    "part-of-a-json-object": Form(
        Serde.json("user string, n long"), b'{"n": 1,  "user": "alice.liddell"}', b'{"user":"bob","n":1}',
        (ALICE.encode(),), (ALICE,),
    ),
    "protobuf": Form(PROTO3, message(ALICE), message("bob"), (ALICE.encode(),), (ALICE,)),
    "protobuf-required": Form(PROTO2, message(ALICE), message("bob"), (message(ALICE),), (ALICE,)),
    "confluent-protobuf": Form(
        CONFLUENT_PROTO, HEAD + b"\0" + message(ALICE), HEAD + b"\0" + message("bob"), (ALICE.encode(),), (ALICE,)
    ),
    "avro-record": Form(
        Serde.avro(RECORD), avro(ALICE) + b"\2", avro("bob") + b"\2", (avro(ALICE) + b"\2", ALICE.encode()), (ALICE,)
    ),
}  # fmt: skip


def pair(left: str, right: str) -> str:
    return f"{left}-{right}"


def topology(serde: Serde) -> Topology:
    """Counts, also of windows, the last value of each key, and a join with it."""
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(serde, TEXT))
    stream.group_by_key().count().to_stream().to("counts")
    stream.group_by_key().windowed_by(TimeWindows.of_size(10, grace=0)).count().to_stream().to("windows")
    table = builder.table("other", Consumed(serde, TEXT))
    stream.join(table, pair, returns=TEXT).to("joined")
    return builder.build()


def ran(root: Path | str, form: Form) -> Warehouse:
    """Two increments, so that stores have files of both."""
    warehouse = Warehouse(f"{root}/w")
    for ms in (1, 20):
        for topic in ("other", "in"):
            records = [LandedRecord(0, key, b"v", ms) for key in (form.ann, form.bob)]
            plant(warehouse, topic, records, partitions=1)
        list(replay(warehouse, topology(form.serde), pipeline="p", runner=LocalRunner(), idle="proceed"))
    return warehouse


def erased(warehouse: Warehouse, *keys: bytes, **options: Any) -> Erasure:
    return erase(warehouse, ["in", "other"], Sought(keys), "request 1", by="me", **{"delete": True} | options)


def keys_of(warehouse: Warehouse, table: str) -> list[Any]:
    """By the test's own reading of all files that are there."""
    files = Path(warehouse.root, table).rglob("*.parquet")
    rows = [row for file in files if "_delta_log" not in str(file) for row in pq.ParquetFile(file).read().to_pylist()]
    return [row["key"] for row in rows if "key" in row]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("REPLAY_CACHE", str(tmp_path / "cache"))


@pytest.mark.sampled
@pytest.mark.parametrize("name", FORMS)
def test_a_key_goes_in_each_form_that_serdes_give_it(tmp_path, name):
    form = FORMS[name]
    warehouse = ran(tmp_path, form)
    outputs = ("p/outputs/counts", "p/outputs/windows", "p/outputs/joined")
    (bob,) = form.serde.decode(pa.array([form.bob], pa.binary())).values.to_pylist()
    before = {table: keys_of(warehouse, table) for table in outputs}
    assert all(0 < keys.count(bob) < len(keys) for keys in before.values())

    done = erased(warehouse, *form.given)

    assert done.remains == []
    assert dict(done.landed) == {"in": 2, "other": 2}
    assert all(keys_of(warehouse, table) == [bob] * before[table].count(bob) for table in outputs)
    for topic in ("in", "other"):
        assert [key for key in keys_of(warehouse, f"landed/{topic}") if key is not None] == [form.bob] * 2
    for store in Path(warehouse.root, "p", "state").iterdir():
        kept = keys_of(warehouse, f"p/state/{store.name}")
        assert kept
        assert {repr(key) for key in kept} <= {repr(bob), repr(form.bob)}
    for word in form.words:
        assert holding(Path(warehouse.root), word) == set()
    assert fsck(warehouse).findings == []


def test_a_key_whose_bytes_nobody_can_read_is_not_proved_until_its_text_is_given(tmp_path, capsys):
    form = FORMS["avro-record"]
    warehouse = ran(tmp_path, form)
    asked = ["erase", "--warehouse", warehouse.root, "--topics", "in,other", "--reason", "r", "--delete"]
    asked += ["--key-hex", form.ann.hex()]

    assert main(asked) == 4
    said = capsys.readouterr().out
    assert f"what a table has for {form.ann.hex()} is not known from its bytes" in said
    assert "still there: p/outputs/counts: it cannot be proved" in said
    assert "proved:" not in said

    assert main([*asked, "--key", ALICE]) == 0
    assert "proved: no file of the warehouse holds it" in capsys.readouterr().out
    assert holding(Path(warehouse.root), ALICE) == set()


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_key_goes_from_a_warehouse_whose_path_has_signs_of_uris(tmp_path, scheme):
    folder = tmp_path / "a #b? 50 %"
    folder.mkdir()
    (folder / "w").mkdir()
    (folder / "w" / "left #1? 5%.txt").write_text(ALICE)
    form = FORMS["avro"]
    warehouse = ran(f"file://{quote(str(folder))}" if scheme else folder, form)

    done = erased(warehouse, *form.given)

    assert {each.place for each in done.remains} == {"left #1? 5%.txt"}
    assert holding(folder, ALICE) == {f"{folder}/w/left #1? 5%.txt"}
    assert fsck(warehouse).findings == []


def shouted() -> Topology:
    """Keys are read by a serde of one's own, so that tables have others than the topic."""
    own = Serde.of(lambda text: text.lower().encode(), lambda data: data.decode().upper(), type="string")
    builder = StreamsBuilder()
    builder.stream("in", Consumed(own, TEXT)).group_by_key().count().to_stream().to("counts")
    return builder.build()


def test_a_pipeline_that_has_read_the_records_and_has_no_row_of_the_key_is_named(tmp_path, capsys):
    warehouse = Warehouse(tmp_path / "w")
    plant(warehouse, "in", [LandedRecord(0, key, b"v", 1) for key in (b"ann.lee", b"bob")], partitions=1)
    list(replay(warehouse, shouted(), pipeline="p", runner=LocalRunner()))
    asked = ["erase", "--warehouse", warehouse.root, "--topics", "in", "--reason", "r", "--key", "ann.lee"]
    named = "p: has read such records and has no row under the key"

    assert main(asked) == 0
    assert named in capsys.readouterr().out
    assert main([*asked, "--key", "ANN.LEE", "--delete"]) == 0
    assert named not in capsys.readouterr().out
    assert keys_of(warehouse, "p/outputs/counts") == ["BOB"]
