"""What waits is said, and what went wrong is not green: held-back records, waiting results, records without effect."""

import re
from pathlib import Path

import dagster as dg
import pytest

from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.replay.waiting_inputs import WaitingInput
from kstreams_replay.jobs.topology import (
    Consumed,
    Materialized,
    Serde,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from kstreams_replay.orchestration import what_waits
from kstreams_replay.orchestration.assets import failing_in_one_sentence
from kstreams_replay.orchestration.definitions import replay_definitions
from kstreams_replay.orchestration.resources import LocalEngine
from kstreams_replay.orchestration.what_waits import inputs_that_wait, results_that_wait, sentences_of
from kstreams_replay.state.errors import ConfigError, LedgerConflict, MachineError, StorageError
from kstreams_replay.state.tables.refused_shares import RefusedLimit
from tests.dagster import shop
from tests.dagster.conftest import broken, numbers, observed, passed, told
from tests.dagster.days import DAY, DAYS, FOUR, JANUARY, ONE
from tests.planted import LandedRecord, plant

pytestmark = pytest.mark.sampled


def orders_wait(root: str) -> str:
    """The sentence about `static`, of the warehouse at ``root``."""
    return (
        "3 records of users and orders wait for topic users, partition 0, which has landed up to "
        "1970-01-01 00:00:00.005: more of it may still come first, for which Kafka waits too (max.task.idle.ms). "
        "What to do: nothing, if more of users lands later; if none ever comes: replay advance users --complete "
        f"--warehouse {root}; if none comes up to there: replay advance users --to "
        f'"1970-01-01 00:00:00.020" --warehouse {root}; or replay with --idle proceed, which takes the records now'
    )


def test_one_record_is_said_as_one_and_each_partition_that_others_wait_for_has_a_sentence():
    one = WaitingInput("orders", 1, 1, 7, 7, "users", 0, 5)
    another = WaitingInput("orders", 1, 2, 7, 9, "prices", 1, 5)

    users, prices = sentences_of([one, another], "my tables")

    assert users.startswith(
        "1 record of orders waits for topic users, partition 0, which has landed up to 1970-01-01 00:00:00.005: "
    )
    assert prices.startswith("2 records of orders wait for topic prices, partition 1, which has landed up to ")
    assert "replay advance prices --to \"1970-01-01 00:00:00.009\" --warehouse 'my tables'; or" in prices
    assert "first, for which Kafka waits too (max.task.idle.ms). What" in prices
    assert sentences_of([], "W") == []


def test_partitions_of_one_topic_wait_for_one_another_behind_a_repartition_alone():
    (orders,) = sentences_of([WaitingInput("orders", 1, 2, 7, 9, "orders", 0, 5)], "W")

    assert "first, for which Kafka does not wait behind a repartition. What to do: nothing, if more of orders" in orders


def joined() -> Topology:
    """Orders of users; users do not change."""
    builder = StreamsBuilder()
    users = builder.table("users", Consumed(Serde.string(), Serde.string()))
    orders = builder.stream("orders", Consumed(Serde.string(), Serde.string()))
    orders.join(users, user="right").to("named")
    return builder.build()


def counted() -> Topology:
    """Words, of which the long ones go through a repartition."""
    builder = StreamsBuilder()
    words = builder.stream("words", Consumed(Serde.string(), Serde.json("text string")))
    words.group_by_key().count().to_stream().to("all")
    words.filter("text == 'long'").group_by("text").count().to_stream().to("long")
    return builder.build()


def named_and_counted() -> Topology:
    """Clicks with the names of their users, and final counts of each hour."""
    builder = StreamsBuilder()
    pages = Consumed(Serde.string(), Serde.json("page string"))
    users, clicks = builder.table("users", pages), builder.stream("clicks", pages)
    clicks.left_join(users, page="left.page", user="right.page").to("named")
    hours = clicks.group_by_key().windowed_by(TimeWindows.of_size("1h", grace="10m")).count(Materialized.as_("hours"))
    hours.suppress(Suppressed.until_window_closes(name="held")).to("counts")
    return builder.build()


def run(topology: Topology, warehouse, instance, tags=None, **settings) -> dg.ExecuteInProcessResult:
    definitions = replay_definitions(
        topology, pipeline="p", warehouse=warehouse, engine=LocalEngine(), check_engine="plain", **settings
    )
    job = definitions.resolve_job_def("p_replay")
    return job.execute_in_process(instance=instance, raise_on_error=False, tags=tags)


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def static(warehouse):
    """A user, then two orders."""
    plant(warehouse, "users", [LandedRecord(0, b"ann", b"Ann", 5)], partitions=1)
    plant(warehouse, "orders", [LandedRecord(0, b"ann", b"tea", 10), LandedRecord(0, b"ann", b"mug", 20)], partitions=1)
    return warehouse


def test_a_static_table_holds_everything_back_and_after_two_runs_a_check_warns(static, instance):
    runs = [run(joined(), static, instance) for _ in range(2)]

    assert [each.success for each in runs] == [True, True]
    assert [told(each) for each in runs] == [{}, {}]
    waits = observed(runs[0])["p/outputs/named"].metadata
    assert waits["records_waiting"].value == 3  # the user itself, since another may come at its time
    assert waits["waits"].value == f"- {orders_wait(static.root)}"
    said = [event.user_message for event in instance.all_logs(runs[0].run_id) if event.level == 30]
    assert orders_wait(static.root) in said

    name = "named: landed_records_are_replayed"
    assert [passed(each)[name] for each in runs] == [True, False]
    (warned,) = broken(runs[1])
    assert warned.severity is dg.AssetCheckSeverity.WARN
    assert warned.description.startswith("3 landed records are unread, and 2 runs have replayed nothing. ")
    assert orders_wait(static.root) in warned.description

    plant(static, "users", [LandedRecord(0, b"bob", b"Bob", 30)], partitions=1)
    after = run(joined(), static, instance)
    assert passed(after)[name]
    assert numbers(told(after)["p/outputs/named"][0], "records_read", "records_emitted") == {
        "records_read": 2,  # the second order waits, since another may come at its time
        "records_emitted": 1,
    }


def test_a_backfill_says_once_what_waits_at_the_end_of_a_day_and_nothing_of_clicks_of_later_days(warehouse, instance):
    """Six days have a click each, and users have only come to the end of the day that runs, by ``idle_after``."""
    clicks = [LandedRecord(0, b"ann", b'{"page": "home"}', JANUARY + day * DAY + 2_000) for day in range(6)]
    plant(warehouse, "users", [LandedRecord(0, b"ann", b'{"page": "Ann"}', JANUARY + 1_000)], partitions=1)
    plant(warehouse, "clicks", clicks, partitions=1)
    days = {"dagster/asset_partition_range_start": ONE, "dagster/asset_partition_range_end": FOUR}

    result = run(named_and_counted(), warehouse, instance, days, partitions=DAYS, idle_after={"users": "12h"})

    assert result.success
    said = [event.user_message for event in instance.all_logs(result.run_id) if event.level >= 20]
    assert [sentence for sentence in said if re.search(r"\bwaits? (?:for|in)\b", sentence)] == [
        f"1 result waits in held-store until stream time 2026-01-0{day} 01:10:00" for day in (1, 2, 3, 4)
    ]


def test_each_way_on_that_is_named_is_one(static):
    waits = inputs_that_wait(static, joined(), pipeline="p")
    assert sentences_of(waits, "W") == [orders_wait("W")]

    assert inputs_that_wait(static, joined(), pipeline="p", idle="proceed") == []
    (report,) = replay(static, joined(), pipeline="p", runner=LocalRunner(), idle="proceed")
    assert report.books.read == 3


def test_a_report_says_what_waits_and_so_does_its_row_in_the_ledger(static):
    plant(static, "users", [LandedRecord(0, b"bob", b"Bob", 15)], partitions=1)

    (report,) = replay(static, joined(), pipeline="p", runner=LocalRunner())

    (orders, users) = sorted(report.waits, key=lambda each: each.topic)
    assert (orders.records, orders.first_ms, orders.last_ms) == (1, 20, 20)
    assert (orders.for_topic, orders.for_partition, orders.reached_ms) == ("users", 0, 15)
    assert users.records == 1


def test_results_that_wait_in_suppress_are_counted_with_the_times_that_let_them_go(small_shop):
    result = small_shop.run()

    (sessions, pages) = results_that_wait(small_shop.warehouse, shop.topology(), pipeline="shop")
    want = (
        "1 result waits in held-sessions-store until stream time 1970-01-01 00:00:00.235",
        "2 results wait in held-pages-store until stream time 1970-01-01 00:00:00.220, "
        "the last until 1970-01-01 00:00:00.250",
    )
    assert (str(sessions), str(pages)) == want
    said = [event.user_message for event in small_shop.instance.all_logs(result.run_id)]
    assert set(want) <= set(said)


def test_of_a_store_that_is_too_large_or_damaged_the_count_alone_is_said(small_shop, monkeypatch):
    small_shop.run()
    place = {"topology": shop.topology(), "pipeline": "shop"}
    want = ["1 result waits in held-sessions-store", "2 results wait in held-pages-store"]

    with monkeypatch.context() as patch:
        patch.setattr(what_waits, "READ_MAX", 0)
        assert [str(each) for each in results_that_wait(small_shop.warehouse, **place)] == want

    for file in Path(small_shop.warehouse.root, "shop/state").rglob("partition=*/*.parquet"):
        file.unlink()
    assert [str(each) for each in results_that_wait(small_shop.warehouse, **place)] == want


@pytest.mark.parametrize(
    ("error", "may_pass"),
    [
        (StorageError("W", "room on the disk", "No space left on device", "free some"), True),
        (MachineError("this process", "memory", "none left", "give it more"), True),
        (LedgerConflict("p/ledger", "increment 2", "another runner's", "wait for it"), True),
        (ConfigError("p", "a topic", "none", "name one"), False),
    ],
)
def test_dagster_tries_again_what_may_pass(error, may_pass):
    with pytest.raises(dg.Failure) as failed, failing_in_one_sentence():
        raise error

    assert failed.value.allow_retries is may_pass


BAD, GOOD = b"{", b'{"text": "short"}'


@pytest.mark.parametrize(
    ("bad", "good", "severity", "succeeds"),
    [
        (5, 0, dg.AssetCheckSeverity.ERROR, False),
        (2, 98, dg.AssetCheckSeverity.WARN, True),
        (1, 99, None, True),
    ],
)
def test_records_that_cannot_be_decoded_are_red_when_all_are_and_warned_of_above_one_in_a_hundred(
    warehouse, instance, bad, good, severity, succeeds
):
    records = [LandedRecord(0, b"a", value, time) for time, value in enumerate([BAD] * bad + [GOOD] * good)]
    plant(warehouse, "words", records, partitions=1)

    result = run(counted(), warehouse, instance)

    assert result.success is succeeds
    assert [(each.check_name, each.severity) for each in broken(result)] == (
        [] if severity is None else [("few_records_are_undecodable", severity)]
    )
    (letters,) = told(result)["p/dead_letter"]
    want = {"records_undecodable": bad, "records_read": bad + good, "records_applied": good, "dagster/row_count": bad}
    assert numbers(letters, *want) == want
    (dropped,) = told(result)["p/dropped"]
    assert numbers(dropped, "records_dropped")["records_dropped"] == 0
    if severity is dg.AssetCheckSeverity.ERROR:
        (red,) = broken(result)
        assert red.description == (
            "5 of 5 records (100.0%) were undecodable, and none could be applied; "
            f"see `replay show dead_letter --warehouse {warehouse.root} --pipeline p`."
        )
        assert not run(counted(), warehouse, instance).success  # red until something can be applied


def test_refused_records_are_warned_of_with_their_share(small_shop):
    """Bob's late record, and the one without a key, are in no session; the pages have the latter."""
    result = small_shop.run()
    (warned,) = broken(result)

    assert (warned.check_name, warned.severity) == ("few_records_are_dropped", dg.AssetCheckSeverity.WARN)
    assert warned.description == (
        "2 of 6 records that came to KSTREAM-AGGREGATE-0000000001 (33.3%) were refused; "
        f"see `replay show dropped --warehouse {small_shop.warehouse.root} --pipeline shop`."
    )
    (dropped,) = told(result)["shop/dropped"]
    want = {
        "records_dropped": 3,
        "records_dropped/KSTREAM-AGGREGATE-0000000001": 2,
        "records_dropped/KSTREAM-AGGREGATE-0000000005": 1,
    }
    assert numbers(dropped, *want) == want
    by_output = {"sessions": "KSTREAM-AGGREGATE-0000000001", "pages": "KSTREAM-AGGREGATE-0000000005"}
    for output, operator in by_output.items():  # the same number, of the operators of each
        (told_of,) = told(result)[f"shop/outputs/{output}"]
        count = want[f"records_dropped/{operator}"]
        assert numbers(told_of, "records_dropped") == {"records_dropped": count}
        assert numbers(told_of, f"records_dropped/{operator}") == {f"records_dropped/{operator}": count}


def test_lateness_and_seconds_are_those_of_the_tasks_that_wrote_the_table(warehouse, instance):
    times = [(b"short", 100), (b"long", 200), (b"short", 110), (b"long", 230)]
    records = [LandedRecord(0, b"a", b'{"text": "%s"}' % text, time) for text, time in times]
    plant(warehouse, "words", records, partitions=1)

    result = told(run(counted(), warehouse, instance))

    lateness = ("lateness_avg_ms", "lateness_max_ms")
    assert numbers(result["p/outputs/all"][0], *lateness) == {"lateness_avg_ms": 22.5, "lateness_max_ms": 90}
    assert numbers(result["p/outputs/long"][0], *lateness) == {"lateness_avg_ms": 0, "lateness_max_ms": 0}
    parts = [name for name in result["p/outputs/long"][0].metadata if name.startswith("seconds/")]
    assert parts
    assert all(name.startswith("seconds/task_") for name in parts)


def test_a_restore_has_no_lateness_and_no_seconds_of_what_it_went_back_to(warehouse, instance):
    for times in ((100, 50), (200, 190)):
        plant(warehouse, "words", [LandedRecord(0, b"a", GOOD, time) for time in times], partitions=1)
        run(counted(), warehouse, instance)

    row = restore(warehouse, "p", 1)
    result = told(run(counted(), warehouse, instance))

    assert row.content.lateness == {"avg": None, "max": None}
    first, *_ = result["p/outputs/all"]
    assert numbers(first, "increment")["increment"] == 3
    assert not [name for name in first.metadata if name.startswith(("lateness", "seconds"))]


@pytest.mark.parametrize(("share", "succeeds"), [(0.34, True), (0.33, False)])
def test_a_project_says_how_many_may_be_refused_and_that_more_fail_the_run(small_shop, share, succeeds):
    result = small_shop.run(
        shop.definitions(small_shop.root, check_engine="plain", refused=RefusedLimit(share, "error"))
    )

    assert result.success is succeeds
    assert [(each.check_name, each.severity) for each in broken(result)] == (
        [] if succeeds else [("few_records_are_dropped", dg.AssetCheckSeverity.ERROR)]
    )
