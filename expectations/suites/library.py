"""Great Expectations itself: how it is loaded, and a context that keeps nothing, sends nothing and draws no bars."""

import os
import shutil
from pathlib import Path
from typing import Any


def load_great_expectations() -> Any:
    """Its module, which takes seconds to import: a program may begin while it waits for something else."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # read once, at import
    import great_expectations as gx
    import great_expectations.expectations

    return gx


def open_context(folder: str | None) -> Any:
    """A file context whose project is ``folder``, which keeps suites and results there; None: one that ends with us.

    Batches, definitions and checkpoint are of one run, and those of the run before name batches that are gone.
    """
    gx = load_great_expectations()
    for made_anew in ("checkpoints", "validation_definitions"):
        if folder is not None:
            shutil.rmtree(Path(folder, "gx", made_anew), ignore_errors=True)
    context = (
        gx.get_context(mode="ephemeral") if folder is None else gx.get_context(mode="file", project_root_dir=folder)
    )
    if not context.variables.progress_bars or context.variables.progress_bars.get("globally") is not False:
        context.variables.progress_bars = {"globally": False}
    return context
