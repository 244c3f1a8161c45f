"""Landing dies anywhere while files come, change and grow; in the end every row of every file has landed once.

A seed chooses how often landings die, at which of their steps, and what happens to the folder between them. Expected
rows are worked out from the files alone.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kstreams_replay.jobs.landing import bad_rows, file_writing, given_up_plans, planned_writing, settling
from kstreams_replay.jobs.landing.bad_rows import landed_dead_letters
from kstreams_replay.jobs.landing.files import kept_records
from kstreams_replay.state.tables.ledger import LandingLedger
from tests.landing.file_folders import land
from tests.landing.landed_rows import KilledError, landed
from tests.sampling import sampled

SEEDS = range(50)
STEPS: list[tuple[Any, str]] = [
    (file_writing, "write_task_file"),
    (settling, "read_rows"),
    (planned_writing, "commit_files"),
    (bad_rows, "commit_files"),
    (given_up_plans, "write_mark"),
    (LandingLedger, "plan"),
    (LandingLedger, "plan_restatement"),
    (LandingLedger, "done"),
]
LANDINGS = 6
RULES = {"max_bad_share": 1}


@pytest.mark.slow
@pytest.mark.every_run
@pytest.mark.parametrize("seed", sampled(SEEDS))
def test_whenever_it_dies_every_row_lands_once(warehouse, tmp_path, monkeypatch, seed):
    dice, folder = random.Random(seed), Folder(tmp_path / "in", random.Random(seed + 1_000))
    for _ in range(LANDINGS):
        folder.add()
        with monkeypatch.context() as patch:
            if dice.random() < 0.8:
                _dies(patch, dice)
            try:
                land(warehouse, folder.path, key="k", partitions=2, rules=RULES)
            except KilledError:
                if not _is_committed(warehouse):
                    folder.change_what_is_new(_landed_names(warehouse))

    land(warehouse, folder.path, key="k", partitions=2, rules=RULES)

    rows = landed(warehouse, "t", "partition", "offset", "value")
    assert sorted(value for _, _, value in rows) == sorted(folder.good())
    for partition in (0, 1):
        offsets = [offset for p, offset, _ in rows if p == partition]
        assert sorted(offsets) == list(range(len(offsets)))
    assert sorted(landed_dead_letters(warehouse, "t")["bytes"].to_pylist()) == sorted(folder.bad())
    assert land(warehouse, folder.path, key="k", partitions=2, rules=RULES).increments == ()


@pytest.mark.slow
@pytest.mark.every_run
@pytest.mark.parametrize("seed", sampled(SEEDS))
def test_whenever_it_dies_every_offset_lands_once(warehouse, tmp_path, monkeypatch, seed):
    """Files come in any order, repeat rows of others, and overlap, with room for a few rows in memory."""
    dice, folder = random.Random(seed), Folder(tmp_path / "in", random.Random(seed + 1_000), repeats=0.3)
    monkeypatch.setattr(kept_records, "KEPT_BYTES", [0, 200, 1 << 28][seed % 3])
    monkeypatch.setattr(file_writing, "FILE_BYTES", dice.choice([60, 200, 128 << 20]))
    mapping = {"partition": "p", "partitions": 2, "offset": "n", "rules": RULES}
    for _ in range(LANDINGS):
        folder.add()
        with monkeypatch.context() as patch:
            if dice.random() < 0.8:
                _dies(patch, dice)
            try:
                land(warehouse, folder.path, **mapping)
            except KilledError:
                if not _is_committed(warehouse):
                    folder.change_what_is_new(_landed_names(warehouse))

    land(warehouse, folder.path, **mapping)

    rows = landed(warehouse, "t", "partition", "offset", "value")
    of = {line: json.loads(line) for line in folder.good()}
    assert rows == sorted((row["p"], row["n"], line) for line, row in of.items())
    assert sorted(landed_dead_letters(warehouse, "t")["bytes"].to_pylist()) == sorted(folder.bad())
    assert land(warehouse, folder.path, **mapping).increments == ()


class Folder:
    """Files of JSON lines, each line of its own; some are no records."""

    def __init__(self, path: Path, dice: random.Random, *, repeats: float = 0) -> None:
        self.path, self.dice, self.repeats = path, dice, repeats
        self.files: dict[str, list[bytes]] = {}
        self.lines = 0
        path.mkdir()

    def add(self) -> None:
        """A file or two, somewhere among the others."""
        for _ in range(self.dice.randrange(3)):
            name = f"{self.dice.choice('ab')}/{len(self.files):02d}-{self.dice.randrange(99):02d}.jsonl"
            lines = [self._line() for _ in range(self.dice.randrange(1, 6))]
            if self.repeats:
                lines += [line for line in self.good() if self.dice.random() < self.repeats]
                self.dice.shuffle(lines)
            self._write(name, lines)

    def change_what_is_new(self, landed_names: set[str]) -> None:
        """Files that have not landed may grow, become others, or go."""
        for name in sorted(set(self.files) - landed_names):
            match self.dice.randrange(5):
                case 0:
                    self._write(name, [*self.files[name], self._line()])
                case 1:
                    self._write(name, [self._line()])
                case 2:
                    (self.path / name).unlink()
                    del self.files[name]

    def good(self) -> list[bytes]:
        """Lines that are records."""
        return [line for lines in self.files.values() for line in lines if b"soon" not in line]

    def bad(self) -> list[bytes]:
        """Lines that are none."""
        return [line for lines in self.files.values() for line in lines if b"soon" in line]

    def _line(self) -> bytes:
        self.lines += 1
        time = "soon" if self.dice.random() < 0.2 else self.lines
        return json.dumps({"t": time, "k": f"k{self.lines % 5}", "p": self.lines % 2, "n": self.lines}).encode()

    def _write(self, name: str, lines: list[bytes]) -> None:
        self.files[name] = lines
        (self.path / name).parent.mkdir(exist_ok=True)
        (self.path / name).write_bytes(b"".join(line + b"\n" for line in lines))


def _dies(patch: pytest.MonkeyPatch, dice: random.Random) -> None:
    """One of the steps dies, at its first or second call, before it or after it."""
    place, name = dice.choice(STEPS)
    step: Callable[..., Any] = getattr(place, name)
    calls, dies_at, is_after = [0], dice.choice((1, 1, 2)), dice.random() < 0.5

    def dying(*arguments: Any, **keywords: Any) -> Any:
        calls[0] += 1
        if calls[0] == dies_at and not is_after:
            raise KilledError
        result = step(*arguments, **keywords)
        if calls[0] == dies_at:
            raise KilledError
        return result

    patch.setattr(place, name, dying)


def _is_committed(warehouse) -> bool:
    """Has a plan been committed whose done row is missing? Its files must not change any more."""
    pending = LandingLedger(warehouse.landing_ledger("t")).pending()
    return pending is not None and any(
        increment == pending.increment for (increment,) in landed(warehouse, "t", "increment")
    )


def _landed_names(warehouse) -> set[str]:
    """Names of files of done increments."""
    rows = LandingLedger(warehouse.landing_ledger("t")).rows()
    done = {row.increment for row in rows if row.phase == "done"}
    return {
        file["name"] for row in rows if row.phase == "planned" and row.increment in done for file in row.content.files
    }
