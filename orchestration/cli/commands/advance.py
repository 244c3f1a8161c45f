"""The command `advance`: record that stream time of a landed topic has reached a time
(jobs/landing/recorded_time.py).
"""

from collections.abc import Mapping

from ....jobs.landing.recorded_time import record_time
from ....state.tables.warehouse import Warehouse
from ....state.times import instant_ms
from ...text_tables import flat_row, print_table
from .. import options
from ..command import argument, command, option


@command()
@argument("topic", help="name of the landed topic")
@options.warehouse
@option("--to", required=True, metavar="TIME", help="ISO 8601 (without a zone: UTC), or milliseconds")
@option("--partition", type=int, metavar="P", help="this one alone (default: every one)")
def advance(topic: str, warehouse: str, to: str, partition: int | None) -> int:
    """Record that stream time of a landed topic has reached a time."""
    recorded = record_time(Warehouse(warehouse), topic, instant_ms(to, "--to"), partition=partition)
    print_recorded(topic, recorded)
    return 0


def print_recorded(topic: str, recorded: Mapping[int, int]) -> None:
    """What was recorded, by partition."""
    if not recorded:
        print(f"{topic}: no time to record that is not recorded already")
        return
    print(f"{topic}: stream time recorded; the next run of each pipeline takes it")
    print_table([flat_row({"partition": p, "reached_ms": time_ms}) for p, time_ms in sorted(recorded.items())])
