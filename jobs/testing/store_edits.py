"""What a test puts into a state store: into whose store it goes, and who sees it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...state.errors import ConfigError
from ..functions.processor_api import AggregationWithHeaders, KeyValues, ValueAndTimestamp, ValueTimestampHeaders
from ..functions.state_stores import (
    SESSION_WITH_HEADERS,
    TIMESTAMPED,
    TIMESTAMPED_WINDOW,
    TIMESTAMPED_WINDOW_WITH_HEADERS,
    TIMESTAMPED_WITH_HEADERS,
)
from ..operators.base.operator import Links, WindowedStore
from ..operators.base.single_records import Single
from ..operators.processor.process import Process
from ..operators.processor.table_stores import TableValues, Writer
from ..operators.processor.table_windows import Place, windows_of
from ..operators.tables.key_value_view import KeyValueView
from ..operators.tables.table_views import build_view
from ..task.record_run import RecordRun, empty_batches_of
from ..task.task import Task, empty_input
from .changelogs import ChangeLog

_NO_TIMESTAMP_MS = -1


class StoreEdit(NamedTuple):
    """A call of the store of that name: "put", "delete" or "remove", and its arguments."""

    store: str
    method: str
    arguments: tuple[Any, ...]


def make(edit: StoreEdit, tasks: list[Task], logs: Mapping[int, ChangeLog]) -> None:
    """``logs``: by sub-topology, where puts are noted. Raises ConfigError for a store that no test may write, and for a
    value of another type than the store's.
    """
    for task in tasks:
        for operator in task.operators.values():
            if isinstance(operator, Process) and edit.store in operator.own_stores:
                _into_own(edit, operator)
                return
        if edit.store in task.sub_topology.stores:
            _into_table(edit, task, logs.get(task.sub_topology.id))
            return
    next_step = "pipe records into its topic, which write it"
    raise ConfigError(f"store {edit.store!r}", "a store that is no global one", f"a {edit.method}", next_step)


def _into_own(edit: StoreEdit, operator: Process) -> None:
    """A processor's store is called as the processor would."""
    specs = [spec for spec in operator.node.stores if isinstance(spec, KeyValues) and spec.name == edit.store]
    kind = specs[0].settings.get("kind", "") if specs else ""
    arguments = list(edit.arguments)
    if edit.method == "put" and arguments[1] is not None:
        arguments[1] = _with_more(arguments[1], kind)
    getattr(operator.stores[edit.store], edit.method)(*arguments)


def _with_more(value: Any, kind: str) -> Any:
    """A plain value as a store of that kind takes it."""
    if kind in (TIMESTAMPED, TIMESTAMPED_WINDOW) and not isinstance(value, ValueAndTimestamp):
        return ValueAndTimestamp(value, _NO_TIMESTAMP_MS)
    if kind in (TIMESTAMPED_WITH_HEADERS, TIMESTAMPED_WINDOW_WITH_HEADERS):
        if isinstance(value, ValueAndTimestamp):
            return ValueTimestampHeaders(value.value, value.timestamp_ms)
        return value if isinstance(value, ValueTimestampHeaders) else ValueTimestampHeaders(value, _NO_TIMESTAMP_MS)
    if kind == SESSION_WITH_HEADERS and not isinstance(value, AggregationWithHeaders):
        return AggregationWithHeaders(value)
    return value


def _into_table(edit: StoreEdit, task: Task, log: ChangeLog | None) -> None:
    """The store of a table or an aggregate is put as by a processor that names it."""
    node, place = task.sub_topology.stores[edit.store], "test driver"
    operator, graph = task.operators[node.name], task.graph
    traits, is_exported = graph.tables.get(node.name), any(node.name == one.node for one in task.dataflow.exports)
    plain = traits is not None and traits.store is not None and not traits.store.is_versioned
    is_windowed = node.shape.window is not None
    # An exported table has copies in later parts of its sub-topology, which only forwarded records reach.
    if not plain or is_exported or (is_windowed and node.windows_for_processors is None):
        expected = "a store of a processor, or one of a table or an aggregate that forwards every update"
        got, next_step = f"that of {node.name}", "pipe the records that write it"
        raise ConfigError(f"{place}, store {edit.store!r}", expected, got, next_step)
    run, arguments = _run_of_nothing(task), list(edit.arguments)

    writer = Writer(run.chunk, Links(_send_nothing, run.show), 0)
    # Stores of tables and of windowed aggregates are timestamped ones in Kafka Streams; for sessions there is none.
    if edit.method == "put" and node.shape.window != "session" and arguments[1] is not None:
        arguments[1] = _with_more(arguments[1], TIMESTAMPED)
    if is_windowed:
        assert isinstance(operator, WindowedStore), "a store of windows is that of an aggregate"
        windows = windows_of(Place(edit.store, node.name, node.shape, place), operator, writer)
        getattr(windows if log is None else log.look_at(edit.store, windows), edit.method)(*arguments)
        return
    view = build_view(graph, node.name, getattr(operator, "keys", operator.context.keys))
    assert isinstance(view, KeyValueView), "a key-value store is looked at by its keys"
    values = TableValues(edit.store, node.name, node.shape, view, operator, place)
    values.writer = writer
    (values if log is None else log.look_at(edit.store, values)).put(*arguments)
    run.settle()


def _run_of_nothing(task: Task) -> RecordRun:
    """A chunk without records, in which views are shown what is put."""
    batches, chunk, _, _ = task.take(empty_input(task))
    empty_batches = empty_batches_of(task.dataflow, task.operators, chunk, batches)
    return RecordRun(task.dataflow, task.operators, chunk, {}, None, empty_batches=empty_batches)


def _send_nothing(one: Single, child: str | None) -> None:
    raise AssertionError("what a test puts is not forwarded")
