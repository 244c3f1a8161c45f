"""Plain English, as far as a test can see it: no private words, no long sentences, no term before its definition.

Rule: a count in UNCLEAN only falls, and a room that is clean is taken off the list. What is not listed has no finding.
"""

import ast
from collections import defaultdict

import pytest

from tests.prose import NOT_READ, Text, findings, of_docstring, of_module, of_page, sentences, texts, undefined_terms
from tests.source_tree import files, refuse, text_of

UNCLEAN: dict[str, int] = {
    "benchmarks": 7,
    "benchmarks/README.md": 36,
    "benchmarks/peers": 1,
    "benchmarks/placement": 4,
    "tests/conformance/goldens/README.md": 20,
}
"""At most so many findings are left, by room or page."""


def room_of(path: str) -> str:
    """A page by itself; of Python files their folder, to a depth of two."""
    return path if path.endswith(".md") else "/".join(path.split("/")[:-1][:2]) or path


@pytest.fixture(scope="module")
def found() -> dict[str, list[str]]:
    """Findings by room."""
    by_room = defaultdict(list)
    for text in texts():
        by_room[room_of(text.path)].extend(findings(text))
    return {room: each for room, each in by_room.items() if each}


def test_no_room_says_more_unclear_sentences_than_it_did(found):
    too_many = [line for room, lines in found.items() if len(lines) > UNCLEAN.get(room, 0) for line in lines]

    refuse(too_many, "Say it in the words of Kafka and Delta, subject first, in a sentence of at most 35 words:")


def test_only_rooms_with_findings_are_listed_as_unclean(found):
    refuse([room for room in UNCLEAN if room not in found], "It is clean: take it off UNCLEAN (tests/test_prose.py):")


def test_a_page_links_the_glossary_before_it_uses_its_terms():
    pages = [path for path in files() if path.endswith(".md") and path not in NOT_READ]
    undefined = {path: terms for path in pages if (terms := undefined_terms(path, text_of(path)))}
    refuse(
        [f"{path}: {', '.join(terms)}" for path, terms in undefined.items()],
        "Link glossary.md above, or define the term where it is first used, as *term*:",
    )


# --- the check itself ------------------------------------------------------------------------------------------


def lines_of(*found: Text) -> list[str]:
    return [line.partition(":")[2] for text in found for line in findings(text)]


def test_a_private_word_is_found_with_its_line_and_what_to_say_instead():
    page = "# Title\n\nA record.\nThe task goes on\nwith the next.\n"

    got = lines_of(*of_page("README.md", page))

    assert got == ["3: 'goes on' (continue): …A record. The task goes on with the next.…"]


@pytest.mark.parametrize(("words", "count"), [(35, 0), (36, 1)])
def test_a_sentence_has_at_most_35_words(words, count):
    sentence = f"The {'very ' * (words - 3)}long sentence."

    assert len(list(findings(Text("README.md", 1, f"First. {sentence} Last.")))) == count


def test_code_in_a_sentence_is_one_word_and_is_not_judged():
    assert lines_of(Text("README.md", 1, "Call `go on` or ``stands(told, met)`` here.")) == []


def test_blocks_of_code_and_examples_are_not_judged():
    assert lines_of(*of_page("README.md", "Text:\n\n```bash\nreplay go on\n```\n")) == []
    assert lines_of(*of_docstring("x.py", 1, "Say it.\n\n>>> print('told')\ntold\n")) == []


def test_cells_and_items_are_sentences_of_their_own():
    cells = "| " + " | ".join(["six words stay in one cell"] * 8) + " |\n"
    items = "- six words stay in one item\n" * 8

    assert lines_of(*of_page("README.md", cells), *of_page("README.md", items)) == []


def test_docstrings_and_strings_of_a_package_are_read_and_short_names_are_not():
    code = 'def f():\n    """A record goes on."""\n    raise ValueError("it was told in no place")\nNAME = "told"\n'

    got = lines_of(*of_module("jobs/x.py", ast.parse(code)))

    assert [line.split(" (")[0] for line in got] == ["2: 'goes on'", "3: 'told'"]


def test_a_sentence_ends_before_a_capital_and_not_at_an_abbreviation():
    assert sentences("It is 1.5 s, e.g. here. The next one! Is it?") == [
        "It is 1.5 s, e.g. here.",
        "The next one!",
        "Is it?",
    ]


def test_a_term_is_defined_by_the_glossary_or_in_place():
    assert undefined_terms("README.md", "A tape is here. [Glossary](docs/glossary.md).") == ["tape"]
    assert undefined_terms("README.md", "See the [glossary](docs/glossary.md). A tape is here.") == []
    assert undefined_terms("README.md", "A *tape* is a task's input. The tape is here.") == []
