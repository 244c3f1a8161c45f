"""The commands `report` and `metrics`: quality over time, as a page and as text for a scraper."""

import importlib.util
from pathlib import Path

from ....state.errors import ConfigError
from ....state.tables.warehouse import Warehouse
from .. import options
from ..command import command, option


@command()
@options.warehouse
@option("--pipeline", multiple=True, metavar="NAME", help="this pipeline (more than once: these; default: all)")
@option("--out", required=True, metavar="FILE", help="the page, for example quality.html")
@options.topology_option("of the one pipeline: says until when results wait")
def report(warehouse: str, pipeline: tuple[str, ...], out: str, topology: str | None) -> int:
    """Write one HTML page about the quality of pipelines; it needs no server and no network."""
    _needs("altair", "vl_convert", "jinja2")
    from ...quality.report import write_report
    from ...settings.topology_loading import load_topology

    loaded = None if topology is None else load_topology(topology)
    if loaded is not None and len(pipeline) != 1:
        raise ConfigError("--topology", "one --pipeline", f"{len(pipeline)} of them", "name the pipeline that runs it")
    size = write_report(Warehouse(warehouse), list(pipeline) or None, Path(out), topology=loaded)
    print(f"{out}: {size:,} bytes")
    return 0


@command()
@options.warehouse
@options.pipeline
def metrics(warehouse: str, pipeline: str) -> int:
    """Print the numbers of a pipeline as OpenMetrics text."""
    _needs("prometheus_client")
    from ...quality.openmetrics import openmetrics

    print(openmetrics(Warehouse(warehouse), pipeline), end="")
    return 0


def _needs(*modules: str) -> None:
    """ConfigError when the libraries of the extra `report` are not installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        advice = "pip install 'kafka-streams-replay[report]'"
        raise ConfigError("report", "its libraries", f"no {', '.join(missing)}", advice)
