"""Assets of a pipeline of several topics: landed topics, tables, joins, foreign keys that come back."""

import dagster as dg

from kstreams_replay.orchestration.definitions import replay_definitions
from kstreams_replay.orchestration.resources import LocalEngine
from tests.dagster.conftest import errors, numbers, observed, passed, told, versions
from tests.laws.joined import PARTITIONS, TOPICS, joined, tapes
from tests.planted import plant

FIRST = "increment-1-epoch-0"
SEED, RECORDS = 4, 40
QUESTIONS = "repartition/KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000021-topic"
ANSWERS = "repartition/KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000029-topic"
TABLES = (
    *(
        f"state/{store}"
        for store in ("users", "unique-store", "with-user-Buffer", "KSTREAM-OUTERTHIS-0000000013-store")
    ),
    *(f"state/{store}" for store in ("paid-counts", "paid-final-store", "newest", "items", "users-by-name")),
    *("state/KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000025", "state/calm-store", "state/priced"),
    *(QUESTIONS, ANSWERS, "repartition/by-name-repartition"),
    *(f"outputs/{name}" for name in ("orders-with-users", "orders-and-users", "paid", "paid-counts", "priced")),
    *(f"outputs/{name}" for name in ("orders-or-users", "users-by-name", "items-and-names")),
    *("dropped", "dead_letter"),
)
CHECKS = (
    "paid-counts: one_final_result_per_key_and_window",
    "paid-counts: no_final_result_before_its_window_closed",
    *(f"{name.partition('/')[2]}: the_books_balance" for name in TABLES if name.startswith("outputs/")),
    *(f"{name.partition('/')[2]}: landed_records_are_replayed" for name in TABLES if name.startswith("outputs/")),
    *("dropped: few_records_are_dropped", "dead_letter: few_records_are_undecodable"),
)


def test_every_part_is_told_in_one_run_and_what_comes_back_stands_below_what_was_asked(warehouse):
    for topic, records in tapes(SEED, RECORDS).items():
        plant(warehouse, topic, records, partitions=PARTITIONS)
    definitions = replay_definitions(
        joined(), pipeline="meet", warehouse=warehouse, engine=LocalEngine(), check_engine="plain", idle="proceed"
    )

    with dg.DagsterInstance.ephemeral() as instance:
        result = definitions.resolve_job_def("meet_replay").execute_in_process(instance=instance)

    assert versions(result) == {f"meet/{name}": [FIRST] for name in TABLES}
    assert sorted(observed(result)) == sorted(f"meet/landed/{topic}" for topic in TOPICS)
    late = {"dropped: few_records_are_dropped": False}  # the joined tapes have many that are too late
    found = passed(result)
    assert {check: found[check] for check in CHECKS} == dict.fromkeys(CHECKS, True) | late
    assert errors(result) == []  # a guarantee that no table has evidence of is not passed, and stops nobody
    (unique,) = told(result)["meet/state/unique-store"]
    assert numbers(unique, "records_forwarded", "records_duplicates") == {  # c at 182, within 5 of 181
        "records_forwarded": 5,
        "records_duplicates": 1,
    }
