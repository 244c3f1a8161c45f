"""What versions of Kafka Streams do differently, as far as it touches operators: 3.0 to 4.4.

Owns the table. Rule: each line says where it was looked up. That is a section of Kafka's upgrade guide (as of 4.4), a
commit with the first tag that has it, or the code of two releases. What nobody could look up is not here.
"""

from dataclasses import dataclass
from enum import StrEnum

from ..graph.kafka_traits import KafkaTrait

VERSIONS = (
    *("3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9"),
    *("4.0", "4.1", "4.2", "4.3", "4.4"),
)
"""In their order. What is said of one is of its first release, as 4.3.0."""


class Effect(StrEnum):
    """What a difference changes."""

    ROWS = "rows"
    """Rows of results."""
    STATE = "state"
    """What stores and changelogs hold, or how they are upgraded."""
    CALLS = "calls"
    """A call or a setting that is new, deprecated or gone; rows stay."""
    TASKS = "tasks"
    """Which member runs which task."""


@dataclass(frozen=True, kw_only=True)
class KafkaDifference:
    """One difference. ``since``: the first version that has it. ``ids``: of KIPs and JIRA issues, none where none is
    known. ``touches``: operators of any of these traits. ``verified``: where it was looked up.
    """

    since: str
    ids: tuple[str, ...]
    effect: Effect
    says: str
    touches: tuple[KafkaTrait, ...]
    verified: str


_ASKED = "; the first releases of both versions were asked"
"""Kafka's own test driver of this version and of the one before gave other rows for one tape."""


def _guide(version: str) -> str:
    return f"upgrade guide, Streams API changes in {version}.0"


