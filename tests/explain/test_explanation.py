"""What became of a record: every kind of sentence, over small pipelines whose numbers can be checked by hand."""

import re

import pytest

from kstreams_replay.jobs.branches.erasure import erase
from kstreams_replay.jobs.explain.explanation import explain
from kstreams_replay.jobs.explain.record_values import RecordValues, values_of
from kstreams_replay.jobs.graph.observations import Wait
from kstreams_replay.jobs.history.exclusions import exclude_records
from kstreams_replay.jobs.history.history import History
from kstreams_replay.jobs.topology import (
    Materialized,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from kstreams_replay.state.errors import ConfigError, LedgerError
from kstreams_replay.state.records.keys import Keys
from kstreams_replay.state.tables.sought import Sought
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.explain.explained import STRING, Tape, by, explained, landed, played, run, said, stream
from tests.operators.joins.foreign_key_parts import batch_of
from tests.planted import LandedRecord, plant

# --- windows and suppress ------------------------------------------------------------------------------------


def counts() -> Topology:
    builder = StreamsBuilder()
    windowed = stream(builder).group_by_key().windowed_by(TimeWindows.of_size(10, grace=5))
    windowed.count().suppress(Suppressed.until_window_closes(name="final")).to("counts")
    return builder.build()


README_TAPE: Tape = [("a", "x", 3), ("a", "x", 9), ("b", "x", 14), ("c", "x", 15), ("a", "x", 8)]


def test_a_record_is_followed_from_its_window_into_the_output_that_a_later_record_let_go(tmp_path):
    warehouse = played(tmp_path, counts(), {"in": README_TAPE})

    assert explained(warehouse, counts(), "in:0:1") == [
        ("SourceNode", "read: 'a' = 'x', time 9"),
        ("AggregateNode", "'a' [0, 10): 1 -> 2"),
        (
            "SuppressNode",  # 10 + 5
            "'a' [0, 10) = 2 waits until stream time 15 (now 9), in place of 1; "
            "left because of in:0:3 at stream time 15: 'a' [0, 10) = 2, as outputs/counts 0:0",
        ),
    ]


def test_a_record_that_closes_a_window_says_what_it_let_go_and_as_what(tmp_path):
    warehouse = played(tmp_path, counts(), {"in": README_TAPE})

    assert explained(warehouse, counts(), "in:0:3") == [
        ("SourceNode", "read: 'c' = 'x', time 15"),
        ("AggregateNode", "'c' [10, 20): begins with 1"),
        (
            "SuppressNode",
            "'c' [10, 20) = 1 waits until stream time 25 (now 15); still waits at the end of increment 1",
        ),
        ("SuppressNode", "lets go: 'a' [0, 10) = 2; stream time 15 has reached 15"),
        ("ToStreamNode", "goes on"),
        ("SinkNode", "writes outputs/counts offset 0: 'a' [0, 10) = 2, time 9"),
    ]


def test_a_late_record_says_by_how_much_and_which_limit_refused_it(tmp_path):
    warehouse = played(tmp_path, counts(), {"in": README_TAPE})

    assert explained(warehouse, counts(), "in:0:4") == [
        ("SourceNode", "read: 'a' = 'x', time 8, 7 ms behind stream time 15"),
        (
            "AggregateNode",
            "refused (expired-window) by the window from 0 to 10: its window has closed; stream time is 15, the limit "
            "5 ms before it is 10, the record is 7 ms late",
        ),
    ]


def test_what_waits_is_looked_up_in_the_outputs_of_later_increments(tmp_path):
    warehouse = played(tmp_path, counts(), {"in": README_TAPE})
    plant(warehouse, "in", landed([("z", "x", 24), ("z", "x", 40)]), partitions=1)
    run(warehouse, counts(), max_records=1)

    (sentence,) = by("SuppressNode", explained(warehouse, counts(), "in:0:2"))

    assert sentence == (  # [10, 20) of b leaves at 25, so with the record of time 40, after a's at offset 0
        "'b' [10, 20) = 1 waits until stream time 25 (now 14); still waits at the end of increment 1; "
        "left in increment 3 as outputs/counts 0:1"
    )


def test_of_the_windows_of_a_key_the_one_that_waited_is_looked_up(tmp_path):
    warehouse = played(tmp_path, counts(), {"in": [("b", "x", 8), ("b", "x", 12)]})
    plant(warehouse, "in", landed([("z", "x", 40)]), partitions=1)
    run(warehouse, counts())

    (sentence,) = by("SuppressNode", explained(warehouse, counts(), "in:0:1"))

    assert sentence.endswith("; left in increment 2 as outputs/counts 0:1")  # [0, 10) is at offset 0


def test_an_output_under_other_keys_is_not_searched_for_what_waited(tmp_path):
    builder = StreamsBuilder()
    windowed = stream(builder).group_by_key().windowed_by(TimeWindows.of_size(10, grace=5))
    final = windowed.count().suppress(Suppressed.until_window_closes(name="final"))
    final.to_stream("concat(record_key, 'x')").to("renamed")
    topology = builder.build()
    warehouse = played(tmp_path, topology, {"in": [("a", "x", 3)]})
    plant(warehouse, "in", landed([("a", "x", 30)]), partitions=1)
    run(warehouse, topology)

    (sentence,) = by("SuppressNode", explained(warehouse, topology, "in:0:0"))

    assert sentence.endswith("; still waits at the end of increment 1")


def test_what_left_is_looked_for_only_below_the_node_that_held_it(tmp_path):
    builder = StreamsBuilder()
    grouped = stream(builder).group_by_key()
    windowed = grouped.windowed_by(TimeWindows.of_size(10, grace=5))
    windowed.count().suppress(Suppressed.until_window_closes(name="final")).to("finals")
    grouped.count().to("all")
    topology = builder.build()
    warehouse = played(tmp_path, topology, {"in": [("a", "x", 3), ("a", "x", 30)]})

    (sentence,) = by("SuppressNode", explained(warehouse, topology, "in:0:0"))

    assert sentence.endswith("left because of in:0:1 at stream time 30: 'a' [0, 10) = 1, as outputs/finals 0:0")


def test_every_increment_is_told_from_the_state_before_it(tmp_path):
    warehouse = played(tmp_path, counts(), {"in": README_TAPE}, max_records=1)

    explanation = explain(warehouse, "p", counts(), ("in", 0, 1))

    assert explanation.increment == 2
    assert by("AggregateNode", said(explanation)) == ["'a' [0, 10): 1 -> 2"]


# --- sessions ------------------------------------------------------------------------------------------------


def sessions() -> Topology:
    builder = StreamsBuilder()
    windowed = stream(builder).group_by_key().windowed_by(SessionWindows.with_inactivity_gap(5, grace=100))
    windowed.count().suppress(Suppressed.until_window_closes(name="final")).to("sessions")
    return builder.build()


def test_a_session_says_what_it_merged_and_extended(tmp_path):
    tape: Tape = [("a", "x", 10), ("a", "x", 20), ("a", "x", 15), ("a", "x", 24)]  # 15 is 5 from both
    warehouse = played(tmp_path, sessions(), {"in": tape})

    def aggregate(offset: int) -> list[str]:
        return by("AggregateNode", explained(warehouse, sessions(), f"in:0:{offset}"))

    assert aggregate(1) == ["session 'a' [20, 20]: begins with 1"]
    assert aggregate(2) == ["merges [10, 10] = 1 and [20, 20] = 1 into session 'a' [10, 20] = 3"]
    assert aggregate(3) == ["extends [10, 20] = 3 to session 'a' [10, 24] = 4"]


def test_a_session_that_is_merged_away_waits_no_more(tmp_path):
    warehouse = played(tmp_path, sessions(), {"in": [("a", "x", 10), ("a", "x", 12)]})

    (first,) = by("SuppressNode", explained(warehouse, sessions(), "in:0:0"))

    assert first == (  # 10 + gap 5 + grace 100
        "'a' [10, 10] = 1 waits until stream time 115 (now 10); later records took it back, or it left without a result"
    )
    assert by("SuppressNode", explained(warehouse, sessions(), "in:0:1")) == [
        "'a' [10, 10] is deleted before it was final, so nothing of it is forwarded",
        "'a' [10, 12] = 2 waits until stream time 117 (now 12); still waits at the end of increment 1",
    ]


def test_a_result_without_suppress_goes_on_with_what_it_replaces(tmp_path):
    builder = StreamsBuilder()
    stream(builder).filter("value = 'x'").group_by_key().count().to("counts")
    topology = builder.build()
    warehouse = played(tmp_path, topology, {"in": [("a", "x", 1), ("a", "y", 2), ("a", "x", 3)]})

    assert by("FilterNode", explained(warehouse, topology, "in:0:1")) == ["does not pass"]
    assert said(explain(warehouse, "p", topology, "in:0:2"))[1:] == [
        ("FilterNode", "passes"),
        ("AggregateNode", "'a': 1 -> 2"),
        ("ToStreamNode", "goes on"),
        ("SinkNode", "writes outputs/counts offset 1: 'a' = 2, time 3"),
    ]


# --- duplicates, order ---------------------------------------------------------------------------------------


def test_a_duplicate_names_the_record_that_it_repeats(tmp_path):
    builder = StreamsBuilder()
    stream(builder).deduplicate_by_key(5, name="once").to("out")
    topology = builder.build()
    warehouse = played(tmp_path, topology, {"in": [("a", "x", 10), ("b", "x", 11), ("a", "y", 13), (None, "z", 14)]})

    assert by("DeduplicateNode", explained(warehouse, topology, "in:0:0")) == [
        "passes: the first of key 'a' within 5 ms"
    ]
    assert explained(warehouse, topology, "in:0:2")[1:] == [
        ("DeduplicateNode", "duplicate of in offset 0, which has key 'a' too: 3 ms apart, the interval is 5 ms")
    ]
    assert by("DeduplicateNode", explained(warehouse, topology, "in:0:3")) == ["passes: key None is never a duplicate"]


def test_a_duplicate_by_id_is_followed_through_the_repartition_that_brings_ids_together(tmp_path):
    builder = StreamsBuilder()
    stream(builder).deduplicate("value", 5, name="once").to("out")
    topology = builder.build()
    warehouse = played(tmp_path, topology, {"in": [("a", "x", 10), ("b", "x", 12)]})

    assert by("DeduplicateNode", explained(warehouse, topology, "in:0:1")) == [
        "duplicate of in offset 0, which has id 'x' too: 2 ms apart, the interval is 5 ms"
    ]


def test_a_record_that_is_put_in_order_says_until_when_it_waits_and_who_let_it_go(tmp_path):
    builder = StreamsBuilder()
    stream(builder).reorder_within(5, name="ordered").to("out")
    topology = builder.build()
    warehouse = played(tmp_path, topology, {"in": [("a", "x", 10), ("b", "y", 15), ("c", "z", 9)]})

    assert by("ReorderNode", explained(warehouse, topology, "in:0:0")) == [
        "'a' of time 10 waits until stream time 15; left because of in:0:1 at stream time 15: 'a' = 'x', "
        "as outputs/out 0:0"
    ]
    assert by("ReorderNode", explained(warehouse, topology, "in:0:1")) == [
        "'b' of time 15 waits until stream time 20; still waits at the end of increment 1",
        "lets go: 'a' = 'x', time 10",
    ]
    assert by("ReorderNode", explained(warehouse, topology, "in:0:2")) == [
        "refused (late): records after it have gone on already; stream time is 15, the limit 5 ms before it is 10, "
        "the record is 6 ms late"
    ]


def test_a_record_without_a_key_waits_and_is_not_taken_for_another_of_its_time(tmp_path):
    builder = StreamsBuilder()
    stream(builder).reorder_within(5, name="ordered").to("out")
    topology = builder.build()
    tape: Tape = [("b", "y", 10), (None, "x", 10), ("c", "z", 16), (None, "w", 15)]
    warehouse = played(tmp_path, topology, {"in": tape})

    assert by("ReorderNode", explained(warehouse, topology, "in:0:1")) == [
        "None of time 10 waits until stream time 15; left because of in:0:2 at stream time 16: None = 'x', "
        "as outputs/out 0:1"
    ]
    assert by("ReorderNode", explained(warehouse, topology, "in:0:3")) == [
        "None of time 15 waits until stream time 20; still waits at the end of increment 1"
    ]


def test_a_null_key_is_that_of_records_without_a_key_alone():
    batch = batch_of(Keys(STRING), [{"cause": n, "key": key, "value": "v", "time": 3} for n, key in enumerate("ab")])
    with_null = batch_of(batch.keys, [{"cause": 0, "key": key, "value": "v", "time": 3} for key in ("a", None)])

    assert Wait("n", "None", None, 9).matches(batch, None).tolist() == [False, False]
    assert Wait("n", "None", None, 9).matches(with_null, None).tolist() == [False, True]
    assert Wait("n", "'a'", b"a", 9).matches(with_null, None).tolist() == [True, False]


# --- what cannot go on, and what goes elsewhere --------------------------------------------------------------


def test_a_record_that_cannot_be_read_is_a_dead_letter_with_its_reason(tmp_path):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "in", [LandedRecord(0, b"\xff", b"x", 3), LandedRecord(0, b"a", b"x", -1)], partitions=1)
    run(warehouse, counts())

    assert [sentence for _, sentence in explained(warehouse, counts(), "in:0:0")] == [
        "dead letter: key: expected UTF-8, got byte 0xff at 0"
    ]
    assert [sentence for _, sentence in explained(warehouse, counts(), "in:0:1")] == [
        "refused (negative-timestamp): its time is negative"
    ]


