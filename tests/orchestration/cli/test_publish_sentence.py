"""The sentence with which `replay publish` ends names what was sent."""

from dataclasses import replace

import pytest

from kstreams_replay.jobs.publish.publishing import PublishReport
from kstreams_replay.orchestration.cli.commands.publish import _sentence

SAID = PublishReport("out", "t", through=3, transactions=2, seconds=1.25)


@pytest.mark.parametrize(
    ("counts", "dry_run", "says"),
    [
        ({"rows": 5, "increments": 2}, False, "t: 5 rows of 2 increments published in 1.2 s, in 2 transactions, up to"),
        ({"rows": 5, "increments": 1}, True, "t: 5 rows of 1 increment would be published, in 2 transactions, up to"),
        ({"rows": 1}, False, "t: 1 row of an increment that was begun before published in 1.2 s"),
        ({"corrections": 4, "tombstones": 1}, False, "t: 4 corrections, 1 tombstone published in 1.2 s"),
        ({"rows": 2, "increments": 1, "corrections": 4}, True, "t: 2 rows of 1 increment; 4 corrections, 0 tom"),
        ({}, False, "t: no row is new; its position is behind increment 3"),
        ({}, True, "t: no row is new; its position would be behind increment 3"),
        ({"transactions": 0}, False, "t: nothing new, it has out up to increment 3"),
    ],
)  # fmt: skip
def test_the_sentence_names_what_was_sent(counts, dry_run, says):
    assert _sentence(replace(SAID, **counts), dry_run=dry_run).startswith(says)
