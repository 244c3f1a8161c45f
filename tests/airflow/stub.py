"""What the example takes of Apache Airflow, as little as makes its file run: names, tasks and their order.

Rule: a task is not run when the file is loaded; calling one gives what represents it in the graph, as in Airflow.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any


class AirflowException(Exception):
    """A task failed, and may be tried again."""


class AirflowFailException(AirflowException):
    """A task failed, and is not tried again."""


class AirflowSkipException(AirflowException):
    """A task is skipped."""


@dataclass
class DagTask:
    """``downstream``: names of those that wait for it."""

    name: str
    run: Callable[[], Any]
    downstream: list[str] = field(default_factory=list)

    def __rshift__(self, other: "DagTask") -> "DagTask":
        self.downstream.append(other.name)
        return other


@dataclass
class LoadedDag:
    """What the file said. ``settings``: of the DAG."""

    settings: dict[str, Any] = field(default_factory=dict)
    tasks: dict[str, DagTask] = field(default_factory=dict)

    def dag(self, **settings: Any) -> Callable[[Callable[[], None]], Callable[[], None]]:
        self.settings.update(settings)
        return lambda build: build

    def task(self, function: Callable[..., Any], name: str = "") -> Callable[..., DagTask]:
        def called(*arguments: Any) -> DagTask:
            made = DagTask(name or function.__name__, lambda: function(*arguments))
            self.tasks[made.name] = made
            return made

        called.override = lambda task_id: self.task(function, task_id)  # type: ignore[attr-defined]
        return called


@contextmanager
def airflow() -> Iterator[LoadedDag]:
    """Airflow's modules are these as long as it lasts."""
    loaded = LoadedDag()
    modules = {name: ModuleType(name) for name in ("airflow", "airflow.sdk", "airflow.exceptions")}
    modules["airflow.sdk"].__dict__.update(dag=loaded.dag, task=loaded.task)
    raised = (AirflowException, AirflowFailException, AirflowSkipException)
    modules["airflow.exceptions"].__dict__.update({each.__name__: each for each in raised})
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield loaded
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