def test_a_record_is_followed_to_the_task_that_got_it_by_its_new_key(tmp_path):
    builder = StreamsBuilder()
    stream(builder).group_by("value").count(Materialized.as_("by-value")).to("counts")
    topology, warehouse = builder.build(), Warehouse(tmp_path)
    plant(warehouse, "in", [LandedRecord(p, b"k", b"x", 10 * p + 5) for p in (2, 1, 0)], partitions=3)
    run(warehouse, topology)

    explanation = explain(warehouse, "p", topology, ("in", 1, 0))

    (target,) = {step.record[1] for step in explanation.steps if step.task.startswith("1_")}
    assert said(explanation) == [
        ("SourceNode", "read: 'k' = 'x', time 15"),
        ("SelectKeyNode", "becomes 'x' = 'x'"),
        ("repartition/by-value-repartition", f"sent on under 'x', to partition {target}"),
        ("RepartitionNode", "read: 'x' = 'x', time 15"),
        ("AggregateNode", "'x': 1 -> 2"),  # after the record of partition 0, whose time is 5
        ("ToStreamNode", "goes on"),
        ("SinkNode", "writes outputs/counts offset 1: 'x' = 2, time 15"),
    ]


# --- what cannot be told -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ("in-0-1", "record: expected topic:partition:offset, got 'in-0-1'"),
        ("in:0:x", "record: expected topic:partition:offset, got 'in:0:x'"),
        ("out:0:1", "record out:0:1: expected one of the topics in, got 'out'"),
        ("in:7:1", "record in:7:1: expected a partition of 0 to 0, got 7"),
        ("in:0:5", "record in:0:5: expected an offset below 5, the next one to land, got 5"),
    ],
)
def test_a_record_that_is_not_there_is_refused_with_what_is(tmp_path, record, sentence):
    warehouse = played(tmp_path, counts(), {"in": README_TAPE})

    with pytest.raises(ConfigError, match=re.escape(sentence)):
        explain(warehouse, "p", counts(), record)


