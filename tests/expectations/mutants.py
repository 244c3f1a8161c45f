"""Injected violations: what is wrong with committed tables, and which guarantees have to find it.

Rule: a mutant changes rows of a pipeline that was really run, and names the guarantees that see it; those and no others
say "false". ``python -m tests.expectations.mutants`` prints the matrix, guarantee by mutant.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from tempfile import TemporaryDirectory

import pyarrow as pa

from kstreams_replay.expectations.guarantees import GUARANTEES
from kstreams_replay.expectations.verdicts import Verdict, check_increment
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.orchestration.facts import replay_facts, second_run
from kstreams_replay.state.records.murmur2 import murmur2_partitions
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.expectations.pipelines import PIPELINES, GuaranteedPipeline
from tests.expectations.replanted import Unpacked, planted, unpacked
from tests.planted import plant

NAME = "p"


@dataclass(frozen=True)
class Mutant:
    """``plant`` changes tables of ``pipeline``; exactly ``found_by`` see it, in one of its increments."""

    name: str
    pipeline: str
    found_by: tuple[str, ...]
    plant: Callable[[Unpacked], None]


MUTANTS: list[Mutant] = []


def mutant(pipeline: str, *found_by: str) -> Callable[[Callable[[Unpacked], None]], Callable[[Unpacked], None]]:
    """Name a function that injects a violation after what it does."""

    def take(plant_it: Callable[[Unpacked], None]) -> Callable[[Unpacked], None]:
        MUTANTS.append(Mutant(plant_it.__name__.replace("_", " "), pipeline, found_by, plant_it))
        return plant_it

    return take


@mutant("windows", "G4", "G5")
def a_window_of_the_store_is_moved_off_the_grid(tables: Unpacked) -> None:
    row = next(row for row in tables.rows("state/counts-store") if not row["deleted"])
    row["window_start_ms"] += 1


@mutant("windows", "G4")
def a_window_of_an_output_is_longer_than_its_size(tables: Unpacked) -> None:
    next(tables.rows("outputs/updates"))["window_end_ms"] += 10


@mutant("windows", "G1", "G3")
def a_final_result_is_doubled(tables: Unpacked) -> None:
    rows = tables.increments[1].tables["outputs/finals"]
    rows.append(rows[-1] | {"offset": rows[-1]["offset"] + 1})


@mutant("windows", "G2")
def a_final_result_left_before_its_window_closed(tables: Unpacked) -> None:
    row = next(tables.rows("outputs/finals"))
    row["stream_time_ms"] = row["window_end_ms"] + 4


@mutant("windows", "G3", "G5")
def a_final_result_is_missing(tables: Unpacked) -> None:
    """One that had waited when the increment began."""
    rows = tables.increments[1].tables["outputs/finals"]
    waited = {(row["key"], row["window_start_ms"]) for row in tables.increments[0].tables["state/final-store"]}
    rows.remove(next(row for row in rows if (row["key"], row["window_start_ms"]) in waited))


@mutant("windows", "G3")
def a_refusal_is_missing(tables: Unpacked) -> None:
    tables.increments[0].tables["dropped"].clear()


@mutant("windows", "G5")
def a_window_that_waits_is_out_of_the_buffer(tables: Unpacked) -> None:
    rows = tables.increments[0].tables["state/final-store"]
    rows.remove(next(row for row in rows if not row["deleted"]))


@mutant("sessions", "G5", "G6")
def a_session_reaches_into_the_next_one(tables: Unpacked) -> None:
    """Ann's second one, nine milliseconds after her first; the buffer has it as it was."""
    row = next(row for row in tables.rows("state/sessions-store") if row["window_start_ms"] == 20)
    row["window_start_ms"] = 12


@mutant("sessions", "G5", "G7")
def a_buffer_holds_more_than_its_bound(tables: Unpacked) -> None:
    rows = tables.increments[0].tables["state/final-store"]
    row = next(row for row in rows if not row["deleted"])
    rows += [row | {"key": f"more-{number}", "increment": 0} for number in range(7)]


@mutant("sessions", "G8")
def a_tasks_stream_time_goes_back(tables: Unpacked) -> None:
    tasks = tables.increments[1].done.tasks
    tasks["0_0"] = replace(tasks["0_0"], stream_time_ms=1)


@mutant("sessions", "G3", "G11")
def a_session_is_withdrawn_that_was_never_forwarded(tables: Unpacked) -> None:
    rows = tables.increments[0].tables["outputs/updates"]
    gone = next(row for row in rows if row["key"] == "ann" and row["window_start_ms"] == 3)
    rows.remove(gone)


@mutant("sessions", "G1", "G5", "G11")
def a_final_result_is_a_tombstone(tables: Unpacked) -> None:
    """And another one of its increment is there twice, so that the numbers still agree."""
    rows = tables.increments[2].tables["outputs/finals"]
    first, second = rows[:2]
    second |= first | {"offset": second["offset"]}
    rows[-1]["value"] = None


