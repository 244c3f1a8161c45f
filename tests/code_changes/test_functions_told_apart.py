"""A Python function that changed is seen, however it is given."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kstreams_replay.jobs.topology import KStream, KTable, Serde, Topology
from kstreams_replay.state.serdes.function_text import function_text
from tests.code_changes.changes import LONG, NAMED, STRING, clicks, said, verdict


class Times:
    """A function with a setting, as an object that is called."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, key: object, value: int) -> tuple[object, int]:
        return key, self.factor * value


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (lambda key, value: (key, value + 1), lambda key, value: (key, value + 2)),
        (lambda key, value, by=1: (key, value + by), lambda key, value, by=2: (key, value + by)),
        (Times(2), Times(3)),
        (Times(2).__call__, Times(3).__call__),
        (lambda key, value: (key, value in {1, 2}), lambda key, value: (key, value in {1, 3})),
        (partial(Times.__call__, Times(2)), partial(Times.__call__, Times(3))),
    ],
)
def test_a_function_above_a_store_that_changed_is_seen_however_it_is_given(before, now):
    def mapped(function: Any) -> Topology:
        def counted(stream: KStream) -> KTable:
            return stream.map(function, returns_key=STRING, returns=LONG).group_by_key().count(NAMED)

        return clicks(counted, value=LONG)

    assert said(verdict(mapped(before), mapped(before))) == []
    assert said(verdict(mapped(before), mapped(now))) == [("store 'store'", "steps", True)]


def test_a_reducer_of_a_table_that_changed_is_seen():
    def reduced(adder: Any) -> Topology:
        def table(stream: KStream) -> KTable:
            grouped = stream.to_table().group_by(lambda key, value: (key, value), returns_key=STRING, returns=LONG)
            return grouped.reduce(adder, lambda total, old: total - old, materialized=NAMED)

        return clicks(table, value=LONG)

    before, now = (lambda total, new: total + new), (lambda total, new: max(total, new))

    assert said(verdict(reduced(before), reduced(before))) == []
    assert said(verdict(reduced(before), reduced(now))) == [("store 'store'", "steps", True)]


def test_another_serde_of_ones_own_is_seen_as_another_step():
    def counted(encode: Any) -> Topology:
        serde = Serde.of(encode, bytes.decode, type="string")
        return clicks(lambda stream: stream.group_by_key().count(NAMED).to("out"), value=Serde.list(serde))

    before, same, now = (counted(one) for one in (str.encode, str.encode, lambda text: text.strip().encode()))

    assert verdict(before, same).changes == ()
    assert verdict(before, now).goes_on
    assert {(one.place, one.what) for one in verdict(before, now).changes} == {
        ("store 'store'", "steps"), ("output 'out'", "steps"),
    }  # fmt: skip


# --- what a function names -----------------------------------------------------------------------------------


