"""CPU time of a record in tasks whose processors use the stores of others, in the test driver.

``python -m kstreams_replay.benchmarks.shared_stores [--records 50000]``: each topology twice; the second run counts,
since kernels are loaded by then. The digest of all outputs comes with each line: other code must print the same.
"""

import argparse
from collections.abc import Callable, Sequence
from hashlib import sha256
from random import Random
from time import thread_time

from ..jobs.functions.processor_api import KeyValues, Processor, Record, ValueAndTimestamp
from ..jobs.testing.test_driver import TopologyTestDriver
from ..jobs.topology import Consumed, Materialized, Serde, StreamsBuilder
from .workloads import TOTALS, USER, CountUsers

RECORDS = 50_000
_OF_ONE_KEY = 10
"""So many records are of one key, in the mean."""
_LIMIT = 20
"""Above it a count is deleted."""


class LooksAtUsers(Processor):
    """Forwards what another processor has summed of the key."""

    def process(self, record: Record) -> None:
        user = self.context.store("users").get(record.key)
        self.context.forward(record.with_value(-1 if user is None else user["total"]))


class LooksAtTable(Processor):
    """Adds what a table has of the key."""

    def process(self, record: Record) -> None:
        stored = self.context.store("table").get(record.key)
        self.context.forward(record.with_value(-1 if stored is None else stored.value + record.value))


class WritesCounts(Processor):
    """Looks into a table and into the store of an aggregate, which it writes for a fourth of the records."""

    def process(self, record: Record) -> None:
        counts = self.context.store("counts")
        stored, count = self.context.store("table").get(record.key), counts.get(record.key)
        if count is not None and count.value > _LIMIT:
            counts.delete(record.key)
        elif record.value % 4 == 0:
            counts.put(record.key, ValueAndTimestamp(3 if count is None else count.value + 2, record.timestamp_ms))
        self.context.forward(record.with_value(-1 if stored is None or count is None else stored.value + count.value))


def _long() -> Consumed:
    return Consumed(Serde.string(), Serde.long())


def _two_processors() -> StreamsBuilder:
    builder = StreamsBuilder().add_state_store(KeyValues("users", Serde.string(), USER))
    builder.stream("in", _long()).process(CountUsers, ["users"], returns=TOTALS).to("totals")
    builder.stream("asks", _long()).process(LooksAtUsers, ["users"], returns=Serde.long()).to("out")
    return builder


def _one_above_the_other() -> StreamsBuilder:
    builder = StreamsBuilder().add_state_store(KeyValues("users", Serde.string(), USER))
    totals = builder.stream("in", _long()).process(CountUsers, ["users"], returns=TOTALS)
    totals.process(LooksAtUsers, ["users"], returns=Serde.long()).to("out")
    return builder


def _with_steps() -> StreamsBuilder:
    builder = StreamsBuilder().add_state_store(KeyValues("users", Serde.string(), USER))
    above = (
        builder.stream("in", _long()).filter("value % 10 > 0").map_values(lambda value: value + 1, returns=Serde.long())
    )
    totals = above.process(CountUsers, ["users"], returns=TOTALS)
    totals.process(LooksAtUsers, ["users"], returns=Serde.long()).filter("value % 10 > 0").to("out")
    return builder


def _table() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.table("table", _long(), materialized=Materialized.as_("table"))
    builder.stream("in", _long()).process(LooksAtTable, ["table"], returns=Serde.long()).to("out")
    return builder


def _aggregate() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.table("table", _long(), materialized=Materialized.as_("table"))
    stream = builder.stream("in", _long())
    stream.group_by_key().count(Materialized.as_("counts")).to_stream().to("totals")
    stream.process(WritesCounts, ["table", "counts"], returns=Serde.long()).to("out")
    return builder


MADE: dict[str, tuple[Callable[[], StreamsBuilder], Sequence[str], Sequence[str]]] = {
    "two processors of two topics": (_two_processors, ("in", "asks"), ("out", "totals")),
    "two processors, one above the other": (_one_above_the_other, ("in",), ("out",)),
    "the same, with steps above and below": (_with_steps, ("in",), ("out",)),
    "a processor that reads a table": (_table, ("in", "table"), ("out",)),
    "a processor that reads a table and writes a count": (_aggregate, ("in", "in", "in", "table"), ("out", "totals")),
}
"""Each with the topics that its records are drawn from, and its outputs."""


def measure(name: str, records: int) -> tuple[float, str]:
    """Microseconds of CPU a record, and a digest of all outputs."""
    made, topics, outputs = MADE[name]
    random, driver = Random(5), TopologyTestDriver(made().build())
    for number in range(records):
        key = f"user-{random.randrange(max(1, records // _OF_ONE_KEY))}"
        driver.pipe_input(random.choice(topics), key, random.randrange(1_000), 10 * number)
    begun = thread_time()
    driver.run()
    seconds = thread_time() - begun
    rows = [[(one.key, one.value, one.timestamp_ms) for one in driver.read_outputs(topic)] for topic in outputs]
    return seconds / records * 1e6, sha256(repr(rows).encode()).hexdigest()[:8]


def main() -> None:
    """Print a line for each topology."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS)
    records = parser.parse_args().records
    for name in MADE:
        measure(name, records)
        micros, digest = measure(name, records)
        print(f"{micros:8.1f} µs  {digest}  {name}", flush=True)


if __name__ == "__main__":
    main()
