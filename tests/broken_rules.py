"""``python -m tests.broken_rules``: break one rule of each operator family, one at a time, and see a test fail.

Owns the list. Rule: a change is made in a copy of the checkout; its old text is in one file of the packages, so
that it is found wherever that file lies. Kernels run interpreted in it, since Numba's cache does not see that a kernel
changed which others inline. What is run is the part of the default tier that asks operators: scenarios of Kafka
Streams, then the operators' own tests and those of the DSL. Exit code 1: a broken rule was not noticed.
tests/silences.py has more rules, each with its own test.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.source_tree import copy_checkout, files, text_of

ASKED = ("tests/conformance/test_goldens.py", "tests/operators", "tests/topology")
"""What is run against a broken rule, in this order."""


@dataclass(frozen=True)
class BrokenRule:
    """``old``: text of one line of one file; ``new``: what it is changed to. ``noticed_by``: the test that is to fail,
    in the whole tier; None: any of ASKED, in the default tier.
    """

    family: str
    rule: str
    old: str
    new: str
    noticed_by: str | None = None


RULES = [
    BrokenRule(
        "filter", "where the predicate is null the record is not forwarded",
        "answers = pc.fill_null(self.node.predicate.evaluate(batch), False)",
        "answers = pc.fill_null(self.node.predicate.evaluate(batch), True)",
    ),
    BrokenRule(
        "time windows", "a window takes records while end > stream time - grace",
        "if end <= close:", "if end < close:",
    ),
    BrokenRule(
        "session windows", "sessions exactly one gap apart are one",
        "while slot != NO_SLOT and slots.end[slot] >= horizon:", "while slot != NO_SLOT and slots.end[slot] > horizon:",
    ),
    BrokenRule(
        "sliding windows", "a record is refused only when time + difference < stream time - grace",
        "if t + difference < close:", "if t + difference <= close:",
    ),
    BrokenRule(
        "emit on window close", "a window closes at end <= close, not before",
        "return row > 0 and closing.done < end and end <= closing.closed[row - 1]",
        "return row > 0 and closing.done < end and end < closing.closed[row - 1]",
    ),
    BrokenRule(
        "suppress", "an entry leaves when its time <= stream time - wait",
        "if n > 0 and e_due[slot] <= limit:", "if n > 0 and e_due[slot] < limit:",
    ),
    BrokenRule(
        "suppress, full buffer", "a buffer emits early only above its limit",
        "leaves = counts[LIVE_COUNT] > limits[0] or size > limits[1]",
        "leaves = counts[LIVE_COUNT] >= limits[0] or size > limits[1]",
    ),
    BrokenRule(
        "deduplicate", "a record exactly one interval later is a duplicate",
        "if abs(time[row] - s_time[slot]) <= interval:", "if abs(time[row] - s_time[slot]) < interval:",
    ),
    BrokenRule(
        "stream-stream join", "records exactly at the window's end join",
        "if (at == end and not is_late) or pool[other, TIME] > until:",
        "if (at == end and not is_late) or pool[other, TIME] >= until:",
    ),
    BrokenRule(
        "stream-table join with grace", "a record waits until stream time has passed it by the grace",
        "is_late, row = (arrived.time_ms < passed[:-1]) | ~has_key",
        "is_late, row = (arrived.time_ms > passed[:-1]) | ~has_key",
    ),
    BrokenRule(
        "global table and plain table", "a stream's record sees the newest put before it",
        "put = newest[slot] - 1", "put = -1",
    ),
    BrokenRule(
        "versioned table", "a version is valid up to its end, exclusive",
        "if past >= 0 and end[past] > time:", "if past >= 0 and end[past] >= time:",
    ),
    BrokenRule(
        "table-table join", "an outdated change of a versioned table is not forwarded",
        "rows = np.flatnonzero(~batch.latest).astype(np.int32)", "rows = np.flatnonzero(batch.latest).astype(np.int32)",
    ),
    BrokenRule(
        "foreign-key join", "a new key subscribes and the old one is left",
        "to_old = np.where((old_key >= 0) & (old_key != new_key), Instruction.DELETE_NO_PROPAGATE, _NOTHING)",
        "to_old = np.where((old_key >= 0) & (old_key == new_key), Instruction.DELETE_NO_PROPAGATE, _NOTHING)",
    ),
    BrokenRule(
        "table aggregate", "the result's time is the newest of its records'",
        "time = time_ms if aggregate is None else max(time_ms, int(self.slots.time[slot]))",
        "time = time_ms if aggregate is None else min(time_ms, int(self.slots.time[slot]))",
    ),
    BrokenRule(
        "table filter", "a row that was never forwarded makes no tombstone",
        "goes = changed.valid | before.valid", "goes = changed.valid | ~before.valid",
    ),
    BrokenRule(
        "group by of a table", "the old row is taken back before the new one is added",
        "picked = np.flatnonzero(np.stack([has_old & ~is_one, has_new], axis=1))",
        "picked = np.flatnonzero(np.stack([has_new, has_old & ~is_one], axis=1))",
    ),
    BrokenRule(
        "aggregates' folds", "a minimum takes the smaller number",
        "(number < state[s] if kind == MIN else", "(number <= state[s] + 1 if kind == MIN else",
    ),
    BrokenRule(
        "distinct", "a record without an id is refused",
        "parts = [batch.keys.typed(batch.key), ids, pa.array(numbers, mask=~has_none)]",
        "parts = [batch.keys.typed(batch.key), ids, pa.array(numbers, mask=has_none)]",
    ),
    BrokenRule(
        "reorder", "a record exactly at stream time - grace is in time",
        "is_late = batch.time_ms < passed", "is_late = batch.time_ms <= passed",
    ),
    BrokenRule(
        "processor", "a punctuation is due at its time, not after",
        "bool(self._heap) and self._heap[0].due_ms <= now_ms", "bool(self._heap) and self._heap[0].due_ms < now_ms",
        "tests/operators/processor/test_wall_clock.py",  # in other tests the task waits for a call that never comes
    ),
]  # fmt: skip


def place_of(rule: BrokenRule) -> str:
    """The file that holds the rule. LookupError: none does, or several."""
    packages = ("jobs/", "state/", "expectations/", "orchestration/")
    found = [
        path for path in files() if path.startswith(packages) and path.endswith(".py") and rule.old in text_of(path)
    ]
    if len(found) != 1:
        raise LookupError(f"{rule.family}: expected {rule.old!r} in one file, got {found}")
    return found[0]


def noticed_by(rule: BrokenRule, scratch: Path) -> str | None:
    """The first test that fails when the rule is broken; None: all pass."""
    copy = scratch / re.sub(r"\W+", "-", rule.family)
    shutil.rmtree(copy, ignore_errors=True)  # of another rule
    copy_checkout(copy)
    broken = copy / place_of(rule)
    broken.write_text(broken.read_text(encoding="utf-8").replace(rule.old, rule.new), encoding="utf-8")
    environment = {
        **os.environ, "PYTHONPATH": str(copy), "REPLAY_KERNELS": "interpreted",
        "NUMBA_CACHE_DIR": str(copy / "numba"),
    }  # fmt: skip
    asked = ASKED
    if rule.noticed_by is not None:
        asked, environment["REPLAY_TIER"] = (rule.noticed_by,), "whole"
    said = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "--no-header", "-rf", *asked],
        cwd=copy, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    failed = re.search(r"^FAILED (\S+(?: [^-]\S*)*)", said.stdout, re.MULTILINE)
    if failed is not None:
        return failed[1]
    if said.returncode != 0:
        raise RuntimeError(f"{rule.family}: the tests could not be run\n{said.stdout[-2000:]}{said.stderr[-2000:]}")
    return None


def main(rules: Sequence[BrokenRule], words: str | None, arguments: list[str] | None = None) -> int:
    """Break ``rules`` one after the other; ``words``: of the program."""
    parser = argparse.ArgumentParser(description=words)
    parser.add_argument("--only", default="", help="families whose name has this in it")
    chosen = parser.parse_args(arguments)
    unnoticed = 0
    with tempfile.TemporaryDirectory(prefix="broken-rules-") as scratch:
        for rule in rules:
            if chosen.only not in rule.family:
                continue
            began = time.monotonic()
            test = noticed_by(rule, Path(scratch))
            unnoticed += test is None
            found = "NOT NOTICED" if test is None else test
            print(f"{rule.family}: {rule.rule}: {found} ({time.monotonic() - began:.0f} s)", flush=True)
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main(RULES, __doc__))