def test_a_record_that_has_landed_and_waits_is_said_to_wait(tmp_path):
    warehouse = played(tmp_path, counts(), {"in": README_TAPE})
    plant(warehouse, "in", landed([("z", "x", 24)]), partitions=1)

    wanted = "record in:0:5: expected an offset below 5, read by increments up to 1, got 5, landed and waiting; replay"
    with pytest.raises(LedgerError, match=re.escape(wanted)):
        explain(warehouse, "p", counts(), "in:0:5")


def test_another_topology_than_that_of_the_increment_is_refused(tmp_path):
    warehouse = played(tmp_path, counts(), {"in": README_TAPE})

    with pytest.raises(ConfigError, match=r"increment 1 of 'p': expected the topology that ran it"):
        explain(warehouse, "p", sessions(), "in:0:1")


def test_telling_writes_nothing(tmp_path):
    warehouse = played(tmp_path, counts(), {"in": README_TAPE})
    before = sorted(path for path in tmp_path.rglob("*"))

    explain(warehouse, "p", counts(), "in:0:1")

    assert sorted(path for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("is_erased", [False, True])
def test_a_record_that_was_taken_out_after_it_was_read_is_shown_while_it_is_there(is_erased, tmp_path):
    """
    The refusal of a's third record stays, and names it.
    """
    warehouse = played(tmp_path, counts(), {"in": README_TAPE})
    if is_erased:
        erase(warehouse, ["in"], Sought((b"a",)), "request 4711", by="tests", delete=True)
    else:
        exclude_records(warehouse, "in", [(0, 4)], "a test")

    shown = values_of(History(warehouse, "p", counts()), counts(), "in:0:4")

    assert shown == (None if is_erased else RecordValues("in:0:4", 8, "a", "x"))


# --- the answer alone ------------------------------------------------------------------------------------------


def test_an_answer_runs_the_task_no_further_than_the_record(tmp_path):
    called: list[str] = []

    def noted(key: str, value: str) -> str:
        called.append(value)
        return value

    builder = StreamsBuilder()
    counts = stream(builder).map_values(noted, returns=STRING).group_by_key().count(Materialized.as_("counts"))
    counts.to_stream().to("out")
    topology = builder.build()
    warehouse = played(tmp_path, topology, {"in": [("k", str(number), number) for number in range(6)]})
    called.clear()

    answer = explain(warehouse, "p", topology, "in:0:2", whole=False)

    assert set(called) == {"0", "1", "2"}
    assert by("SinkNode", said(answer)) == ["writes outputs/out offset 2: 'k' = 3, time 2"]
    explain(warehouse, "p", topology, "in:0:2")
    assert set(called) == {str(number) for number in range(6)}


def test_an_answer_of_what_waited_names_the_output_of_the_same_increment(tmp_path):
    builder = StreamsBuilder()
    counts = stream(builder).group_by_key().windowed_by(TimeWindows.of_size(10, grace=0)).count()
    counts.suppress(Suppressed.until_window_closes(name="final")).to_stream().to("out")
    topology = builder.build()
    warehouse = played(tmp_path, topology, {"in": [("a", "x", 1), ("b", "x", 2), ("b", "x", 11), ("b", "x", 30)]})

    answer = explain(warehouse, "p", topology, "in:0:1", whole=False)

    (waits,) = by("SuppressNode", said(answer))
    assert waits.endswith("waits until stream time 10 (now 2); left in increment 1 as outputs/out 0:1")


def test_a_record_that_other_functions_read_is_explained_by_those_of_now_which_is_said(tmp_path):
    def made(words: str) -> Topology:
        builder = StreamsBuilder()
        stream(builder).map_values(words).to("out")
        return builder.build()

    warehouse = played(tmp_path, made("value || '!'"), {"in": [("k", "v", 0)]})

    found = explain(warehouse, "p", made("value || '?'"), "in:0:0")

    assert found.difference is not None
    assert found.difference.startswith("Other code ran increment 1 (output 'out': steps was")


def test_a_record_of_a_repartition_topic_is_followed_from_there(tmp_path):
    builder = StreamsBuilder()
    stream(builder).group_by("value").count(Materialized.as_("counts")).to_stream().to("out")
    topology = builder.build()
    warehouse = played(tmp_path, topology, {"in": [("a", "x", 1), ("b", "y", 2), ("c", "x", 3)]})

    for whole in (True, False):
        found = explain(warehouse, "p", topology, "counts-repartition:0:2", whole=whole)
        assert {step.record for step in found.steps} == {("counts-repartition", 0, 2)}
        assert by("SinkNode", said(found)) == ["writes outputs/out offset 2: 'x' = 2, time 3"]
        assert found.difference is None
