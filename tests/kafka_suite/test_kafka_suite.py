"""Kafka's own unit tests of the DSL, played as tapes: our test driver gives the results of Kafka Streams."""

from collections import Counter
from pathlib import Path

import pytest

from tests.kafka_suite.descriptions import OTHERWISE, printed
from tests.kafka_suite.left_out import reason_of, reasons
from tests.kafka_suite.playing import Stage, description, difference
from tests.kafka_suite.tapes import RecordedTape, tapes
from tests.kafka_suite.topologies import PLAYS, is_like, topology_of
from tests.sampling import sampled

PLAYED = [tape for tape in tapes() if tape.is_piped and reason_of(tape) is None]
SAMPLE = sampled(PLAYED, lambda tape: tape.name, lambda tape: tape.line["class"], share=3)


@pytest.mark.parametrize("tape", SAMPLE, ids=lambda tape: tape.name)
def test_a_tape_gives_what_kafka_streams_gave(tape: RecordedTape):
    write = topology_of(tape)

    assert write is not None, f"write a topology for {tape.name}, or say in left_out.txt why it is not played"
    assert difference(tape, write) is None


def test_topologies_print_as_kafkas_do_but_for_those_that_are_written_otherwise():
    others = [pattern for patterns in OTHERWISE.values() for pattern in patterns]
    differ = []
    for tape in SAMPLE:
        write = topology_of(tape)
        if write is not None and printed(description(tape, write)) != printed(tape.line["topology"]):
            differ.append(tape)

    assert [tape.name for tape in differ if not any(is_like(tape, pattern) for pattern in others)] == []


def test_at_least_400_tapes_are_played():
    assert len(PLAYED) >= 400


def test_every_tape_has_a_topology_or_a_reason():
    nothing = [tape.name for tape in PLAYED if topology_of(tape) is None]

    assert nothing == []


def test_a_tape_that_is_left_out_differs_if_there_is_a_topology_for_it():
    written = [(tape, topology_of(tape)) for tape in tapes() if tape.is_piped and reason_of(tape) is not None]
    equal = [tape.name for tape, write in written if write is not None and difference(tape, write) is None]

    assert equal == [], "take these off left_out.txt"


def test_every_reason_has_a_tape():
    piped = [tape for tape in tapes() if tape.is_piped]

    assert [pattern for pattern in reasons() if not any(is_like(tape, pattern) for tape in piped)] == []


def test_every_written_topology_serves_a_tape():
    assert topology_of(PLAYED[0]) is not None
    served = Counter(pattern for tape in tapes() if tape.is_piped for pattern in PLAYS if is_like(tape, pattern))

    assert [pattern for pattern in PLAYS if not served[pattern]] == []


def test_a_tape_that_was_changed_differs():
    tape = next(tape for tape in PLAYED if tape.test == "KTableFilterTest.shouldPassThroughWithoutMaterialization")
    changed = RecordedTape({**tape.line, "events": [_later(event) for event in tape.events]})
    write = topology_of(tape)
    assert write is not None

    assert "record 0" in str(difference(changed, write))


def _later(event: dict) -> dict:
    return {**event, "ts": event["ts"] + 1} if "at" in event else event


def test_a_processor_of_the_tape_that_nobody_watches_is_a_difference():
    tape = next(tape for tape in PLAYED if tape.test == "KTableFilterTest.shouldPassThroughWithoutMaterialization")

    def looks_away(stage: Stage) -> None:
        stage.table("topic1").to("elsewhere")

    assert "not watched" in str(difference(tape, looks_away))


def test_the_readme_counts_them():
    lines = tapes()
    piped, silent = [tape for tape in lines if tape.is_piped], [tape for tape in lines if "topology" in tape.line]
    counts = [
        f"Of {len(lines):,} recorded lines {len(lines) - len(silent)} are of tests without a test driver",
        f"{len(silent) - len(piped)} drivers are piped",
        f"{len(piped)} are tapes: {len(PLAYED)} are played and equal, {len(piped) - len(PLAYED)} are left out",
    ]
    text = " ".join((Path(__file__).parent / "README.md").read_text(encoding="utf-8").split())

    assert [count for count in counts if count not in text] == []
