"""Settings of one run: what the launchpad takes, what contradicts, and what is not done twice."""

from typing import Any

import dagster as dg
import pytest

from kstreams_replay.jobs.history.committed_tables import read_changelog
from kstreams_replay.jobs.landing.landing import land_files
from kstreams_replay.jobs.topology import StreamsBuilder, fold
from kstreams_replay.orchestration.definitions import replay_definitions
from kstreams_replay.orchestration.resources import LocalEngine
from kstreams_replay.orchestration.settings.run_settings import (
    Idle,
    PartitionConfig,
    ReplayConfig,
    RequestedRun,
    asked_of,
)
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.ledger import Ledger
from tests.clicks import CLICKS, final_page_counts, final_sessions
from tests.dagster import shop
from tests.dagster.conftest import Shop, numbers, observed, told, versions

pytestmark = pytest.mark.sampled

FIRST = "increment-1-epoch-0"
TOPICS = ["clicks"]
FEW = [dg.AssetKey(["shop", "landed", "clicks"]), dg.AssetKey(["shop", "dropped"])]
"""A run of these makes few checks."""


def config(**settings: Any) -> dict[str, Any]:
    return {"ops": {"shop_increments": {"config": settings}}}


def cuts(small_shop: Shop) -> list[int]:
    ledger = Ledger(small_shop.warehouse.pipeline("shop").ledger)
    return [row.content.cut_to["clicks"]["0"] for row in ledger.done_rows()]


def failure(result: dg.ExecuteInProcessResult) -> str:
    (event,) = [event for event in result.all_node_events if event.is_step_failure]
    return str(event.step_failure_data.user_failure_data or event.step_failure_data.error)


def test_the_launchpad_shows_every_setting_with_its_words(tmp_path):
    (step,) = [each for each in shop.definitions(tmp_path).assets if isinstance(each, dg.AssetsDefinition)]

    fields = step.op.config_schema.as_field().config_type.fields

    assert sorted(fields) == [
        "advance", "dry_run", "flush", "idle", "max_records", "migrate", "renamed", "until",
    ]  # fmt: skip
    assert [name for name, field in fields.items() if not field.description or field.is_required] == []


def test_a_run_is_cut_by_max_records_and_ends_before_until(small_shop):
    settings = config(max_records=2, until="1970-01-01T00:00:00.200")
    assert small_shop.run(asset_selection=FEW, run_config=settings).success

    assert cuts(small_shop) == [2, 3]  # the fourth click is of 200
    assert small_shop.run(asset_selection=FEW).success
    assert cuts(small_shop) == [2, 3, 6]


def test_flush_closes_history_once(small_shop):
    settings = config(flush=True)
    assert small_shop.run(asset_selection=FEW, run_config=settings).success

    rows = read_changelog(small_shop.warehouse, "shop", "pages").select(["key", "window_start_ms"]).to_pylist()
    assert {"key": "help", "window_start_ms": 180} in rows  # nothing of later times has come
    assert small_shop.run(asset_selection=FEW, run_config=settings).success
    assert cuts(small_shop) == [6, 6]  # the records, and the end of time; nothing for the second run


def test_advance_closes_windows_of_a_quiet_topic_and_is_recorded_once(small_shop):
    settings = config(advance={"clicks": "1970-01-01T00:00:01"})
    assert small_shop.run(asset_selection=FEW, run_config=settings).success

    rows = read_changelog(small_shop.warehouse, "shop", "pages").select(["key", "window_start_ms"]).to_pylist()
    assert {"key": "help", "window_start_ms": 180} in rows
    assert small_shop.run(asset_selection=FEW, run_config=settings).success
    assert cuts(small_shop) == [6]


def test_a_dry_run_writes_nothing_and_says_what_would_be_read(small_shop):
    assert small_shop.run(asset_selection=[dg.AssetKey(["shop", "landed", "clicks"])]).success
    small_shop.drop("2-evening", shop.EVENING)

    result = small_shop.run(run_config=config(dry_run=True, max_records=4))

    assert result.success
    assert told(result) == {}
    said = numbers(observed(result)["shop/outputs/pages"])
    assert {name: said[name] for name in ("records_to_read", "increments_to_run", "is_refused")} == {
        "records_to_read": 6,  # the evening has not landed, and does not
        "increments_to_run": 2,
        "is_refused": False,
    }
    assert "clicks, partition 0: offsets 0 to 6" in said["dry_run"]
    assert cuts(small_shop) == []


