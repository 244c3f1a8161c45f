"""Landing in Dagster: by the same settings as the command, and what is unusual is in the metadata."""

import dagster as dg

from kstreams_replay.jobs.landing.bad_rows import landed_dead_letters
from kstreams_replay.jobs.landing.landing import LandingRules
from tests.dagster import shop
from tests.dagster.conftest import told

LANDED = [dg.AssetKey(["shop", "landed", "clicks"])]


def test_rows_that_do_not_fit_are_kept_or_stop_as_the_settings_say(small_shop):
    file = small_shop.root / "clicks" / "1-morning.jsonl"
    file.write_text(file.read_text() + '{"user": "ann", "ms": "soon"}\n')

    def land(**rules):
        definitions = shop.definitions(small_shop.root, check_engine="plain", landing=LandingRules(**rules))
        return small_shop.run(definitions, asset_selection=LANDED)

    assert not land().success  # one of seven is more than 1 %
    assert not land(max_bad_share=0.5, on_bad_row="stop").success
    result = land(max_bad_share=0.5)

    [landed] = told(result)["shop/landed/clicks"]
    said = {name: landed.metadata[name].value for name in ("records_read", "dead_letters", "implausible_times")}
    assert said == {"records_read": 6, "dead_letters": 1, "implausible_times": 6}  # of 1970
    assert landed_dead_letters(small_shop.warehouse, "clicks")["bytes"].to_pylist() == [
        b'{"user": "ann", "ms": "soon"}'
    ]
