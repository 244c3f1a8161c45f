"""Digits of functions: others where anything in them is another value, and the same in every process."""

import json
import logging
import os
import subprocess
import sys
from typing import Any

import pytest

from kstreams_replay.state.serdes.function_text import function_text

HEAD = """
import collections, datetime, decimal, enum, fractions, functools, io, itertools, logging, operator, pathlib, re, sys
import threading, types, uuid, zoneinfo
from dataclasses import dataclass, field
import numpy as np, polars as pl, pyarrow as pa

class Rules:
    def __init__(self, *parts, **named): self.parts, self.named = parts, named
    def __call__(self, value): return self.parts
    def ask(self, value): return self.named

class Slots:
    __slots__ = ("one", "other")
    def __init__(self, one): self.one = one

@dataclass
class Data:
    one: object
    others: list = field(default_factory=list)

class Kind(enum.Enum):
    ONE = 1
    TWO = 2
    def __call__(self, value): return self.value

class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()

class Words(dict): pass
class Several(set): pass
Point = collections.namedtuple("Point", "x y")

class Pickled:
    def __init__(self, one): self.one, self.lock = one, threading.Lock()
    def __getstate__(self): return {"one": self.one}

def bound(it):
    return lambda value: it

def within(it):
    rules = Rules(it)
    rules.parts = [rules, it]
    return rules
"""

CALLED = {
    "itemgetter": ("operator.itemgetter('a')", "operator.itemgetter('b')"),
    "itemgetter of several": ("operator.itemgetter('a', 'b')", "operator.itemgetter('b', 'a')"),
    "attrgetter": ("operator.attrgetter('a.b')", "operator.attrgetter('a.c')"),
    "methodcaller": ("operator.methodcaller('split', ';')", "operator.methodcaller('split', ',')"),
    "methodcaller by name": ("operator.methodcaller('f', a=1)", "operator.methodcaller('f', a=2)"),
    "partial of a builtin": ("functools.partial(int, base=2)", "functools.partial(int, base=8)"),
    "partial of another builtin": ("functools.partial(min, 1)", "functools.partial(max, 1)"),
    "partial of a getter": (
        "functools.partial(map, operator.itemgetter(0))", "functools.partial(map, operator.itemgetter(1))",
    ),
    "builtin": ("len", "abs"),
    "class": ("str", "int"),
    "method of a builtin class": ("str.upper", "str.lower"),
    "method of text": ("'a'.join", "'b'.join"),
    "method of a dictionary": ("{'a': 1}.get", "{'a': 2}.get"),
    "method of a pattern": ("re.compile('a').sub", "re.compile('b').sub"),
    "method of an object": ("Rules(a=1).ask", "Rules(a=2).ask"),
    "method of an object of a getter": (
        "Rules(a=operator.itemgetter('a')).ask", "Rules(a=operator.itemgetter('b')).ask",
    ),
    "object": ("Rules(1)", "Rules(2)"),
    "object of a getter": ("Rules(operator.attrgetter('a'))", "Rules(operator.attrgetter('b'))"),
    "object of an object": ("Rules(Data(1))", "Rules(Data(2))"),
    "object within itself": ("within(1)", "within(2)"),
    "member": ("Kind.ONE", "Kind.TWO"),
    "cached function": ("functools.lru_cache(lambda value: 1)", "functools.lru_cache(lambda value: 2)"),
    "function of NumPy": ("np.add", "np.subtract"),
    "parameters": ("lambda key, value: value", "lambda key, *value: value"),
    "names of parameters": ("lambda key, value: key", "lambda value, key: value"),
    "parameter by name alone": ("lambda key, *, value=1: value", "lambda key, value=1: value"),
    "generator": ("lambda value: [one for one in value]", "lambda value: (one for one in value)"),
}  # fmt: skip
"""Two callables that differ."""

