"""What a run keeps for readers beside the tables of its increments: current values, and Iceberg's metadata.

Rule: it is brought up to the last done increment before the run's first one and behind each, so what a death left
undone is made up by the next run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...state.errors import ConfigError
from ...state.extras import how_to_install
from ...state.hidden_values import hide
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

    def bring_up(self, warehouse: Warehouse, pipeline: str) -> None:
        """To the last done increment; nothing where none is done. Raises ConfigError where PyIceberg is needed and not
        installed, or an output is not there.
        """
        if not (self.outputs or self.catalog) or Ledger(warehouse.pipeline(pipeline).ledger).last_done() is None:
            return
        from ...jobs.history.current_values import keep_current

        for output in self.outputs:
            keep_current(warehouse, pipeline, output)
        if self.catalog is not None:
            self._publish(warehouse, pipeline, self.catalog)

    def _publish(self, warehouse: Warehouse, pipeline: str, catalog: str) -> None:
        try:
            from ...jobs.history.published_iceberg import publish_iceberg
        except ModuleNotFoundError as error:
            got, next_step = f"no module {error.name}", how_to_install("pyiceberg")
            raise ConfigError(f"catalog {catalog}", "PyIceberg", got, next_step) from error
        settings = dict(self.settings or {})
        hide(settings)
        publish_iceberg(warehouse, pipeline, catalog, properties=settings, namespace=self.namespace)
