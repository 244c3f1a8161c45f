"""Publishing an output: what has been committed since, increment by increment, each row exactly once.

Owns the steps. Rule: the topic's position is read after the earlier publisher was fenced, and each transaction has
rows and the position behind them, so whoever dies anywhere is continued by the next one. An output whose published
rows were taken back is refused, or corrected by key and window. Positions are in Kafka, in a compacted topic:
committed offsets of a group are forgotten after `offsets.retention.minutes`, and a header would change the records. A
file of the warehouse could not be in the transaction.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ...state.argument_types import check_fields, checked_types
from ...state.errors import ConfigError, PublishError
from ...state.tables.warehouse import Warehouse
from ..history.committed_tables import done_row
from ..topology.topology import Topology
from .committed_rows import CommittedOutput, in_chunks, skipping, with_row
from .corrections import corrections, restated_rows
from .kafka_client import COMPACT, BrokerTopic, KafkaClient, OnCall
from .kafka_target import KafkaTarget
from .position import Corrections, Position
from .published_output import OutgoingRows, PublishedOutput
from .registered_schemas import RegisteredSchemas

REFUSE, CORRECTIONS = "refuse", "corrections"
WRITE, LEAVE = "write", "leave"
ROWS_PER_TRANSACTION = 10_000


@dataclass(frozen=True, kw_only=True)
class PublishSettings:
    """``increment``: the last one that is published; None: the last that is done. ``after``: where a topic that this
    output was never published to begins: readers have all up to that increment; None: it must be empty, and begins
    with the first. ``on_restated``: "refuse" or "corrections"; ``tombstones``: "write" or "leave", of corrections,
    for keys that are gone. ``rows_per_transaction``: at most. ``dry_run``: count alone, fence nobody, and register
    nothing. Raises ConfigError.
    """

    increment: int | None = None
    after: int | None = None
    on_restated: str = REFUSE
    tombstones: str = WRITE
    rows_per_transaction: int = ROWS_PER_TRANSACTION
    dry_run: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        choices = {"on_restated": (REFUSE, CORRECTIONS), "tombstones": (WRITE, LEAVE)}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise ConfigError(name, " or ".join(map(repr, known)), repr(getattr(self, name)), "choose one")
        for name, least in (("rows_per_transaction", 1), ("after", 0)):
            given = getattr(self, name)
            if given is not None and given < least:
                raise ConfigError(name, f"a number from {least} on", str(given), "correct it")


@dataclass(frozen=True)
class PublishReport:
    """What was published of ``output`` to ``topic``, or would be. ``through``: the increment up to which readers have
    all. ``increments``: how many had rows. ``rows``: records of increments; ``corrections``, ``tombstones``: of
    restatements, beside them. ``transactions``: with rows or the position alone. ``seconds``: from the first request.
    ``warnings``: what the topic's settings will do to rows of the past.
    """

    output: str
    topic: str
    through: int
    increments: int = 0
    rows: int = 0
    corrections: int = 0
    tombstones: int = 0
    transactions: int = 0
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()

    @property
    def is_nothing_new(self) -> bool:
        """Whether readers have all already."""
        return not self.transactions


@dataclass(frozen=True)
class _Transaction:
    """A transaction to come: ``rows``, and the position behind them."""

    rows: OutgoingRows | None
    position: Position
    is_correction: bool = False


@checked_types
def publish(
    warehouse: Warehouse, topology: Topology, output: str, *, pipeline: str, to: KafkaTarget,
    settings: PublishSettings | None = None, on_call: OnCall = lambda call: None,
    on_progress: Callable[[PublishReport], None] = lambda report: None, clock: Callable[[], float] = time.perf_counter,
) -> PublishReport:  # fmt: skip
    """Publish what ``output`` of a ``pipeline`` in ``warehouse`` has and readers of the topic ``to`` do not have yet.

    ``topology``: that with which the rows were made. ``settings``: None for the defaults. ``clock``: in seconds.
    ``on_call``: gets the name of each request to the broker before it is made. ``on_progress``: called after each
    transaction.
    Raises ConfigError for an output or settings that are wrong, LedgerError for an increment that is not done, and
    PublishError where the topic or its position forbid it. PublishInterrupted: the broker does not answer.
    PublisherFenced: another publisher of the topic began.
    """
    asked, started = settings or PublishSettings(), clock()
    published = PublishedOutput(topology, output)
    if to.registry is not None:
        schemas = RegisteredSchemas(to, dry_run=asked.dry_run)
        published = replace(published, serdes=schemas.serdes(published))
    row = done_row(warehouse, pipeline, asked.increment, of=[published.table])
    committed = CommittedOutput(warehouse, pipeline, published, row)
    client = KafkaClient(to, on_call)
    topic = _topic_of(client, to, committed)
    position = _position_of(client, to, committed, topic, asked)
    report = PublishReport(output, to.topic, position.through, warnings=_warnings(to, topic))
    for step in _steps(committed, position, asked):
        if not asked.dry_run:
            client.send(step.rows, step.position.to_bytes())
        report = replace(_counted(report, step, position), seconds=clock() - started)
        position = step.position
        on_progress(report)
    return report


def _counted(report: PublishReport, step: _Transaction, before: Position) -> PublishReport:
    count = 0 if step.rows is None else len(step.rows)
    counted = replace(report, transactions=report.transactions + 1, through=step.position.through)
    if step.rows is None:
        return counted
    if step.is_correction:
        gone = step.rows.value.null_count
        return replace(
            counted, corrections=report.corrections + count - gone, tombstones=report.tombstones + gone,
        )  # fmt: skip
    begins = before.increment != (step.position.increment or step.position.through)
    return replace(counted, rows=report.rows + count, increments=report.increments + begins)


# --- what is to come -------------------------------------------------------------------------------------------------


def _steps(committed: CommittedOutput, position: Position, asked: PublishSettings) -> Iterator[_Transaction]:
    """Transaction after transaction, up to the increment of ``committed``. Raises PublishError for one before that of
    which an earlier publisher has sent a part, since its rows may be others. So it does where rows were erased while an
    increment was published in part: the rows that follow are found by counting those before.
    """
    begun = position.as_of if position.corrections is None else position.corrections.to
    if committed.increment < begun:
        if position.corrections is None and committed.increment <= position.through:
            return
        raise _begun(committed, begun)
    if position.rows and (erasures := committed.erasures(position.as_of)):
        raise _erased(committed, position, erasures[0])
    if position.corrections is not None:  # begun by an earlier publisher, so they are finished first
        as_of = done_row(committed.warehouse, committed.pipeline, position.corrections.to, of=[committed.output.table])
        for step in _correcting(with_row(committed, as_of), position, asked):
            yield step
            position = step.position
    if committed.has_left_an_application(position.as_of):
        raise _begun_by_an_application(committed)
    if position.newest and (count := restated_rows(committed, position)):
        if asked.on_restated == REFUSE:
            raise _restated(committed, position, count)
        for step in _correcting(committed, position, asked):
            yield step
            position = step.position
    yield from _following(committed, position, asked)


def _following(committed: CommittedOutput, position: Position, asked: PublishSettings) -> Iterator[_Transaction]:
    as_of = committed.increment
    for increment in committed.increments(position.through):
        done = position.rows if increment == position.increment else 0
        pieces = skipping(committed.pieces(increment), done)
        for rows, is_last in in_chunks(pieces, asked.rows_per_transaction):
            done += len(rows)
            outgoing = committed.output.outgoing(rows, position.partitions)
            behind = position.finished(increment, as_of) if is_last else position.within(increment, done, as_of)
            yield _Transaction(outgoing, behind)
            position = behind
    # Increments without rows move the position, too: what a later restatement takes back is counted from ``as_of``.
    if position.newest < as_of:
        yield _Transaction(None, position.finished(as_of, as_of))


def _correcting(committed: CommittedOutput, position: Position, asked: PublishSettings) -> Iterator[_Transaction]:
    begun = position.corrections
    at = begun or Corrections(committed.increment, 0, asked.tombstones == WRITE)
    rows = corrections(committed, position, tombstones=at.tombstones)
    behind = position.finished(at.to, at.to)
    left = range(at.sent, len(rows), asked.rows_per_transaction)
    for first in left:
        end = min(first + asked.rows_per_transaction, len(rows))
        is_last = end == len(rows)
        yield _Transaction(
            rows.part(first, end), behind if is_last else position.correcting(replace(at, sent=end)), is_correction=True
        )
    if not left:
        yield _Transaction(None, behind)


def _begun(committed: CommittedOutput, increment: int) -> PublishError:
    return PublishError(
        f"output {committed.output.name!r} of {committed.pipeline}",
        f"increment {increment} or a later one, as of which a publisher that died has begun",
        f"increment {committed.increment}, as of which other rows may be there",
        "leave out --increment, or name such a one",
    )


def _restated(committed: CommittedOutput, position: Position, count: int) -> PublishError:
    rows = "1 row that was" if count == 1 else f"{count:,} rows that were"
    return PublishError(
        f"output {committed.output.name!r} of {committed.pipeline}",
        f"all rows up to increment {position.newest} as they were published",
        f"{rows} taken back since by a restatement",
        "publish the difference by key and window (--on-restated corrections), or publish to a new topic",
    )


def _begun_by_an_application(committed: CommittedOutput) -> PublishError:
    return PublishError(
        f"output {committed.output.name!r} of {committed.pipeline}",
        "rows that continue the state of an application, as what readers have does",
        "rows that were made from earlier records: what only the application wrote is in no table, so it cannot be "
        "corrected or taken back",
        "publish to a new topic, or fork behind the increment of the bootstrap (--at 1), and promote that",
    )


def _erased(committed: CommittedOutput, position: Position, increment: int) -> PublishError:
    return PublishError(
        f"output {committed.output.name!r} of {committed.pipeline}",
        f"the rows of increment {position.increment} as they were when {position.rows:,} of them were published",
        f"rows of the output that increment {increment} erased since",
        "publish to a new topic",
    )


def _warnings(to: KafkaTarget, topic: BrokerTopic) -> tuple[str, ...]:
    """What the topic's settings will do to rows of the past."""
    warnings = []
    if topic.settings.get("message.timestamp.type") == "LogAppendTime":
        warnings.append(f"topic {to.topic} has message.timestamp.type=LogAppendTime: readers see the broker's times")
    kept = int(topic.settings.get("retention.ms", "-1"))
    if "delete" in topic.settings.get("cleanup.policy", "") and kept >= 0:
        hours = f"{kept / 3_600_000:g} hours"
        warnings.append(f"topic {to.topic} has retention.ms={kept}: the broker deletes rows with times {hours} ago")
    return tuple(warnings)


