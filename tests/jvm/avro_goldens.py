"""Ask Avro's Java library for the cases of tests/state/serdes/avro, and write its answers beside them.

python -m tests.jvm.avro_goldens
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.jvm.streams import compiled
from tests.state.serdes.avro.random_schemas import Schemas
from tests.state.serdes.avro.written_cases import CASES

AVRO = "org.apache.avro:avro:1.12.1"
GOLDENS = Path(__file__).parents[1] / "state" / "serdes" / "avro" / "goldens.jsonl"
RANDOM = 400


def asked() -> list[dict[str, Any]]:
    """Cases by hand, then of random schemas; every second of these is read with the schema that it was written with."""
    found = [{"name": name} | case for name, case in CASES.items()]
    for seed in range(RANDOM):
        schemas = Schemas(seed)
        writer = schemas.record(0)
        datum = schemas.value(writer)
        reader = writer if seed % 2 else schemas.evolved(writer)
        found.append({"name": f"random {seed}", "writer": writer, "reader": reader, "datum": datum})
    return found


def answered(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cases with Java's bytes, and value or error."""
    text = "\n".join(json.dumps(case) for case in cases)
    with compiled(Path(__file__).with_name("AvroBytes.java"), packages=(AVRO,)) as command:
        said = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", check=False)
    assert said.returncode == 0, said.stderr
    answers = [json.loads(line) for line in said.stdout.splitlines()]
    return [case | answer for case, answer in zip(cases, answers, strict=True)]


def main() -> None:
    lines = [json.dumps(one, ensure_ascii=False) for one in answered(asked())]
    GOLDENS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
