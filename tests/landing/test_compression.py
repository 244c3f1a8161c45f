"""Files that are compressed as a whole, known by their first bytes or by their extension."""

import bz2
import gzip
import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from kstreams_replay.jobs.landing.files import streams
from kstreams_replay.state.errors import LandingError
from tests.landing.file_folders import land, write
from tests.landing.landed_rows import values

LINES = b'{"t":1,"v":"one"}\n{"t":2,"v":"two"}\n'
ROWS = [b'{"t":1,"v":"one"}', b'{"t":2,"v":"two"}']


def arrows(codec: str) -> Callable[[bytes], bytes]:
    def compress(data: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()

    return compress


STREAMS = {"gz": gzip.compress, "bz2": bz2.compress, "zst": arrows("zstd"), "lz4": arrows("lz4")}
WAYS = {**STREAMS, "snappy": lambda data: pa.compress(data, "snappy", asbytes=True)}


@pytest.mark.parametrize("extension", WAYS)
@pytest.mark.parametrize("upper", [False, True])
def test_an_extension_tells(warehouse, tmp_path, extension, upper):
    name = f"a.jsonl.{extension}"
    directory = write(tmp_path / "in", {name.upper() if upper else name: WAYS[extension](LINES)})

    land(warehouse, directory)

    assert values(warehouse) == ROWS


@pytest.mark.parametrize("extension", STREAMS)
@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_the_first_bytes_tell_more_than_the_name(warehouse, tmp_path, monkeypatch, extension, name):
    """
    Stores that compress on the way in, and curl --compressed -o a.jsonl.gz, leave such names.
    """
    monkeypatch.setattr(streams, "SLICE_BYTES", 20)  # no slice of a compressed file can be read alone

    land(warehouse, write(tmp_path / "in", {name: WAYS[extension](LINES)}))

    assert values(warehouse) == ROWS


@pytest.mark.parametrize("extension", STREAMS)
def test_files_laid_end_to_end_are_one(warehouse, tmp_path, extension):
    first, second = LINES.splitlines(keepends=True)
    content = WAYS[extension](first) + WAYS[extension](second)

    land(warehouse, write(tmp_path / "in", {f"a.jsonl.{extension}": content}))

    assert values(warehouse) == ROWS


@pytest.mark.parametrize("extension", STREAMS)
@pytest.mark.parametrize("empty_at", [0, 1, 2])
def test_one_of_the_files_laid_end_to_end_may_be_empty(warehouse, tmp_path, extension, empty_at):
    parts = LINES.splitlines(keepends=True)
    parts[empty_at:empty_at] = [b"", b""]

    content = b"".join(map(STREAMS[extension], parts))
    land(warehouse, write(tmp_path / "in", {f"a.jsonl.{extension}": content}))

    assert values(warehouse) == ROWS


@pytest.mark.parametrize("extension", STREAMS)
def test_what_is_behind_the_last_stream_and_is_none_is_refused(warehouse, tmp_path, extension):
    way = STREAMS[extension]
    for number, end in enumerate((b"junk at the end", way(LINES)[:-3])):
        directory = write(tmp_path / f"in{number}", {f"a.jsonl.{extension}": way(LINES) + way(b"") + end})

        with pytest.raises(LandingError, match=rf"a\.jsonl\.{extension}: expected a file that can be read"):
            land(warehouse, directory)


def test_more_than_a_block_of_bzip2_lands_whole(warehouse, tmp_path):
    rng = random.Random(7)
    lines = [b'{"t":1,"v":"%s"}' % rng.randbytes(20_000).hex().encode() for _ in range(60)]

    land(warehouse, write(tmp_path / "in", {"a.jsonl": bz2.compress(b"\n".join(lines), 1)}))

    assert values(warehouse) == lines


@pytest.mark.parametrize("extension", WAYS)
def test_a_file_that_is_cut_off_or_plain_is_refused(warehouse, tmp_path, extension):
    for number, content in enumerate((WAYS[extension](LINES)[:-3], LINES)):
        directory = write(tmp_path / f"in{number}", {f"a.jsonl.{extension}": content})

        with pytest.raises(LandingError, match=rf"a\.jsonl\.{extension}: expected a file that can be read"):
            land(warehouse, directory)


def test_compressing_otherwise_makes_no_other_content(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl.gz": gzip.compress(LINES)})
    land(warehouse, directory)
    write(directory, {"b.jsonl": WAYS["zst"](LINES)})

    with pytest.raises(LandingError, match=r"b\.jsonl: expected .*, got the content of a\.jsonl\.gz, landed by"):
        land(warehouse, directory)


def test_text_that_begins_as_bzip2_does_is_text(warehouse, tmp_path):
    land(warehouse, write(tmp_path / "in", {"a.csv": "BZh9,t\nx,1\n", "b.csv": "BZh91,t\ny,2\n"}), columns=None)

    assert values(warehouse) == [b'{"BZh9":"x","t":"1"}', b'{"BZh91":"y","t":"2"}']


TWELVE = [b'{"t":%d,"v":"same same same"}' % number for number in range(1, 13)]
RAW = bytes.fromhex(
    "df02407b2274223a312c2276223a2273616d6520150508227d0a051d00326e1d0000336e1d0000346e1d0000356e1d0000366e1d00"
    "00376e1d0000386e1d0000396e1d00043130721e0072240100315e2501"
)
"""TWELVE as lines, by snappy-java 1.1.10.8, whose streams and Hadoop 3.4.2 put the following before it."""
XERIAL = bytes.fromhex("82534e4150505900000000010000000100000052")
FRAMED = bytes.fromhex("ff060000734e61507059005600003c58bb21")
HADOOP = bytes.fromhex("0000015f00000052")


@pytest.mark.parametrize("extension", ["snappy", "sz"])
@pytest.mark.parametrize("head", [b"", XERIAL, FRAMED, HADOOP], ids=["raw", "xerial", "framed", "hadoop"])
def test_snappy_is_read_in_its_four_formats(warehouse, tmp_path, head, extension):
    land(warehouse, write(tmp_path / "in", {f"a.jsonl.{extension}": head + RAW}))

    assert values(warehouse) == TWELVE


@pytest.mark.parametrize("head", [XERIAL, FRAMED, HADOOP], ids=["xerial", "framed", "hadoop"])
def test_streams_of_snappy_laid_end_to_end_are_one(warehouse, tmp_path, head):
    land(warehouse, write(tmp_path / "in", {"a.jsonl.snappy": (head + RAW) * 2}))

    assert values(warehouse) == TWELVE * 2


@pytest.mark.parametrize("head", [XERIAL, FRAMED], ids=["xerial", "framed"])
def test_the_first_bytes_tell_snappy_under_another_name(warehouse, tmp_path, head):
    land(warehouse, write(tmp_path / "in", {"a.jsonl": head + RAW}))

    assert values(warehouse) == TWELVE


def test_a_block_of_hadoops_may_come_in_parts_and_hold_nothing(warehouse, tmp_path):
    """As its codec writes what is longer than its buffer, and an empty file."""
    parts = [b'{"t":1}\n{"t"', b":2}\n"]
    block = sum(map(len, parts)).to_bytes(4, "big")
    for part in parts:
        packed = pa.compress(part, "snappy", asbytes=True)
        block += len(packed).to_bytes(4, "big") + packed

    land(warehouse, write(tmp_path / "in", {"a.jsonl.snappy": b"\0\0\0\0" + block, "b.jsonl.snappy": b"\0\0\0\0"}))

    assert values(warehouse) == [b'{"t":1}', b'{"t":2}']


def test_the_framing_format_may_have_chunks_that_are_skipped(warehouse, tmp_path):
    padded = FRAMED[:10] + b"\xfe\x03\x00\x00abc" + FRAMED[10:] + RAW + b"\x80\x01\x00\x00x"

    land(warehouse, write(tmp_path / "in", {"a.jsonl.sz": padded}))

    assert values(warehouse) == TWELVE


@pytest.mark.parametrize(
    ("content", "got"),
    [
        pytest.param(FRAMED[:-1] + b"\x22" + RAW, "another CRC-32C", id="checksum"),
        pytest.param(FRAMED[:10] + b"\x02\x01\x00\x00x", "a chunk of the unknown type 2", id="type"),
        pytest.param(FRAMED + RAW[:-1], "too few bytes", id="framed-cut-off"),
        pytest.param(XERIAL + RAW[:-1], "too few bytes", id="xerial-cut-off"),
        pytest.param(XERIAL + RAW + b"\0\0", "too few bytes", id="xerial-length-cut-off"),
        pytest.param(HADOOP + RAW[:-1], "too few bytes", id="hadoop-cut-off"),
        pytest.param(b"\0\0\1\x60" + HADOOP[4:] + RAW, "too few bytes", id="hadoop-block-cut-off"),
        pytest.param(b"\0\0\1\x5e" + HADOOP[4:] + RAW, "another number of bytes than its block", id="hadoop-length"),
        pytest.param(RAW[:-1], "", id="raw-cut-off"),
        pytest.param(b"", "too few bytes", id="empty"),
    ],
)
def test_snappy_that_is_damaged_is_refused(warehouse, tmp_path, content, got):
    directory = write(tmp_path / "in", {"a.jsonl.snappy": content})

    with pytest.raises(LandingError, match=rf"a\.jsonl\.snappy: expected a file that can be read, got .*{got}"):
        land(warehouse, directory)
    assert warehouse.topics() == []
