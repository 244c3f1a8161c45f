"""Great Expectations itself: how it is loaded, and a context that keeps nothing, sends nothing and draws no bars."""

import os
from pathlib import Path
from typing import Any

KEPT = {"expectations_store": "gx/expectations", "validation_results_store": "gx/uncommitted/validations"}
"""Great Expectations' stores that are kept, and their folders, which have the names of its own projects."""


def load_great_expectations() -> Any:
    """Its module, which takes seconds to import: a program may begin while it waits for something else."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # read once, at import
    import great_expectations as gx
    import great_expectations.expectations

    return gx


def open_context(folder: str | None) -> Any:
    """A context that keeps suites and results in ``folder``, as JSON, and nothing else there; None: nowhere.

    All that it is comes from here: a project's own file could name classes and folders of plugins, and whoever may
    write the folder, or the bucket behind it, would have them imported.
    """
    gx = load_great_expectations()
    if folder is None:
        context = gx.get_context(mode="ephemeral")
    else:
        from great_expectations.data_context.types.base import DataContextConfig, InMemoryStoreBackendDefaults

        defaults = InMemoryStoreBackendDefaults()
        for store, name in KEPT.items():
            defaults.stores[store]["store_backend"] = {
                "class_name": "TupleFilesystemStoreBackend",
                "base_directory": str(Path(folder, name).resolve()),
            }
        context = gx.get_context(mode="ephemeral", project_config=DataContextConfig(store_backend_defaults=defaults))
    context.variables.progress_bars = {"globally": False}
    return context
