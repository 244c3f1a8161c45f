"""Table joins with a complete history: every older result is corrected (KIP-914, "Attempt 2")."""

import random
from itertools import pairwise
from typing import Any

import pytest

from kstreams_replay.jobs.topology import Materialized, StreamsBuilder, Topology
from kstreams_replay.state.errors import TopologyError
from tests.operators.cut_tapes import TEXTS, Output, Record, play_task, topology_of
from tests.operators.tables.versioned_model import NOT_PUT, VersionedModel, history_of

PAIR = "coalesce(left, '-') || coalesce(right, '-')"
JOINS = {"inner": "join", "left": "left_join", "outer": "outer_join"}


def versioned(name: str, retention: int = 1000) -> Materialized:
    return Materialized.versioned(name, f"{retention}ms")


def joined(kind: str, *, store: Materialized | None = None, retentions: tuple[int, int] = (1000, 1000)) -> Topology:
    def build(builder: StreamsBuilder):
        left = builder.table("A", TEXTS, materialized=versioned("a", retentions[0]))
        right = builder.table("B", TEXTS, materialized=versioned("b", retentions[1]))
        return getattr(left, JOINS[kind])(right, PAIR, history="complete", materialized=store).to_stream()

    return topology_of(build)


def lines(tape: list[Record], outputs: list[Output]) -> list[tuple]:
    """(value put, results with their times), of every record that has any."""
    found: dict[int, list[tuple]] = {}
    for out in outputs:
        found.setdefault(out.step, []).append((out.value, out.time_ms))
    return [(tape[step][2], *results) for step, results in found.items()]


@pytest.mark.slow
def test_the_kips_own_listing():
    tape = [("A", "k", "a0", 0), ("A", "k", "a5", 5), ("B", "k", "b2", 2), ("B", "k", "b3", 3), ("B", "k", "b4", 4)]
    tape.append(("A", "k", "a1", 1))

    assert lines(tape, play_task(joined("inner"), tape).outputs) == [
        ("b2", ("a0b2", 2), ("a5b2", 5)),
        ("b3", ("a0b3", 3), ("a5b3", 5)),
        ("b4", ("a0b4", 4), ("a5b4", 5)),
        ("a1", ("a1b2", 2), ("a1b3", 3), ("a1b4", 4)),
    ]


@pytest.mark.slow
def test_an_older_deletion_deletes_the_results_that_stood_on_it():
    tape = [("A", "k", "a0", 0), ("B", "k", "b2", 2), ("B", "k", "b4", 4), ("A", "k", "a6", 6), ("A", "k", None, 3)]

    assert lines(tape, play_task(joined("inner"), tape).outputs)[-1] == (None, (None, 3), (None, 4))
    assert lines(tape, play_task(joined("left"), tape).outputs)[-1] == (None, (None, 3), (None, 4))
    assert lines(tape, play_task(joined("outer"), tape).outputs)[-1] == (None, ("-b2", 3), ("-b4", 4))


def random_tape(rng: random.Random, count: int, behind: list[int]) -> list[Record]:
    now, tape = 100, []
    for number in range(count):
        now += rng.choice([0, 0, 1, 2, 6])
        side, value = rng.choice("AB"), None if rng.random() < 0.3 else f"{number} "
        tape.append((side, rng.choice("kl"), value, max(0, now - rng.choice(behind))))
    return tape


def shown(kind: str, left: Any, right: Any) -> str | None:
    is_there = {
        "inner": left is not None and right is not None,
        "left": left is not None,
        "outer": left is not None or right is not None,
    }[kind]
    return f"{left or '-'}{right or '-'}" if is_there else None


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize(("seed", "length"), [*((seed, 60) for seed in range(20)), (20, 400)])
@pytest.mark.parametrize("kind", list(JOINS))
def test_at_every_time_the_result_is_the_join_of_what_both_tables_showed(kind, seed, length):
    """Law: the newest result of every time equals the join of the two histories. (No two changes of a key have one
    time: at a version's very time Kafka's store forgets a deletion.) A long tape, with hundreds of versions of a key,
    is looked at now and then.
    """
    rng = random.Random(seed)
    taken, tape = set(), []
    for record in random_tape(rng, length, [0, 0, 3, 20, length]):
        if (record[1], record[3]) not in taken:
            taken.add((record[1], record[3]))
            tape.append(record)
    tables = {"A": VersionedModel(1000), "B": VersionedModel(1000)}
    results: dict[str, dict[int, str | None]] = {"k": {}, "l": {}}

    outputs = play_task(joined(kind), tape).outputs

    for step, (side, key, value, time_ms) in enumerate(tape):
        tables[side].put(key, value, time_ms)
        for out in (out for out in outputs if out.step == step):
            results[out.key][out.time_ms] = out.value
        if step % (length // 60) and step < len(tape) - 1:
            continue
        times = range(100 + 6 * length)
        wanted = [shown(kind, *both) for both in zip(*(history_of(tables[t], key, times) for t in "AB"), strict=True)]
        told = [max((known for known in results[key] if known <= time), default=None) for time in times]
        assert [results[key].get(time) for time in told] == wanted


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_a_cut_changes_nothing_even_when_history_expires(seed):
    rng = random.Random(seed)
    tape = random_tape(rng, 70, [0, 0, 3, 20, 40])
    topology = joined("left", store=versioned("j", 50), retentions=(30, 10))

    whole = play_task(topology, tape)

    assert play_task(topology, tape, chunks=rng.sample(range(70), 9), cuts=rng.sample(range(70), 7)) == whole


@pytest.mark.parametrize("seed", range(5))
def test_results_come_oldest_first_and_only_for_puts_that_were_taken(seed):
    tape = random_tape(random.Random(seed), 60, [0, 5, 30])
    tables = {"A": VersionedModel(20), "B": VersionedModel(20)}
    refused = {n for n, (side, *put) in enumerate(tape) if tables[side].put(*put) == NOT_PUT}

    outputs = play_task(joined("outer", retentions=(20, 20)), tape).outputs

    assert refused.isdisjoint(out.step for out in outputs)
    assert all(a.time_ms < b.time_ms for a, b in pairwise(outputs) if a.step == b.step)


def test_a_stream_joins_the_result_as_of_its_time_through_steps_above_and_below():
    def build(builder: StreamsBuilder):
        left = builder.table("A", TEXTS, materialized=versioned("a")).filter("value <> 'a2'")
        right = builder.table("B", TEXTS, materialized=versioned("b")).map_values("upper(value)")
        both = left.join(right, "left || right", history="complete").map_values("value || '!'")
        return builder.stream("S", TEXTS).left_join(both, "left || coalesce(right, '-')")

    tape = [("A", "k", "a0", 0), ("B", "k", "b1", 1), ("A", "k", "a4", 4), ("A", "k", "a2", 2), ("B", "k", "b3", 3)]
    asked = [("S", "k", "s", time_ms) for time_ms in range(6)]
    outputs = play_task(topology_of(build), [*tape, *asked]).outputs

    assert [out.value for out in outputs] == ["s-", "sa0B1!", "s-", "s-", "sa4B3!", "sa4B3!"]


@pytest.mark.parametrize("plain", ["left", "result"])
def test_a_complete_history_needs_versioned_tables(plain):
    builder = StreamsBuilder()
    left = builder.table("A", TEXTS, materialized=Materialized("a") if plain == "left" else versioned("a"))
    right = builder.table("B", TEXTS, materialized=versioned("b"))

    with pytest.raises(TopologyError, match="versioned"):
        left.join(right, PAIR, history="complete", materialized=Materialized("j") if plain == "result" else None)
