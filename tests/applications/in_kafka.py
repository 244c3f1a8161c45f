"""Tapes through the twins of applications on Kafka Streams itself (Applications.java)."""

import json
import subprocess
from pathlib import Path

from tests.jvm.streams import STREAMS, TEST_UTILS, compiled
from tests.playing import Outputs, Tape, Tick, WrittenRecord


def play_in_kafka(application: str, tape: Tape) -> Outputs:
    """What Kafka Streams writes, by topic: keys and values as JSON has them."""
    lines = [
        {"tick": one.time_ms}
        if isinstance(one, Tick)
        else {"topic": one.topic, "key": one.key, "value": one.value, "time": one.time_ms}
        for one in tape
    ]
    asked = "\n".join(map(json.dumps, lines))
    with compiled(Path(__file__).with_name("Applications.java"), packages=(STREAMS, TEST_UTILS)) as command:
        said = subprocess.run(
            [*command, application], input=asked, capture_output=True, text=True, encoding="utf-8", check=False
        )
    assert said.returncode == 0, said.stderr
    found: Outputs = {}
    for line in said.stdout.splitlines():
        if line.startswith("written "):
            row = json.loads(line.removeprefix("written "))
            found.setdefault(row["topic"], []).append(WrittenRecord(row["key"], row["value"], row["time"]))
    return found
