"""Fixtures for pytest, which finds them by the entry point pytest11; nothing heavy is imported before one is used."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..topology.topology import Topology
    from .test_driver import TopologyTestDriver


@pytest.fixture
def topology_test_driver() -> "Iterator[Callable[..., TopologyTestDriver]]":
    """Makes test drivers, ``topology_test_driver(topology, auto_advance="1s")``, and closes them after the test: a
    record on which the topology fails then fails the test, though nothing was read.
    """
    from .test_driver import TopologyTestDriver

    drivers: list[TopologyTestDriver] = []

    def make(topology: "Topology", **options: Any) -> TopologyTestDriver:
        drivers.append(TopologyTestDriver(topology, **options))
        return drivers[-1]

    yield make
    for driver in drivers:
        driver.close()
