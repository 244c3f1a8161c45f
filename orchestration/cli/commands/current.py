"""The command `current`: the newest value of every key and window, kept as a table (jobs/history/current_values.py)."""

from ....jobs.history.current_values import keep_current
from ....state.tables.data_files import read_files
from ....state.tables.warehouse import Warehouse
from .. import options
from ..command import argument, command


@command()
@argument("output", help="name of an output topic")
@options.warehouse
@options.pipeline
def current(output: str, warehouse: str, pipeline: str) -> int:
    """Bring the table of an output's current values up to the last increment; make it where there is none."""
    opened = Warehouse(warehouse)
    row = keep_current(opened, pipeline, output)
    path = opened.pipeline(pipeline).current(output)
    count = sum(file.records for file in read_files(path))
    print(f"{path}: {count:,} {'row' if count == 1 else 'rows'} as of increment {row.increment}")
    return 0
