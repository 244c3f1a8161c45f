"""What people read here, sentence by sentence, and what in it is not plain English.

Owns: which texts are read (pages, docstrings, strings of the packages), the words to avoid, the limit of a sentence,
and the terms that a page must define.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import cleandoc

from tests.source_tree import files, modules, text_of

SENTENCE_WORDS_MAX = 35
NOT_READ = ("CHANGELOG.md", "tests/prose.py", "tests/test_prose.py")
"""History, which stays as it was said, and what spells the words."""
GLOSSARY = "docs/glossary.md"

AVOID = {
    r"tells?|telling|told|retell\w*": "say what happens: report, pass, signal, describe",
    r"anew": "again",
    r"go on|goes on|going on|went on": "continue",
    r"of (?:before|then|now)": "previous, former, current",
    r"stands?(?!-)|stood": "is, is written, is listed",
    r"(?:a|each|every|its|no|planted|the|these|which) (?:planted )?lies?": "a violation",
    r"planted|planting": "written, injected",
    r"wish(?:es|ed)?": "request, setting",
    r"meets?|met|meeting": "merge, join, are read together",
    r"moments?": "time, observation",
    r"mere|merely": "only",
    r"such as (?:are|do|had|has|have|is|keep|keeps|was|were)|of such as": "those that",
    r"thereof|therein|whereof|wherein|thither|hither|whence": "name the thing",
    r"what [^,.:;()|]*\bwhat": "name the things",
    r"waiting rooms?": "buffer",
    r"lanes?": "skip list",
    r"wirings?": "dataflow",
    r"decid(?:es?|ed|ing) ahead": "speculative batches",
    r"step words": "text of a step",
    r"carried state": "state that continues, remapped",
    r"pass(?:es|ed)? on|passing on": "forward",
    r"hears? (?:of|from)|heard (?:of|from)": "read",
    r"takes? up|taken up|took up": "continue, resume",
    r"come together|comes together": "merge",
    r"the end of time": "the end of the history",
    r"says? which": "name",
    r"act by (?:itself|themselves)|acts by (?:itself|themselves)": "fire by a timer",
    r"counts? by the part": "is partly done",
    r"has its place|have their place": "is at a position",
    r"way into|of its way|its ways": "edge, path",
    r"a table streams": "a table becomes a stream",
    r"(?:are|is) asked of": "decides, come from",
    r"(?:two|three|the|no) ways? on|ways on": "options, what to do",
    r"ways? back": "how to repair, how to restore",
    r"throw-away": "temporary",
    r"mends?|mended|mending": "repair, correct",
    r"says? how far": "show, decide, depend on",
}
"""Words and turns that only this project uses, each as a pattern of whole words, and what the field says instead."""

TERMS = re.compile(
    r"\b(?:tapes?|causes?|arrivals?|recorded times?|books|restate(?:d|ment|ments)?|epochs?|warm cop(?:y|ies)"
    r"|undecodable)\b",
    re.IGNORECASE,
)
"""Words of the glossary that mean something else elsewhere. A page links the glossary, or writes *term*, before one."""


@dataclass(frozen=True)
class Text:
    """A paragraph, a cell of a table, a docstring or a string: ``text`` begins at this line."""

    path: str
    line: int
    text: str

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"


# --- texts -----------------------------------------------------------------------------------------------------


def texts() -> Iterator[Text]:
    """All of them: pages, docstrings, and the strings of the packages with at least four words."""
    for path in files():
        if path.endswith(".md") and path not in NOT_READ:
            yield from of_page(path, text_of(path))
    for path, tree in modules().items():
        if path not in NOT_READ:
            yield from of_module(path, tree)


def of_page(path: str, page: str) -> Iterator[Text]:
    """Paragraphs, items of lists and cells of tables, without code."""
    page = re.sub(r"^( *)```.*?^ *```$", blank, page, flags=re.DOTALL | re.MULTILINE)
    page = re.sub(r"(?<=\n\n)(?:(?:    .*)?\n)+", blank, page)
    for block in re.finditer(r"(?:.+\n?)+", page):
        line = page.count("\n", 0, block.start()) + 1
        for part in re.split(r"\n(?=\s*(?:[-*|#>]|\d+\.) ?)", block.group()):
            cells = part.split("|") if part.lstrip().startswith("|") else [part]
            yield from (Text(path, line, cell) for cell in cells if cell.strip())
            line += part.count("\n") + 1


def blank(code: re.Match[str]) -> str:
    """As many lines, all empty but the first, which ends the sentence before."""
    return "\n" * code.group().count("\n")


def of_module(path: str, tree: ast.Module) -> Iterator[Text]:
    """Docstrings, those of constants too; of a package its other strings as well."""
    documented = set()
    for node in ast.walk(tree):  # breadth first, so an expression comes before its constant
        if isinstance(node, ast.Expr):
            documented.add(id(node.value))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_read = not path.startswith("tests/") and len(node.value.split()) > 3
            if is_read or id(node) in documented:
                yield from of_docstring(path, node.lineno, node.value)


def of_docstring(path: str, line: int, docstring: str) -> Iterator[Text]:
    """Its paragraphs, without examples and what is indented as code."""
    for paragraph in re.split(r"\n\s*\n", cleandoc(docstring)):
        lines = paragraph.split("\n")
        if not any(each.startswith(("    ", ">>>", "... ")) for each in lines):
            for item in re.split(r"\n(?=\s*(?:[-*|]|\d+\.|``?[\w., ()`]+:) ?)", paragraph):
                yield Text(path, line, item)
        line += len(lines) + 1


# --- findings ----------------------------------------------------------------------------------------------------


def prose(text: str) -> str:
    """Without code, links' targets and marks: names in backquotes, one or a list of them, are one word."""
    text = re.sub(r"``.+?``|`[^`]+`", "CODE", text, flags=re.DOTALL)
    text = re.sub(r"CODE(?:(?:,|,? and|,? or) CODE)+", "CODE", re.sub(r"\s+", " ", text))
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r"\s+", " ", re.sub(r"[*_\[\]]", "", text)).strip()


