"""The command `lineage`: increments as events of OpenLineage."""

import sys

from ....jobs.history.committed_tables import done_row, in_force
from ....state.tables.ledger import Ledger
from ....state.tables.warehouse import Warehouse
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
    """
    from openlineage.client import OpenLineageClient
    from openlineage.client.serde import Serde

    from ...openlineage_events import event_of

    opened = Warehouse(warehouse)
    newest = done_row(opened, pipeline).increment
    loaded = load_topology(topology, warehouse)
    rows = in_force(Ledger(opened.pipeline(pipeline).ledger).done_rows(newest if since is None else since, newest))
    own = [row for row in rows if not row.content.has_no_plan]
    if not own:
        first = newest if since is None else since
        print(f"replay lineage: {pipeline} has run no increment from {first} on, so there is no event", file=sys.stderr)
    client = OpenLineageClient() if send else None
    for row in own:
        event = event_of(opened, pipeline, loaded, row)
        if client is None:
            print(Serde.to_json(event))
        else:
            client.emit(event)
            print(f"increment {row.increment}: sent as run {event.run.runId}")
    return 0