HELD = {
    "nothing": ("None", "..."),
    "number": ("1", "1.0"),
    "truth": ("True", "1"),
    "zero": ("0.0", "-0.0"),
    "text": ("'1'", "1"),
    "bytes": ("b'a'", "'a'"),
    "changeable bytes": ("bytearray(b'a')", "bytearray(b'b')"),
    "view": ("memoryview(b'a')", "memoryview(b'b')"),
    "tuple": ("(1, (2, 3))", "((1, 2), 3)"),
    "list": ("[1, 2]", "[2, 1]"),
    "list and tuple": ("[1]", "(1,)"),
    "set": ("{'a', 'b', 'c'}", "{'a', 'b', 'd'}"),
    "frozen set": ("frozenset(['a', 'b'])", "frozenset(['a'])"),
    "sets in a set": (
        "{frozenset('abc'), frozenset('def'), frozenset('g')}", "{frozenset('abd'), frozenset('cef'), frozenset('g')}",
    ),
    "tuples with sets": (
        "{(frozenset('abc'), 1), (frozenset('def'), 2)}", "{(frozenset('abc'), 2), (frozenset('def'), 1)}",
    ),
    "set of functions": ("{bound(1), bound(2), len}", "{bound(1), bound(3), len}"),
    "set of objects": ("{Rules(frozenset('abc')), Rules(2)}", "{Rules(frozenset('abc')), Rules(3)}"),
    "set of ones own class": ("Several('abc')", "Several('abd')"),
    "dictionary": ("{'a': 1, 'b': 2}", "{'a': 2, 'b': 1}"),
    "dictionary of sets": ("{'a': set('xyz'), 'b': set('uvw')}", "{'a': set('xyz'), 'b': set('uvx')}"),
    "dictionary by sets": (
        "{frozenset('xyz'): 1, frozenset('uvw'): 2}", "{frozenset('xyz'): 2, frozenset('uvw'): 1}",
    ),
    "dictionary in the order of a set": (
        "{one: 1 for one in set('abcdefgh')}", "{one: 1 for one in set('abcdefgi')}",
    ),
    "dictionary by functions": ("{len: 1, abs: 2}", "{len: 2, abs: 1}"),
    "dictionary of ones own class": ("Words(a=1)", "Words(a=2)"),
    "dictionary with a default": ("collections.defaultdict(list, a=1)", "collections.defaultdict(set, a=1)"),
    "counter": ("collections.Counter('abca')", "collections.Counter('abcb')"),
    "ordered dictionary": ("collections.OrderedDict(a=1)", "collections.OrderedDict(a=2)"),
    "view of a dictionary": ("types.MappingProxyType({'a': 1})", "types.MappingProxyType({'a': 2})"),
    "queue": ("collections.deque([1, 2], 3)", "collections.deque([1, 2], 4)"),
    "named tuple": ("Point(1, 2)", "Point(2, 1)"),
    "simple object": ("types.SimpleNamespace(a=1)", "types.SimpleNamespace(a=2)"),
    "object": ("Rules(1, a={'b'})", "Rules(1, a={'c'})"),
    "object with slots": ("Slots(1)", "Slots(2)"),
    "object that says what is pickled": ("Pickled(1)", "Pickled(2)"),
    "data class": ("Data(1)", "Data(2)"),
    "data class with a list": ("Data(1, [Data(2)])", "Data(1, [Data(3)])"),
    "member": ("Kind.ONE", "Kind.TWO"),
    "flags": ("Flags.A | Flags.B", "Flags.A"),
    "pattern": ("re.compile('a' * 300 + 'b')", "re.compile('a' * 300 + 'c')"),
    "flags of a pattern": ("re.compile('a')", "re.compile('a', re.I)"),
    "decimal": ("decimal.Decimal('1.0')", "decimal.Decimal('1.00')"),
    "fraction": ("fractions.Fraction(1, 3)", "fractions.Fraction(2, 3)"),
    "date": ("datetime.date(2024, 1, 1)", "datetime.datetime(2024, 1, 1)"),
    "fold of a time": ("datetime.time(1)", "datetime.time(1, fold=1)"),
    "duration": ("datetime.timedelta(1)", "datetime.timedelta(2)"),
    "zone": ("zoneinfo.ZoneInfo('Europe/Berlin')", "zoneinfo.ZoneInfo('Europe/Paris')"),
    "uuid": ("uuid.UUID(int=1)", "uuid.UUID(int=2)"),
    "path": ("pathlib.PurePosixPath('a')", "pathlib.PurePosixPath('b')"),
    "range": ("range(3)", "range(0, 3, 2)"),
    "slice": ("slice(1)", "slice(2)"),
    "complex number": ("1j", "2j"),
    "module": ("collections", "datetime"),
    "logger": ("logging.getLogger('a')", "logging.getLogger('b')"),
    "lock": ("threading.Lock()", "threading.RLock()"),
    "error": ("ValueError('a')", "ValueError('b')"),
    "generic type": ("list[int]", "list[str]"),
    "kind of an iterator": ("iter([1])", "iter((1,))"),
    "getter": ("operator.itemgetter('a')", "operator.itemgetter('b')"),
    "partial": ("functools.partial(int, base=2)", "functools.partial(int, base=3)"),
    "array of NumPy": ("np.array([1, 2])", "np.array([1, 3])"),
    "type of an array": ("np.array([1], 'i4')", "np.array([1], 'i8')"),
    "shape of an array": ("np.zeros((2, 3))", "np.zeros((3, 2))"),
    "long array": ("np.arange(5000)", "np.where(np.arange(5000) == 2500, 0, np.arange(5000))"),
    "array of objects": ("np.array([{'a', 'b'}, 1], object)", "np.array([{'a', 'c'}, 1], object)"),
    "number of NumPy": ("np.float64(1)", "np.float32(1)"),
    "type of NumPy": ("np.dtype('i4')", "np.dtype('i8')"),
    "array of Arrow": ("pa.array([1, None])", "pa.array([1, 2])"),
    "part of an array of Arrow": ("pa.array([1, 2, 3])[1:]", "pa.array([1, 2, 3])[:2]"),
    "table of Arrow": ("pa.table({'a': [1]})", "pa.table({'b': [1]})"),
    "scalar of Arrow": ("pa.scalar(1)", "pa.scalar(2)"),
    "type of Arrow": ("pa.int64()", "pa.int32()"),
    "schema of Arrow": ("pa.schema([('a', pa.int64())])", "pa.schema([('b', pa.int64())])"),
    "frame of Polars": ("pl.DataFrame({'a': [1]})", "pl.DataFrame({'a': [2]})"),
    "series of Polars": ("pl.Series([1])", "pl.Series([2])"),
    "expression of Polars": ("pl.col('a').round(1)", "pl.col('a').round(2)"),
    "type of Polars": ("pl.Datetime('ms')", "pl.Datetime('us')"),
}  # fmt: skip
"""Two values that differ, for a function to hold."""

