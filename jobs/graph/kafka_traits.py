"""What an operator is to Kafka Streams, where versions of Kafka Streams differ.

Owns the traits. Rule: a node says its own (``Node.kafka_traits``), and the table of differences names traits alone
(jobs/code_changes/kafka_differences.py), so that neither knows the other.
"""

from enum import Enum


class KafkaTrait(Enum):
    """The value says it in words, of one operator."""

    TASK_STATE = "state that a task keeps"
    DSL_STORE = "a store of the DSL"
    PERSISTENT_STORE = "a store that Kafka has in RocksDB"
    PERSISTENT_WINDOWS = "a store of windows or sessions that Kafka has in RocksDB"
    VERSIONED_STORE = "a versioned store"
    STORE_WITH_HEADERS = "a processor's store that keeps headers"
    STREAM_JOIN_AFTER_CLOSE = "a left or outer join of streams in which records without a match wait"
    STREAM_JOIN_UNEVEN = "such a join whose window reaches further to one side"
    JOIN_OF_NULL_KEYS = "a left or outer join that may get null keys"
    JOIN_WITH_GRACE = "a join of a stream with a table, with a grace"
    GLOBAL_JOIN = "a join of a stream with a global table"
    GLOBAL_LEFT_JOIN = "a left join of a stream with a global table"
    GLOBAL_TABLE = "a global table or store"
    FILLED_GLOBAL_STORE = "a global store that a processor fills"
    FOREIGN_KEY_JOIN = "a join of tables by a foreign key"
    FOREIGN_KEY_INNER_JOIN = "an inner join of tables by a foreign key"
    FOREIGN_KEY_LEFT_JOIN = "a left join of tables by a foreign key"
    SLIDING_WINDOWS = "sliding windows"
    EMIT_ON_CLOSE = "results when windows close, by an emit strategy"
    TABLE_AGGREGATE = "an aggregate of a grouped table"
    SUPPRESS = "suppress"
    PARTITIONER = "a partitioner of one's own"
    WINDOWED_KEYS = "windowed keys that are written to a topic, without a partitioner of one's own"
    PROCESSOR = "a processor in a stream"
    PROCESSOR_KEY_VALUES = "a processor with a key-value store"
    DEAD_LETTERS = "a source of an application that has a topic of dead letters"