# --- the topic and its position --------------------------------------------------------------------------------------


def _topic_of(client: KafkaClient, to: KafkaTarget, committed: CommittedOutput) -> BrokerTopic:
    """Raises PublishError where there is none, or one with another number of partitions than the sink wrote to."""
    topic = client.topic_state(to.topic)
    if topic is None:
        count = "" if committed.partitions is None else f" with {committed.partitions} partitions"
        next_step = f"create it{count}, with the retention that its rows need"
        raise PublishError(f"Kafka at {to.bootstrap_servers}", f"a topic {to.topic}", "no such topic", next_step)
    if committed.partitions not in (None, topic.partitions):
        expected, got = f"{committed.partitions} partitions, to which the sink's partitioner wrote", topic.partitions
        raise PublishError(f"Kafka topic {to.topic}", expected, str(got), "publish to a topic with so many")
    return topic


def _position_of(
    client: KafkaClient, to: KafkaTarget, committed: CommittedOutput, topic: BrokerTopic, asked: PublishSettings
) -> Position:
    """Where publishing continues; a topic that has none gets one, in a transaction of its own before any row."""
    there = _has_positions(client, to, asked)
    if not asked.dry_run:
        client.begin()
    text = client.last_position() if there else None
    place = f"Kafka topic {to.positions}"
    position = None if text is None else Position.from_bytes(text, place)
    # A topic that was deleted and made again has another id: the position speaks of records that are gone.
    if position is not None and position.topic_id == topic.id:
        _refuse_other(to, committed, topic, position, asked)
        return position
    if asked.after is None:
        _refuse_written(client, to, topic, position)
    # What was taken back behind the increment that readers have is still with them.
    as_of = committed.increment if asked.after is None else asked.after
    first = Position(
        committed.pipeline, committed.output.name, committed.ledger_id, topic.id, topic.partitions,
        as_of=as_of, through=asked.after or 0,
    )  # fmt: skip
    if first.through > committed.increment:
        expected, got = f"an increment up to {committed.increment}", str(asked.after)
        raise ConfigError("after", expected, got, "name the last increment that readers have")
    if not asked.dry_run:
        client.send(None, first.to_bytes())
    return first


