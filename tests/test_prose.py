"""Plain English, as far as a test can see it: no private words, no long sentences, no term before its definition.

Rule: nothing that people read here has a finding.
"""

import ast

import pytest

from tests.prose import NOT_READ, Text, findings, of_docstring, of_module, of_page, sentences, texts, undefined_terms
from tests.source_tree import files, refuse, text_of


def test_every_sentence_is_short_and_has_no_private_word():
    refuse(
        [line for text in texts() for line in findings(text)],
        "Say it in the words of Kafka and Delta, subject first, in a sentence of at most 35 words:",
    )


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
