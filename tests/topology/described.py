"""The topologies of tests/jvm/Describe.java, built with our DSL."""

from collections.abc import Callable

from jobs.topology import (
    Consumed,
    KGroupedStream,
    KStream,
    Materialized,
    Serde,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    fold,
)

FINAL = Suppressed.until_window_closes()


def stream(builder: StreamsBuilder, topic: str) -> KStream:
    return builder.stream(topic, Consumed(Serde.string(), Serde.long()))


def by_key(records: KStream) -> KGroupedStream:
    return records.group_by_key()


def stateless(builder: StreamsBuilder) -> None:
    records = stream(builder, "in")
    records.filter("TRUE").map_values("value").to("out")
    records.filter_not("TRUE").select_key("record_key").to("rekeyed")
    stream(builder, "other").to("copies")


def final_results(builder: StreamsBuilder) -> None:
    counts = by_key(stream(builder, "in")).windowed_by(TimeWindows.of_size(10, grace=5)).count()
    counts.suppress(FINAL).to_stream().to("final")


def repartitioned(builder: StreamsBuilder) -> None:
    records = stream(builder, "in")
    grouped = records.group_by("record_key")
    grouped.count().to_stream().to("counts")
    sessions = grouped.windowed_by(SessionWindows.with_inactivity_gap(10, grace=5))
    sessions.reduce(lambda one, other: one).to_stream().to("sessions")
    records.to("copies")


def named(builder: StreamsBuilder) -> None:
    (
        builder.stream("in", Consumed(Serde.string(), Serde.long()), name="read")
        .select_key("record_key", name="rekey")
        .filter("TRUE", name="some")
        .group_by_key()
        .windowed_by(TimeWindows.of_size(10))
        .count(Materialized.as_("counts"), name="count")
        .suppress(Suppressed.until_window_closes(name="final"))
        .to_stream(name="changes")
        .map_values("value", name="copy")
        .to("out", name="write")
    )


def three_levels(builder: StreamsBuilder) -> None:
    windows = by_key(stream(builder, "in")).windowed_by(TimeWindows.of_size(10))
    finals = windows.count().suppress(FINAL).to_stream().select_key("record_key")
    totals = by_key(finals).aggregate(fold.sum("value"), materialized=Materialized.as_("totals")).to_stream()
    totals.to("totals")
    totals.group_by("record_key").count().to_stream().to("ranks")
    finals.to("finals")


def side_by_side(builder: StreamsBuilder) -> None:
    records = stream(builder, "in")
    counts = by_key(records).windowed_by(TimeWindows.of_size(10).advance_by(5)).count()
    counts.to_stream().to("updates")
    counts.suppress(FINAL).to_stream().to("final")
    records.map_values("value").to("values")


def wide(builder: StreamsBuilder) -> None:
    records = stream(builder, "in")
    for number in range(7):
        branch = records.filter("TRUE")
        for _ in range(number % 4):
            branch = branch.map_values("value")
        branch.to(f"out-{number}")


TOPOLOGIES: dict[str, Callable[[StreamsBuilder], None]] = {
    build.__name__: build
    for build in (stateless, final_results, repartitioned, named, three_levels, side_by_side, wide)
}
