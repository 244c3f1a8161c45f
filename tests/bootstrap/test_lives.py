"""A killed application's state, replayed with a fix and handed to a new one: readers see what they would have seen of
the old application with the fix, no row less and none twice.
"""

import zlib

import pytest

from examples.broker import running_broker
from kstreams_replay.state.kafka_version import JUDGE, JUDGES
from tests.bootstrap.lives import FIX, KINDS, by_the_rules, round_trip
from tests.bootstrap.test_bootstrap import APPLICATIONS, PARTITIONS
from tests.bootstrap.test_live import PROGRAM
from tests.jvm.streams import compiled, streams_of
from tests.sampling import seed

pytestmark = [pytest.mark.jvm, pytest.mark.nightly]


@pytest.mark.parametrize(
    ("kind", "version"), [*((kind, JUDGE) for kind in KINDS), *((FIX, version) for version in JUDGES[1:])]
)
def test_a_new_application_goes_on_as_the_killed_one_would_with_the_fix(kind, version, tmp_path):
    number = zlib.crc32(f"{kind} {version}".encode()) + seed()
    (tmp_path / "broker").mkdir()
    with (
        compiled(PROGRAM, APPLICATIONS, packages=(streams_of(version),)) as command,
        running_broker(tmp_path / "broker", version=version) as broker,
    ):
        trip = round_trip(command, broker, tmp_path, kind, number)

    assert trip.ours == trip.theirs, number
    assert all(map(any, trip.ours[-1].values()))
    if kind == FIX:
        clicks = trip.life.topics["clicks"]
        assert trip.last_values("updates") == by_the_rules(clicks, trip.committed)
        assert by_the_rules(clicks, trip.committed) != by_the_rules(clicks, [len(clicks)] * PARTITIONS)
