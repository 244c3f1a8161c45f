"""The command `advance`: record that stream time of a landed topic, or the wall clock, has reached a time
(jobs/landing/recorded_time.py), or that nothing more of the topic comes (jobs/landing/complete_topics.py).
"""

from collections.abc import Mapping

from ....jobs.landing.complete_topics import record_complete
from ....jobs.landing.recorded_time import record_tick, record_time
from ....state.errors import ConfigError
from ....state.tables.warehouse import Warehouse
from ....state.times import instant_ms
from ...text_tables import flat_row, print_json, print_table
from .. import options
from ..command import OneOf, argument, command, option


@command(one_of=[OneOf(("to", "complete"), required=True)])
@argument("topic", help="name of the landed topic")
@options.warehouse
@option("--to", metavar="TIME", help="ISO 8601 (without a zone: UTC), or milliseconds")
@option("--complete", is_flag=True, help="nothing more of the topic comes, as of a static table: no other waits for it")
@option("--partition", type=options.Whole(min=0), metavar="P", help="this one alone (default: every one)")
@option("--tick", is_flag=True, help="the wall clock has reached it, in every partition, and stream time stays")
@options.as_json
def advance(
    topic: str, warehouse: str, to: str | None, complete: bool, partition: int | None, tick: bool, as_json: bool
) -> int:
    """Record that stream time of a landed topic has reached a time, or that nothing more of the topic comes."""
    if to is None:
        if tick or partition is not None:
            raise ConfigError("--complete", "the topic alone", "--tick or --partition", "leave them out")
        print_complete(topic, record_complete(Warehouse(warehouse), topic), as_json=as_json)
        return 0
    time_ms = instant_ms(to, "--to")
    if tick and partition is not None:
        got, next_step = f"--partition {partition}", "leave one of both out"
        raise ConfigError("--tick", "a tick of every partition", got, next_step)
    opened = Warehouse(warehouse)
    recorded = record_tick(opened, topic, time_ms) if tick else record_time(opened, topic, time_ms, partition=partition)
    if as_json:
        print_json({"topic": topic, "is_tick": tick, "reached_ms": recorded})
    else:
        print_recorded(topic, recorded, what="a tick of the wall clock" if tick else "stream time")
    return 0


def print_complete(topic: str, is_new: bool, *, as_json: bool = False) -> None:
    """That a topic is complete, and whether it is so from now on."""
    if as_json:
        print_json({"topic": topic, "complete": True, "is_new": is_new})
    else:
        print(f"{topic}: {'recorded' if is_new else 'was recorded before'} to be complete; no other topic waits for it")


def print_recorded(topic: str, recorded: Mapping[int, int], what: str = "stream time") -> None:
    """What was recorded, by partition."""
    if not recorded:
        print(f"{topic}: no time to record that is not recorded already")
        return
    print(f"{topic}: {what} recorded; the next run of each pipeline takes it")
    print_table([flat_row({"partition": p, "reached_ms": time_ms}) for p, time_ms in sorted(recorded.items())])
