"""What tests of landing may ask for."""

from pathlib import Path

import pytest


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """An empty folder for files to land."""
    path = tmp_path / "in"
    path.mkdir()
    return path
