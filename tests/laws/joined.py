"""A pipeline that reads topics together: joins of every kind, tables of tables, deduplication, over several topics.

``orders`` (a stream) is joined with ``users`` (versioned), with ``payments`` (a stream) and with ``items`` by a foreign
key; tables are grouped again, suppressed and joined with each other.
"""

import random

from kstreams_replay.jobs.topology import (
    Consumed,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Serde,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    Topology,
)
from tests.planted import LandedRecord

PARTITIONS = 2
TOPICS = ("orders", "payments", "users", "items")
STRING, LONG = Serde.string(), Serde.long()


def joined() -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed(STRING, STRING))
    payments = builder.stream("payments", Consumed(STRING, STRING))
    users = builder.table("users", Consumed(STRING, STRING), materialized=Materialized.versioned("users", 200))
    items = builder.table("items", Consumed(STRING, LONG), materialized=Materialized.as_("items"))
    _streams(orders, payments, users)
    _tables(orders, users, items)
    return builder.build()


def _streams(orders: KStream, payments: KStream, users: KTable) -> None:
    unique = orders.deduplicate_by_key(5, name="unique")
    unique.join(users, _pair, grace=20, returns=STRING, name="with-user").to("orders-with-users")
    unique.left_join(users, _pair, returns=STRING).to("orders-and-users")
    windows = JoinWindows.of_time_difference_and_grace(15, 10)
    paid = orders.outer_join(payments, _pair, windows, returns=STRING, name="paid")
    paid.to("paid")
    (
        paid.group_by_key()
        .windowed_by(SlidingWindows.of_time_difference(20, grace=10))
        .count(Materialized.as_("paid-counts"))
        .suppress(Suppressed.until_window_closes(name="paid-final"))
        .to("paid-counts")
    )


def _tables(orders: KStream, users: KTable, items: KTable) -> None:
    newest = orders.to_table(materialized=Materialized.as_("newest"))
    newest.join(items, _pair, foreign_key=lambda key, value: value[:1], foreign_key_returns=STRING,
                returns=STRING, materialized=Materialized.as_("priced")).to("priced")  # fmt: skip
    newest.outer_join(users, _pair, returns=STRING).to("orders-or-users")
    counts = users.group_by("value", "record_key", name="by-name").count(Materialized.as_("users-by-name"))
    counts.suppress(Suppressed.until_time_limit(30, name="calm", max_records=2)).to("users-by-name")
    items.filter("value > 3").left_join(counts, _pair, returns=STRING).to("items-and-names")


def _pair(left: object, right: object) -> str:
    return f"{left}+{right}"


def tapes(seed: int, records: int) -> dict[str, list[LandedRecord]]:
    """Records of every topic in the order in which they arrive, with late ones, tombstones and ties."""
    generator = random.Random(seed)
    found: dict[str, list[LandedRecord]] = {topic: [] for topic in TOPICS}
    now = 100
    for _ in range(records):
        now += generator.choice((0, 0, 1, 4, 25))
        topic = generator.choice(TOPICS)
        key = generator.choice((b"a", b"b", b"c", b"d", b"e", None))
        partition = 0 if key is None else key[0] % PARTITIONS
        value: bytes | None = generator.choice((b"a1", b"b2", b"c3", b"d4", None))
        if topic == "items" and value is not None:
            value = generator.randrange(8).to_bytes(8, "big")
        found[topic].append(LandedRecord(partition, key, value, now - generator.choice((0, 0, 0, 3, 40))))
    return found
