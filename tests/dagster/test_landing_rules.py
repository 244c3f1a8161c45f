"""Landing in Dagster: by the same settings as the command, and what is unusual is in the metadata."""

import json

import dagster as dg
import pytest

from kstreams_replay.jobs.landing.bad_rows import landed_dead_letters
from kstreams_replay.jobs.landing.landing import LakeSource, LandingRules
from kstreams_replay.orchestration.component.attributes import LandingAttributes
from kstreams_replay.state.tables.out_of_play import exclusions
from tests.dagster import shop
from tests.dagster.conftest import broken, numbers, passed, told
from tests.landing.lake_tables import Row, bronze

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


def test_rows_that_became_no_record_are_warned_of_until_a_landing_has_none(small_shop):
    """
    In a run with nothing new the check says what it said of the last landing.
    """
    file = small_shop.root / "clicks" / "1-morning.jsonl"
    file.write_text(file.read_text() + '{"user": "ann", "ms": "soon"}\n')
    definitions = shop.definitions(small_shop.root, check_engine="plain", landing=LandingRules(max_bad_share=0.5))

    for result in [small_shop.run(definitions), small_shop.run(definitions)]:
        assert result.success
        (warned,) = [each for each in broken(result) if each.check_name == "every_row_becomes_a_record"]
        assert (warned.asset_key.to_user_string(), warned.severity, warned.blocking) == (
            "shop/landed/clicks",
            dg.AssetCheckSeverity.WARN,
            False,
        )
        assert warned.description == (
            "clicks: 1 of 7 rows (14.3%) became no record; "
            f"see `replay show landed_dead_letter/clicks --warehouse {small_shop.warehouse.root}`"
        )
        assert (warned.metadata["records_read"].value, warned.metadata["dead_letters"].value) == (6, 1)

    small_shop.drop("2-evening", shop.EVENING)
    assert passed(small_shop.run(definitions))["clicks: every_row_becomes_a_record"]


def in_a_table(first: int, clicks: list[tuple[str | None, str, int]]) -> list[Row]:
    """Clicks from the offset ``first`` on, as Spark's Kafka source writes them."""
    return [
        Row(0, first + n, ms, user and user.encode(), json.dumps({"page": page, "ms": ms}).encode())
        for n, (user, page, ms) in enumerate(clicks)
    ]


@pytest.mark.parametrize("in_place", [False, True])
def test_what_is_appended_to_a_table_of_a_lake_lands_and_is_replayed(small_shop, in_place):
    """The morning closes the sessions of ann and bob, the evening those of cid and ann."""
    table = small_shop.root / "bronze"
    source = LakeSource(delta=str(table), in_place=in_place)
    definitions = shop.definitions(small_shop.root, check_engine="plain", sources={"clicks": source})

    found = []
    for first, clicks in ((0, shop.MORNING), (6, shop.EVENING)):
        bronze(table, in_a_table(first, clicks))
        result = small_shop.run(definitions)
        assert result.success
        (landed,), (sessions,) = (told(result)[f"shop/{name}"] for name in ("landed/clicks", "outputs/sessions"))
        found.append(numbers(landed, "records_read", "dagster/row_count") | numbers(sessions, "records_emitted"))

    assert found == [
        {"records_read": 6, "dagster/row_count": 6, "records_emitted": 2},
        {"records_read": 2, "dagster/row_count": 8, "records_emitted": 2},
    ]
    assert numbers(landed, "in_place") == ({"in_place": str(table)} if in_place else {})


def test_what_its_owner_deletes_is_erased_where_the_settings_of_yaml_say_so(small_shop):
    table = small_shop.root / "bronze"
    rules = LandingAttributes(on_change="erase").rules()
    source = LakeSource(delta=str(table))
    definitions = shop.definitions(small_shop.root, check_engine="plain", sources={"clicks": source}, landing=rules)
    bronze(table, in_a_table(0, shop.MORNING))
    assert small_shop.run(definitions).success
    bronze(table, in_a_table(6, shop.EVENING)).delete("offset = 1")

    result = small_shop.run(definitions)

    assert result.success
    landed = [numbers(each, "records_read", "dagster/row_count") for each in told(result)["shop/landed/clicks"]]
    assert landed == [{"records_read": 2, "dagster/row_count": 8}, {"records_read": 0, "dagster/row_count": 8}]
    [erased] = exclusions(small_shop.warehouse, "clicks")
    assert (erased.offset, erased.is_erased) == (1, True)
