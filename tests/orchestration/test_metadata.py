"""Durations in words."""

import pytest

from kstreams_replay.orchestration.metadata import duration_in_words

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("duration_ms", "words"),
    [
        (0, "0 ms"),
        (16.4, "16 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (61_500, "1 min 1 s"),
        (3 * HOUR + 20 * 60_000 + 5_000, "3 h 20 min"),
        (25 * HOUR, "1 d 1 h"),
        (24 * HOUR + 5, "1 d"),
        (2_400 * HOUR * 24, "2,400 d"),
    ],
)
def test_a_duration_is_told_in_its_two_largest_units(duration_ms, words):
    assert duration_in_words(duration_ms) == words
