"""Settings of one run in Dagster, as its launchpad shows them, and what they mean for a replay.

Owns their words and what contradicts. Rule: what is not set here is as the pipeline's definitions say. A setting that
acts once (`advance`, `flush`, `migrate`, `renamed`) does nothing where it was fulfilled before. So a retry, or the
same run launched again, does nothing a second time. `restore` is kept by its run (partitioned/restoring.py).
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum

import dagster as dg
from pydantic import Field

from ...jobs.code_changes.state_migration import MigrationOptions
from ...state.errors import ConfigError
from ...state.times import instant_ms
from .topology_loading import load_function


class Idle(Enum):
    """What becomes of records that a lagging partition may still have to precede."""

    wait = "wait"
    proceed = "proceed"


class RunSettings(dg.Config):
    """What may be set for any run of a pipeline."""

    max_records: int | None = Field(
        None, description="Cut into increments of at most so many records. Results do not depend on it."
    )
    idle: Idle | None = Field(
        None,
        description="Records that a lagging partition may still have to precede: `wait` keeps them for a later run, "
        "`proceed` takes them now.",
    )
    advance: dict[str, str] = Field(
        {},
        description="Topic to time (ISO 8601, without a zone UTC; or milliseconds): record, before the replay, that "
        "stream time of the topic has reached it, so that windows of a quiet topic close. Every replay repeats it.",
    )
    migrate: dict[str, str] = Field(
        {},
        description="Changed code: store to `module:function` or `file.py:function`, which makes the store's new rows "
        "of its old ones (each an Arrow table).",
    )
    renamed: dict[str, str] = Field(
        {},
        description='Changed code: the rows of a store belong to another one now, old name to new name; "" as the new '
        "name lets the rows go.",
    )
    dry_run: bool = Field(
        False,
        description="Land nothing and write nothing: say what a run would read, what would wait, and what changed code "
        "means for the state.",
    )


class ReplayConfig(RunSettings):
    """Of a pipeline without partitions."""

    until: str | None = Field(
        None,
        description="Read of each partition what is before its first record, or recorded time, of that time or later "
        "(ISO 8601, without a zone UTC; or milliseconds).",
    )
    flush: bool = Field(
        False,
        description="History is closed: take all that waits, and close all windows. The pipeline takes no records "
        "after that.",
    )


class PartitionConfig(RunSettings):
    """Of a pipeline with partitions, whose ends say until when a run reads."""

    restore: bool = Field(
        False,
        description="Run again what was run before: the first partition of the run and all later ones are withdrawn, "
        "and must run again. A dry run says how many they are.",
    )


@dataclass(frozen=True)
class RequestedRun:
    """Settings as a replay takes them. ``advance``: topic to milliseconds."""

    max_records: int | None = None
    increments: int | None = None
    idle: str = "wait"
    until_ms: int | None = None
    flush: bool = False
    advance: dict[str, int] = field(default_factory=dict)
    wanted: MigrationOptions | None = None
    dry_run: bool = False


def asked_of(
    config: RunSettings, *, max_records: int | None, increments: int | None, idle: str, topics: Collection[str]
) -> RequestedRun:
    """What ``config`` asks for over the pipeline's own settings. ConfigError for what cannot be, or contradicts.

    ``topics``: that the pipeline reads or lands.
    """
    until = config.until if isinstance(config, ReplayConfig) else None
    is_flush = isinstance(config, ReplayConfig) and config.flush
    if config.max_records is not None and config.max_records < 1:
        raise ConfigError("max_records", "1 or more", str(config.max_records), "give a larger number, or leave it out")
    if is_flush and until is not None:
        raise ConfigError(
            "flush", "no `until` beside it", f"until {until}", "close history when all of it was read, or leave it open"
        )
    if is_flush and config.idle is Idle.wait:
        raise ConfigError(
            "flush", 'no `idle: "wait"` beside it', '"wait"', "when history is closed, nothing waits any more"
        )
    unknown = sorted(set(config.advance) - set(topics))
    if unknown:
        raise ConfigError("advance", f"topics of the pipeline, {', '.join(topics)}", ", ".join(unknown), "correct them")
    if config.dry_run and config.advance:
        raise ConfigError(
            "advance", "no `dry_run` beside it", "both", "a recorded time stays for ever: leave one of them out"
        )
    return RequestedRun(
        max_records=config.max_records if config.max_records is not None else max_records,
        increments=increments,
        idle="proceed" if is_flush else idle if config.idle is None else config.idle.value,
        until_ms=None if until is None else instant_ms(until, "until"),
        flush=is_flush,
        advance={topic: instant_ms(time, f"advance, topic {topic!r}") for topic, time in config.advance.items()},
        wanted=MigrationOptions(
            {store: load_function(name) for store, name in config.migrate.items()},
            {old: new or None for old, new in config.renamed.items()},
        ),
        dry_run=config.dry_run,
    )


def refuse_without_tables(config: RunSettings) -> None:
    """ConfigError for settings of a replay in a run that replays nothing, so that nobody takes them for done."""
    given = sorted(name for name, value in config.model_dump(exclude_defaults=True).items() if value not in (None, {}))
    if given:
        raise ConfigError(
            ", ".join(given), "a run that replays", "a selection of landed topics alone",
            "select one of the pipeline's tables, too",
        )  # fmt: skip
