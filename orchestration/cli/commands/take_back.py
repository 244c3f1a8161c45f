"""The command `take-back`: what others committed to a table of the warehouse goes (jobs/history/take_back.py)."""

from ....jobs.history.take_back import take_back as take_back_table
from ....state.tables.warehouse import Warehouse
from .. import options
from ..command import argument, command


@command()
@argument("table", metavar="TABLE", help="as errors and fsck name it: landed/clicks, shop/outputs/counts")
@options.warehouse
def take_back(table: str, warehouse: str) -> int:
    """Take back what others committed to a table since the version that its ledger names."""
    touched = take_back_table(Warehouse(warehouse), table)
    if touched is None:
        print(f"{table}: nobody else has changed it")
    else:
        print(f"{table}: taken back: {touched.culprits()} ({touched.said()})")
    return 0
