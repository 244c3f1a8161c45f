"""The node of a table whose values a user's transformer makes: how it is configured, and what it says of itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..tables.table_nodes import TableStepNode


@dataclass(frozen=True, eq=False, kw_only=True)
class TransformValuesNode(TableStepNode):
    """KTableTransformValues. ``supplier`` gives a ValueTransformerWithKey (jobs/functions/processor_api.py), one for
    the operator, and one for each reader that looks into the table where it has no store.
    """

    supplier: Callable[[], Any]

    operator = ".transform_values:build"
    view = ".transform_values:build_view"
