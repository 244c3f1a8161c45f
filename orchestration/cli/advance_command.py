"""The command `advance`: record that stream time of a landed topic has reached a time
(jobs/landing/recorded_time.py).
"""

from argparse import Namespace
from collections.abc import Mapping

from ...jobs.landing.recorded_time import record_time
from ...state.tables.warehouse import Warehouse
from ...state.times import instant_ms
from ..text_tables import flat_row, text_table


def advance(options: Namespace) -> int:
    """Record a time of one partition or all."""
    time_ms = instant_ms(options.to, "--to")
    recorded = record_time(Warehouse(options.warehouse), options.topic, time_ms, partition=options.partition)
    print_recorded(options.topic, recorded)
    return 0


def print_recorded(topic: str, recorded: Mapping[int, int]) -> None:
    """What was recorded, by partition."""
    if not recorded:
        print(f"{topic}: no time to record that is not recorded already")
        return
    print(f"{topic}: stream time recorded; the next run of each pipeline takes it")
    rows = [flat_row({"partition": p, "reached_ms": time_ms}) for p, time_ms in sorted(recorded.items())]
    print(text_table(rows))
