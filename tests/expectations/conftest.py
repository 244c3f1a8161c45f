"""A small warehouse with one pipeline, written through ``kstreams_replay.state.tables.commit`` without any engine.

Topic `clicks`, one partition; counts in windows of 10 ms with grace 5 ms, final results only, to output `counts`.

    increment 1, offsets [0, 4)            increment 2, offsets [4, 7)
    offset | time_ms | remark              offset | time_ms | remark
    0      |  3      | a, [0, 10)          4      |  2      | late: dropped
    1      |  9      | a, [0, 10)          5      | 26      | closes [10, 20) for b and c
    2      | 14      | b, [10, 20)         6      | 31      | 31 - 5 < 30: [20, 30) stays open
    3      | 15      | c, closes [0, 10)
"""

from typing import Any

import pyarrow as pa
import pytest

from kstreams_replay.expectations.suites.library import load_great_expectations
from kstreams_replay.expectations.verdicts import (
    FinalOutput,
    ReplayFacts,
    SourceTopic,
    SubTopologyFacts,
    Verdict,
    check_increment,
)
from kstreams_replay.state.tables.commit import commit_files
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.ledger_rows import DoneRow, PlanRow
from kstreams_replay.state.tables.parquet_writer import write_task_file
from kstreams_replay.state.tables.warehouse import (
    DEAD_LETTER_SCHEMA,
    DROPPED_SCHEMA,
    LANDED_SCHEMA,
    RECORDED_TIME_SCHEMA,
    Warehouse,
    output_schema,
)

COUNTS_SCHEMA = output_schema(pa.string(), pa.int64(), windowed=True)
FACTS = ReplayFacts(
    sub_topologies=(SubTopologyFacts(0, (SourceTopic("clicks"),)),),
    final_outputs=(FinalOutput("counts", 0, "time", wait_ms=5),),
)
FINAL = {"partition": 0, "record_time_ms": 0, "value": 1}

LANDED_1 = [(0, 3), (1, 9), (2, 14), (3, 15)]
LANDED_2 = [(4, 2), (5, 26), (6, 31)]
FINALS_1 = [
    {"offset": 0, "key": "a", "window_start_ms": 0, "window_end_ms": 10, "cause_offset": 3, "stream_time_ms": 15}
]
FINALS_2 = [
    {"offset": 1, "key": "b", "window_start_ms": 10, "window_end_ms": 20, "cause_offset": 5, "stream_time_ms": 26},
    {"offset": 2, "key": "c", "window_start_ms": 10, "window_end_ms": 20, "cause_offset": 5, "stream_time_ms": 26},
]
DROPS_2 = [{"topic": "clicks", "offset": 4, "is_record": True, "reason": "expired-window"}]
BOOKS_1 = {"read": 4, "applied": 4, "dropped": 0, "undecodable": 0}
BOOKS_2 = {"read": 3, "applied": 2, "dropped": 1, "undecodable": 0}


class Planted:
    """A warehouse into which tests write what an engine would have written, or should not have."""

    def __init__(self, root: str) -> None:
        self.warehouse = Warehouse(root)
        self.tables = self.warehouse.pipeline("flights")
        self.ledger = Ledger(self.tables.ledger)

    def land(
        self, increment: int, records: list[tuple[int, int]], *, topic: str = "clicks", partition: int = 0
    ) -> None:
        """Land (offset, time_ms) records."""
        rows = [{"offset": offset, "timestamp": time_ms} for offset, time_ms in records]
        self.write(self.warehouse.landed(topic), LANDED_SCHEMA, increment, rows, partition=partition)

    def record(self, increment: int, time_ms: int) -> None:
        """Record a time before offset 7."""
        rows = [{"before_offset": 7, "time_ms": time_ms}]
        self.write(self.warehouse.recorded_time("clicks"), RECORDED_TIME_SCHEMA, increment, rows)

    def write(
        self, path: str, schema: pa.Schema, increment: int, rows: list[dict[str, Any]], *, partition: int = 0
    ) -> int:
        """Commit ``rows`` as one file; columns left out are null."""
        rows = [{"increment": increment, **row} for row in rows]
        table = pa.Table.from_pylist(rows, pa.schema([field for field in schema if field.name != "partition"]))
        files = [write_task_file(path, table, partition=partition, name=str(increment))] if rows else []
        return commit_files(path, schema, files, app_id="planted", increment=increment)

    def run(
        self,
        increment: int,
        cut: tuple[int, int],
        *,
        finals: list[dict[str, Any]],
        books: dict[str, int],
        dropped: list[dict[str, Any]] = [],  # noqa: B006
        dead_letter: list[dict[str, Any]] = [],  # noqa: B006
        schema: pa.Schema = COUNTS_SCHEMA,
        recorded: int = 0,
        outputs: dict[str, int] | None = None,
    ) -> None:
        """One increment of the pipeline: its plan, its tables, its done row. ``recorded``: times taken so far;
        ``outputs``: rows of each, as the done row says.
        """
        plan = PlanRow(
            cut_from={"clicks": {"0": cut[0]}},
            cut_to={"clicks": {"0": cut[1]}},
            recorded_to={"clicks": {"0": recorded}} if recorded else None,
        )
        self.ledger.plan(increment, plan, written_at_ms=increment)
        finals = [{**FINAL, **row} for row in finals]
        sub = {"sub_topology": 0}
        versions = {
            "outputs/counts": self.write(self.tables.output("counts"), schema, increment, finals),
            "dropped": self.write(self.tables.dropped, DROPPED_SCHEMA, increment, [{**sub, **row} for row in dropped]),
            "dead_letter": self.write(
                self.tables.dead_letter, DEAD_LETTER_SCHEMA, increment, [{**sub, **row} for row in dead_letter]
            ),
        }
        done = DoneRow(books={**books, "by_sub_topology": {"0": books}}, versions=versions, outputs=outputs)
        self.ledger.done(increment, done, written_at_ms=increment)

    def run_first(self, **changed: Any) -> None:
        """Increment 1 as it should be, apart from what is ``changed``."""
        self.land(1, changed.pop("landed", LANDED_1))
        self.run(1, (0, 4), **{"finals": FINALS_1, "books": BOOKS_1, **changed})

    def run_second(self, **changed: Any) -> None:
        """Increment 2 as it should be, apart from what is ``changed``."""
        self.land(2, changed.pop("landed", LANDED_2))
        self.run(2, (4, 7), **{"finals": FINALS_2, "dropped": DROPS_2, "books": BOOKS_2, **changed})

    def verdict(
        self, guarantee: str, increment: int | None = None, *, facts: ReplayFacts = FACTS, engine: Any = "plain"
    ) -> Verdict:
        """The one verdict on ``guarantee``."""
        verdicts = check_increment(self.warehouse, "flights", facts, increment, engine=engine)
        (verdict,) = [each for each in verdicts if each.guarantee == guarantee]
        return verdict


@pytest.fixture(scope="session")
def great_expectations():
    """It takes seconds to import, which are no test's own."""
    return load_great_expectations()


@pytest.fixture
def planted(tmp_path):
    return Planted(str(tmp_path))
