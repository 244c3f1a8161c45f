"""What to do about an error: the sections of the page "When something is wrong", which is installed with the package.

Owns the way from an error to its section. Rule: the page is the only text: commands and Dagster print its sections. In
a checkout it is read from docs/; the build puts it beside this module (setup.py).
"""

import re
from pathlib import Path

_PAGE = "when-something-is-wrong.md"
_INSTALLED = Path(__file__).with_name(_PAGE)
_IN_A_CHECKOUT = Path(__file__).parents[1] / "docs" / _PAGE


def error_sections() -> dict[str, str]:
    """Markdown of every error's section, without its heading, by the name of the error's class, in the page's order."""
    page = _INSTALLED if _INSTALLED.exists() else _IN_A_CHECKOUT
    _, _, errors = page.read_text("utf-8").partition("\n## Errors\n")
    _, *parts = re.split(r"^### (\w+)\n", errors, flags=re.MULTILINE)
    return dict(zip(parts[::2], map(_without_links, parts[1::2]), strict=True))


def see(error: type[Exception]) -> str:
    """The command that says what to do about errors of this class."""
    return f"replay errors {error.__name__}"


def _without_links(markdown: str) -> str:
    """A link to another page as its text and that page's name: where it is printed there is nothing to click on."""
    return re.sub(r"\[([^]]+)\]\(([^)]+)\)", r"\1 (docs/\2)", markdown).replace("docs/../", "").strip()
