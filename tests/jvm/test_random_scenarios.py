"""What random scenarios are made of, and how a failing one is made small; Kafka Streams is not asked."""

import functools
from collections import Counter
from typing import Any

from tests.conformance.translation import OPERATORS
from tests.jvm import random_processors as processors
from tests.jvm.random_scenarios import scenarios
from tests.jvm.shrinking import shrunk


@functools.cache
def lines() -> list[dict[str, Any]]:
    return [scenarios(seed, 1)[0] for seed in range(1_000)]


def test_a_seed_always_makes_the_same_scenarios():
    assert scenarios(7, 3) == scenarios(7, 3)
    assert scenarios(7, 3) != scenarios(8, 3)


def test_every_operator_of_the_language_is_drawn():
    drawn = Counter(node["op"] for line in lines() for node in line["topology"]["nodes"])

    assert drawn.keys() == OPERATORS.keys()
    assert min(drawn.values()) > 10


def test_every_kind_of_window_join_store_and_emission_is_drawn():
    nodes = [node for line in lines() for node in line["topology"]["nodes"]]

    kinds = Counter((node["op"], node["type"]) for node in nodes if "type" in node)
    choices = ("emit", "retention", "versioned", "materialized", "full", "grace", "max_bytes")

    assert len(kinds) == 4 + 2 + 3 + 2 + 3
    assert min(kinds.values()) > 10
    for choice in choices:
        assert sum(choice in node for node in nodes) > 10, choice


def test_every_store_of_processors_is_drawn_shared_and_alone_and_streams_of_several_topics():
    nodes = [node for line in lines() for node in line["topology"]["nodes"]]
    stores = Counter(node["kind"] for node in nodes if node["op"] == "state_store")
    uses = Counter(node["processor"].partition(":")[0] for node in nodes if "processor" in node)
    read = [[node["stores"] for node in line["topology"]["nodes"] if "stores" in node] for line in lines()]
    owners = {"state_store": "own", "global_store": "global"}
    of = Counter(
        owners.get(node["op"], "table")
        for line, names in zip(lines(), read, strict=True)
        for node in line["topology"]["nodes"]
        if node["id"] in names
    )

    assert stores.keys() == processors.BY_KIND.keys()
    assert uses.keys() == {"append", "around", "remove", "absent", "read", "list", "range", "tput", "wput", "wlook"} | {
        "vput", "twice", "tick",
    }  # fmt: skip
    assert min(of[owner] for owner in ("own", "global", "table")) > 2
    assert any(len(set(names)) < len(names) for names in read)
    assert sum("+" in node["topic"] for node in nodes if node["op"] == "stream") > 10


def test_tapes_have_ties_late_records_nulls_and_jumps():
    found = Counter()
    for records in (line["records"] for line in lines()):
        times = [record["ts"] for record in records]
        found["tie"] += len(set(times)) < len(times)
        found["late"] += times != sorted(times)
        found["null key"] += any(record["key"] is None for record in records)
        found["null value"] += any(record["value"] is None for record in records)
        found["jump"] += bool(times) and max(times) > min(times) + 100

    assert min(found.values()) > 100


def test_what_is_left_of_a_failing_scenario_has_its_stores_and_who_writes_its_topics():
    nodes = [
        {"id": "a", "op": "stream", "topic": "x"},
        {"id": "b", "op": "to", "inputs": ["a"], "topic": "i"},
        {"id": "c", "op": "stream", "topic": "i"},
        {"id": "d", "op": "state_store", "kind": "key_value"},
        {"id": "e", "op": "process_values", "inputs": ["c"], "processor": "append", "stores": "d"},
        {"id": "f", "op": "filter", "inputs": ["e"], "predicate": "true"},
    ]
    line = {"name": "n", "topology": {"nodes": nodes, "output": "f"}, "records": []}

    def failing(candidates):
        return [one for one in candidates if any(node["op"] == "process_values" for node in one["topology"]["nodes"])]

    assert shrunk(line, failing)["topology"] == {"nodes": nodes[:5], "output": "e"}


def test_a_failing_scenario_is_made_as_small_as_its_failure_allows():
    """
    It fails while a filter reads a record of the value 2.
    """
    nodes = [
        {"id": "a", "op": "stream", "topic": "x"},
        {"id": "b", "op": "stream", "topic": "y"},
        {"id": "c", "op": "map_values", "inputs": ["a"], "mapper": "identity"},
        {"id": "d", "op": "filter", "inputs": ["c"], "predicate": "true"},
        {"id": "e", "op": "merge", "inputs": ["d", "b"]},
    ]
    records = [{"topic": "xy"[n % 2], "key": "k", "value": n, "ts": n} for n in range(20)]
    line = {"name": "n", "topology": {"nodes": nodes, "output": "e", "store": "rocksdb"}, "records": records}

    def failing(candidates):
        return [
            candidate
            for candidate in candidates
            if any(node["op"] == "filter" for node in candidate["topology"]["nodes"])
            and any(record["value"] == 2 for record in candidate["records"])
        ]

    got = shrunk(line, failing)

    assert got["topology"] == {
        "nodes": [
            {"id": "a", "op": "stream", "topic": "x"},
            {"id": "d", "op": "filter", "inputs": ["a"], "predicate": "true"},
        ],
        "output": "d",
    }
    assert got["records"] == [{"topic": "x", "key": "k", "value": 2, "ts": 2}]
