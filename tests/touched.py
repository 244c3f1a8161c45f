"""The tests of the rooms that a change touches: `bash .ci/run changed` plays all of them beside the default tier.

    python -m tests.touched [COMMIT]     one path a line; COMMIT: where the change began, else the one before the last

Rule: a module's tests are in the folder of its room below tests/; a test file is its own, and a helper is its folder's.
"""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.sampling import ROOT

BESIDE = {
    "orchestration": ("tests/dagster",),
    "jobs/operators": ("tests/conformance", "tests/kafka_suite"),
    "jobs/kernels": ("tests/conformance", "tests/kafka_suite"),
    "jobs/tape": ("tests/laws/test_cut_law.py", "tests/conformance"),
    "jobs/replay": ("tests/laws/test_crash_law.py", "tests/laws/test_cut_law.py"),
    "jobs/execution": ("tests/laws/test_crash_law.py",),
    "state/tables": ("tests/laws/test_crash_law.py", "tests/laws/test_races.py", "tests/old_warehouses"),
}
"""Where more than a room's own tests show what it does."""


def touched(changed: Iterable[str], root: Path = ROOT) -> list[str]:
    """Test files and folders, sorted, none within another; paths are relative to ``root``, with slashes."""
    found = set[str]()
    for path in changed:
        found.update(_tests_of(path, root))
    return sorted(path for path in found if not any(path.startswith(f"{other}/") for other in found))


def _tests_of(path: str, root: Path) -> Iterable[str]:
    name, folder = Path(path).name, Path(path).parent
    if path.startswith("tests/"):
        if not (name.startswith("test_") and name.endswith(".py")):
            path = folder.as_posix()
        return [path] if path != "tests" and (root / path).exists() else []
    beside = [test for room, tests in BESIDE.items() if path.startswith(f"{room}/") for test in tests]
    below = [Path(*folder.parts[1:]) if folder.parts[:1] == ("jobs",) else folder]
    rooms = (Path("tests") / each for start in below for each in (start, *start.parents) if each != Path())
    own = next((room.as_posix() for room in rooms if (root / room).is_dir()), None)
    return [*beside, *([] if own is None else [own])]


def main() -> None:
    """Print what a change since a commit touches."""
    since = sys.argv[1] if len(sys.argv) > 1 else "HEAD~1"
    asked = ["git", "diff", "--name-only", "--no-renames", since]
    said = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    print("\n".join(touched(said.splitlines())))


if __name__ == "__main__":
    main()
