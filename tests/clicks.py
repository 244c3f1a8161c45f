"""Clicks of pages by user, and what most of our pipelines of them have: final sessions, and counts of every page.

Times in milliseconds. Sessions: gap 20, grace 15; pages: tumbling 30, grace 10 if not given.
"""

from typing import Any

from kstreams_replay.jobs.topology import (
    Consumed,
    KStream,
    KTable,
    Materialized,
    Serde,
    SessionWindows,
    Suppressed,
    TimeWindows,
)

CLICKS = Consumed(Serde.string(), Serde.json("page string, ms long"))


def final_sessions(clicks: KStream, /, *, store: str, held: str, **folds: Any) -> KTable:
    """Sessions of every user in ``store``, each with ``folds``; they wait in the suppress ``held`` until they close."""
    return (
        clicks.group_by_key()
        .windowed_by(SessionWindows.with_inactivity_gap(20, grace=15))
        .aggregate(**folds, materialized=Materialized.as_(store))
        .suppress(Suppressed.until_window_closes(name=held))
    )


def page_counts(clicks: KStream, *, store: str, grace: int = 10) -> KTable:
    """Clicks of every page in ``store``, window by window, as they come."""
    windows = TimeWindows.of_size(30, grace=grace)
    return clicks.group_by("page").windowed_by(windows).count(Materialized.as_(store))


def final_page_counts(clicks: KStream, *, store: str, held: str, grace: int = 10) -> KTable:
    """Clicks of every page, window by window; they wait in the suppress ``held`` until their window closes."""
    return page_counts(clicks, store=store, grace=grace).suppress(Suppressed.until_window_closes(name=held))
