"""What a run keeps for readers beside the tables of its increments: current values, and Iceberg's metadata.

Rule: it is brought up to the last done increment before the run's first one and behind each, so what a death left
undone is made up by the next run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

from ...jobs.history.output_diff import outputs_of
from ...jobs.topology import Topology
from ...state.errors import ConfigError
from ...state.extras import how_to_install
from ...state.hidden_values import hide
from ...state.near_names import did_you_mean
from ...state.tables.ledger import Ledger
from ...state.tables.warehouse import Warehouse


@dataclass(frozen=True)
class KeptTables:
    """``outputs``: of which current values are kept; ``catalog``: of Iceberg, in which outputs are published, with its
    ``settings``; None: in none. ``namespace``: None is the pipeline's name.
    """

    outputs: Sequence[str] = ()
    catalog: str | None = None
    namespace: str | None = None
    settings: Mapping[str, str] | None = None

    def refuse(self, topology: Topology) -> None:
        """Before a run writes anything. Raises ConfigError for outputs that ``topology`` does not have, where PyIceberg
        is needed and not installed, for a catalog that does not answer, and for what is about one where none is named.
        """
        known = dict.fromkeys(sink.topic for sink in topology.sinks())
        for output in self.outputs:
            if output not in known:
                next_step = did_you_mean(output, known, "name one of them")
                raise ConfigError("--current", f"one of the outputs {', '.join(known)}", repr(output), next_step)
        if self.catalog is None and (self.namespace is not None or self.settings):
            next_step = "name the catalog with --publish-iceberg, or leave them out"
            raise ConfigError("--namespace, --option", "a catalog that they are of", "none", next_step)
        if self.catalog is not None:
            hide(dict(self.settings or {}))
            _iceberg(self.catalog).open_catalog(self.catalog, self.settings or {})

    def bring_up(self, warehouse: Warehouse, pipeline: str) -> None:
        """To the last done increment; nothing where none is done, and of an output that no increment has had yet."""
        if not (self.outputs or self.catalog) or Ledger(warehouse.pipeline(pipeline).ledger).last_done() is None:
            return
        from ...jobs.history.current_values import keep_current

        there = outputs_of(warehouse, pipeline)
        for output in self.outputs:
            if output in there:
                keep_current(warehouse, pipeline, output)
        if self.catalog is not None:
            _iceberg(self.catalog).publish_iceberg(
                warehouse, pipeline, self.catalog, properties=self.settings, namespace=self.namespace
            )


def _iceberg(catalog: str) -> ModuleType:
    try:
        from ...jobs.history import published_iceberg
    except ModuleNotFoundError as error:
        got, next_step = f"no module {error.name}", how_to_install("pyiceberg")
        raise ConfigError(f"catalog {catalog}", "PyIceberg", got, next_step) from error
    return published_iceberg
