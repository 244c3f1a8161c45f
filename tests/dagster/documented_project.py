"""The project that docs/your-pipeline-in-dagster.md builds, block by block."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.source_tree import ROOT

PAGE = ROOT / "docs" / "your-pipeline-in-dagster.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)\n```$", re.DOTALL | re.MULTILINE)


def blocks() -> Iterator[tuple[str | None, str]]:
    """Every block: the file that its first line names, and its text; None: lines for a shell."""
    for language, text in _BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if language == "bash":
            yield None, text
        else:
            first, _, rest = text.partition("\n")
            yield first.removeprefix("# "), rest + "\n"


def write(folder: Path, name: str, text: str) -> None:
    """A file of the project."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


FILES = {name: text for name, text in blocks() if name is not None}
PROJECT, DEFINITIONS = FILES["pyproject.toml"], FILES["shop/definitions.py"]