DIFFERENCES = (
    KafkaDifference(
        since="3.1", ids=("KIP-633", "KAFKA-10847"), effect=Effect.ROWS,
        says="A record without a match is forwarded alone when its window closes. JoinWindows.of, the only call "
        "before, forwards it at once, and again in pairs with what comes later.",
        touches=(KafkaTrait.STREAM_JOIN_AFTER_CLOSE,), verified=_guide("3.1"),
    ),
    KafkaDifference(
        since="3.1", ids=("KIP-775", "KAFKA-13261"), effect=Effect.CALLS,
        says="TableJoined is new: a join by a foreign key takes partitioners of one's own.",
        touches=(KafkaTrait.FOREIGN_KEY_JOIN,), verified=_guide("3.1"),
    ),
    KafkaDifference(
        since="3.2", ids=("KAFKA-13721",), effect=Effect.ROWS,
        says="A join whose window reaches further to one side waits for its close. Before, some records left alone "
        "too early.",
        touches=(KafkaTrait.STREAM_JOIN_UNEVEN,), verified="commit 03411ca28b21, first in tag 3.2.0" + _ASKED,
    ),
    KafkaDifference(
        since="3.2", ids=("KAFKA-13739",), effect=Effect.ROWS,
        says="A sliding window whose end is the close time takes the record. Before, it did not, so that without a "
        "grace records were lost that were not late.",
        touches=(KafkaTrait.SLIDING_WINDOWS,), verified="commit 90bd03a0a27b, first in tag 3.2.0" + _ASKED,
    ),
    KafkaDifference(
        since="3.3", ids=("KIP-820",), effect=Effect.CALLS,
        says="KStream.process returns a stream, and processValues is new; transform and transformValues of streams "
        "are deprecated, and gone since 4.0.",
        touches=(KafkaTrait.PROCESSOR,), verified=_guide("3.3"),
    ),
    KafkaDifference(
        since="3.3", ids=("KIP-825",), effect=Effect.CALLS,
        says="emitStrategy is new: results when windows close, without suppress.",
        touches=(KafkaTrait.EMIT_ON_CLOSE,), verified=_guide("3.3"),
    ),
    KafkaDifference(
        since="3.3", ids=("KAFKA-13769",), effect=Effect.STATE,
        says="A subscription names the partition of the left row, in a new format. An upgrade takes two rolling "
        "bounces, the first with upgrade.from.",
        touches=(KafkaTrait.FOREIGN_KEY_JOIN,),
        verified="commit adf5cc5371db; SubscriptionWrapper, version 0 in tag 3.2.0, 1 in 3.3.0; upgrade guide, head",
    ),
    KafkaDifference(
        since="3.4", ids=("KAFKA-12960",), effect=Effect.ROWS,
        says="A store of windows or sessions in RocksDB shows nothing older than its retention. Before, it showed "
        "such rows until their whole segment went.",
        touches=(KafkaTrait.PERSISTENT_WINDOWS,),
        verified="commit 7fd6a9b3e22e and AbstractRocksDBSegmentedBytesStore, in tag 3.4.0 and not in 3.3.0" + _ASKED,
    ),
    KafkaDifference(
        since="3.4", ids=("KIP-873", "KAFKA-13602"), effect=Effect.CALLS,
        says="StreamPartitioner.partitions is new: a partitioner may send a record to several partitions, or to none. "
        "StreamPartitioner.partition is deprecated, and gone since 4.0.",
        touches=(KafkaTrait.PARTITIONER,),
        verified=f"{_guide('3.4')}; commit e8b27b6a33ff (KAFKA-16335) and the sources of 4.0.0",
    ),
    KafkaDifference(
        since="3.5", ids=("KIP-904", "KAFKA-12446"), effect=Effect.ROWS,
        says="A changed row of a table whose group stays the same updates its aggregate once. Before, it was taken "
        "out and then added, with a spurious result between.",
        touches=(KafkaTrait.TABLE_AGGREGATE,), verified=_guide("3.5") + _ASKED,
    ),
    KafkaDifference(
        since="3.5", ids=("KIP-904", "KAFKA-12446"), effect=Effect.STATE,
        says="The repartition topic of a grouped table has a new format. An upgrade takes two rolling bounces, the "
        "first with upgrade.from.",
        touches=(KafkaTrait.TABLE_AGGREGATE,), verified="upgrade guide, head",
    ),
    KafkaDifference(
        since="3.5", ids=("KAFKA-14862",), effect=Effect.ROWS,
        says="Tasks of one instance share no time by which records without a match leave. Before, with several "
        "partitions some results were missing. 3.4.1 has the correction, too.",
        touches=(KafkaTrait.STREAM_JOIN_AFTER_CLOSE,),
        verified="commits a0e13b5793fd, in tag 3.5.0, and 754365a032ad, in tag 3.4.1",
    ),
    KafkaDifference(
        since="3.5", ids=("KIP-889", "KIP-914"), effect=Effect.CALLS,
        says="Versioned stores are new, and what the DSL does with tables that have them.",
        touches=(KafkaTrait.VERSIONED_STORE,), verified=_guide("3.5"),
    ),
    KafkaDifference(
        since="3.6", ids=("KIP-923", "KAFKA-14936"), effect=Effect.CALLS,
        says="Joined.withGracePeriod is new: records of the stream wait for the table.",
        touches=(KafkaTrait.JOIN_WITH_GRACE,), verified=_guide("3.6"),
    ),
    KafkaDifference(
        since="3.7", ids=("KIP-962", "KAFKA-12317", "KAFKA-14748"), effect=Effect.ROWS,
        says="A record with a null key, or a row with a null foreign key, is joined with null. Before, it was "
        "dropped.",
        touches=(KafkaTrait.JOIN_OF_NULL_KEYS,), verified=_guide("3.7") + _ASKED,
    ),
    KafkaDifference(
        since="3.8", ids=("KAFKA-15417",), effect=Effect.ROWS,
        says="A record without a match leaves by the length of the window on its own side. Before, those of both "
        "sides were exchanged: some left too early, and again in a pair, others too late.",
        touches=(KafkaTrait.STREAM_JOIN_UNEVEN,), verified="commit e81379d3fea9, first in tag 3.8.0" + _ASKED,
    ),
    KafkaDifference(
        since="3.8", ids=("KAFKA-7663",), effect=Effect.STATE,
        says="A restore gives each record of the topic to the processor. Before, records came into the store as they "
        "are.",
        touches=(KafkaTrait.FILLED_GLOBAL_STORE,), verified="commit 8b274d8c1bfb, first in tag 3.8.0",
    ),
    KafkaDifference(
        since="3.8", ids=("KAFKA-15774",), effect=Effect.STATE,
        says="The store of subscriptions is of the kind that dsl.store.suppliers.class says. Before, no setting had "
        "influence on it.",
        touches=(KafkaTrait.FOREIGN_KEY_JOIN,), verified="commit 45027f3d33fc, first in tag 3.8.0",
    ),
    KafkaDifference(
        since="4.0", ids=("KAFKA-14460",), effect=Effect.ROWS,
        says="An iterator of a key-value store in memory leaves out what was deleted after it began. Before, it gave "
        "the key with null.",
        touches=(KafkaTrait.PROCESSOR_KEY_VALUES,),
        verified="commit be3ab8bdd5e3; InMemoryKeyValueStore of the sources of 3.9.0 and 4.0.0" + _ASKED,
    ),
    KafkaDifference(
        since="4.0", ids=("KIP-1104",), effect=Effect.CALLS,
        says="A foreign key may be extracted from key and value; the calls that take a function of the value alone "
        "are deprecated.",
        touches=(KafkaTrait.FOREIGN_KEY_JOIN,), verified=_guide("4.0"),
    ),
    KafkaDifference(
        since="4.0", ids=(), effect=Effect.STATE,
        says="RocksDB 9.7.3 writes files that older versions cannot read. A downgrade below 4.0 needs the local state "
        "deleted first.",
        touches=(KafkaTrait.PERSISTENT_STORE,),
        verified="upgrade guide, Notable compatibility changes in past releases",
    ),
    KafkaDifference(
        since="4.1", ids=("KAFKA-16407", "KAFKA-16434"), effect=Effect.ROWS,
        says="A left row whose foreign key was null and is not any more is joined; before, it was dropped. One whose "
        "foreign key becomes null loses its result; before, it kept it.",
        touches=(KafkaTrait.FOREIGN_KEY_INNER_JOIN,),
        verified="pull request 19303; SubscriptionSendProcessorSupplier of the sources of 4.0.0 and 4.1.0" + _ASKED,
    ),
    KafkaDifference(
        since="4.1", ids=("KAFKA-18713",), effect=Effect.ROWS,
        says="A left row that gets another foreign key, or is deleted, has one answer. Before, the old key answered, "
        "too: with a second tombstone, or with the row joined with null, which could even come last.",
        touches=(KafkaTrait.FOREIGN_KEY_LEFT_JOIN,),
        verified="pull request 19005; SubscriptionSendProcessorSupplier of the sources of 4.0.0 and 4.1.0" + _ASKED,
    ),
    KafkaDifference(
        since="4.1", ids=("KAFKA-19208",), effect=Effect.ROWS,
        says="A record whose key selector gives null is joined with null. Before, it was dropped, unless its own key "
        "was null.",
        touches=(KafkaTrait.GLOBAL_LEFT_JOIN,),
        verified="pull request 19580; KStreamKTableJoinProcessor of the sources of 4.0.0 and 4.1.0" + _ASKED,
    ),
    KafkaDifference(
        since="4.2", ids=("KIP-1034",), effect=Effect.CALLS,
        says="errors.dead.letter.queue.topic.name is new.",
        touches=(KafkaTrait.DEAD_LETTERS,), verified=_guide("4.2"),
    ),
    KafkaDifference(
        since="4.3", ids=("KIP-1035",), effect=Effect.STATE,
        says="A store in RocksDB holds its offsets itself. A downgrade below 4.3 needs the local state deleted first.",
        touches=(KafkaTrait.PERSISTENT_STORE,), verified=_guide("4.3"),
    ),
    KafkaDifference(
        since="4.3", ids=("KIP-1285",), effect=Effect.STATE,
        says="dsl.store.format=HEADERS is new: stores of the DSL and their changelogs keep headers. With the default "
        "nothing changes.",
        touches=(KafkaTrait.DSL_STORE,), verified=_guide("4.3"),
    ),
    KafkaDifference(
        since="4.3", ids=("KIP-1271",), effect=Effect.CALLS,
        says="Stores of a processor that keep headers are new.",
        touches=(KafkaTrait.STORE_WITH_HEADERS,), verified=_guide("4.3"),
    ),
    KafkaDifference(
        since="4.3", ids=("KIP-1270",), effect=Effect.CALLS,
        says="processing.exception.handler.global.enabled is new: with true, the handler is asked about global "
        "stores.",
        touches=(KafkaTrait.GLOBAL_TABLE,), verified=_guide("4.3"),
    ),
    KafkaDifference(
        since="4.4", ids=("KIP-1285",), effect=Effect.STATE,
        says="With dsl.store.format=HEADERS the buffer keeps the headers of each value, and a result has those of its "
        "own. With the default nothing changes.",
        touches=(KafkaTrait.SUPPRESS,), verified=_guide("4.4"),
    ),
    KafkaDifference(
        since="4.4", ids=("KIP-1340",), effect=Effect.CALLS,
        says="ValueJoinerWithStreamAndMappedKey is new: a joiner gets the stream's key and the mapped one. The calls "
        "with ValueJoinerWithKey are deprecated for global tables.",
        touches=(KafkaTrait.GLOBAL_JOIN,), verified=_guide("4.4"),
    ),
    KafkaDifference(
        since="4.4", ids=("KIP-1321", "KAFKA-20197"), effect=Effect.CALLS,
        says="StreamPartitioner.partitions with headers is new; the one without is deprecated.",
        touches=(KafkaTrait.PARTITIONER,), verified="commit cba250ead18e; the class in the jar of 4.4.0",
    ),
    KafkaDifference(
        since="4.4", ids=("KIP-1321", "KAFKA-20197"), effect=Effect.ROWS,
        says="The built-in partitioners give the record's headers to the key's serializer. With one that reads "
        "headers, windowed keys may go to other partitions than before.",
        touches=(KafkaTrait.WINDOWED_KEYS,),
        verified="commit cba250ead18e; pull request 23809, which says it in the upgrade guide",
    ),
    KafkaDifference(
        since="4.4", ids=(), effect=Effect.TASKS,
        says="StickyTaskAssignor, where task.assignor.class names it, lets a member keep its share of the tasks, "
        "rounded up; before, it was that of each thread, rounded down. In 250 of 653 cases members got other tasks. "
        "The default assignor is unchanged.",
        touches=(KafkaTrait.TASK_STATE,),
        verified="classes of assignment in the jars of 4.3.0 and 4.4.0, and both asked about the same cases",
    ),
)  # fmt: skip
"""By version."""


def differences(since: str, until: str) -> tuple[KafkaDifference, ...]:
    """Those that came after version ``since`` and up to version ``until``, both of VERSIONS; by version."""
    first, last = VERSIONS.index(since), VERSIONS.index(until)
    return tuple(each for each in DIFFERENCES if first < VERSIONS.index(each.since) <= last)