NAMED = {
    "getter": ("PICK = operator.itemgetter('{0}')", "PICK(value)"),
    "method of text": ("PICK = '{0}'.join", "PICK(value)"),
    "fixed dictionary": ("NAMES = types.MappingProxyType({{'a': '{0}'}})", "NAMES[value]"),
    "named tuple": ("POINT = Point('{0}', 1)", "POINT.x"),
    "table of Arrow": ("RATES = pa.table({{'{0}': [1]}})", "RATES"),
    "method of an object": ("class Fees:\n    def fee(self): return '{0}'\nFEES = Fees()", "FEES.fee()"),
    "setter": (
        "class Fees:\n    @property\n    def fee(self): return 1\n    @fee.setter\n    def fee(self, to): '{0}'.x = to",
        "Fees()",
    ),
    "class within a class": ("class Fees:\n    class Most:\n        FEE = '{0}'", "Fees.Most.FEE"),
    "getter of a class": ("class Fees:\n    pick = operator.itemgetter('{0}')", "Fees.pick(value)"),
    "names of methods": (
        "class Fees:\n    def a(self): return 1\n    def b(self): return 2\n"
        "if '{0}' == 'b':\n    Fees.a, Fees.b = Fees.b, Fees.a",
        "Fees()",
    ),
    "part that may fail": (
        "def fee():\n    try:\n        one()\n        if '{0}' == 'a': other()\n    except ValueError: pass\n", "fee()",
    ),
}  # fmt: skip
"""What a module defines, with "a" or "b", and what a function does with it."""


def texts() -> dict[str, tuple[str, str]]:
    """Pairs of modules that define `used`."""
    pairs = {f"called {name}": tuple(f"used = {one}" for one in pair) for name, pair in CALLED.items()}
    pairs |= {f"held {name}": tuple(f"used = bound({one})" for one in pair) for name, pair in HELD.items()}
    pairs |= {
        f"named {name}": tuple(f"{text.format(one)}\nused = lambda value: {use}" for one in "ab")
        for name, (text, use) in NAMED.items()
    }
    return {name: (f"{HEAD}{one}", f"{HEAD}{other}") for name, (one, other) in pairs.items()}


TEXTS = texts()


def digits(text: str) -> str:
    names: dict[str, Any] = {"__name__": "shop"}
    exec(compile(text, "shop.py", "exec"), names)
    return function_text(names["used"])


@pytest.mark.parametrize("name", TEXTS)
def test_digits_differ_where_a_value_does(name):
    one, other = TEXTS[name]

    assert digits(one) == digits(one)
    assert digits(one) != digits(other)


