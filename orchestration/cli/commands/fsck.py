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
    found = examine(Warehouse(warehouse), pipeline, lambda table: print(f"reading {table}", file=sys.stderr))
    if as_json:
        print_json(asdict(found))
        return ExitCode.FAILED if found.findings else ExitCode.DONE
    for finding in found.findings:
        print(f"DAMAGED {finding.place}\n        {finding.wrong}\n        to repair it: {finding.repair}")
    print(f"{found.files:,} files, {found.bytes:,} bytes read: {len(found.findings) or 'nothing'} damaged")
    return ExitCode.FAILED if found.findings else ExitCode.DONE