@mutant("prices", "G9")
def a_version_outlives_the_next_one(tables: Unpacked) -> None:
    for increment in tables.increments[1:]:
        for row in increment.tables["state/prices-store"]:
            if row["key"] == "ann" and row["valid_from_ms"] == 5:
                row["valid_to_ms"] = 12


@mutant("prices", "G9")
def a_version_ends_before_it_begins(tables: Unpacked) -> None:
    row = next(row for row in tables.rows("state/prices-store") if row["valid_to_ms"] is not None)
    row["valid_to_ms"] = row["valid_from_ms"] - 1


@mutant("pages", "G3", "G10")
def a_repartitioned_record_is_missing(tables: Unpacked) -> None:
    rows = tables.increments[1].tables["repartition/pages-store-repartition"]
    rows.remove(min(rows, key=lambda row: row["offset"]))


@mutant("pages", "G10")
def a_repartitioned_record_lies_where_another_key_belongs(tables: Unpacked) -> None:
    rows = tables.increments[0].tables["repartition/pages-store-repartition"]
    row, others = rows[0], pa.array([b"a", b"b", b"c", b"d"])
    places = dict(zip(others.to_pylist(), murmur2_partitions(others, 2).tolist(), strict=True))
    row["key"] = next(key for key, place in places.items() if place != row["partition"])


@mutant("pages", "G10")
def a_record_is_sent_twice_in_place_of_another(tables: Unpacked) -> None:
    rows = tables.increments[0].tables["repartition/pages-store-repartition"]
    first, second = sorted((row for row in rows), key=lambda row: (row["partition"], row["offset"]))[:2]
    second |= {name: first[name] for name in first if name.startswith("cause_")}


@mutant("windows", "G3", "G12")
def an_increment_says_that_it_dropped_nearly_all(tables: Unpacked) -> None:
    tables.increments[1].done.books["by_sub_topology"]["0"] |= {"dropped": 4, "applied": 1}


@mutant("pairs", "G3", "G13")
def a_pair_is_there_twice(tables: Unpacked) -> None:
    rows = tables.increments[1].tables["outputs/pairs"]
    pair = next(row for row in rows if row["record_time_ms"] == 33)
    rows.append(pair | {"offset": rows[-1]["offset"] + 1})


@mutant("pairs", "G13")
def a_pair_is_of_another_time(tables: Unpacked) -> None:
    tables.increments[0].tables["outputs/pairs"][0]["record_time_ms"] = 50


@mutant("pairs", "G13")
def a_record_is_further_from_its_partner_than_the_window(tables: Unpacked) -> None:
    tables.landings["views"][0].rows[0]["timestamp"] = 30


@mutant("pages", "G14")
def a_kept_record_was_too_close(tables: Unpacked) -> None:
    """Ann's second, nine milliseconds after her first."""
    next(row for row in tables.landings["clicks"][0].rows if row["timestamp"] == 20)["timestamp"] = 12


@mutant("pages", "G3", "G14")
def a_record_is_refused_that_no_kept_one_is_close_to(tables: Unpacked) -> None:
    tables.increments[1].tables["outputs/firsts"].pop()


@mutant("counted firsts", "G14")
def a_record_was_too_close_to_be_counted(tables: Unpacked) -> None:
    """Ann's second, nine milliseconds after her first; the first ones are in no table, so the increment runs again."""
    next(row for row in tables.landings["clicks"][0].rows if row["timestamp"] == 20)["timestamp"] = 12


@mutant("counted pairs", "G13")
def a_counted_pair_is_further_apart_than_the_window(tables: Unpacked) -> None:
    tables.landings["views"][0].rows[0]["timestamp"] = 30


@mutant("counted finals", "G5")
def a_window_to_be_counted_is_out_of_the_buffer(tables: Unpacked) -> None:
    rows = tables.increments[0].tables["state/final-store"]
    rows.remove(next(row for row in rows if not row["deleted"]))


@mutant("prices", "G15")
def a_record_is_joined_with_an_older_version(tables: Unpacked) -> None:
    """The first after ann's price became 3."""
    row = next(row for row in tables.rows("outputs/priced") if row["record_time_ms"] == 27)
    row["value"] = row["value"].replace("@3", "@1")


@mutant("prices", "G15")
def a_record_is_joined_with_a_later_version(tables: Unpacked) -> None:
    row = next(row for row in tables.rows("outputs/priced") if row["record_time_ms"] == 44)
    row["value"] = row["value"].replace("@3", "@6")


@mutant("prices", "G3", "G15")
def a_joined_record_is_missing(tables: Unpacked) -> None:
    tables.increments[1].tables["outputs/priced"].pop()


