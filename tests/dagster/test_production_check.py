"""The check that compares an output with what a live application wrote."""

import struct

import dagster as dg
import pytest

from kstreams_replay.state.errors import ConfigError
from tests.dagster import shop
from tests.planted import LandedRecord, plant

pytestmark = pytest.mark.sampled


def said(result: dg.ExecuteInProcessResult) -> dg.AssetCheckEvaluation:
    (found,) = [
        each for each in result.get_asset_check_evaluations() if each.check_name == "production_equals_its_rules"
    ]
    return found


def row(user: bytes, start_ms: int, count: int, time_ms: int) -> LandedRecord:
    return LandedRecord(0, user + struct.pack(">q", start_ms), struct.pack(">q", count), time_ms)


def test_it_warns_with_the_cause_of_what_differs(small_shop):
    """
    Windows of 100 ms, grace 0. Bob's second click, at 101, is late by stream time 200; after a restart it is the second
    of a window that the store still has.
    """
    written = [row(b"ann", 100, 1, 100), row(b"bob", 100, 1, 105), row(b"ann", 100, 2, 110), row(b"cid", 200, 1, 200)]
    plant(small_shop.warehouse, "live", written, partitions=1)
    definitions = shop.definitions(
        small_shop.root, topology=shop.finer(), check_engine="plain", production={"counts": "live"}
    )

    same = said(small_shop.run(definitions))
    small_shop.drop("2-evening", shop.EVENING)
    later = [row(b"bob", 100, 2, 105), row(b"ann", 300, 1, 300), row(b"bob", 400, 1, 400)]
    plant(small_shop.warehouse, "live", later, partitions=1)
    found = said(small_shop.run(definitions))

    assert (same.passed, same.description) == (True, "live equals counts.")
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert found.metadata["causes"].value == {"restart": 1}
    assert "let in by a restart: clicks:0:4 of time 101 was late" in (found.description or "")


def test_a_topic_that_never_landed_is_a_warning_and_an_unknown_output_is_refused(small_shop):
    words = {"topology": shop.finer(), "check_engine": "plain"}
    found = said(small_shop.run(shop.definitions(small_shop.root, production={"counts": "dead"}, **words)))

    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "expected a landed topic" in (found.description or "")
    with pytest.raises(ConfigError, match="expected outputs of counts, got 'sums'"):
        shop.definitions(small_shop.root, production={"sums": "live"}, **words)
