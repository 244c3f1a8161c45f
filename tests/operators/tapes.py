"""Tapes: input records and wanted outcomes as small text tables.

A table's first line names the columns; ``#`` begins a remark; ``-`` is null; what looks like an integer is one.
``play`` runs a tape through TopologyTestDriver as one batch; its answers are rendered like the wanted table, so that a
failing test shows the row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, KStream, KTable, Serde, StreamsBuilder, Topology
from tests.playing import InputRecord

Row = dict[str, Any]
Build = Callable[[KStream], KStream | KTable]
NULL = "-"


def parse(text: str) -> list[Row]:
    """Rows of a table as dicts of text."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    header, *rows = [[cell.strip() for cell in line.split("|")] for line in lines if line]
    for row in rows:
        assert len(row) == len(header), f"{row} has not the columns {header}"
    return [dict(zip(header, row, strict=True)) for row in rows]


def render(rows: list[Row], columns: list[str]) -> str:
    """Rows as an aligned table."""
    cells = [columns, *([_text(row[column]) for column in columns] for row in rows)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(columns))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    return "\n".join(lines)


def table(text: str) -> str:
    """A wanted table as ``render`` writes it."""
    rows = parse(text)
    header = [
        cell.strip() for cell in next(line for line in text.splitlines() if line.strip()).partition("#")[0].split("|")
    ]
    return render(rows, header)


def value_of(cell: str) -> Any:
    """None, an int, or text."""
    if cell == NULL:
        return None
    return int(cell) if cell.lstrip("-").isdigit() else cell


def _text(value: Any) -> str:
    return NULL if value is None else str(value)


def window_text(window: tuple[int, int] | None, kind: str | None) -> str | None:
    """``[0, 10)`` of a time window, whose end is exclusive, ``[0, 10]`` of a session."""
    if window is None:
        return None
    return f"[{window[0]}, {window[1]}{')' if kind == 'time' else ']'}"


@dataclass
class PlayedTape:
    """What a tape caused. Steps count from 1, as in a tape's first column."""

    driver: TopologyTestDriver
    window: str | None

    def outputs(self, *columns: str) -> str:
        """Default columns: step, key, window (if there is one), value, time_ms."""
        rows = [
            {
                "step": record.arrival + 1,
                "key": record.key,
                "window": window_text(record.window, self.window),
                "value": record.value,
                "time_ms": record.timestamp_ms,
            }
            for record in self.driver.read_outputs("out")
        ]
        default = ["step", "key", *(["window"] if self.window else []), "value", "time_ms"]
        return render(rows, list(columns) or default)

    def dropped(self, *columns: str, window: str | None = "time") -> str:
        """Default columns: step, reason, window, stream_time_ms, limit_ms."""
        self.driver.run()
        rows = [
            row._asdict() | {"step": row.arrival + 1, "window": window_text(row.window, window)}
            for row in self.driver.dropped
        ]
        return render(rows, list(columns) or ["step", "reason", "window", "stream_time_ms", "limit_ms"])


def topology_of(build: Build, *, value: Serde | None = None) -> tuple[Topology, str | None]:
    """One stream from topic ``in`` through ``build`` to topic ``out``; and the kind of window of its result."""
    builder = StreamsBuilder()
    result = build(builder.stream("in", Consumed(Serde.string(), value or Serde.long())))
    result.to("out")
    return builder.build(), result.shape.window


def play(build: Build, tape: str, *, value: Serde | None = None, **options: Any) -> PlayedTape:
    """Run ``tape`` through ``build``; ``options`` are the driver's."""
    topology, window = topology_of(build, value=value)
    return piped(TopologyTestDriver(topology, **options), tape, window)


def piped(driver: TopologyTestDriver, tape: str, window: str | None = None) -> PlayedTape:
    """``tape`` as input of ``driver``; ``window``: kind of window of the output's keys."""
    for record in tape_of(tape):
        driver.pipe_input(record.topic, record.key, record.value, record.time_ms)
    return PlayedTape(driver, window)


def tape_of(text: str) -> list[InputRecord]:
    """Columns key (always text), time_ms, perhaps topic (else it is ``in``), perhaps value (else it is the step)."""
    return [
        InputRecord(
            row.get("topic", "in"),
            None if row["key"] == NULL else row["key"],
            value_of(row["value"] if "value" in row else row["step"]),
            int(row["time_ms"]),
        )
        for row in parse(text)
    ]
