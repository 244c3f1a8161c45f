"""Every call of the DSL shows an example in its docstring, which runs, and names the call of Kafka that it is.

Rule: nothing is excepted: a new call without an example or without its source fails here.
"""

import doctest
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from kstreams_replay.jobs.functions import folds
from kstreams_replay.jobs.functions.call_names import Hinting
from kstreams_replay.jobs.topology import Branched, Consumed, Printed, fold
from tests.test_docs import DSL, NOT_OF_THE_DSL
from tests.topology.docstring_inputs import names_of

NOT_CALLS = NOT_OF_THE_DSL | {"printer"}
"""Public attributes of the classes that no topology calls."""

CLASSES = (*DSL, Branched, Consumed, Printed)
FOLDS = {f"fold.{name}": getattr(folds, name) for name in fold.__all__}


def calls() -> Iterator[tuple[str, Any]]:
    """("KStream.filter", function) of every public call of every class, inherited ones too."""
    for each in CLASSES:
        fields = getattr(each, "__dataclass_fields__", {})
        for name in dir(each):
            call = inspect.unwrap(inspect.getattr_static(each, name))
            call = getattr(call, "__func__", call)
            is_own = not hasattr(Hinting, name) and name not in NOT_CALLS and name not in fields
            if is_own and not name.startswith("_") and inspect.isfunction(call):
                yield f"{each.__name__}.{name}", inspect.unwrap(call)


CALLS = dict(calls())


def test_every_call_says_its_source():
    assert [name for name, call in CALLS.items() if "Source:" not in (inspect.getdoc(call) or "")] == []


def test_every_call_and_every_fold_has_an_example():
    assert [name for name, call in (CALLS | FOLDS).items() if ">>>" not in (inspect.getdoc(call) or "")] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CALLS, *FOLDS])
def test_the_example_of_a_call_runs(name):
    docstring = inspect.getdoc((CALLS | FOLDS)[name]) or ""
    example = doctest.DocTestParser().get_doctest(docstring, names_of(docstring), name, None, None)
    failures: list[str] = []

    doctest.DocTestRunner(verbose=False, optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(example, out=failures.append)

    assert "".join(failures) == ""