USED = {
    "a constant": "CAP = {0}\ndef used(value): return min(value, CAP)",
    "constants": "CAPS = (1, ('a', {0}))\ndef used(value): return CAPS",
    "a function that it calls": "def cap(value): return min(value, {0})\ndef used(value): return cap(value)",
    "a function that that one calls": "def least(value): return {0}\ndef cap(value): return least(value)\n"
    "def used(value): return cap(value)",
    "a function within": "CAP = {0}\ndef used(value): return sorted(value, key=lambda one: min(one, CAP))",
    "a class's constant": "class Rules:\n    CAP = {0}\ndef used(value): return Rules.CAP",
    "a class's method": "class Rules:\n    @staticmethod\n    def cap(value): return {0}\n"
    "def used(value): return Rules.cap(value)",
    "a class that its class inherits from": "class Base:\n    def cap(self): return {0}\nclass Rules(Base): pass\n"
    "def used(value): return Rules().cap()",
    "a frozen object": "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Rules:\n    cap: int\n"
    "RULES = Rules({0})\ndef used(value): return RULES.cap",
    "a frozen object with slots": "from dataclasses import dataclass\n@dataclass(frozen=True, slots=True)\n"
    "class Rules:\n    cap: int\nRULES = Rules({0})\ndef used(value): return RULES.cap",
    "an enclosed object with slots": "from dataclasses import dataclass\n@dataclass(slots=True)\n"
    "class Rules:\n    cap: int\ndef bound(rules): return lambda value: rules.cap\nused = bound(Rules({0}))",
    "a slot of a class above": "from dataclasses import dataclass\n@dataclass(frozen=True, slots=True)\n"
    "class Base:\n    cap: int\n@dataclass(frozen=True, slots=True)\nclass Rules(Base):\n    more: int\n"
    "RULES = Rules({0}, 1)\ndef used(value): return RULES.cap",
    "a slot of an object that is called": "class Rules:\n    __slots__ = ('cap',)\n"
    "    def __init__(self, cap): self.cap = cap\n    def __call__(self, value): return self.cap\nused = Rules({0})",
    "the end of a long pattern": "import re\nRULE = re.compile('a|' * 150 + '{0}')\ndef used(value): return RULE",
    "a long pattern in a set": "import re\nRULES = frozenset([re.compile('a|' * 150 + '{0}')])\n"
    "def used(value): return RULES",
    "a time zone": "from zoneinfo import ZoneInfo\nZONE = ZoneInfo('Etc/GMT+{0}')\ndef used(value): return ZONE",
    "a fixed offset": "from datetime import timedelta, timezone\nZONE = timezone(timedelta(hours={0}))\n"
    "def used(value): return ZONE",
    "a path": "from pathlib import Path\nPLACE = Path('a{0}')\ndef used(value): return PLACE",
    "a range": "SPAN = range({0})\ndef used(value): return SPAN",
    "an enclosed complex number": "def bound(by): return lambda value: value * by\nused = bound({0}j)",
    "a partial function": "from functools import partial\ndef cap(most, value): return min(most, value)\n"
    "capped = partial(cap, {0})\ndef used(value): return capped(value)",
    "another method of its object": "class Rules:\n    def most(self): return {0}\n"
    "    def ask(self, value): return value <= self.most()\nused = Rules().ask",
    "a method that that one calls": "class Base:\n    def least(self): return {0}\nclass Rules(Base):\n"
    "    def most(self): return self.least()\n    def ask(self, value): return self.most()\nused = Rules().ask",
    "a property of its object": "class Rules:\n    @property\n    def most(self): return {0}\n"
    "    def ask(self, value): return value <= self.most\nused = Rules().ask",
    "a cached property of its object": "from functools import cached_property\nclass Rules:\n    @cached_property\n"
    "    def most(self): return {0}\n    def ask(self, value): return value <= self.most\nused = Rules().ask",
    "a cached method of its object": "from functools import cache\nclass Rules:\n    @cache\n"
    "    def most(self): return {0}\n    def ask(self, value): return value <= self.most()\nused = Rules().ask",
    "a constant of its object's class": "class Base:\n    MOST = {0}\nclass Rules(Base):\n"
    "    def ask(self, value): return value <= self.MOST\nused = Rules().ask",
    "a method that its own overrides": "class Base:\n    def ask(self, value): return {0}\nclass Rules(Base):\n"
    "    def ask(self, value): return super().ask(value)\nused = Rules().ask",
    "a cached method of a class": "from functools import cache\nclass Rules:\n    @cache\n"
    "    def most(self): return {0}\ndef used(value): return Rules().most()",
    "a class that it makes an object of": "class Later:\n    def process(self, record): return {0}\n"
    "used = lambda: Later()",
}
"""Modules with a function `used`, which uses something that is said with a number."""


def made(text: str, name: str = "shop") -> Callable[..., Any]:
    """The function `used` of a module."""
    names: dict[str, Any] = {"__name__": name}
    exec(compile(text, f"{name}.py", "exec"), names)
    function: Callable[..., Any] = names["used"]
    return function


@pytest.mark.parametrize("text", USED.values(), ids=USED)
def test_a_function_is_another_one_when_something_that_it_names_is(text):
    one, same, other = (function_text(made(text.format(number))) for number in (1, 1, 2))

    assert one == same
    assert one != other