def test_digits_are_the_same_in_every_process():
    """
    Each seed of hashes gives sets another order, and objects have other addresses.
    """
    code = (
        "import json, sys; from tests.state.serdes.test_value_digest import TEXTS, digits; "
        "json.dump({name: digits(one) for name, (one, _) in TEXTS.items()}, sys.stdout)"
    )
    by_seed = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
            ).stdout
        )
        for seed in ("1", "2")
    ]  # fmt: skip

    assert by_seed[0] == by_seed[1] == {name: digits(one) for name, (one, _) in TEXTS.items()}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def used(value):\n    return value", "def used(value):\n    'Says what.'\n    # why\n\n    return value"),
        ("def used(value):\n    return None", "def used(value):\n    'Says what.'\n    return None"),
        (
            "def used(value):\n    def inner(): return 1\n    return inner()",
            "def used(value):\n    def inner():\n        'Says what.'\n        return 1\n    return inner()",
        ),
        (
            "def used(value):\n    class Inner:\n        a = 1\n    return Inner",
            "def used(value):\n    class Inner:\n        'Says what.'\n\n        a = 1\n    return Inner",
        ),
        (
            "class Fees:\n    a = 1\n    def f(self): return 1\n    def g(self): return 2\nused = lambda value: Fees()",
            "class Fees:\n    'Says what.'\n    def g(self):\n        'Too.'\n        return 2\n"
            "    def f(self): return 1\n    a = 1\nused = lambda value: Fees()",
        ),
        (
            "def used(value):\n    return (value, 1)",
            "def used(value):\n    return (\n        value,  # it\n        1,\n    )",
        ),
        ("def used(value):\n    one = 1\n    return one", "def used(value):\n    other = 1\n    return other"),
        ("used = bound({'a': 1, 'b': 2})", "used = bound({'b': 2, 'a': 1})"),
        ("used = bound(pa.array([1, 2, 3])[1:])", "used = bound(pa.array([2, 3]))"),
    ],
)
def test_lines_comments_docstrings_and_orders_that_decide_nothing_do_not_count(one, other):
    assert digits(f"{HEAD}{one}") == digits(f"{HEAD}{other}")


def test_a_value_that_is_there_twice_counts_as_one_of_which_there_are_two():
    assert digits(f"{HEAD}a = (1, 'x')\nused = bound([a, a])") == digits(f"{HEAD}used = bound([(1, 'x'), (1, 'x')])")


@pytest.mark.parametrize(
    ("held", "what"),
    [
        ("threading.Lock()", "_thread.lock"),
        ("Rules(open(sys.executable, 'rb'))", "_io.BufferedReader"),
        ("[(one for one in (1, 2))]", "builtins.generator"),
        ("itertools.count(3)", "itertools.count"),
        ("{'a': threading.Lock(), 'b': io.BytesIO().getbuffer, 'c': sys._getframe()}", "_thread.lock, builtins.frame"),
    ],
)
def test_what_has_no_digits_is_named(held, what):
    text = digits(f"{HEAD}used = bound({held})")

    assert text[:9] == "<lambda> "
    assert text[17:] == f" (nothing within {what} is compared)"


@pytest.mark.parametrize("change", ["held.parts.append(1)", "held.named = {'a': 1}", "next(held.parts[0])"])
def test_what_an_object_keeps_as_it_runs_is_no_change_in_this_process(change):
    made: dict[str, Any] = {}
    exec(f"{HEAD}held = Rules(itertools.count())\nheld.parts = list(held.parts)\nused = bound(held)", made)
    before = function_text(made["used"])
    exec(change, made)

    assert function_text(made["used"]) == before
    assert digits(f"{HEAD}used = bound(Rules(1))") != digits(f"{HEAD}used = bound(Rules(2))")


def test_a_logger_counts_by_its_name_whatever_class_others_have_chosen(monkeypatch):
    class Other(logging.Logger):
        pass

    code = f"{HEAD}used = bound(logging.getLogger('of-a-test'))"
    usual = digits(code)
    monkeypatch.delitem(logging.root.manager.loggerDict, "of-a-test")
    monkeypatch.setattr(logging.root.manager, "loggerClass", Other)

    assert digits(code) == usual


def test_digits_of_an_object_do_not_depend_on_which_function_was_looked_at_before():
    code = f"{HEAD}held = Rules(Rules(1))\nother = bound([held.parts[0], held])\nused = bound(held)"
    alone: dict[str, Any] = {}
    exec(code, alone)
    behind: dict[str, Any] = {}
    exec(code, behind)
    function_text(behind["other"])

    assert function_text(behind["used"]) == function_text(alone["used"])


def test_a_cached_value_is_not_of_the_object_that_keeps_it():
    text = (
        f"{HEAD}class Fees:\n    def __init__(self): self.by = 2\n    @functools.cached_property\n"
        "    def most(self): return self.by\n    def ask(self, value): return self.most\n"
    )

    assert digits(f"{text}fees = Fees()\nused = fees.ask") == digits(f"{text}fees = Fees()\nfees.most\nused = fees.ask")


def test_functions_that_all_name_each_other_are_gone_through_once():
    """
    Else the time would rise with the factorial of their number.
    """
    names = [f"f{number}" for number in range(30)]
    calls = "\n".join(f"def {name}(value): return {' + '.join(f'{other}(value)' for other in names)}" for name in names)

    assert digits(f"{calls}\nused = f0") != digits(f"{calls}\nused = f0\ndef f9(value): return 1")
