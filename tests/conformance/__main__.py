"""``python -m tests.conformance FILE…``: play scenario files and compare with what Kafka Streams said."""

import argparse
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.conformance.comparison import first_difference
from tests.conformance.engines import Result, play_with_driver
from tests.conformance.functions import NotCovered
from tests.conformance.scenarios import Scenario, read_scenarios
from tests.conformance.tables_engine import play_with_spark, play_with_tables

ENGINES: dict[str, Callable[..., Result]] = {
    "driver": play_with_driver,
    "tables": play_with_tables,
    "spark": play_with_spark,
}
_THREADS = {"driver": 1, "tables": 2, "spark": 6}
"""A scenario in tables waits for files, one on Spark for Spark."""


def cuts(text: str) -> str:
    """``none``, ``every`` or ``random:SEED``."""
    if re.fullmatch(r"none|every|random:\d+", text) is None:
        raise argparse.ArgumentTypeError(f"expected none, every or random:SEED, got {text!r}")
    return text


def engine_of(name: str, cuts: str) -> tuple[str, dict[str, Any]]:
    """Engine and its options; a tape that is cut goes through tables."""
    return (
        (name, {}) if name == "driver" and cuts == "none" else ("tables" if name == "driver" else name, {"cuts": cuts})
    )


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


def reports(scenarios: Sequence[Scenario], engine: str = "driver", **options: Any) -> Iterator[str | None]:
    """``report`` of every scenario, in order."""
    with ThreadPoolExecutor(_THREADS[engine]) as threads:
        yield from threads.map(lambda scenario: report(scenario, engine, **options), scenarios)


def selected(paths: list[Path], only: str = "") -> list[Scenario]:
    """Scenarios of the files whose name or family matches the regular expression ``only``."""
    found = [scenario for path in paths for scenario in read_scenarios(path)]
    return [scenario for scenario in found if re.search(only, scenario.name) or re.search(only, scenario.family)]


def play_all(scenarios: list[Scenario], engine: str, **options: Any) -> tuple[int, int]:
    """(passed, failed); prints every failure."""
    passed = failed = 0
    for scenario, why in zip(scenarios, reports(scenarios, engine, **options), strict=True):
        passed, failed = passed + (why is None), failed + (why is not None)
        if why is not None:
            print(f"FAILED {scenario.name}\n{why}\n")
    return passed, failed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help=".jsonl or .jsonl.gz, with results")
    parser.add_argument("--engine", choices=sorted(ENGINES), default="driver", help="what plays them")
    parser.add_argument("--cuts", type=cuts, default="none", help="none, every or random:SEED: increments of the tape")
    parser.add_argument("--only", default="", metavar="REGEX", help="play those whose name or family matches")
    chosen = parser.parse_args(arguments)
    engine, options = engine_of(chosen.engine, chosen.cuts)
    passed, failed = play_all(selected(chosen.files, chosen.only), engine, **options)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
