"""Times as text."""

import pytest

from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.times import instant_ms


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1970-01-01T00:00:01.500Z", 1_500),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1970-01-02", 86_400_000),  # without a zone: UTC
        ("1500", 1_500),
    ],
)
def test_an_instant_is_iso_8601_or_a_number_of_milliseconds(text, time_ms):
    assert instant_ms(text, "--to") == time_ms


@pytest.mark.parametrize(
    "text", ["yesterday", "-5", "1970-01-01T00:00:00.0001", "", "9" * 16, pytest.param("9" * 5_000, id="digits")]
)
def test_other_text_is_refused(text):
    with pytest.raises(ConfigError) as refused:
        instant_ms(text, "--to")

    assert "--to" in str(refused.value)
