"""What a node says of records that wait in a buffer for a grace: a reordered stream, a join with a table as of a time.

Rule: a record goes as soon as stream time reaches its own time plus the grace, inclusive; it is known again by its key,
time, topic and offset.
"""

from typing import Any

from ...graph.graph import Node
from ...graph.observations import Observation, Row, Wait
from ...graph.wording import Wording


def records_waiting(node: Node, seen: Observation, grace_ms: int) -> list[Wait]:
    """Records that came in and are in the node's buffer afterwards."""
    return [
        node.wait(
            row.key,
            row.record_time_ms + grace_ms,
            record_time_ms=row.record_time_ms,
            coordinates=row.coordinates,
        )
        for row in seen.rows
        if any(_is_of(row, entry) for entry in seen.shows)
    ]


def say_waiting(node: Node, seen: Observation, say: Wording) -> list[str]:
    """What came in and waits, what continues at once, and what leaves because of it."""
    said = [
        f"{wait.key} of time {say.time(wait.record_time_ms or 0)} waits until {say.until(seen, wait)}"
        for wait in node.waits(seen)
    ]
    mine = {(row.coordinates, row.record_time_ms) for row in seen.rows}
    for row in seen.forwarded:
        verb = "goes on" if (row.coordinates, row.record_time_ms) in mine else "lets go"
        said.append(f"{verb}: {say.row(row)}, time {say.time(row.record_time_ms)}")
    return said or ([] if seen.refusals else ["forwards nothing"])


def _is_of(row: Row, entry: dict[str, Any]) -> bool:
    topic, offset = row.coordinates or (None, -1)
    return (entry["key"], entry["record_time_ms"], entry["topic"], entry["offset"]) == (
        row.key, row.record_time_ms, topic, offset,
    )  # fmt: skip
