"""The command `fsck`: is all of a warehouse as it was committed. Rule: it only reads."""

import sys
from dataclasses import asdict

from ....jobs.history.fsck import fsck as examine
from ....state.tables.warehouse import Warehouse
from ...text_tables import print_json
from .. import options
from ..command import command, option
from ..exit_codes import ExitCode


@command()
@options.warehouse
@option("--pipeline", metavar="NAME", help="this one, and the topics that it reads (default: all)")
@options.as_json
def fsck(warehouse: str, pipeline: str | None, as_json: bool) -> int:
    """Read everything: files and their checksums, Delta logs, ledgers, books. The exit code is 4 when there is damage.

    Each finding says what is wrong, and how to repair it.
    """
    report = examine(Warehouse(warehouse), pipeline, lambda table: print(f"reading {table}", file=sys.stderr))
    if as_json:
        print_json(asdict(report))
        return ExitCode.FAILED if report.findings else ExitCode.DONE
    for finding in report.findings:
        print(f"DAMAGED {finding.place}\n        {finding.wrong}\n        to repair it: {finding.repair}")
    print(f"{report.files:,} files, {report.bytes:,} bytes read: {len(report.findings) or 'nothing'} damaged")
    return ExitCode.FAILED if report.findings else ExitCode.DONE
