"""SQL text of a step in which fields are called as words of SQL are: ``user``, ``order``, ``end``, ``limit``.

Owns how such text is read. Rule: text that is exactly a field's name is that field. Otherwise a name that SQL would
not take for a column is quoted where it may be one, that is anywhere but before a parenthesis or a literal. Where text
with all of them quoted is no expression, as with the last word of ``CASE WHEN end > 3 THEN 1 ELSE 0 end``, the reading
with the most quoted names is taken. The words ``null``, ``true``, ``false`` and ``not`` stay what they are in SQL.
"""

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import polars as pl

DEPTH_MAX = 40
"""So deep may SQL text be; polars' parser gives up a little below."""

WORDS_MIXED_MAX = 8
"""So many words of a text are tried as a column and as a word of SQL, each beside each: 256 readings at most."""

CHAIN_MAX = 64
"""So many conditions of one AND or OR stay as they are written. Polars takes time that grows with the square of their
number, since each is within the one before.
"""

_TOKEN = re.compile(
    r"""(?P<literal>'(?:[^']|'')*'|\$\$.*?\$\$)
    |(?P<skipped>"(?:[^"]|"")*"|`[^`]*`|--[^\n]*|/\*.*?\*/|\d[\w.]*|\s+)
    |(?P<word>[^\W\d]\w*)
    |(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_ALWAYS_SQL = frozenset({"null", "true", "false", "not"})
_PROBES = ("{}", "{} + 1", "1 + {}", "COALESCE({}, 1)", "{} IS NULL", "NOT {}", "1 AS {}")


class _Token(NamedTuple):
    sort: str
    text: str


_NONE = _Token("", "")
_CLOCK_WORDS = frozenset({"CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP"})
"""With parentheses or without them. ``NOW`` has them always."""


def readings(text: str, names: Collection[str]) -> Iterator[str]:
    """What ``text`` may mean where columns are called ``names``, the likeliest first; the text itself is among them."""
    if text in names:
        yield quoted(text)
        return
    tokens = [_Token(str(matched.lastgroup), matched[0]) for matched in _TOKEN.finditer(text)]
    sure, mixed = _name_indices(tokens, names)
    if not sure and not mixed:
        yield text
        return
    seen: set[str] = set()
    alternatives = [[is_column] * len(mixed) for is_column in (True, False)]
    choices = product((True, False), repeat=len(mixed)) if len(mixed) <= WORDS_MIXED_MAX else alternatives
    for choice in sorted(choices, key=sum, reverse=True):
        columns = sure.union(index for index, is_column in zip(mixed, choice, strict=True) if is_column)
        reading = "".join(quoted(token.text) if index in columns else token.text for index, token in enumerate(tokens))
        if reading not in seen:
            seen.add(reading)
            yield reading
    if text not in seen:
        yield text


def balanced(text: str) -> str:
    """``text`` with the conditions of a long AND or OR in halves of halves, which means the same."""
    tokens = [_Token(str(matched.lastgroup), matched[0]) for matched in _TOKEN.finditer(text)]
    # A comment up to the end of its line would swallow the parentheses that are put behind it.
    if any(token.text.startswith(("--", "/*")) for token in tokens):
        return text
    alternatives: list[list[list[str]]] = [[[]]]
    level, is_between, end = 0, False, len(tokens)
    for index, token in enumerate(tokens):
        word = token.text.upper() if token.sort in ("word", "mark") else ""
        level += (word in ("(", "CASE")) - (word in (")", "END"))
        is_splitting = level == 0 and word in ("AND", "OR") and not (word == "AND" and is_between)
        if level == 0 and word == "AS":
            end = index
            break
        # The first AND behind a BETWEEN joins its two bounds, not two conditions.
        if word in ("BETWEEN", "AND") and level == 0:
            is_between = word == "BETWEEN"
        if not is_splitting:
            alternatives[-1][-1].append(token.text)
        elif word == "OR":
            alternatives.append([[]])
        else:
            alternatives[-1].append([])
    if max(len(alternatives), *map(len, alternatives)) <= CHAIN_MAX:
        return text
    joined = [_halved(["".join(condition) for condition in conditions], "AND") for conditions in alternatives]
    return _halved(joined, "OR") + " " + "".join(token.text for token in tokens[end:])


def _halved(conditions: list[str], word: str) -> str:
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return f"({_halved(conditions[:middle], word)}) {word} ({_halved(conditions[middle:], word)})"


def depth(text: str) -> int:
    """How many parentheses and CASEs are in one another at most."""
    now = deepest = 0
    for matched in _TOKEN.finditer(text):
        word = matched[0].upper()
        now += (word in ("(", "CASE")) - (word in (")", "END"))
        deepest = max(deepest, now)
    return deepest


def quoted(name: str) -> str:
    """``name`` as SQL takes it for that of a column, whatever it is."""
    return '"' + name.replace('"', '""') + '"'


def _name_indices(tokens: list[_Token], names: Collection[str]) -> tuple[set[int], list[int]]:
    """Indices of the words that are certainly names (the alias of a result), and of the words that may be one."""
    sure: set[int] = set()
    mixed: list[int] = []
    indices = [index for index, token in enumerate(tokens) if token.sort != "skipped" or token.text[0] in '"`']
    for number, index in enumerate(indices):
        sort, word = tokens[index]
        if sort != "word" or not _is_word_of_sql(word):
            continue
        before = tokens[indices[number - 1]].text if number else ""
        after = tokens[indices[number + 1]] if number + 1 < len(indices) else _NONE
        if before.upper() == "AS" and not after.text:
            sure.add(index)
        elif word in names and word.lower() not in _ALWAYS_SQL and after.text != "(" and after.sort != "literal":
            mixed.append(index)
    return sure, mixed


def clock_word(reading: str) -> str:
    """The first word of ``reading`` that asks what time it is; else empty."""
    tokens = [_Token(str(matched.lastgroup), matched[0]) for matched in _TOKEN.finditer(reading)]
    tokens = [token for token in tokens if token.sort != "skipped"]
    for before, (_, word), after in zip([_NONE, *tokens], tokens, [*tokens[1:], _NONE], strict=False):
        is_call = word.upper() == "NOW" and after.text == "("
        if before.text != "." and (is_call or word.upper() in _CLOCK_WORDS):
            return word
    return ""


@lru_cache(maxsize=1024)
def _is_word_of_sql(word: str) -> bool:
    """Whether ``word``, unquoted, is anywhere something else than the column of that name."""
    return any(_parsed(probe.format(word)) != _parsed(probe.format(quoted(word))) for probe in _PROBES)


def _parsed(text: str) -> str | None:
    try:
        return str(pl.sql_expr(text))
    except pl.exceptions.PolarsError:
        return None


_OTHER_LANGUAGES = (
    (r"\blambda\b", "give the function itself, not its text"),
    (r"\bNone\b", "None is NULL in SQL: write IS NULL or IS NOT NULL"),
    (r"&&", "&& is AND in SQL"),
    (r"\|\|", "|| joins text in SQL: between conditions write OR"),
    (r"!(?!=)", "! is NOT in SQL"),
    (r"\bin\s*\[", "a list is in parentheses in SQL: IN ('a', 'b')"),
    (r'"[^"]*"', "text is in single quotes in SQL, 'a'; in double quotes it is a column"),
)
"""What Python and Java write, and what it is in SQL."""


def in_sql(text: str) -> str:
    """What to write instead of the first word of another language in ``text``, which is no SQL; else empty."""
    without_texts = re.sub("'[^']*'", "''", text)
    return next((said for written, said in _OTHER_LANGUAGES if re.search(written, without_texts)), "")