def sentences(text: str) -> list[str]:
    """Split a text without code: a sentence ends at ``.``, ``?`` or ``!`` before a space and a capital or a figure."""
    return re.split(r"(?<=[.!?])[\"')]* (?=[\"'(]*[A-Z0-9])", text)


_AVOIDED = [(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), instead) for pattern, instead in AVOID.items()]
_ANY = re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in AVOID), re.IGNORECASE)


def findings(text: Text) -> Iterator[str]:
    """A line for each word to avoid and each long sentence."""
    plain = prose(text.text)
    for sentence in sentences(plain):
        words = len(re.findall(r"[\w'’]+(?:[-.,/]\w+)*", sentence))
        if words > SENTENCE_WORDS_MAX:
            yield f"{text.place}: {words} words in a sentence: {sentence[:60]}…"
    if _ANY.search(plain):
        for pattern, instead in _AVOIDED:
            for found in pattern.finditer(plain):
                around = plain[max(0, found.start() - 40) : found.end() + 30]
                yield f"{text.place}: {found.group()!r} ({instead}): …{around}…"


def undefined_terms(path: str, page: str) -> list[str]:
    """Terms of the glossary that a page uses before it links the glossary or writes them as *term*."""
    if path == GLOSSARY:
        return []
    page = re.sub(r"\A# .*", "", page)
    before = page.partition("glossary.md")[0] if "glossary.md" in page else page
    plain = re.sub(r"^( *)```.*?^ *```$|`[^`\n]+`", "", before, flags=re.DOTALL | re.MULTILINE)
    defined = {term.lower() for term in re.findall(r"\*{1,2}([\w ]+?)\*{1,2}", plain)}
    return sorted({each.lower() for each in TERMS.findall(plain)} - defined)
