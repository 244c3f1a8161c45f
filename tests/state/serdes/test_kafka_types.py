"""Kafka's serdes beside numbers and text, against what Kafka's own classes write and read (kafka_bytes.txt)."""

import math
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.serdes import Serde
from kstreams_replay.state.serdes.windowed_codec import Windowed
from tests.jvm.streams import run_java
from tests.state.serdes.clicks import decode

BYTES = Path(__file__).with_name("kafka_bytes.txt")
ONE = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
INTS = Serde.list(Serde.int())
TIME = Serde.time_windowed(Serde.string(), 10)

WRITTEN = {
    "short": (Serde.short(), -2),
    "short-largest": (Serde.short(), 32_767),
    "float": (Serde.float(), 0.10000000149011612),
    "float-infinite": (Serde.float(), -math.inf),
    "uuid": (Serde.uuid(), ONE),
    "void": (Serde.void(), None),
    "byte_buffer": (Serde.byte_buffer(), b"\x00\xff\x10"),
    "byte_buffer-empty": (Serde.byte_buffer(), b""),
    "list-short": (Serde.list(Serde.short()), [1, None, -1, None]),
    "list-int": (INTS, [7]),
    "list-long": (Serde.list(Serde.long()), []),
    "list-float": (Serde.list(Serde.float()), [0.5, None]),
    "list-double": (Serde.list(Serde.double()), [1.5, -0.0]),
    "list-uuid": (Serde.list(Serde.uuid()), [None, ONE]),
    "list-string": (Serde.list(Serde.string()), ["a", "", None, "ä"]),
    "list-boolean": (Serde.list(Serde.boolean()), [True, False]),
    "list-list-int": (Serde.list(INTS), [[1, 2], None, []]),
    "time_windowed": (TIME, Windowed("ab", 5, 15)),
    "time_windowed-empty": (TIME, Windowed("", 0, 10)),
    "session_windowed": (Serde.session_windowed(Serde.long()), Windowed(7, 5, 6)),
}
READ = {
    "uuid-upper": (Serde.uuid(), ONE),
    "uuid-short": (Serde.uuid(), uuid.UUID("00000001-0002-0003-0004-000000000005")),
    "uuid-wide": (Serde.uuid(), uuid.UUID("34567890-2345-0002-0003-000000000004")),
    "uuid-four-parts": (Serde.uuid(), "expected a UUID, got '1-2-3-4'"),
    "uuid-six-parts": (Serde.uuid(), "expected a UUID, got '1-2-3-4-5-6'"),
    "uuid-no-hex": (Serde.uuid(), "expected a UUID, got 'g-2-3-4-5'"),
    "uuid-too-wide": (Serde.uuid(), "expected a UUID, got '8000000000000000-2-3-4-5'"),
    "uuid-too-long": (Serde.uuid(), "expected a UUID, got '01234567-89ab-cdef-0123-456789abcdef0'"),
    "uuid-empty": (Serde.uuid(), "expected a UUID, got ''"),
    "short-cut": (Serde.short(), "expected 2 bytes of a short, got 1"),
    "float-cut": (Serde.float(), "expected 4 bytes of a float, got 3"),
    "void-bytes": (Serde.void(), "expected nothing, got 0 bytes"),
    "list-int-cut": (INTS, "expected a list, got one that is cut off"),
    "list-int-with-sizes": (INTS, [9]),
    "list-int-more-behind": (INTS, []),
    "list-int-null-twice": (INTS, [None, 9]),
    "list-string-without-sizes": (Serde.list(Serde.string()), "expected a list, got one that is cut off"),
    "list-string-flag": (Serde.list(Serde.string()), "expected a list, got one that is cut off"),
    "list-string-negative": (Serde.list(Serde.string()), "expected a list, got one that is cut off"),
    "list-string-entry-negative": (Serde.list(Serde.string()), "expected a list, got one that is cut off"),
    "list-empty": (Serde.list(Serde.string()), "expected a list, got one that is cut off"),
    "time_windowed-cut": (TIME, "expected at least 8 bytes of a windowed key, got 7"),
    "session_windowed-cut": (
        Serde.session_windowed(Serde.string()), "expected at least 16 bytes of a windowed key, got 15",
    ),
    "time_windowed-last": (TIME, Windowed("a", 2**63 - 6, 2**63 - 1)),
    "time_windowed-changelog": (Serde.time_windowed(Serde.string(), 10, changelog=True), Windowed("ab", 5, 15)),
}  # fmt: skip


def lines(what: str) -> dict[str, list[str]]:
    """By name: the bytes in hexadecimal digits, and of what was read the value or "refused"."""
    rows = [line.split(" ", 3) for line in BYTES.read_text().splitlines()]
    return {row[1]: row[2:] for row in rows if row[0] == what}


def raw(digits: str) -> bytes | None:
    return None if digits == "null" else bytes.fromhex(digits[2:])


@pytest.mark.parametrize("name", WRITTEN)
def test_a_value_is_written_as_kafkas_serializer_writes_it_and_read_back(name):
    serde, value = WRITTEN[name]
    want = raw(lines("written")[name][0])

    column = serde.from_python([value, None, value])

    assert serde.encode(column).to_pylist() == [want, None, want]
    assert serde.encode(column.slice(1)).to_pylist() == [None, want]
    assert serde.sizes(column).tolist() == [len(want or b""), 0, len(want or b"")]
    assert decode(serde, want, None, want) == ([value, None, value], {})


