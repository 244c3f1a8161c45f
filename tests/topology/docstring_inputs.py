"""What examples in docstrings begin with: some streams and tables with a few records, and ``show``, which runs them."""

from typing import Any

import kstreams_replay
from kstreams_replay import Consumed, KTable, Serde, StreamsBuilder, TopologyTestDriver

CLICK = Serde.json("page string, seconds int")
ORDER = Serde.json("item string, amount int")
USER = Serde.json("name string, city string")
STRING = Serde.string()

RECORDS: dict[str, tuple[Serde, list[tuple[str, Any, int]]]] = {
    "clicks": (
        CLICK,
        [
            ("ann", {"page": "home", "seconds": 5}, 0),
            ("bob", {"page": "home", "seconds": 1}, 1_000),
            ("ann", {"page": "cart", "seconds": 9}, 2_000),
            ("bob", {"page": "pay", "seconds": 2}, 70_000),
        ],
    ),
    "mobile": (CLICK, [("cat", {"page": "home", "seconds": 3}, 500)]),
    "words": (STRING, [("k", "to be", 0), ("k", "or not", 1)]),
    "orders": (
        ORDER,
        [
            ("ann", {"item": "tea", "amount": 5}, 1_000),
            ("bob", {"item": "mug", "amount": 1}, 2_000),
            ("ann", {"item": "tea", "amount": 2}, 61_000),
        ],
    ),
    "payments": (STRING, [("ann", "card", 1_500), ("bob", "cash", 90_000)]),
    "prices": (Serde.double(), [("tea", 2.0, 0), ("mug", 8.0, 500), ("tea", 3.0, 60_000)]),
    "points": (Serde.long(), [("ann", 10, 0), ("bob", 7, 100), ("ann", 4, 5_000)]),
    "users": (
        USER,
        [
            ("ann", {"name": "Ann", "city": "Oslo"}, 0),
            ("bob", {"name": "Bob", "city": "Rome"}, 50),
            ("ann", {"name": "Ann", "city": "Rome"}, 3_000),
        ],
    ),
    "countries": (STRING, [("Oslo", "NO", 0), ("Rome", "IT", 0)]),
}
"""By topic: the serde of its values, and its records (key, value, time in ms); keys are strings."""

TABLES = ("prices", "points", "users", "countries")


def names_of(docstring: str) -> dict[str, Any]:
    """All that the examples of ``docstring`` may use."""
    builder = StreamsBuilder()
    names: dict[str, Any] = {
        name: getattr(kstreams_replay, name) for name in kstreams_replay.__all__ if name in docstring
    }
    names |= {"builder": builder, "Serde": Serde, "Consumed": Consumed, "STRING": STRING, "CLICK": CLICK}
    for topic, (serde, _) in RECORDS.items():
        if topic in docstring and f'"{topic}"' not in docstring:
            made = builder.table if topic in TABLES else builder.stream
            names[topic] = made(topic, Consumed(STRING, serde))

    def show(result: Any, *, until_ms: int | None = None) -> None:
        """Print the records of a stream, or the changes of a table; at last stream time advances to ``until_ms``."""
        (result.to_stream() if isinstance(result, KTable) else result).to("shown")
        print_lines(run(builder, until_ms), "shown")

    def output(name: str) -> None:
        """Print the records of an output that the topology writes."""
        print_lines(run(builder, None), name)

    return names | {"show": show, "output": output}


def run(builder: StreamsBuilder, until_ms: int | None) -> TopologyTestDriver:
    """All records of the topics that the topology reads, by time."""
    topology = builder.build()
    driver = TopologyTestDriver(topology)
    read = [topic for topic in RECORDS if topic in topology.source_topics()]
    records = [(topic, *record) for topic in read for record in RECORDS[topic][1]]
    for topic, key, value, time_ms in sorted(records, key=lambda record: record[3]):
        driver.pipe_input(topic, key, value, timestamp_ms=time_ms)
    for topic in read if until_ms is not None else ():
        driver.advance_stream_time(topic, until_ms)
    return driver


def print_lines(driver: TopologyTestDriver, output: str) -> None:
    for record in driver.read_outputs(output):
        window = "" if record.window is None else f" [{record.window[0]}, {record.window[1]}]"
        print(f"{record.key}{window}: {record.value} at {record.timestamp_ms}")
