"""The table of Kafka Streams' public methods, ``jobs/METHODS.md``: a row each, which says what is true here."""

import inspect
import json
import keyword
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import kstreams_replay
from kstreams_replay.jobs.functions import processor_api
from kstreams_replay.jobs.functions.call_names import Hinting
from kstreams_replay.jobs.testing import state_stores
from tests.kafka_suite.left_out import reason_of
from tests.kafka_suite.tapes import tapes

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "jobs/METHODS.md"
METHODS = ROOT / "tests/jvm/kafka_methods.json"
STATES = ("works", "by itself", "absent", "refused")
REFUSED_MAX = 10


class MethodRow(NamedTuple):
    """``here``: names in Python. ``golden``: what shows it. ``remark``: the reason, and what to do instead."""

    method: str
    overloads: int
    state: str
    here: str
    golden: str
    remark: str


@cache
def rows() -> tuple[MethodRow, ...]:
    """Of the table; ``method`` with its class."""
    found, name = [], ""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("### "):
            name = line.removeprefix("### ").strip("`")
        elif cells := re.match(r"\| `(\w+)`(?: ×(\d+))? \| (.*) \| (.*) \| (.*) \| (.*) \|$", line):
            method, overloads, *others = cells.groups()
            found.append(MethodRow(f"{name}.{method}", int(overloads or 1), *(other.strip() for other in others)))
    return tuple(found)


def test_every_public_method_of_kafka_streams_has_a_row():
    kafka = json.loads(METHODS.read_text(encoding="utf-8"))

    got = {row.method: row.overloads for row in rows()}
    want = {f"{name}.{method}": count for name, methods in kafka.items() for method, count in methods.items()}

    assert got == want
    assert len(rows()) == len(got), "a method has two rows"


def test_a_row_has_one_of_four_states_and_what_belongs_to_it():
    wrong = [
        row.method
        for row in rows()
        if row.state not in STATES
        or (row.state == "works") != bool(row.here and row.golden)
        or (row.state in ("by itself", "refused") and not row.remark)
    ]

    assert wrong == []


def test_few_calls_are_refused():
    assert len([row for row in rows() if row.state == "refused"]) <= REFUSED_MAX


def test_what_works_is_there_under_its_name():
    nothing = [row.method for row in rows() if row.state == "works" and not _is_there(row.here.strip("`"))]

    assert nothing == []


def _is_there(here: str) -> bool:
    """``Class``, ``Class.name`` or ``Class.name(parameter)``."""
    path, _, parameter = here.rstrip(")").partition("(")
    class_name, _, name = path.partition(".")
    places = (kstreams_replay, processor_api, state_stores)
    found: Any = next((getattr(place, class_name) for place in places if class_name in dir(place)), None)
    if found is None or (name and name not in {*dir(found), *getattr(found, "__annotations__", {})}):
        return False
    return not parameter or parameter in inspect.signature(getattr(found, name) if name else found).parameters


def test_a_name_that_is_another_one_here_is_answered_as_the_page_has_it():
    """The answer names what the page has for a call that works. Where there is nothing to call it says what to write,
    and no name that is near by chance.
    """
    wrong = {}
    for row in rows():
        class_name, name = _in_python(row.method).split(".")
        asked = next((one for one in _HINTING if one.__name__ == class_name.rpartition("$")[2]), None)
        if asked is None or row.state not in ("works", "by itself"):
            continue
        try:
            getattr(asked, f"{name}_" if keyword.iskeyword(name) else name)
        except AttributeError as error:
            wanted = re.split(r"[.()]", row.here.strip("`").rstrip(")"))[-1] if row.state == "works" else "; write "
            if wanted not in str(error):
                wrong[row.method] = str(error)

    assert len(_HINTING) > 20
    assert wrong == {}


_HINTING = [one for name in dir(kstreams_replay) if isinstance(one := getattr(kstreams_replay, name), type(Hinting))]
"""Classes whose unknown names are refused with what to write."""


def test_what_is_absent_has_not_been_built():
    """A row that says so of a call that is there is to be changed."""
    built = [row.method for row in rows() if row.state == "absent" and _is_there(_in_python(row.method))]

    assert built == []


def test_a_row_that_were_absent_by_mistake_would_be_seen():
    assert _is_there(_in_python("kstream.KStream.mapValues"))
    assert _is_there(_in_python("state.Stores.sessionStoreBuilder"))
    assert not _is_there(_in_python("kstream.KStream.noSuchCall"))


def _in_python(method: str) -> str:
    """``Class.name`` of one of Kafka's methods, as it would be called here."""
    class_name, name = method.split(".")[-2:]
    return f"{class_name}.{re.sub('(?=[A-Z])', '_', name).lower()}"


def test_what_shows_a_row_is_there():
    played = {tape.test for tape in tapes() if tape.is_piped and reason_of(tape) is None}
    shown = {row.golden.strip("`") for row in rows() if row.golden}

    assert sorted(golden for golden in shown if golden not in played and not (ROOT / golden).is_file()) == []


def test_the_page_counts_its_rows():
    counts = ", ".join(f"{sum(row.state == state for row in rows())} {state}" for state in STATES)

    assert f"{len(rows())} methods: {counts}." in TABLE.read_text(encoding="utf-8")