@pytest.mark.parametrize("name", READ)
def test_bytes_are_read_or_refused_as_kafkas_deserializer_does(name):
    serde, want = READ[name]
    digits, said = lines("read")[name]

    is_refused = isinstance(want, str)
    assert (said == "refused") == is_refused
    assert decode(serde, raw(digits)) == (([None], {0: want}) if is_refused else ([want], {}))


def test_every_case_of_kafkas_is_compared_and_nan_is_nan():
    assert {*lines("written")} == {*WRITTEN, "float-nan", "time_windowed-changelog"}
    assert {*lines("read")} == {*READ}
    (got,), _ = decode(Serde.float(), raw(lines("written")["float-nan"][0]))
    assert math.isnan(got)
    assert Serde.float().encode(Serde.float().from_python([math.nan])).to_pylist() == [
        raw(lines("written")["float-nan"][0])
    ]


@pytest.mark.jvm
def test_kafkas_classes_still_write_and_read_these_bytes():
    assert run_java(Path(__file__).parents[2] / "jvm" / "SerdeBytes.java") == BYTES.read_text()


def test_a_bad_entry_makes_its_list_bad_and_says_which():
    serde = Serde.list(Serde.boolean())
    good, bad = b"\1\0\0\0\1\0\0\0\1\1", b"\1\0\0\0\2\0\0\0\1\0\0\0\0\1\7"

    assert decode(serde, good, bad, good) == (
        [[True], None, [True]], {1: "entry 1: expected the byte 0 or 1 of a boolean"},
    )  # fmt: skip


def test_a_last_entry_that_is_empty_or_cut_off_is_told_apart_which_kafkas_deserializer_does_not():
    serde = Serde.list(Serde.string())

    assert decode(serde, b"\1\0\0\0\1\0\0\0\0") == ([[""]], {})
    assert decode(serde, b"\1\0\0\0\1\0\0\0\2a") == ([None], {0: "expected a list, got one that is cut off"})


def test_lists_of_random_lengths_are_read_from_any_slice():
    rng = np.random.default_rng(5)
    numbers = [rng.integers(-9, 9, rng.integers(0, 6)).tolist() for _ in range(90)]
    values = [[None if one % 4 == 0 else one for one in each] for each in numbers]
    for serde in (INTS, Serde.list(Serde.list(Serde.short()))):
        wanted = values if serde is INTS else [[values[row - 1], None, values[row]] for row in range(90)]
        column = serde.from_python(wanted)
        codes = serde.encode(column)
        decoded = serde.decode(codes.slice(7))
        assert not decoded.bad.any()
        assert serde.to_python(decoded.values) == wanted[7:]


@pytest.mark.parametrize(
    ("serde", "value", "refusal"),
    [
        (Serde.short(), 32_768, "a number of 16 bits, got 32768"),
        (Serde.float(), "1", "a float, got '1'"),
        (Serde.uuid(), str(ONE), "a uuid.UUID, got '0123"),
        (Serde.void(), 0, "None, got 0"),
        (INTS, 5, "a list, got 5"),
        (INTS, ["x"], "an int, got 'x'"),
    ],
)
def test_a_python_value_of_another_type_is_refused(serde, value, refusal):
    with pytest.raises(ConfigError, match=refusal):
        serde.from_python([value])


SESSION = Serde.session_windowed(Serde.string())


@pytest.mark.parametrize(
    ("serde", "value", "refusal"),
    [
        (TIME, Windowed("k", 1.5, 11.5), "window_start_ms: expected a long, got 1.5"),
        (TIME, Windowed("k", True, 11), "window_start_ms: expected a long, got True"),
        (TIME, Windowed("k", "1", 11), "window_start_ms: expected a long, got '1'"),
        (TIME, Windowed("k", None, 11), "window_start_ms: expected a long, got None"),
        (TIME, Windowed("k", 1, 11.0), "window_end_ms: expected a long, got 11.0"),
        (SESSION, Windowed("k", 1, None), "window_end_ms: expected a long, got None"),
        (SESSION, Windowed("k", 1, 2**63), "window_end_ms: expected a number of 64 bits, got 9223372036854775808"),
        (SESSION, Windowed("k", 5, 4), "expected a window that begins at 0 or later, and then ends, got Windowed"),
    ],
)
def test_bounds_of_a_window_are_whole_and_nothing_is_converted(serde, value, refusal):
    with pytest.raises(ConfigError, match=f"row 1.*{refusal}"):
        serde.from_python([Windowed("k", 1, 11), value])


def test_bounds_of_a_window_may_be_numbers_of_numpy():
    last = Windowed("k", np.int64(2**63 - 6), np.int64(2**63 - 1))
    assert TIME.to_python(TIME.from_python([last])) == [last]


def test_what_is_no_uuid_or_no_nothing_is_not_written():
    with pytest.raises(ConfigError, match=r"^Serde.uuid\(\), row 1: expected a UUID, got 'x'"):
        Serde.uuid().encode(pa.array([str(ONE), "x"]))
    with pytest.raises(ConfigError, match="expected None, got True"):
        Serde.void().encode(pa.array([True]))
    with pytest.raises(ConfigError, match=r"Serde.list: expected the serde of an entry, got 'int'"):
        Serde.list("int")  # type: ignore[arg-type]
