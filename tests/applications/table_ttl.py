"""After confluentinc/tutorials, `schedule-ktable-ttl` and `schedule-ktable-ttl-aggregate`: rows of a table that were
not updated for a while are deleted.

The loop: a processor below the table writes tombstones to the table's own topic, where they delete the rows. In the
other one, the processor is above an aggregate, and forwards a mark for which the aggregator gives None.
"""

from kstreams_replay import (
    Consumed,
    KeyValues,
    Materialized,
    Processor,
    PunctuationType,
    Record,
    Serde,
    StreamsBuilder,
    Topology,
)

TEXT, LONG = Serde.string(), Serde.long()
WRAPPED = Serde.json("value string, deleted boolean")
STORE = "test-table-purge-store"


class Emitter(Processor):
    """Looks for keys that are older than ``max_age_ms``; what becomes of them is for the subclass."""

    max_age_ms: int

    def init(self, context):
        super().init(context)
        self.updated = context.store(STORE)
        context.schedule("5s", PunctuationType.STREAM_TIME, self.look)

    def look(self, stream_time_ms):
        for key, updated_ms in self.updated.all():
            if updated_ms < stream_time_ms - self.max_age_ms:
                self.expire(key, updated_ms)

    def note(self, record, time_ms):
        if record.value is None:
            self.updated.delete(record.key)
        else:
            self.updated.put(record.key, time_ms)


class Tombstones(Emitter):
    """Forwards a tombstone, at time 0, which comes back as the table's change."""

    max_age_ms = 10_000

    def process(self, record: Record) -> None:
        self.note(record, self.context.current_stream_time_ms())

    def expire(self, key, updated_ms):
        self.context.forward(Record(key, None, 0))


class Marks(Emitter):
    """Forwards every record in a wrapper, and one that says that its key is to be deleted."""

    max_age_ms = 60_000

    def process(self, record: Record) -> None:
        self.note(record, record.timestamp_ms)
        self.context.forward(record.with_value({"value": record.value, "deleted": False}))

    def expire(self, key, updated_ms):
        self.context.forward(Record(key, {"value": str(updated_ms), "deleted": True}, 0))
        self.updated.delete(key)


def topology() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("input-topic-for-stream", Consumed(TEXT, TEXT))
    table = builder.table("input-topic-for-table", Consumed(TEXT, TEXT, others=True))
    joined = stream.left_join(table, lambda left, right: left if right is None else f"{left} {right}", returns=TEXT)
    joined.to("output-topic")
    builder.add_state_store(KeyValues(STORE, TEXT, LONG))
    table.to_stream().process(Tombstones, [STORE], returns=TEXT).to("input-topic-for-table")
    return builder.build()


def topology_of_aggregate() -> Topology:
    def add(key, wrapped, values):
        return None if wrapped["deleted"] else [*values, wrapped["value"]]

    def join(left, values):
        return f"{left} {values[-1]}" if values else left

    builder = StreamsBuilder()
    builder.add_state_store(KeyValues(STORE, TEXT, LONG))
    stream = builder.stream("input-topic-for-stream", Consumed(TEXT, TEXT))
    marked = builder.stream("input-topic-for-table", Consumed(TEXT, TEXT)).process(Marks, [STORE], returns=WRAPPED)
    values = marked.group_by_key().aggregate(
        list, add, Materialized.as_("eventstore"), returns=Serde.json("array<string>")
    )
    stream.left_join(values, join, returns=TEXT).to("output-topic")
    return builder.build()
