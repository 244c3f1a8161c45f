"""Twins of the applications in Kept.java."""

from kstreams_replay import (
    Consumed,
    JoinWindows,
    KTable,
    Materialized,
    Processor,
    Serde,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    ValueAndTimestamp,
)

S, L = Serde.string(), Serde.long()
TEXT = Consumed(S, S)


def totals() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", TEXT).group_by_key()
    clicks.count(Materialized("counts")).to_stream().to("out")
    longest = clicks.reduce(lambda old, value: value if len(value) > len(old) else old, Materialized("longest"))
    longest.to_stream().to("longest-values")
    return builder.build()


def strict() -> Topology:
    return windows(grace="0s")


def windows(grace: str = "20s") -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", TEXT).group_by_key()
    counts = clicks.windowed_by(TimeWindows.of_size("10s", grace=grace).advance_by("5s")).count(Materialized("counts"))
    counts.to_stream().to("updates")
    counts.suppress(Suppressed.until_window_closes(name="buffer")).to_stream().to("out")
    return builder.build()


def sessions() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", TEXT).group_by_key()
    counts = clicks.windowed_by(SessionWindows.with_inactivity_gap("4s", grace="15s")).count(Materialized("counts"))
    counts.to_stream().to("updates")
    counts.suppress(Suppressed.until_window_closes(name="buffer")).to_stream().to("out")
    return builder.build()


def closing() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", TEXT).group_by_key()
    slides = clicks.windowed_by(SlidingWindows.of_time_difference("5s", grace="10s"))
    slides.count(Materialized("sliding")).to_stream().to("slides")
    closed = clicks.windowed_by(TimeWindows.of_size("5s", grace="10s")).emit_strategy("on_window_close")
    closed.count(Materialized("closed")).to_stream().to("out")
    return builder.build()


def regrouped() -> Topology:
    """A task that reads nothing but what another sends."""
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", TEXT).select_key(lambda key, click: key, returns=S).group_by_key(name="again")
    closed = clicks.windowed_by(TimeWindows.of_size("5s", grace="10s")).emit_strategy("on_window_close")
    closed.count(Materialized("closed")).to_stream().to("out")
    return builder.build()


def versions() -> Topology:
    builder = StreamsBuilder()
    versioned = Stores.persistent_versioned_key_value_store("users-kept", "60s")
    users = builder.table("users", TEXT, Materialized.as_(versioned))
    clicks = builder.stream("clicks", TEXT)
    clicks.left_join(users, lambda click, user: f"{click} by {user or 'null'}", returns=S).to("out")
    named = users.group_by(lambda key, value: (value, key), returns_key=S, returns=S, name="by-name")
    named.count(Materialized("names")).to_stream().to("named")
    return builder.build()


def streams() -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("orders", TEXT)
    pairs = builder.stream("clicks", TEXT).outer_join(
        orders, lambda click, order: f"{click or 'null'}/{order or 'null'}",
        JoinWindows.of_time_difference_and_grace("8s", "12s"), StreamJoined.as_("pairs"), returns=S,
    )  # fmt: skip
    pairs.to("out")
    return builder.build()


def tables() -> Topology:
    builder = StreamsBuilder()
    users = builder.table("users", TEXT, Materialized("users-kept"))
    groups = builder.table("groups", TEXT, Materialized("groups-kept"))
    members = users.left_join(
        groups, lambda user, group: f"{user} in {group or 'null'}", foreign_key=lambda user: f"g{4 + len(user) % 4}",
        foreign_key_returns=S, returns=S, materialized=Materialized("members"),
    )  # fmt: skip
    members.to_stream().to("out")
    return builder.build()


