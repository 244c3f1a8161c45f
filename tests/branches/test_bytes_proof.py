"""The proof that no file holds a key: it reads each file below the root, and names those that it could not read."""

import bz2
import gzip
import lzma
import os
import zipfile
import zlib
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from kstreams_replay.jobs.branches import bytes_proof
from kstreams_replay.jobs.branches.bytes_proof import remains
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.tables.sought import Sought
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

ANN = "ann.lee/4711"
SOUGHT = Sought((ANN.encode(),))
UNREAD = "it cannot be read, so nothing is proved of it"


def parquet(path: Path, *texts: str) -> bytes:
    """Compressed, so that no text is in the file's bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"value": texts}), path, compression="zstd", write_statistics=False)
    return path.read_bytes()


def proved(root: Path | str) -> dict[str, str]:
    """What is said, by file."""
    return {each.place: each.what for each in remains(str(root), SOUGHT)}


def test_a_parquet_file_that_is_cut_off_is_not_proved_and_the_others_are(tmp_path):
    data = parquet(tmp_path / "a" / "cut.parquet", *[ANN] * 100)
    (tmp_path / "a" / "cut.parquet").write_bytes(data[: len(data) // 2])
    parquet(tmp_path / "a" / "whole.parquet", "bob")

    said = proved(tmp_path)

    assert list(said) == ["a/cut.parquet"]
    assert said["a/cut.parquet"].startswith(f"{UNREAD}: ")


def test_a_parquet_file_with_damaged_pages_is_not_proved(tmp_path):
    data = bytearray(parquet(tmp_path / "x.parquet", *[f"{ANN}{n}" for n in range(1000)]))
    data[4:200] = bytes(196)
    (tmp_path / "x.parquet").write_bytes(data)

    assert proved(tmp_path)["x.parquet"].startswith(f"{UNREAD}: ")


def test_an_arrow_file_that_is_cut_off_is_not_proved(tmp_path):
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, pa.schema([("v", "string")])):
        pass
    whole = (tmp_path / "x.arrow").read_bytes()
    assert proved(tmp_path) == {}

    (tmp_path / "x.arrow").write_bytes(whole[:-8])

    assert proved(tmp_path)["x.arrow"].startswith(f"{UNREAD}: ")


def test_the_command_names_the_file_that_it_could_not_read_and_does_not_say_proved(tmp_path, capsys):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "in", [LandedRecord(0, ANN.encode(), b"tea", 1)], partitions=1)
    data = parquet(tmp_path / "left" / "behind.parquet", *[ANN] * 100)
    (tmp_path / "left" / "behind.parquet").write_bytes(data[: len(data) // 2])

    asked = ["erase", "--warehouse", str(tmp_path), "--key", ANN, "--topics", "in", "--reason", "r", "--delete"]

    assert main(asked) == 4
    said = capsys.readouterr().out
    assert f"still there: left/behind.parquet: {UNREAD}" in said
    assert "proved:" not in said


def test_a_file_of_tables_is_known_by_its_begin_whatever_its_name_is(tmp_path):
    parquet(tmp_path / "copy.bak", ANN)

    assert proved(tmp_path) == {"copy.bak": "column value of 1 row"}


def test_compressed_files_are_searched_or_named(tmp_path):
    text = f"first\n{ANN} was here\n".encode() * 100
    (tmp_path / "log.gz").write_bytes(gzip.compress(text))
    (tmp_path / "log.bz2").write_bytes(bz2.compress(text))
    (tmp_path / "log.zst").write_bytes(pa.compress(text, "zstd", asbytes=True))
    (tmp_path / "log.xz").write_bytes(lzma.compress(text))
    (tmp_path / "clean.gz").write_bytes(gzip.compress(b"bob was here"))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"bob was here")[:8])
    with zipfile.ZipFile(tmp_path / "log.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("log", text)

    said = proved(tmp_path)

    assert {name for name, what in said.items() if what == "its bytes"} == {"log.gz", "log.bz2", "log.zst"}
    assert {name for name, what in said.items() if what.startswith(UNREAD)} == {"cut.gz", "log.xz", "log.zip"}
    assert set(said) == {"log.gz", "log.bz2", "log.zst", "cut.gz", "log.xz", "log.zip"}


def test_a_file_that_the_machine_refuses_is_named_and_others_are_searched(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("bob")
    (tmp_path / "b.txt").write_text(ANN)
    opened = fs.LocalFileSystem.open_input_file

    def refused(self: fs.LocalFileSystem, path: str) -> pa.NativeFile:
        if path.endswith("a.txt"):
            raise PermissionError(13, "Permission denied", path)
        return opened(self, path)

    class Refusing(fs.LocalFileSystem):
        open_input_file = refused

    monkeypatch.setattr(bytes_proof, "open_filesystem", lambda path: (Refusing(), path))

    assert proved(tmp_path) == {
        "a.txt": f"{UNREAD}: [Errno 13] Permission denied: '{tmp_path}/a.txt'",
        "b.txt": "its bytes",
    }


def container(*blocks: bytes) -> bytes:
    """A file of Avro with deflated blocks of one text each, by the test's own writing."""
    marker, data = b"m" * 16, b'Obj\1\4\x16avro.schema\x10"string"\x14avro.codec\x0edeflate\0' + b"m" * 16
    for block in blocks:
        deflate = zlib.compressobj(wbits=-15)
        packed = deflate.compress(bytes([2 * len(block)]) + block) + deflate.flush()
        data += b"\2" + bytes([2 * len(packed)]) + packed + marker
    return data


def test_files_of_avro_are_searched_block_by_block(tmp_path):
    long = ANN.encode() + b" " * 30
    (tmp_path / "a.avro").write_bytes(container(b"bob", long))
    (tmp_path / "b.avro").write_bytes(container(b"bob"))
    (tmp_path / "c.avro").write_bytes(container(b"bob", long)[:-20])
    assert long not in (tmp_path / "a.avro").read_bytes()

    said = proved(tmp_path)

    assert {name: what.partition(":")[0] for name, what in said.items()} == {"a.avro": "its bytes", "c.avro": UNREAD}


def test_an_empty_file_has_nothing(tmp_path):
    for name in ("a.parquet", "b.arrow", "c"):
        (tmp_path / name).touch()

    assert proved(tmp_path) == {}


def test_names_that_nobody_reads_are_named(tmp_path):
    """
    One is no UTF-8, the other leads elsewhere for whoever decodes it.
    """
    for name in (b"caf\xe9.bin", b"%2e%2e"):
        with open(os.fsencode(tmp_path) + b"/" + name, "wb") as file:
            file.write(b"nothing")

    said = proved(tmp_path)

    assert {name: what.partition(":")[0] for name, what in said.items()} == {r"caf\udce9.bin": UNREAD, "%2e%2e": UNREAD}
    str([*said]).encode()  # can be printed


@pytest.mark.parametrize("name", ["a b", "a#b", "a?b", "50%", "käse", "key=a%20b", "a%23b/part"])
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_the_right_file_is_read_whatever_its_name_and_the_roots_are(tmp_path, scheme, name):
    root = tmp_path / "w #1? käse"
    parquet(root / f"{name}.parquet", ANN)
    (root / name).parent.mkdir(exist_ok=True)
    (root / f"{name}.txt").write_text(ANN)

    said = proved(f"file://{quote(str(root))}" if scheme else root)

    assert said == {f"{name}.parquet": "column value of 1 row", f"{name}.txt": "its bytes"}
