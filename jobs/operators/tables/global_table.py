"""A reader's replica of a global table: every task has all of the topic (GlobalKTable, GlobalStateUpdateTask).

Rule: a record replaces what its key had, whatever its time, a null value deletes it, and one with a null key is passed
over. A stream's record sees what came before it in the order of the task's tape.
"""

from ....state.records.keys import Keys
from ...functions.expressions import Shape
from .key_value_view import KeyValueView


class GlobalTableView(KeyValueView):
    """Of the global table ``owner``; its keys may be of another serde than the ``keys`` of the stream that asks.

    ``keys`` of the view: those that codes in ``get`` are of.
    """

    def __init__(self, owner: str, shape: Shape, keys: Keys) -> None:
        super().__init__(owner, shape, keys if keys.serde == shape.key else Keys(shape.key))
