"""Serdes and values that several test files of serdes use."""

import numpy as np
import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

from kstreams_replay.state.serdes import Serde

unhurried = settings(deadline=None)  # the first example loads a kernel, or compiles it

CLICK = Serde.json(
    "user string, ms long, score double, ok boolean, tags array<string>, place struct<lat double, n int>"
)

texts = st.text(st.characters(codec="utf-8"), max_size=12)
longs = st.integers(-(2**63), 2**63 - 1)
clicks = st.fixed_dictionaries(
    {
        "user": st.none() | texts,
        "ms": st.none() | longs,
        "score": st.none() | st.floats(allow_nan=False),
        "ok": st.none() | st.booleans(),
        "tags": st.none() | st.lists(st.none() | texts, max_size=3),
        "place": st.none()
        | st.fixed_dictionaries(
            {"lat": st.none() | st.floats(allow_nan=False), "n": st.none() | st.integers(-(2**31), 2**31 - 1)}
        ),
    }
)


def decode(serde: Serde, *binary: bytes | None) -> tuple[list, dict[int, str]]:
    """(Python values, reasons) of rows; checks what holds for every decoding on the way."""
    decoded = serde.decode(pa.array(binary, pa.binary()))
    decoded.values.validate(full=True)
    assert decoded.values.type == serde.arrow_type
    assert decoded.bad.dtype == np.bool_
    assert np.flatnonzero(decoded.bad).tolist() == list(decoded.reasons)
    got = serde.to_python(decoded.values)
    assert all(value is None for value, bad in zip(got, decoded.bad, strict=True) if bad)
    return got, decoded.reasons