@mutant("prices", "G15")
def a_record_is_joined_twice_in_place_of_another(tables: Unpacked) -> None:
    first, second = tables.increments[0].tables["outputs/priced"][:2]
    second |= first | {"offset": second["offset"]}


@mutant("counted prices", "G15")
def a_price_to_be_counted_was_another(tables: Unpacked) -> None:
    """Ann's of 15, which is the newest one for her click of 27."""
    landed = [row for landing in tables.landings["prices"] for row in landing.rows]
    next(row for row in landed if row["timestamp"] == 15)["value"] = b"9"


@mutant("orders", "G16")
def an_order_has_a_name_that_its_customer_had(tables: Unpacked) -> None:
    """Bob's, who is BB since time 30."""
    rows = [row for row in tables.rows("outputs/billed") if row["value"] == "bob:5@BB"]
    rows[-1]["value"] = "bob:5@B"


@mutant("orders", "G16")
def an_order_that_has_no_customer_any_more_is_billed(tables: Unpacked) -> None:
    rows = [row for row in tables.rows("outputs/billed") if row["key"] == "o4"]
    rows[-1]["value"] = "ann:2@A"


@mutant("orders", "G3", "G16")
def an_order_of_a_left_join_is_missing(tables: Unpacked) -> None:
    rows = tables.increments[1].tables["outputs/all_orders"]
    rows.remove(next(row for row in rows if row["key"] == "o3"))


@cache
def base(name: str) -> Unpacked:
    """A pipeline's tables as they were written."""
    pipeline: GuaranteedPipeline = PIPELINES[name]
    with TemporaryDirectory() as folder:
        warehouse = Warehouse(folder)
        for topic, records in pipeline.tapes.items():
            plant(warehouse, topic, records, partitions=pipeline.partitions)
        topology, runner = pipeline.topology(), LocalRunner(f"{folder}/cache")
        list(replay(warehouse, topology, pipeline=NAME, runner=runner, max_records=pipeline.slice))
        return unpacked(warehouse, NAME, topology, list(pipeline.tapes))


@contextmanager
def changed(name: str, plant_it: Callable[[Unpacked], None]) -> Iterator[Warehouse]:
    """A warehouse with the pipeline's tables after ``plant_it``."""
    tables = deepcopy(base(name))
    plant_it(tables)
    with TemporaryDirectory() as folder:
        warehouse = Warehouse(folder)
        planted(tables, warehouse, NAME)
        yield warehouse


def judged(name: str, warehouse: Warehouse) -> list[Verdict]:
    """Verdicts on all increments of a pipeline."""
    topology = PIPELINES[name].topology()
    facts, again = replay_facts(topology), second_run(warehouse, NAME, topology)
    return [
        each
        for number in range(1, len(base(name).increments) + 1)
        for each in check_increment(warehouse, NAME, facts, number, engine="plain", again=again)
    ]


def finders(one: Mutant) -> tuple[str, ...]:
    """Ids of the guarantees that say "false" of one of its increments, in order; a table that cannot be read is an
    error.
    """
    with changed(one.pipeline, one.plant) as warehouse:
        verdicts = judged(one.pipeline, warehouse)
    unknown = [verdict.reason for verdict in verdicts if verdict.answer == "unknown"]
    assert unknown == [], unknown
    said = {verdict.guarantee for verdict in verdicts if verdict.answer == "false" and _is_news(one, verdict)}
    return tuple(each.id for each in GUARANTEES if each.id in said)


@cache
def _alarms(pipeline: str) -> set[tuple[str, str, int | None]]:
    """Verdicts "false" of what was run: of warnings, since small tapes have more late records than one in a hundred."""
    with changed(pipeline, lambda tables: None) as warehouse:
        verdicts = judged(pipeline, warehouse)
    return {(each.guarantee, each.table, each.increment) for each in verdicts if each.answer == "false"}


def _is_news(one: Mutant, verdict: Verdict) -> bool:
    return (verdict.guarantee, verdict.table, verdict.increment) not in _alarms(one.pipeline)


def matrix() -> str:
    """Guarantees as columns, mutants as rows; "x" where the one finds the other."""
    ids = [each.id for each in GUARANTEES]
    width = max(len(one.name) for one in MUTANTS)
    lines = [f"{'mutant':{width}}  " + " ".join(ids)]
    for one in MUTANTS:
        found = finders(one)
        lines.append(
            f"{one.name:{width}}  " + " ".join(("x" if each in found else "·").center(len(each)) for each in ids)
        )
    never = [each for each in ids if not any(each in one.found_by for one in MUTANTS)]
    return "\n".join([*lines, "", f"guarantees without a mutant: {', '.join(never) or 'none'}"])


if __name__ == "__main__":
    sys.stdout.write(matrix() + "\n")
