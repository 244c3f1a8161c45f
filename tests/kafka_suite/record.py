"""Records the tapes again: Kafka's published unit tests, run with a watched ``TopologyTestDriver`` (Java and Maven).

    .venv/bin/python -m tests.kafka_suite.record                      # all classes of classes.txt
    .venv/bin/python -m tests.kafka_suite.record KTableFilterTest     # some of them

Rule: every test runs twice, as it is and without store caches, which the engine here does not have (what they give
depends on when Kafka commits). A tape is of the test as it is where the caches change nothing, else without, and says
so. Of Kafka's tests only the input and the output are kept. Whatever differs from run to run (the clock, the
names of folders and of applications) is left out, so that recording again changes nothing.
"""

import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.kafka_suite.tapes import TAPES
from tests.quick_java import QUICK_JAVA

Line = dict[str, Any]
HERE = Path(__file__).parent
RECORDER = HERE / "recorder"
CLASSES = HERE / "classes.txt"
PACKAGE = "org.apache.kafka.streams."
CLOCK_MS = 10**12
"""A test driver's clock begins now unless the test says when, which is near 0 then."""


def classes(names: list[str]) -> list[str]:
    """Full names of the test classes; all if none is named. ValueError for one that is not in classes.txt."""
    known = [line for line in CLASSES.read_text(encoding="utf-8").splitlines() if line]
    unknown = [name for name in names if not any(each.endswith(name) for each in known)]
    if unknown:
        raise ValueError(f"expected names of {CLASSES.name}, got {', '.join(unknown)}: add them there")
    return [PACKAGE + each for each in known if not names or any(each.endswith(name) for name in names)]


def record(names: list[str]) -> list[Line]:
    """Run Maven, javac and the recorder, twice."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        shutil.copy(RECORDER / "pom.xml", scratch)
        _run(["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"], scratch)
        (scratch / "classes").mkdir()
        shutil.copy(RECORDER / "log4j2.properties", scratch / "classes")
        sources = [str(path) for path in sorted(RECORDER.glob("*.java"))]
        _run(["javac", "-nowarn", "-encoding", "UTF-8", "-cp", "jars/*", "-d", "classes", *sources], scratch)
        java = ["java", *QUICK_JAVA, f"-Djava.io.tmpdir={folder}", "-Dfile.encoding=UTF-8", "-cp", "classes:jars/*"]
        _run([*java, "Recorder", "as_they_are.jsonl", *names], scratch)
        _run([*java, "-Drecorder.without.caches=true", "Recorder", "without_caches.jsonl", *names], scratch)
        return without_effects_of_caches(
            *(lines_of(scratch / f"{name}.jsonl") for name in ("as_they_are", "without_caches"))
        )


def lines_of(path: Path) -> list[Line]:
    """What the recorder wrote."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def without_effects_of_caches(as_they_are: list[Line], without_caches: list[Line]) -> list[Line]:
    """Each tape as the test is where both show the same, else the one without caches, which says ``caches: off``."""
    others = {_name(line): line for line in without_caches}
    tapes = []
    for line in as_they_are:
        other = others[_name(line)]
        same = all(line.get(part) == other.get(part) for part in ("events", "at_end", "dropped"))
        tapes.append(line if same else {**other, "result": line["result"], "caches": "off"})
    return tapes


def _name(line: Line) -> tuple[Any, ...]:
    return tuple(line.get(part) for part in ("class", "method", "parameters", "driver"))


def _run(command: list[str], folder: Path) -> None:
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if said.returncode:
        raise RuntimeError(f"{' '.join(command[:3])} failed:\n{said.stdout[-2000:]}{said.stderr[-2000:]}")
    print(said.stdout.strip())


def keep(lines: list[Line]) -> None:
    """One file a test class."""
    by_class: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        if line.get("wall_clock_ms", 0) > CLOCK_MS:
            del line["wall_clock_ms"]
        line.pop("failure", None)
        by_class[line["class"].rpartition(".")[2]].append(json.dumps(line, ensure_ascii=False))
    TAPES.mkdir(exist_ok=True)
    for name, of_class in by_class.items():
        text = "".join(f"{line}\n" for line in sorted(of_class))
        (TAPES / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    keep(record(classes(sys.argv[1:])))
