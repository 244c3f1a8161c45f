"""Small pipelines over tapes that can be checked by hand, and explanations of their records."""

from pathlib import Path

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.explain.explanation import Explanation, explain
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, KStream, Serde, StreamsBuilder, Topology
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

STRING = Serde.string()
Tape = list[tuple[str | None, str | None, int]]
"""(key, value, time) of the one partition."""


def stream(builder: StreamsBuilder, topic: str = "in") -> KStream:
    return builder.stream(topic, Consumed(STRING, STRING))


def landed(tape: Tape) -> list[LandedRecord]:
    def code(text: str | None) -> bytes | None:
        return None if text is None else text.encode()

    return [LandedRecord(0, code(key), code(value), time_ms) for key, value, time_ms in tape]


def played(tmp_path: Path, topology: Topology, tapes: dict[str, Tape], **options: object) -> Warehouse:
    """The tapes, landed and replayed whole."""
    warehouse = Warehouse(tmp_path)
    for topic, tape in tapes.items():
        plant(warehouse, topic, landed(tape), partitions=1)
    run(warehouse, topology, **options)
    return warehouse


def run(warehouse: Warehouse, topology: Topology, **options: object) -> None:
    options = {"idle": "proceed", **options}
    assert list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), **options))


def said(explanation: Explanation) -> list[tuple[str, str]]:
    """(kind of node, sentence), in order; nodes by their kind, since their names are numbers."""
    return [
        (step.node if step.observation is None else type(step.observation.node).__name__, sentence)
        for step in explanation.steps
        for sentence in step.sentences
    ]


def explained(warehouse: Warehouse, topology: Topology, record: str) -> list[tuple[str, str]]:
    """The functions are pure, so the re-run writes what was committed."""
    explanation = explain(warehouse, "p", topology, record)
    assert explanation.difference is None
    return said(explanation)


def by(kind: str, sentences: list[tuple[str, str]]) -> list[str]:
    return [sentence for node, sentence in sentences if node == kind]