def test_a_function_is_another_one_when_a_module_of_the_users_that_it_names_is(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    texts = []
    for number in (1, 1, 2):
        for module in ("fees", "rates"):
            sys.modules.pop(module, None)
        folder = tmp_path / f"of_{len(texts)}"
        monkeypatch.syspath_prepend(folder)
        write(folder / "rates.py", f"RATE = {number}\n")
        write(folder / "fees.py", "import rates\n\ndef fee(value):\n    return value * rates.RATE\n")
        texts.append(function_text(made("import fees\ndef used(value): return fees.fee(value)")))

    assert texts[0] == texts[1]
    assert texts[0] != texts[2]


def test_a_function_is_another_one_when_a_module_within_a_package_is(tmp_path, monkeypatch):
    texts = []
    for number in (1, 1, 2):
        for module in ("shop_rules", "shop_rules.limits"):
            sys.modules.pop(module, None)
        folder = tmp_path / f"of_{len(texts)}" / "shop_rules"
        monkeypatch.syspath_prepend(folder.parent)
        folder.mkdir(parents=True)
        write(folder / "__init__.py", "")
        write(folder / "limits.py", f"MOST = {number}\n")
        texts.append(function_text(made("import shop_rules.limits\ndef used(value): return shop_rules.limits.MOST")))

    assert texts[0] == texts[1]
    assert texts[0] != texts[2]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "SEEN = []\ndef used(value): SEEN.append(value)",
        "COUNT = 0\ndef used(value):\n    global COUNT\n    COUNT += 1",
        "class Rules:\n    made = 0\n    def __init__(self): Rules.made += 1\ndef used(value): return Rules()",
        "class Rules:\n    made = 0\n    def count(self): Rules.made += 1\n"
        "    def ask(self, value): self.count(); return Rules.made, self.made\nused = Rules().ask",
        "import json\ndef used(value): return json.dumps(value)",
    ],
)
def test_a_function_that_ran_is_the_same_one(text):
    """
    Else a pipeline that runs again in the same process would have changed code.
    """
    function = made(text)
    before = function_text(function)
    function("1")

    assert function_text(function) == before


@pytest.mark.parametrize(
    "text",
    [
        "class Rules:\n    def __init__(self): self.by_name = {{'k': self.small}}\n"
        "    def small(self, value): return {0}\n"
        "    def ask(self, value): return self.by_name[value](value)\nused = Rules().ask",
        "class Rules:\n    def __init__(self): self.parts = [self]; self.parts.append(self.parts)\n"
        "    def ask(self, value): return {0}\nused = Rules().ask",
        "class Rules:\n    def __init__(self): self.by_name = {{}}; self.by_name['all'] = self.by_name\n"
        "    def ask(self, value): return {0}\nused = Rules().ask",
        "class Rules:\n    def __init__(self, other): self.ask_other = other and other.ask\n"
        "    def ask(self, value): return {0}\n"
        "first = Rules(None); first.ask_other = Rules(first).ask; used = first.ask",
    ],
    ids=["its own method", "a list within itself", "a dictionary within itself", "a method of one that refers back"],
)
def test_an_object_that_refers_to_itself_has_digits(text):
    one, same, other = (function_text(made(text.format(number))) for number in (1, 1, 2))

    assert one == same
    assert one != other


def test_an_object_that_has_every_attribute_has_digits():
    """
    As ``pl.col`` and mocks have, ``__code__`` too.
    """
    text = (
        "class Column:\n    def __getattr__(self, name): return self\n    def __call__(self, value): return value\n"
        "col = Column()\ndef used(value): return col(value) + {0}"
    )

    one, same, other = (function_text(made(text.format(number))) for number in (1, 1, 2))

    assert one == same
    assert one != other


def test_a_table_of_ones_own_methods_is_gone_through_once():
    """
    Else the time would rise with the factorial of the methods.
    """
    methods = "".join(f"    def m{n}(self, value): return {n}\n" for n in range(20))
    text = (
        f"class Rules:\n    def __init__(self): self.by_name = [getattr(self, f'm{{n}}') for n in range(20)]\n{methods}"
    )

    assert function_text(made(f"{text}used = Rules().m0")) == function_text(made(f"{text}used = Rules().m0"))
