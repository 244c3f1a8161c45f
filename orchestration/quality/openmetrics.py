"""The numbers of a pipeline as OpenMetrics text, for whoever scrapes it.

Rule: what Kafka counts since the start (names that end in `-total`) is a counter here too, summed over the increments
that count; the rest are gauges of the last increment. Names are those of metrics.py with `replay_` before them.
`replay_guarantee_holds` has of each guarantee and table its newest verdict, 1 or 0; what was not checked is left out.
"""

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest

from ...expectations.quality_tables import VERDICTS, newest_results
from ...state.errors import LedgerError
from ...state.tables.warehouse import Warehouse
from .metrics import Increment, increments_in_force, metric_rows, recorded_open_windows

LABELS = ("pipeline", "sub_topology", "operator", "label")
VERDICT_LABELS = ("pipeline", "guarantee", "table", "severity")


def openmetrics(warehouse: Warehouse, pipeline: str) -> str:
    """The text, with `# EOF` at its end. LedgerError when nothing was replayed."""
    increments = increments_in_force(warehouse, pipeline)
    if not increments:
        place = warehouse.pipeline(pipeline).ledger
        raise LedgerError(place, "a done increment", "none", warehouse.where_to_look(pipeline))
    values: dict[tuple[str, tuple[str, ...]], float] = {}
    for planned, done in increments:
        is_last = done is increments[-1][1]
        windows = recorded_open_windows(warehouse, pipeline, increments[-1:]) if is_last else []
        for row in [*metric_rows(planned, done), *windows]:
            sub = "" if row["sub_topology"] is None else str(row["sub_topology"])
            key = row["metric"], (pipeline, sub, row["operator"] or "", row["label"] or "")
            if row["metric"].endswith("-total"):
                values[key] = values.get(key, 0.0) + row["value"]
            elif is_last:
                values[key] = row["value"]
    last = increments[-1][1]
    values["increment", (pipeline, "", "", "")] = last.increment
    values["committed-at-seconds", (pipeline, "", "", "")] = last.written_at_ms / 1000
    registry = CollectorRegistry()
    registry.register(_Families(values, _verdicts(warehouse, pipeline, increments)))
    return str(generate_latest(registry).decode())  # type: ignore[no-untyped-call]


def _verdicts(warehouse: Warehouse, pipeline: str, increments: list[Increment]) -> list[Metric]:
    """Newest verdicts, and the increment that was checked last; [] when none was."""
    epochs = {done.increment: done.epoch for _, done in increments}
    counted = [row for row in newest_results(warehouse, pipeline) if epochs.get(row["increment"]) == row["epoch"]]
    if not counted:
        return []
    holds = GaugeMetricFamily("replay_guarantee_holds", "1: holds, 0: broken, as checked last", labels=VERDICT_LABELS)
    # Rows come by increment, so the newest verdict of each is the one that stays.
    for row in {(row["guarantee"], row["table"]): row for row in counted}.values():
        if row["verdict"] != VERDICTS["unknown"]:
            labels = (pipeline, row["guarantee"], row["table"], row["severity"])
            holds.add_metric(labels, float(row["verdict"] == VERDICTS["true"]))
    checked = GaugeMetricFamily("replay_checked_increment", "the increment that was checked last", labels=["pipeline"])
    checked.add_metric([pipeline], counted[-1]["increment"])
    return [holds, checked]


class _Families:
    """What the library asks for metrics."""

    def __init__(self, values: dict[tuple[str, tuple[str, ...]], float], verdicts: list[Metric]) -> None:
        self.values, self.verdicts = values, verdicts

    def collect(self) -> list[Metric]:
        """One family a name."""
        families: dict[str, Metric] = {}
        for (metric, labels), value in sorted(self.values.items()):
            family = families.setdefault(metric, _family(metric))
            family.add_metric(labels, value)  # type: ignore[attr-defined]
        return [*families.values(), *self.verdicts]


def _family(metric: str) -> Metric:
    name = f"replay_{metric.replace('-', '_')}"
    if metric.endswith("-total"):
        return CounterMetricFamily(name, f"{metric} of all increments that count", labels=LABELS)
    return GaugeMetricFamily(name, f"{metric} of the last increment", labels=LABELS)
