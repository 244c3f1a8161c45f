"""Scenario files: JSON lines, each a topology, its input records and what Kafka Streams made of them.

Owns the reading of the files. The language is described in goldens/README.md.
"""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Record = dict[str, Any]
"""``topic``, ``key``, ``value``, ``ts``, perhaps ``offset``."""

GOLDENS = Path(__file__).with_name("goldens")
REGRESSIONS = Path(__file__).with_name("regressions")
"""Random scenarios that failed once, with what Kafka Streams said."""


@dataclass(frozen=True)
class Scenario:
    """``want``: what Kafka Streams made of it, or None when the file does not say. ``sensitive``: tags of the line.

    ``family``: what it is about, as the line says, or else the name without its number. ``kafka``: the version of
    Kafka Streams that made it.
    """

    name: str
    topology: dict[str, Any]
    records: list[Record]
    want: dict[str, Any] | None
    sensitive: tuple[str, ...]
    family: str = ""
    kafka: str | None = None


def read_scenarios(path: Path) -> list[Scenario]:
    """Scenarios of a ``.jsonl`` or ``.jsonl.gz`` file, in order."""
    written = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [scenario_of(json.loads(line)) for line in written.split(b"\n") if line.strip()]


def scenario_of(line: dict[str, Any]) -> Scenario:
    """One line of a golden file."""
    family = line.get("family") or line["name"].rpartition("/")[0] or "examples"
    sensitive = tuple(line.get("sensitive", ()))
    want, kafka = line.get("result"), line.get("kafka")
    return Scenario(line["name"], line["topology"], line["records"], want, sensitive, family, kafka)
