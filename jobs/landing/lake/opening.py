"""A table as a source names it, opened.

Owns the choice of the format. Rule: the library of a format is loaded when a table of it is asked for.
"""

from .lake_source import LakeSource
from .lake_table import LakeTable


def open_lake(source: LakeSource, asked: int | None) -> LakeTable:
    """The table of ``source`` as of the version ``asked`` (None: the newest). Raises LandingError where it cannot be
    read, ModuleNotFoundError where PyIceberg is not installed.
    """
    if source.delta is not None:
        from .delta_tables import open_delta

        return open_delta(source.delta, asked)
    assert source.iceberg is not None
    from .iceberg_tables import open_iceberg

    return open_iceberg(source.iceberg, source.catalog, asked)
