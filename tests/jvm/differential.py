"""``python -m tests.jvm.differential``: random scenarios through real Kafka Streams and through this project.

Rule: of every topology that differs one tape is shown; it is made small and written to tests/conformance/regressions,
where test_goldens plays it from then on.
"""

import argparse
import json
import random
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from kstreams_replay.state.kafka_version import JUDGE
from tests.conformance.__main__ import report
from tests.conformance.scenarios import REGRESSIONS, scenario_of
from tests.jvm.oracle import Oracle, open_oracle
from tests.jvm.random_scenarios import scenarios
from tests.jvm.shrinking import shrunk

Line = dict[str, Any]
_AT_ONCE = 500


def why_of(line: Line) -> str | None:
    """Why a line with its result fails, or None."""
    return report(scenario_of(line))


def failures(oracle: Oracle, lines: Sequence[Line]) -> Iterator[tuple[Line, str]]:
    """Lines, with Kafka's result, on which the two differ, and how."""
    for line in oracle.ask(lines):
        why = why_of(line)
        if why is not None:
            yield line, why


def made_small(oracle: Oracle, line: Line) -> Line:
    """The smallest scenario found on which the two differ, and that Kafka Streams ends as it ends ``line``."""
    ending = _ending(line)

    def failing(candidates: Sequence[Line]) -> list[Line]:
        return [found for found, _ in failures(oracle, candidates) if _ending(found) == ending]

    return shrunk(line, failing)


def _ending(line: Line) -> tuple[str | None, str | None]:
    return line["result"].get("phase"), line["result"].get("error")


def written(line: Line, directory: Path) -> Path:
    path = directory / f"{re.sub(r'[^a-z0-9]+', '-', line['name'])}.jsonl"
    directory.mkdir(exist_ok=True)
    path.write_text(json.dumps({"kafka": JUDGE, **line}, ensure_ascii=False) + "\n")
    return path


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.jvm.differential", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9), help="of the first topology")
    parser.add_argument("--scenarios", type=int, default=2_000, metavar="N")
    parser.add_argument("--tapes", type=int, default=4, metavar="N", help="for each topology")
    only = "topologies that have such an operator or parameter"
    parser.add_argument("--only", default="", metavar="REGEX", help=only)
    parser.add_argument("--shrink", type=int, default=5, metavar="N", help="make a failure of so many topologies small")
    parser.add_argument("--keep", type=Path, default=REGRESSIONS, metavar="FOLDER", help="where these are written")
    chosen = parser.parse_args(arguments)
    print(f"seed {chosen.seed}", flush=True)
    failed, topologies = 0, set[str]()
    with open_oracle() as oracle:
        waiting = _lines(chosen)
        while lines := list(islice(waiting, _AT_ONCE)):
            for line, why in failures(oracle, lines):
                failed += 1
                topology = json.dumps(line["topology"])
                if topology in topologies:
                    continue
                topologies.add(topology)
                if len(topologies) <= chosen.shrink:
                    line = made_small(oracle, line)
                    why = f"{why_of(line)}\n  {written(line, chosen.keep)}"
                print(f"FAILED {line['name']}\n{why}\n", flush=True)
    print(f"{chosen.scenarios - failed} passed, {failed} failed")
    return 1 if failed else 0


def _lines(chosen: argparse.Namespace) -> Iterator[Line]:
    seed, left = chosen.seed, chosen.scenarios
    while left > 0:
        lines = scenarios(seed, chosen.tapes)[:left]
        seed += 1
        if any(re.search(chosen.only, " ".join([node["op"], *node])) for node in lines[0]["topology"]["nodes"]):
            left -= len(lines)
            yield from lines


if __name__ == "__main__":
    sys.exit(main())