def _has_positions(client: KafkaClient, to: KafkaTarget, asked: PublishSettings) -> bool:
    """Whether there is a topic of positions; one is made unless this is a dry run. Raises PublishError for one that
    would forget them.
    """
    topic = client.topic_state(to.positions)
    if topic is None:
        if asked.dry_run:
            return False
        client.create_position_topic()
        return True
    policy = topic.settings.get("cleanup.policy")
    if policy != COMPACT or topic.partitions != 1:
        raise PublishError(
            f"Kafka topic {to.positions}", f"1 partition and cleanup.policy={COMPACT}, so that no position is deleted",
            f"{topic.partitions} and {policy}", "correct it, or name another one (--position-topic)",
        )  # fmt: skip
    return True


def _refuse_other(
    to: KafkaTarget, committed: CommittedOutput, topic: BrokerTopic, position: Position, asked: PublishSettings
) -> None:
    """Raises for a position of another output, of a topic that has gained partitions, or ahead of the ledger."""
    place = f"Kafka topic {to.topic}"
    mine = (committed.pipeline, committed.output.name, committed.ledger_id)
    if (position.pipeline, position.output, position.ledger) != mine:
        got = f"output {position.output!r} of pipeline {position.pipeline!r}"
        got += "" if position.ledger == committed.ledger_id else " of another warehouse or ledger"
        raise PublishError(place, "no rows of another output", got, "publish to a topic of its own")
    if position.partitions != topic.partitions:
        expected, got = f"{position.partitions} partitions, as when publishing began", str(topic.partitions)
        raise PublishError(place, expected, got, "publish to a new topic: keys would change their partitions")
    if asked.after is not None:
        expected, got = "no position", f"one at increment {position.newest}"
        raise ConfigError("after", f"{expected} in {to.positions}", got, "leave it out: publishing continues there")
    if position.newest > committed.increment and asked.increment is None:
        expected, got = f"increment {position.newest}, which was published", f"increment {committed.increment}"
        raise PublishError(place, f"a ledger with {expected}", f"one up to {got}", "publish to a new topic")


def _refuse_written(client: KafkaClient, to: KafkaTarget, topic: BrokerTopic, other: Position | None) -> None:
    """A topic without a position that has held records: nobody knows which of the output's rows they were."""
    if client.has_ever_held_records(topic.partitions):
        why = "none" if other is None else "one of a topic of the same name that was deleted"
        raise PublishError(
            f"Kafka topic {to.topic}, which has held records", f"a position in {to.positions}", why,
            "say up to which increment readers have all (--after N; 0: nothing), or publish to an empty topic",
        )  # fmt: skip
