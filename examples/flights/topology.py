"""Two answers over the flights: final departures per origin and hour, and duty sessions of every aircraft."""

from kstreams_replay import (
    Consumed,
    Materialized,
    Serde,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    fold,
)


def build() -> Topology:
    builder = StreamsBuilder()

    departure = Serde.json(
        "departed_ms long, scheduled_ms long, carrier string, flight int, origin string, destination string, "
        "minutes_late int"
    )
    (
        builder.stream("departures", Consumed(Serde.string(), departure))
        .group_by_key()
        .windowed_by(TimeWindows.of_size("1h", grace="4h"))
        .aggregate(
            departures=fold.count(),
            mean_minutes_late=fold.mean("minutes_late"),
            materialized=Materialized.as_("hours"),
        )
        .suppress(Suppressed.until_window_closes(name="open-hours"))
        .to("departures_per_hour")
    )

    leg = Serde.json(
        "departed_ms long, scheduled_ms long, carrier string, flight int, origin string, destination string, "
        "tail_number string, minutes_in_air int"
    )
    (
        builder.stream("aircraft", Consumed(Serde.string(), leg))
        .group_by_key()
        .windowed_by(SessionWindows.with_inactivity_gap("8h", grace="4h"))
        .aggregate(
            legs=fold.count(),
            minutes_in_air=fold.sum("minutes_in_air"),
            first_airport=fold.min_by("origin", by="record_time_ms"),
            last_airport=fold.max_by("destination", by="record_time_ms"),
            materialized=Materialized.as_("duties"),
        )
        .suppress(Suppressed.until_window_closes(name="open-duties"))
        .to("aircraft_sessions")
    )
    return builder.build()


topology = build()
