"""The command `lineage`: increments as events of OpenLineage."""

import sys

from ....jobs.history.committed_tables import done_row
from ....state.tables.ledger import Ledger
from ....state.tables.rows_in_force import in_force
from ....state.tables.warehouse import Warehouse
from ....state.wall_clock import now_ms
from ...settings.topology_loading import load_topology
from .. import options
from ..command import command, option


@command()
@options.topology_argument
@options.warehouse
@options.pipeline
@option("--since", type=options.COUNT, metavar="N", help="from this increment on (default: the last one alone)")
@option("--send", is_flag=True, help="send them, as OPENLINEAGE_URL or openlineage.yml says, instead of printing them")
def lineage(topology: str, warehouse: str, pipeline: str, since: int | None, send: bool) -> int:
    """Print increments as OpenLineage's events, a line each, or send them.

    An event names, for each column of a table, the columns that it was made from. Sent twice, it is the same run again.
    An increment that failed has the event FAIL, until it is done.
    """
    from openlineage.client import OpenLineageClient
    from openlineage.client.serde import Serde

    from ....jobs.replay.heartbeats import at_work
    from ...openlineage_events import event_of, failure_of

    opened = Warehouse(warehouse)
    tables = opened.pipeline(pipeline)
    ledger = Ledger(tables.ledger)
    pending = ledger.pending()
    failed = None if pending is None or at_work(tables, now_ms()) else pending
    is_first = failed is not None and ledger.last_done() is None
    newest = 0 if is_first else done_row(opened, pipeline).increment
    loaded = load_topology(topology, warehouse)
    rows = in_force(ledger.done_rows(newest if since is None else since, newest))
    own = [row for row in rows if not row.content.has_no_plan]
    if not own and failed is None:
        first = newest if since is None else since
        print(f"replay lineage: {pipeline} has run no increment from {first} on, so there is no event", file=sys.stderr)
    client = OpenLineageClient() if send else None
    events = [(row.increment, event_of(opened, pipeline, loaded, row)) for row in own]
    if failed is not None:
        events.append((failed.increment, failure_of(opened, pipeline, loaded, failed)))
    for increment, event in events:
        if client is None:
            print(Serde.to_json(event))
        else:
            client.emit(event)
            print(f"increment {increment}: sent as run {event.run.runId}")
    return 0
