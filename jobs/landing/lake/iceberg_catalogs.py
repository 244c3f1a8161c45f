"""Catalogs of Iceberg, opened so that a table's metadata decide neither code nor whom credentials are sent to.

PyIceberg takes properties of a table as settings of what reads its files, above those of the catalog. One of them is
the name of a class, which it imports. Owns what it may take. Rule: a catalog's settings are the user's, and so are the
answers of a catalog that is a service (REST). What metadata say is of whoever may write them: it counts for neither.
"""

from collections.abc import Mapping

from pyiceberg import io as file_io
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.typedef import EMPTY_DICT


def open_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    """``name`` as PyIceberg is configured for it, or by ``properties``. Raises what PyIceberg does."""
    catalog = load_catalog(name, **properties)
    load, is_service = catalog._load_file_io, isinstance(catalog, RestCatalog)

    def load_file_io(properties: Mapping[str, str] = EMPTY_DICT, location: str | None = None) -> file_io.FileIO:
        # Credentials that a service hands out come here among the properties of the table.
        taken = {key: value for key, value in properties.items() if is_service and key != file_io.PY_IO_IMPL}
        return load(taken, location)

    vars(catalog)["_load_file_io"] = load_file_io
    return catalog
