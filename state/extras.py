"""Packages that only some of this project needs, and the extra of the installation that brings each.

Owns what is said where one is missing. Rule: code that needs a package imports it, and nothing else: whatever module of
this project fails to find one of these packages, the error names the extra. Other code is not touched.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType

from .version import DISTRIBUTION

EXTRAS = {
    "pyspark": "spark",
    "py4j": "spark",
    "dagster": "dagster",
    "great_expectations": "expectations",
    "yaml": "expectations",
    "confluent_kafka": "kafka",
    "pyiceberg": "iceberg",
    "altair": "report",
    "vl_convert": "report",
    "jinja2": "report",
    "prometheus_client": "report",
    "openlineage": "lineage",
    "opentelemetry": "traces",
}
"""Module → extra."""
_OURS = __name__.partition(".")[0]


def how_to_install(module: str) -> str:
    """The command that installs the extra of ``module``, one of EXTRAS."""
    return f"pip install '{DISTRIBUTION}[{EXTRAS[module]}]'"


def name_missing_extras() -> None:
    """From now on the error of an import in this project that lacks one of EXTRAS ends with ``how_to_install``."""
    if not any(isinstance(finder, _Missing) for finder in sys.meta_path):
        sys.meta_path.append(_Missing())


class _Missing(MetaPathFinder):
    """Python asks it last, for modules that nobody else has found."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in EXTRAS and _importer() == _OURS:
            raise ModuleNotFoundError(f"No module named {fullname!r}; {how_to_install(fullname)}", name=fullname)
        return None


def _importer() -> str:
    """Top-level package of the module whose import is at work."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("importlib"):
        frame = frame.f_back
    return "" if frame is None else str(frame.f_globals.get("__name__", "")).partition(".")[0]
