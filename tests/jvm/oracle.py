"""Real Kafka Streams as an oracle: scenarios in, their results out."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.jvm.streams import STREAMS, TEST_UTILS, run_java

PROGRAMS = [Path(__file__).with_name(f"{name}.java") for name in ("Oracle", "Topologies", "Functions", "Deduplicate")]
_ASKED = ("name", "topology", "records")


def ask(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """``lines`` with what Kafka Streams makes of them as their ``result``."""
    text = "".join(json.dumps({field: line[field] for field in _ASKED}) + "\n" for line in lines)
    said = run_java(*PROGRAMS, packages=(STREAMS, TEST_UTILS), text=text).split("\n")
    return [line | {"result": json.loads(answer)["result"]} for line, answer in zip(lines, said[:-1], strict=True)]
