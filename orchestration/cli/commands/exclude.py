"""The command `exclude`: take landed records out of play (jobs/landing/exclusions.py)."""

from ....jobs.history.exclusions import ExclusionReport, exclude_records
from ....state.tables.warehouse import Warehouse
from .. import options
from ..command import argument, command, option, partition_and_offset


@command()
@argument("topic", help="name of the landed topic")
@options.warehouse
@option("--record", "records", required=True, multiple=True, metavar="P:O", help="partition and offset; repeatable")
@option("--reason", required=True, metavar="TEXT", help="why, for those who find that the record has no effect")
def exclude(topic: str, warehouse: str, records: tuple[str, ...], reason: str) -> int:
    """Take landed records out of play, so that what is planned from now on never reads them."""
    opened = Warehouse(warehouse)
    report = exclude_records(opened, topic, [partition_and_offset(each, "--record") for each in records], reason)
    _print(opened, report)
    return 0


def _print(warehouse: Warehouse, report: ExclusionReport) -> None:
    records = ", ".join(f"{partition}:{offset}" for partition, offset in report.records)
    are = "records are" if len(report.records) > 1 else "record is"
    print(f"{report.topic}: {len(report.records):,} {are} out of play (increment {report.increment}): {records}")
    for reader in report.readers:
        print(reader.sentence(warehouse))
    for pipeline in report.unfinished:
        print(f"{pipeline} has an unfinished increment of it, which its next run plans again without")
