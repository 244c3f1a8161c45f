"""The law of erased records: of every table, whatever operator has it, the rows of other keys are as if nobody had
erased. So are later ones, where nothing under another key reads what was erased.
"""

from pathlib import Path
from typing import Any

import pytest

from kstreams_replay.jobs.branches.erasure import erase
from kstreams_replay.state.tables.sought import Sought
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.test_exclusions import APPLICATIONS, Application, run
from tests.planted import LandedRecord, Rows, plant, tables_of

pytestmark = pytest.mark.sampled
KEYS = {"one-topic": b"ann", "joins": b"e", "global-store": b"e"}
"""Of each application one that is nobody's foreign key."""
CONTINUED = ("one-topic",)
"""The others join under keys that values have, or count the rows of a store: later results miss what was erased."""
Tapes = dict[str, list[LandedRecord]]


def land(warehouse: Warehouse, app: Application, tapes: Tapes) -> None:
    for topic, records in tapes.items():
        plant(warehouse, topic, records, partitions=app.partitions)


def halves(app: Application, seed: int, key: bytes) -> tuple[Tapes, Tapes]:
    """Of each tape; the second one without the key, since what was made of it under other keys is not taken back."""
    tapes = app.tapes(seed)
    first = {topic: records[: len(records) // 2] for topic, records in tapes.items()}
    second = {topic: [r for r in records[len(records) // 2 :] if r.key != key] for topic, records in tapes.items()}
    return first, second


def of_others(tables: dict[str, Rows], key: bytes) -> dict[str, Rows]:
    """Rows of other keys. Repartition tables lose more, of what nobody reads again."""
    kept = {name: rows for name, rows in tables.items() if not name.startswith("repartition/")}
    return {name: [row for row in rows if not is_of_key(row, key)] for name, rows in kept.items()}


def without_offsets(tables: dict[str, Rows]) -> dict[str, Rows]:
    """Of outputs, whose later rows have other offsets where the key's results would have been between them."""
    outputs = {name: rows for name, rows in tables.items() if name.startswith("outputs/")}
    plain = {name: [{**row, "offset": None} for row in rows] for name, rows in outputs.items()}
    return tables | {name: sorted(rows, key=repr) for name, rows in plain.items()}


def is_of_key(row: dict[str, Any], key: bytes) -> bool:
    return any(row.get(name) in (key, key.decode()) for name in ("key", "primary_key", "id"))


@pytest.mark.parametrize("name", ["one-topic", pytest.param("joins", marks=pytest.mark.nightly), "global-store"])
@pytest.mark.parametrize("seed", [3, 5, 6])  # the key is in the first half of each tape
def test_rows_of_other_keys_are_as_if_nobody_had_erased(tmp_path: Path, name, seed):
    app, key = APPLICATIONS[name], KEYS[name]
    first, second = halves(app, seed, key)
    untouched, erased = Warehouse(tmp_path / "untouched"), Warehouse(tmp_path / "erased")
    for warehouse in (untouched, erased):
        land(warehouse, app, first)
        run(warehouse, app, flush=False)

    found = erase(erased, sorted(first), Sought((key,)), "a request", by="a test", delete=True)

    assert sum(found.landed.values()) == sum(record.key == key for of in first.values() for record in of) > 0
    tables = tables_of(erased, "p", app.topology())
    assert of_others(tables, key) == of_others(tables_of(untouched, "p", app.topology()), key)
    assert not any(is_of_key(row, key) for rows in tables.values() for row in rows)
    if name not in CONTINUED:
        return
    for warehouse in (untouched, erased):
        land(warehouse, app, second)
        run(warehouse, app)
    want = of_others(tables_of(untouched, "p", app.topology()), key)
    assert without_offsets(of_others(tables_of(erased, "p", app.topology()), key)) == without_offsets(want)
