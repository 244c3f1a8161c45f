"""Folders of files for tests of landing, and landings that die."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kstreams_replay.jobs.landing import in_place, planned_writing
from kstreams_replay.jobs.landing.landing import FileSource, LandingReport, LandingRules, land_files
from kstreams_replay.state.tables.ledger import LandingLedger
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.landing.landed_rows import KilledError

NOON = 1_767_268_800_000
"""2026-01-01T12:00:00Z: what the machine's clock shows in tests."""


def write(directory: Path, files: Mapping[str, str | bytes]) -> Path:
    """``files`` by their path below ``directory``."""
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return directory


def land(
    warehouse: Warehouse, directory: Path, *, topic: str = "t", rules: Mapping[str, Any] | None = None, **mapping: Any
) -> LandingReport:
    """Land ``directory`` in this process, at ``NOON``; column `t` is the time unless another one is given."""
    source = FileSource(str(directory), **{"timestamp": "t", **mapping})
    return land_files(None, warehouse, topic, source, rules=LandingRules(**(rules or {})), clock_ms=lambda: NOON)


@contextmanager
def dies(monkeypatch: pytest.MonkeyPatch, *, in_: str) -> Iterator[None]:
    """A landing in this block dies: ``in_`` "before_the_commit" or "between_commit_and_ledger"."""

    def die(*_: Any, **__: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        if in_ == "before_the_commit":
            patch.setattr(planned_writing, "commit_files", die)
            patch.setattr(in_place, "commit_files", die)
        else:
            patch.setattr(LandingLedger, "done", die)
        with pytest.raises(KilledError):
            yield
