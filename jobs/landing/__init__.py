"""Landing: records of a topic, from Kafka, files, tables or Python, become a landed table, increment by increment.

In: offset ranges of a source. Out: the landed table, recorded times, the topic's ledger. Nothing is interpreted.
``land_files``, ``land_lake``, ``land_kafka``, ``land_records`` are the face. Not here: what reads them (``tape``).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .landing import (
        FileSource,
        KafkaSource,
        LakeSource,
        LandingReport,
        LandingRules,
        land_files,
        land_kafka,
        land_lake,
        land_records,
    )

__all__ = [
    "FileSource", "KafkaSource", "LakeSource", "LandingReport", "LandingRules", "land_files", "land_kafka", "land_lake",
    "land_records",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load the face when it is asked for: a module of this room comes without Spark."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".landing", __name__), name)