def with_another_store():
    """The shop, whose sessions are in a store of another name."""
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", CLICKS)
    folds = {"clicks": fold.count(), "last_page": fold.last("page")}
    final_sessions(clicks, store="sessions-now", held="held-sessions", **folds).to("sessions")
    final_page_counts(clicks, store="open-pages", held="held-pages").to("pages")
    return builder.build()


def test_a_store_gets_its_new_name_in_one_run_and_a_run_without_the_word_is_refused(small_shop):
    land_files(None, small_shop.warehouse, "clicks", shop.source(small_shop.root / "clicks"))
    small_shop.replay()
    changed = replay_definitions(
        with_another_store(), pipeline="shop", warehouse=small_shop.warehouse, engine=LocalEngine(),
        sources={"clicks": shop.source(small_shop.root / "clicks")}, check_engine="plain",
    )  # fmt: skip
    renamed, alone = {"open-sessions": "sessions-now"}, [dg.AssetKey(["shop", "dropped"])]

    dry = small_shop.run(changed, asset_selection=alone, run_config=config(dry_run=True))
    assert numbers(observed(dry)["shop/dropped"], "is_refused") == {"is_refused": True}
    refused = small_shop.run(changed, asset_selection=alone)
    assert not refused.success
    assert "open-sessions" in failure(refused)
    for _ in range(2):  # the second time the wish is fulfilled
        assert small_shop.run(changed, asset_selection=alone, run_config=config(renamed=renamed)).success
    assert cuts(small_shop) == [6, 6]  # the renaming reads nothing


def test_of_one_selected_output_the_increment_runs_whole_and_the_others_are_observed(small_shop):
    pages = dg.AssetKey(["shop", "outputs", "pages"])
    landed = dg.AssetKey(["shop", "landed", "clicks"])

    result = small_shop.run(asset_selection=[landed, pages])

    assert versions(result) == {"shop/landed/clicks": [FIRST], "shop/outputs/pages": [FIRST]}
    others = observed(result)
    assert numbers(others["shop/outputs/sessions"], "increment", "not_selected", "dagster/row_count") == {
        "increment": 1,
        "not_selected": True,
        "dagster/row_count": 2,
    }
    assert "shop/outputs/pages" not in others
    later = versions(small_shop.run())
    assert later["shop/outputs/sessions"] == [FIRST]  # told when it is asked
    assert "shop/outputs/pages" not in later


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"flush": True, "until": "2026-01-01"}, "flush: expected no `until` beside it"),
        ({"flush": True, "idle": Idle.wait}, 'flush: expected no `idle: "wait"` beside it'),
        ({"max_records": 0}, "max_records: expected 1 or more, got 0"),
        ({"until": "yesterday"}, "until: expected a time such as"),
        ({"advance": {"orders": "2026-01-01"}}, "advance: expected topics of the pipeline, clicks, got orders"),
        ({"advance": {"clicks": "soon"}}, "advance, topic 'clicks': expected a time such as"),
        ({"advance": {"clicks": "2026-01-01"}, "dry_run": True}, "advance: expected no `dry_run` beside it"),
        ({"migrate": {"open-pages": "nowhere:migrate"}}, "nowhere:migrate: expected a module or a file"),
    ],
)
def test_what_contradicts_is_refused_in_words(settings, words):
    with pytest.raises(ConfigError) as error:
        asked_of(ReplayConfig(**settings), max_records=None, increments=None, idle="wait", topics=TOPICS)

    assert str(error.value).startswith(words)


def test_what_is_not_set_is_as_the_definitions_say():
    asked = asked_of(PartitionConfig(), max_records=7, increments=2, idle="proceed", topics=TOPICS)

    assert (asked.max_records, asked.increments, asked.idle) == (7, 2, "proceed")
    assert (
        asked_of(ReplayConfig(idle=Idle.wait), max_records=7, increments=2, idle="proceed", topics=TOPICS).idle
        == "wait"
    )
    assert RequestedRun().flush is False


def test_settings_of_a_replay_in_a_run_that_only_lands_are_refused(small_shop):
    landed = dg.AssetKey(["shop", "landed", "clicks"])

    result = small_shop.run(asset_selection=[landed], run_config=config(flush=True))

    assert not result.success
    assert "flush: expected a run that replays, got a selection of landed topics alone" in failure(result)
