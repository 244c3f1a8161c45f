"""``python -m tests.conformance FILE…``: play scenario files and compare with what Kafka Streams said."""

import argparse
import re
import sys
import traceback
from pathlib import Path
from typing import Any

from tests.conformance.comparison import first_difference
from tests.conformance.engines import ENGINES
from tests.conformance.functions import NotCovered
from tests.conformance.scenarios import Scenario, read_scenarios

CUTS = ("none",)
"""Where a tape may be cut into increments; the driver plays it whole."""


def report(scenario: Scenario, engine: str = "driver", **options: Any) -> str | None:
    """Why ``scenario`` fails, or None when it passes. ``options`` are the engine's."""
    if scenario.want is None:
        return "  the line holds no result to compare with"
    try:
        got = ENGINES[engine](scenario, **options)
    except NotCovered as missing:
        return f"  NotCovered: {missing}"
    except Exception:
        return "  the engine raised:\n" + traceback.format_exc(limit=-4)
    difference = first_difference(scenario, scenario.want, got)
    return None if difference is None else str(difference)


def selected(paths: list[Path], only: str = "") -> list[Scenario]:
    """Scenarios of the files whose name or family matches the regular expression ``only``."""
    found = [scenario for path in paths for scenario in read_scenarios(path)]
    return [scenario for scenario in found if re.search(only, scenario.name) or re.search(only, scenario.family)]


def play_all(scenarios: list[Scenario], engine: str) -> tuple[int, int]:
    """(passed, failed); prints every failure."""
    passed = failed = 0
    for scenario in scenarios:
        why = report(scenario, engine)
        passed, failed = passed + (why is None), failed + (why is not None)
        if why is not None:
            print(f"FAILED {scenario.name}\n{why}\n")
    return passed, failed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help=".jsonl or .jsonl.gz, with results")
    parser.add_argument("--engine", choices=sorted(ENGINES), default="driver", help="what plays them")
    parser.add_argument("--cuts", choices=CUTS, default="none", help="where the tape is cut into increments")
    parser.add_argument("--only", default="", metavar="REGEX", help="play those whose name or family matches")
    chosen = parser.parse_args(arguments)
    passed, failed = play_all(selected(chosen.files, chosen.only), chosen.engine)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