def meeting() -> Topology:
    """A task that reads a topic, and what three others write."""
    builder = StreamsBuilder()
    groups = builder.table("groups", TEXT, Materialized("groups-kept"))
    clicks = builder.stream("clicks", TEXT)
    orders, users = by_length(builder, "orders"), by_length(builder, "users")
    of_group = clicks.select_key(lambda key, click: f"g{4 + len(click) % 4}", returns=S)
    joined = of_group.repartition(name="by-group").left_join(groups, paired, returns=S)
    joined.left_join(orders, paired, returns=S).left_join(users, paired, returns=S).to("out")
    return builder.build()


def beside() -> Topology:
    """A join by foreign key whose result is joined with a topic of its own task."""
    builder = StreamsBuilder()
    orders = builder.table("orders", TEXT, Materialized("orders-kept"))
    users = builder.table("users", TEXT, Materialized("users-kept"))
    groups = builder.table("groups", TEXT, Materialized("groups-kept"))
    members = users.left_join(
        groups, paired, foreign_key=lambda user: f"g{4 + len(user) % 4}", foreign_key_returns=S, returns=S,
        materialized=Materialized("members"),
    )  # fmt: skip
    members.outer_join(orders, lambda member, order: f"{member or 'null'} {order or 'null'}", returns=S).to_stream().to(
        "out"
    )
    return builder.build()


def looking() -> Topology:
    """Records that another task wrote, beside a topic and a global table."""
    builder = StreamsBuilder()
    users = builder.table("users", TEXT, Materialized("users-kept"))
    groups = builder.global_table("groups", TEXT, Materialized("groups-kept"))
    of_user = builder.stream("clicks", TEXT).select_key(lambda key, click: f"u{4 + len(click) % 4}", returns=S)
    joined = of_user.repartition(name="by-user").left_join(users, paired, returns=S)
    joined.left_join(groups, paired, selector=lambda key, click: f"g{key[1:]}", selector_returns=S, returns=S).to("out")
    return builder.build()


def by_length(builder: StreamsBuilder, topic: str) -> KTable:
    known = builder.stream(topic, TEXT).filter(lambda key, value: value is not None)
    keyed = known.select_key(lambda key, value: f"g{4 + len(value) % 4}", returns=S)
    return keyed.map_values(lambda key, value: value + key, returns=S).to_table(name=f"{topic}-kept")


def paired(one: str, other: str | None) -> str:
    return f"{one} {other or 'null'}"


class Sums(Processor):
    def init(self, context):
        self.context = context
        self.sums, self.last = context.store("sums"), context.store("last")
        self.seen, self.history = context.store("seen"), context.store("history")

    def process(self, click):
        time_ms = click.timestamp_ms
        window = time_ms // 10_000 * 10_000
        total, before = self.sums.get(click.key), self.seen.fetch(click.key, window)
        old, then = self.last.get(click.key), self.history.get(click.key, time_ms - 20_000)
        said = [
            "null" if total is None else str(total), "null" if before is None else str(before),
            "-" if old is None else f"{old.value}@{old.timestamp_ms}", "-" if then is None else then.value,
        ]  # fmt: skip
        self.context.forward(click.with_value(" ".join(said)))
        self.sums.put(click.key, (total or 0) + len(click.value))
        self.seen.put(click.key, (before or 0) + 1, window)
        self.last.put(click.key, ValueAndTimestamp(click.value, time_ms))
        self.history.put(click.key, click.value, time_ms)


def processor() -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("sums"), S, L))
    builder.add_state_store(Stores.timestamped_key_value_store_builder(Stores.in_memory_key_value_store("last"), S, S))
    builder.add_state_store(Stores.window_store_builder(Stores.persistent_window_store("seen", "200s", "10s"), S, L))
    builder.add_state_store(
        Stores.versioned_key_value_store_builder(Stores.persistent_versioned_key_value_store("history", "100s"), S, S)
    )
    stores = ["sums", "last", "seen", "history"]
    builder.stream("clicks", TEXT).process(Sums, stores, returns_key=S, returns=S).to("out")
    return builder.build()


TWINS = (totals, windows, sessions, closing, versions, streams, tables, processor)
