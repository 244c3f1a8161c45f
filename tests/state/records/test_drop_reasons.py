"""Reasons of drops: text that tables have had from the first version on."""

import json

import pyarrow as pa
import pytest

from kstreams_replay.state.records.drop_reasons import DropReason

WRITTEN = {
    "negative-timestamp", "null-key", "null-value", "null-foreign-key", "stale-response", "out-of-order-version",
    "expired-version", "expired-in-store", "expired-window", "late", "processing-exception", "no-partition",
}  # fmt: skip


def test_the_reasons_are_those_that_tables_have():
    assert set(DropReason) == WRITTEN


@pytest.mark.parametrize("text", sorted(WRITTEN))
def test_a_reason_is_found_by_its_text_and_has_a_sentence_of_its_own(text):
    reason = DropReason(text)
    assert (f"{reason}", json.dumps({reason: 1}), pa.array([reason.value])[0].as_py()) == (
        text,
        f'{{"{text}": 1}}',
        text,
    )
    assert [other for other in DropReason if other.sentence == reason.sentence] == [reason]


def test_a_limit_of_time_decides_on_what_is_too_old_and_on_nothing_else():
    assert {reason for reason in DropReason if reason.has_limit} == {
        "expired-version", "expired-in-store", "expired-window", "late",
    }  # fmt: skip
