"""What is in a warehouse: landed topics and pipelines, each in a line.

Owns the facts of both lines. Rule: ledgers alone are read, and no table, so that it takes as long in a large warehouse
as in a small one.
"""

from dataclasses import dataclass

from ...state.kafka_version import DEFAULT
from ...state.tables.ledger import LandingLedger, Ledger
from ...state.tables.warehouse import Warehouse
from ...state.times import NO_TIMESTAMP_MS
from .branches import branches


@dataclass(frozen=True)
class LandedTopic:
    """``records`` that have landed, ``put_aside`` what became none; ``increments``: the number of the last one.
    ``landed_at_ms``: wall-clock time of the last landing in ms. ``kind`` of the source: files, kafka, …
    """

    topic: str
    partitions: int
    records: int
    put_aside: int
    increments: int
    kind: str | None
    landed_at_ms: int


@dataclass(frozen=True)
class ReplayedPipeline:
    """``branch_of``: its parent, None where it is no branch. ``increment``: the last that is done, None before the
    first. ``planned``: the increment that is planned and not done, None where there is none. ``stream_time_ms``: the
    largest of any task, None where none had any. ``last_run_ms``: wall-clock time in ms at which the last increment
    was committed. ``kafka_version``: whose rows the last increment made; None before the first.
    """

    pipeline: str
    branch_of: str | None
    increment: int | None
    planned: int | None
    stream_time_ms: int | None
    last_run_ms: int | None
    kafka_version: str | None


def landed_topics(warehouse: Warehouse) -> list[LandedTopic]:
    """Topics of which something has landed, in alphabetical order."""
    topics = []
    for topic in warehouse.topics():
        rows = LandingLedger(warehouse.landing_ledger(topic)).done_rows()
        if rows:
            done = [row.content for row in rows]
            kinds = [each.source["kind"] for each in done if each.lands_records and "kind" in each.source]
            topics.append(
                LandedTopic(
                    topic=topic,
                    partitions=done[-1].partitions,
                    records=sum(each.records or 0 for each in done),
                    put_aside=sum(each.dead_letters or 0 for each in done),
                    increments=rows[-1].increment,
                    kind=kinds[-1] if kinds else None,
                    landed_at_ms=rows[-1].written_at_ms,
                )
            )
    return topics


def replayed_pipelines(warehouse: Warehouse) -> list[ReplayedPipeline]:
    """Pipelines that have a ledger, in alphabetical order."""
    parents = {name: branch.parent for name, branch in branches(warehouse).items()}
    return [_pipeline(warehouse, name, parents.get(name)) for name in warehouse.pipelines()]


def _pipeline(warehouse: Warehouse, name: str, parent: str | None) -> ReplayedPipeline:
    ledger = Ledger(warehouse.pipeline(name).ledger)
    last, pending = ledger.last_done(), ledger.pending()
    time = NO_TIMESTAMP_MS if last is None else last.content.stream_time_ms
    return ReplayedPipeline(
        pipeline=name,
        branch_of=parent,
        increment=None if last is None else last.increment,
        planned=None if pending is None else pending.increment,
        stream_time_ms=None if time == NO_TIMESTAMP_MS else time,
        last_run_ms=None if last is None else last.written_at_ms,
        kafka_version=None if last is None else last.content.kafka_version or DEFAULT,
    )
