"""What is not played, and why: ``left_out.txt`` has a line ``pattern: reason`` for each.

Rule: a tape is played or it is there; nothing is left out silently.
"""

from pathlib import Path

from tests.kafka_suite.tapes import RecordedTape
from tests.kafka_suite.topologies import is_like

LEFT_OUT = Path(__file__).parent / "left_out.txt"


def reasons() -> dict[str, str]:
    """By pattern of a tape's name."""
    lines = LEFT_OUT.read_text(encoding="utf-8").splitlines()
    parts = (line.partition(": ") for line in lines if line and not line.startswith("#"))
    return {pattern: reason for pattern, _, reason in parts}


def reason_of(tape: RecordedTape) -> str | None:
    """Why the tape is not played, or None."""
    found = [reason for pattern, reason in reasons().items() if is_like(tape, pattern)]
    return found[0] if found else None
