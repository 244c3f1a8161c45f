"""The notebook of the tutorials prints what it shows. ``python -m tests.test_notebook`` writes what it prints now.

Rule: of an output its plain text is kept, which GitHub shows and a reader of the file understands.
"""

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from docs.site.build import notebook_page, printed_by
from tests.source_tree import ROOT

NOTEBOOK = ROOT / "docs" / "tutorials" / "notebook.ipynb"


def executed(path: Path) -> dict[str, Any]:
    """The notebook at ``path`` with what its code prints now."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    for cell in notebook.cells:
        cell.metadata = {}
        for output in cell.get("outputs", ()):
            if "data" in output:
                output.data = {"text/plain": output.data["text/plain"]}
    notebook.metadata.pop("widgets", None)
    return notebook  # type: ignore[no-any-return]


def outputs(notebook: dict[str, Any]) -> list[str]:
    """What its cells of code print, in order."""
    return [text for cell in notebook["cells"] for text in printed_by(cell)]


@pytest.mark.nightly
def test_the_notebook_prints_what_it_shows():
    shown = json.loads(NOTEBOOK.read_text(encoding="utf-8"))

    assert outputs(executed(NOTEBOOK)) == outputs(shown)


def test_the_page_of_a_notebook_has_its_text_its_code_and_what_that_prints():
    cells = [
        {"cell_type": "markdown", "source": ["# A\n", "\n", "Text."]},
        {"cell_type": "code", "source": ["1 + 1"], "outputs": [{"data": {"text/plain": ["2"]}}]},
        {"cell_type": "code", "source": ["print(3)"], "outputs": [{"text": ["3\n"]}]},
    ]

    page = notebook_page(json.dumps({"cells": cells}))

    assert page == (
        "# A\n\nText.\n\n```python\n1 + 1\n```\n\n```text\n2\n```\n\n```python\nprint(3)\n```\n\n```text\n3\n```\n"
    )


if __name__ == "__main__":
    nbformat.write(executed(NOTEBOOK), NOTEBOOK)
