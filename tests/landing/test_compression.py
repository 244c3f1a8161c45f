"""Files that are compressed as a whole, known by their first bytes or by their extension."""

import bz2
import gzip
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


WAYS = {"gz": gzip.compress, "bz2": bz2.compress, "zst": arrows("zstd"), "lz4": arrows("lz4")}


@pytest.mark.parametrize("extension", WAYS)
@pytest.mark.parametrize("upper", [False, True])
def test_an_extension_tells(warehouse, tmp_path, extension, upper):
    name = f"a.jsonl.{extension}"
    directory = write(tmp_path / "in", {name.upper() if upper else name: WAYS[extension](LINES)})

    land(warehouse, directory)

    assert values(warehouse) == ROWS


@pytest.mark.parametrize("extension", WAYS)
@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_the_first_bytes_tell_more_than_the_name(warehouse, tmp_path, monkeypatch, extension, name):
    """
    Stores that compress on the way in, and curl --compressed -o a.jsonl.gz, leave such names.
    """
    monkeypatch.setattr(streams, "SLICE_BYTES", 20)  # no slice of a compressed file can be read alone

    land(warehouse, write(tmp_path / "in", {name: WAYS[extension](LINES)}))

    assert values(warehouse) == ROWS


@pytest.mark.parametrize("extension", WAYS)
def test_files_laid_end_to_end_are_one(warehouse, tmp_path, extension):
    first, second = LINES.splitlines(keepends=True)
    content = WAYS[extension](first) + WAYS[extension](second)

    land(warehouse, write(tmp_path / "in", {f"a.jsonl.{extension}": content}))

    assert values(warehouse) == ROWS


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


def test_framed_snappy_is_refused_with_what_can_be_read(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl.snappy": b"\xff\x06\x00\x00sNaPpY"})

    with pytest.raises(LandingError, match=r"also with \.gz, \.gzip, \.zst, \.zstd, \.bz2, \.lz4\), got 'snappy'"):
        land(warehouse, directory)
