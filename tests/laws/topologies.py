"""The pipeline that the laws are tried on: every operator, a repartition, Python folds, bad records."""

import random

from kstreams_replay.jobs.topology import (
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
from tests.planted import LandedRecord

PARTITIONS = 3
STORES = (
    "sessions-store",
    "final-sessions-store",
    "clicks-by-user",
    "initials-store",
    "pages-store",
    "final-pages-store",
)
OUTPUTS = ("sessions", "counts", "initials", "pages")


def everything() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(Serde.string(), Serde.json("page string, ms long")))
    sessions = clicks.group_by_key().windowed_by(SessionWindows.with_inactivity_gap(20, grace=15))
    (
        sessions.aggregate(
            clicks=fold.count(),
            total=fold.sum("ms"),
            first_page=fold.min_by("page", by="record_time_ms"),
            last_page=fold.last("page"),
            mean=fold.mean("ms"),
            materialized=Materialized.as_("sessions-store"),
        )
        .suppress(Suppressed.until_window_closes(name="final-sessions"))
        .to("sessions")
    )
    clicks.group_by_key().count(Materialized.as_("clicks-by-user")).to("counts")
    (
        clicks.filter("ms IS NOT NULL")
        .group_by_key()
        .windowed_by(TimeWindows.of_size(30, grace=10).advance_by(10))
        .aggregate(
            initializer=lambda: "",
            aggregator=lambda key, value, pages: None if value["ms"] == 13 else pages + value["page"][0],
            returns=Serde.string(),
            materialized=Materialized.as_("initials-store", store="in_memory"),
        )
        .to("initials")
    )
    (
        clicks.filter("ms >= 0")
        .group_by("page")
        .windowed_by(TimeWindows.of_size(30, grace=10).advance_by(10))
        .count(Materialized.as_("pages-store"))
        .suppress(Suppressed.until_window_closes(name="final-pages"))
        .to("pages")
    )
    return builder.build()


def tape(seed: int, records: int) -> list[LandedRecord]:
    """Out-of-order clicks with late ones, null keys, tombstones, bad keys, bad JSON, negative times and headers."""
    generator = random.Random(seed)
    rows, now = [], 100
    for _ in range(records):
        now += generator.choice((0, 1, 3, 9, 30))
        key = generator.choice((b"ann", b"bob", b"cid", b"d", b"ann", b"bob", None, b"no utf-8 \xff"))
        page = generator.choice(("home", "cart", "help"))
        value: bytes | None = b'{"page": "%s", "ms": %d}' % (page.encode(), generator.randrange(-3, 50))
        value = generator.choice((value,) * 9 + (None, b"no json"))
        time_ms = now - generator.choice((0, 0, 0, 2, 14, 60)) if generator.random() > 0.02 else -1
        headers = (("now", str(now).encode()),) if now % 4 == 0 else ()
        rows.append(LandedRecord(generator.randrange(PARTITIONS), key, value, time_ms, headers))
    return rows
