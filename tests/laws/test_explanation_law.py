"""The explanations of all records name every row that was written, and no other."""

import pytest

from kstreams_replay.jobs.execution import task_stores
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.explain.explanation import Explanation, explain
from kstreams_replay.jobs.graph.nodes import SinkNode
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Topology
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.landing.landed_records import records
from tests.laws import joined, loops, topologies
from tests.planted import LandedRecord, plant
from tests.sampling import is_nightly, sampled

RECORDS = 16 if is_nightly() else 6
"""Each is explained by a run of its own, which is then compared with the tables."""
RECORDS_WITH_DROPS = max(RECORDS, 10)
"""So many have dropped ones among them, in both orders."""


def pipeline(
    warehouse: Warehouse, topology: Topology, tapes: dict[str, list[LandedRecord]], partitions: int, order: str
) -> None:
    for number, (topic, tape) in enumerate(tapes.items()):
        if order == "time":
            plant(warehouse, topic, tape, partitions=partitions)
        else:
            rows = [(record.partition, record.timestamp_ms, record.key, record.value) for record in tape]
            arrivals = [number + len(tapes) * place for place in range(len(tape))]
            land_records(warehouse, topic, records(*rows, arrivals=arrivals), partitions=partitions)
    for _ in replay(
        warehouse, topology, pipeline="p", runner=LocalRunner(), max_records=14, idle="proceed", order=order
    ):
        pass


def explanations(
    warehouse: Warehouse, topology: Topology, tapes: dict[str, list[LandedRecord]], order: str
) -> list[Explanation]:
    """Of every landed record."""
    offsets: dict[tuple[str, int], int] = {}
    found = []
    for topic, tape in tapes.items():
        for record in tape:
            offset = offsets.get((topic, record.partition), 0)
            offsets[topic, record.partition] = offset + 1
            found.append(explain(warehouse, "p", topology, (topic, record.partition, offset), order=order))
    return found


Written = tuple[str, int, int, int, str, str]
"""Output, partition, offset, increment, key, value."""


def rows_of(explained: list[Explanation]) -> list[Written]:
    return sorted(
        (
            observation.node.topic,
            step.record[1],
            observation.first_offset + number,
            each.increment,
            repr(row.key),
            repr(row.value),
        )
        for each in explained
        for step in each.steps
        if (observation := step.observation) is not None and isinstance(observation.node, SinkNode)
        for number, row in enumerate(observation.rows)
    )


def written(warehouse: Warehouse, topology: Topology) -> list[Written]:
    return sorted(
        (sink.topic, row["partition"], row["offset"], row["increment"], repr(row["key"]), repr(row["value"]))
        for sink in topology.sinks()
        for row in read_table(warehouse, "p", f"outputs/{sink.topic}").to_pylist()
    )


def case(name: str, records: int = RECORDS) -> tuple[Topology, dict[str, list[LandedRecord]], int]:
    if name == "everything":
        return topologies.everything(), {"clicks": topologies.tape(1, records)}, topologies.PARTITIONS
    if name in loops.APPLICATIONS:
        chosen = loops.APPLICATIONS[name]
        tapes = {topic: loops.tape(values, 4, records=records) for topic, values in chosen.values.items()}
        return chosen.topology(), tapes, loops.PARTITIONS
    return joined.joined(), joined.tapes(2, records), joined.PARTITIONS


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "order", "loads_all"),
    [
        ("everything", "time", False),
        ("joined", "time", True),
        ("joined", "arrival", False),
        ("circle", "time", True),
        ("time to live", "arrival", False),
    ],
)
def test_every_row_of_every_output_is_explained_once_by_the_record_that_caused_it(
    tmp_path, monkeypatch, name, order, loads_all
):
    """
    With all rows of the stores in memory, or only with those that an increment touches.
    """
    if not loads_all:
        monkeypatch.setattr(task_stores, "ALL_BELOW_ROWS", 0)
        monkeypatch.setattr(task_stores, "ALL_BELOW_SHARE", 0)
    (topology, tapes, partitions), warehouse = case(name), Warehouse(tmp_path)
    pipeline(warehouse, topology, tapes, partitions, order)

    explained = explanations(warehouse, topology, tapes, order)

    assert [each.difference for each in explained if each.difference is not None] == []  # nothing was damaged
    assert rows_of(explained) == written(warehouse, topology)
    assert drops_of(explained) == dropped(warehouse)
    assert waits_that_left_wrongly(warehouse, explained) == []


def drops_of(explained: list[Explanation]) -> int:
    return sum(
        sentence.startswith("refused") for each in explained for step in each.steps for sentence in step.sentences
    )


def dropped(warehouse: Warehouse) -> int:
    return len(read_table(warehouse, "p", "dropped"))


def waits_that_left_wrongly(warehouse: Warehouse, explained: list[Explanation]) -> list[str]:
    """Rows that are said to have left later with another key or cause than the output has."""
    wrong = []
    for left in (left for each in explained for left in each.left):
        _, partition, offset = left.because_of
        for output, place in left.written:
            rows = read_table(warehouse, "p", f"outputs/{output}").to_pylist()
            (row,) = [r for r in rows if (r["partition"], r["offset"]) == (partition, place)]
            if (row["key"], row["cause_offset"]) != (left.row.key, offset):
                wrong.append(f"{left} is not {row}")
    return wrong


def refused_or_sent(explained: Explanation) -> list[tuple[str, str, str]]:
    """What an answer has of a record: refusals and dead letters, and what outputs have."""
    return sorted(
        (step.task, step.node, sentence)
        for step in explained.steps
        for sentence in step.sentences
        if sentence.startswith(("refused", "dead letter", "writes"))
    )


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "order"), [("everything", "time"), ("joined", "time"), ("joined", "arrival")])
def test_the_answer_says_of_every_record_what_the_whole_explanation_says(tmp_path, name, order):
    """
    From committed tables, or by a run that ends with the record.
    """
    (topology, tapes, partitions), warehouse = case(name), Warehouse(tmp_path)
    pipeline(warehouse, topology, tapes, partitions, order)

    differ = []
    for whole in sampled(explanations(warehouse, topology, tapes, order), lambda each: str(each.record), share=4):
        answer = explain(warehouse, "p", topology, whole.record, order=order, whole=False)
        if refused_or_sent(answer) != refused_or_sent(whole) or answer.difference is not None:
            differ.append((answer.record, refused_or_sent(answer), refused_or_sent(whole), answer.difference))

    assert differ == []


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "order"), [("everything", "time"), ("everything", "arrival")])
@pytest.mark.parametrize("whole", [True, False])
def test_every_drop_of_a_repartitioned_record_is_explained_by_its_place(tmp_path, name, order, whole):
    (topology, tapes, partitions), warehouse = case(name, RECORDS_WITH_DROPS), Warehouse(tmp_path)
    pipeline(warehouse, topology, tapes, partitions, order)
    topics = {node.topic for sub in topology.sub_topologies for node in sub.repartitions}
    rows = [row for row in read_table(warehouse, "p", "dropped").to_pylist() if row["topic"] in topics]

    for place in {(row["topic"], row["partition"], row["offset"]) for row in rows}:
        explained = explain(warehouse, "p", topology, place, order=order, whole=whole)
        here = [step for step in explained.steps if step.record == place]
        refused = sum(sentence.startswith("refused") for step in here for sentence in step.sentences)
        assert refused == sum((row["topic"], row["partition"], row["offset"]) == place for row in rows)
        assert explained.difference is None
    assert rows
