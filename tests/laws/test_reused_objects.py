"""Law: a value is what it was when it was handed over. Functions that hand over one object again and again, spoil it
afterwards and spoil what they are given leave the rows of functions that use fresh objects, at every cut.
"""

import dataclasses
import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest

import kstreams_replay
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.functions.folds.aggregation import Aggregation
from kstreams_replay.jobs.functions.timestamp_extractors import RecordFunction, TimestampExtractor
from kstreams_replay.jobs.graph.graph import Node
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Topology
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.reused_objects import CODES, SPOILT, TOPOLOGIES, Fresh, Reused, landed
from tests.planted import plant, tables_of
from tests.sampling import is_nightly

pytestmark = pytest.mark.every_run

NO_VALUES = {
    "Branched.with_consumer(consumer)": "of streams, when the topology is built",
    "Branched.with_function(function)": "of streams, when the topology is built",
    "FixedKeyProcessorContext.schedule(callback)": "of a time",
    "KStream.outer_join(selector)": "of nothing: it is refused",
    "ProcessorContext.schedule(callback)": "of a time",
    "Topology.reading(topics)": "of nothing: it gives names of topics",
}
"""Functions that no key and no value is ever handed to."""
ELSEWHERE = {
    "PartitionedSinkNode.partitioner": "once a topology is built, a PartitionedNode has it",
    "TableFoldNode.aggregation": "a fold in Python takes no values back",
}
"""Fields of nodes that no function is in when a topology runs."""


TOPICS = "in", "other", "second", "tab", "everywhere"


def built(case: str, wear: Fresh) -> Topology:
    return TOPOLOGIES[case](wear).reading(TOPICS)


def topics_of(topology: Topology) -> list[str]:
    read = {source.topic for sub in topology.sub_topologies for source in (*sub.sources, *sub.globals)}
    return sorted(read & set(TOPICS))


def rows(path: Any, wear: Fresh, case: str, max_records: int | None) -> dict[str, Any]:
    warehouse, topology = Warehouse(path), built(case, wear)
    for topic in topics_of(topology):
        plant(warehouse, topic, landed(topic), partitions=1)
    options = {"runner": LocalRunner(), "max_records": max_records, "idle": "proceed"}
    for _ in replay(warehouse, topology, pipeline="p", **options):
        pass
    return tables_of(warehouse, "p", topology)


@pytest.mark.sampled
@pytest.mark.parametrize("case", TOPOLOGIES)
def test_one_object_that_is_spoilt_after_each_hand_over_leaves_the_rows_of_fresh_ones_at_every_cut(tmp_path, case):
    wanted = rows(tmp_path / "fresh", Fresh(), case, None)

    half = sum(len(landed(topic)) for topic in topics_of(built(case, Fresh()))) // 2
    for max_records in (None, 1) if is_nightly() else (half,):
        found = rows(tmp_path / f"reused-{max_records}", Reused(), case, max_records)
        assert {name: found[name] for name in wanted if found[name] != wanted[name]} == {}

    assert SPOILT not in repr(wanted)
    empty = [name for name, table in wanted.items() if not table and name.startswith("outputs/")]
    assert empty == [], "an output without rows shows nothing"


# --- every place is played ----------------------------------------------------------------------------------------


def node_classes() -> list[type[Node]]:
    for room in (".graph", ".operators", ".topology"):
        package = importlib.import_module(f"kstreams_replay.jobs{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    found, waiting = [], [Node]
    while waiting:
        found.append(waiting.pop())
        waiting += found[-1].__subclasses__()
    return found


def places(node_class: type[Node]) -> Iterator[str]:
    """Fields of nodes that may hold a user's function, by the class that declares them."""
    for field in dataclasses.fields(node_class):
        if re.search(r"Callable|\bCall\b|Joiner|Aggregation|TimestampExtractor", str(field.type)):
            yield _declared(node_class, field.name)


def _declared(node_class: type[Node], field: str) -> str:
    """The field, with the class that declares it."""
    owner = next(one for one in node_class.__mro__ if field in inspect.get_annotations(one))
    return f"{owner.__name__}.{field}"


def of_the_law(value: Any, depth: int = 0) -> bool:
    """Whether a function of tests/laws/reused_objects.py is in it."""
    if depth > 6:
        return False
    if any(value in codes for codes in CODES.values() if callable(value)):
        return True
    if getattr(value, "__module__", None) == Fresh.__module__ and hasattr(value, "__wrapped__"):
        return True
    if isinstance(value, Aggregation):
        return any(of_the_law(getattr(fold, "aggregator", None), depth + 1) for fold in value.folds.values())
    if isinstance(value, TimestampExtractor | RecordFunction) or hasattr(value, "function"):
        return any(of_the_law(getattr(value, name, None), depth + 1) for name in ("function", "step"))
    if isinstance(value, tuple):
        return any(of_the_law(one, depth + 1) for one in value)
    return any(of_the_law(cell.cell_contents, depth + 1) for cell in getattr(value, "__closure__", None) or ())


def test_every_field_of_a_node_that_holds_a_function_is_played():
    wanted = {place for node_class in node_classes() for place in places(node_class)}
    played = set()
    for case in TOPOLOGIES:
        for node in built(case, Reused()).graph.nodes.values():
            for field in dataclasses.fields(node):
                if of_the_law(getattr(node, field.name)):
                    played.add(_declared(type(node), field.name))

    assert wanted - played == set(ELSEWHERE), "add a step to tests/laws/reused_objects.py that has such a function"


def calls_that_take_functions() -> dict[str, tuple[type, str, str]]:
    """Public methods of the package's classes, with each parameter that takes a function."""
    found = {}
    for class_name in dir(kstreams_replay):
        kind = getattr(kstreams_replay, class_name)
        rooms = "kstreams_replay.jobs.", "kstreams_replay.state."
        if not inspect.isclass(kind) or not kind.__module__.startswith(rooms):
            continue
        for name, method in inspect.getmembers(kind, callable):
            for parameter in () if name.startswith("_") or inspect.isclass(method) else _parameters(method):
                said = str(parameter.annotation)
                if "StoreSupplier" not in said and ("Callable" in said or parameter.name == "supplier"):
                    found[f"{class_name}.{name}({parameter.name})"] = kind, name, parameter.name
    return found


def _parameters(method: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(method).parameters.values())
    except (TypeError, ValueError):
        return []


def test_every_call_that_takes_a_function_is_played(monkeypatch):
    wanted, played = calls_that_take_functions(), set()

    def watch(kind: type, name: str) -> None:
        static = inspect.getattr_static(kind, name)
        is_bound = isinstance(static, classmethod | staticmethod)
        original = static.__func__ if is_bound else static
        signature = inspect.signature(original)

        @functools.wraps(original)
        def watching(*arguments: Any, **options: Any) -> Any:
            given = signature.bind(*arguments, **options).arguments
            given |= given.pop("options", {}) if isinstance(given.get("options"), dict) else {}
            played.update(f"{kind.__name__}.{name}({one})" for one, value in given.items() if of_the_law(value))
            return original(*arguments, **options)

        monkeypatch.setattr(kind, name, type(static)(watching) if is_bound else watching)

    for kind, name in {(kind, name) for kind, name, _ in wanted.values()}:
        watch(kind, name)
    for build in TOPOLOGIES.values():
        build(Reused())

    assert set(wanted) - played == set(NO_VALUES), "add a call to tests/laws/reused_objects.py"
