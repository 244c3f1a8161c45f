"""Erasing a person: the records of a key go from landed topics and from all that was made of them, for good.

Owns the order of the steps. Rule: landed topics first, then every pipeline that has rows of the key or has read its
records, then all files that had them; the proof comes last. Every step is found again by looking at the tables, so the
same command finishes an erasure that died, and nothing is written down about the person but how many rows went where.

What is under other keys and made of these records cannot be known: a count by country stays, a name in a value is found
by its bytes and reported.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from ...state.argument_types import checked_types
from ...state.errors import ConfigError
from ...state.runs.local_copies import default_cache, folder_of, forget_table
from ...state.tables.branch_files import existing_tables
from ...state.tables.data_files import DataFile
from ...state.tables.ledger import LandingLedger, Ledger
from ...state.tables.names import STATE, TableName
from ...state.tables.replaced_files import delete_files, replaced_files
from ...state.tables.sought import Sought
from ...state.tables.warehouse import Warehouse
from ...state.wall_clock import now_ms
from ..landing.erased_records import Offsets, without_rows
from ..landing.exclusions import book_erasure
from ..landing.recorded_time import last_landing
from .branches import branches, unpin
from .bytes_proof import Remains, remains
from .erased_tables import ErasedRows, erase_rows
from .restatement import OnStep
from .vacuum import vacuum
from .what_goes import PipelinePart, WhatGoes

_APP_ID = "erase"
"""Of commits to tables whose versions no ledger names."""


@dataclass(frozen=True)
class Erasure:
    """What goes, or went. ``landed``: how many records, by topic; ``beside``: rows of landed dead letters and verdicts,
    by table. ``remains``: where something is still found; before it is done: in which tables it would be.
    """

    landed: Mapping[str, int]
    beside: Mapping[str, int]
    pipelines: Sequence[PipelinePart]
    remains: Sequence[Remains]
    is_done: bool

    @property
    def is_nothing(self) -> bool:
        """Nothing was there to erase."""
        return not (any(self.landed.values()) or self.beside or self.pipelines)


@checked_types
def erase(
    warehouse: Warehouse,
    topics: Sequence[str],
    sought: Sought,
    reason: str,
    *,
    by: str,
    delete: bool = False,
    on_step: OnStep = lambda step: None,
    clock_ms: Callable[[], int] = now_ms,
) -> Erasure:
    """Erase what is ``sought`` from the landed ``topics`` of ``warehouse`` and from all of its pipelines; without
    ``delete``, find it alone. ``reason`` and ``by`` (who) are booked, with the time by ``clock_ms``. ``on_step``: is
    called with each step that was done.

    Increments of a pipeline that had some cannot be asked for afterwards, but for the one that erased. Sources (Kafka,
    files, other tables), copies of the warehouse, and warm copies on other machines stay as they are.

    Raises ConfigError for a topic that was never landed, and a reason that is none or says what is to be erased;
    LandingError, LedgerError while a landing or an increment of records is unfinished.
    """
    _refuse_said(sought, reason, by)
    goes = WhatGoes(warehouse, tuple(dict.fromkeys(topics)), sought)
    landed = goes.landed()
    counts = {topic: sum(map(len, offsets.values())) for topic, offsets in landed.items()}
    places = goes.places(landed)
    parts = [part for pipeline in goes.pipelines() if (part := goes.part(pipeline, landed, places)) is not None]
    if not delete:
        return Erasure(counts, goes.beside(), parts, list(goes.mentions(landed)), False)
    for topic, offsets in landed.items():
        _erase_landed(warehouse, topic, offsets, reason.strip(), by, clock_ms)
        on_step(f"erased {TableName.landed(topic)}")
    parts = _erase_pipelines(goes, reason.strip(), by, on_step, clock_ms)
    beside = {table: _without(goes, table, path) for table, path in goes.tables_beside().items()}
    _delete_files(goes, parts, clock_ms)
    on_step("deleted the files that had some")
    left = [*remains(warehouse.root, sought)]
    for store in _stores(goes):
        left += remains(folder_of(default_cache(), store), sought)
    return Erasure(counts, {table: count for table, count in beside.items() if count}, parts, left, True)


def _refuse_said(sought: Sought, reason: str, by: str) -> None:
    if not reason.strip():
        raise ConfigError("erase", "a reason", repr(reason), "say why, for those who find the records missing")
    if any(part in said.encode() for said in (reason, by) for part in (*sought.anywhere, *sought.patterns)):
        raise ConfigError("erase", "a reason that does not say what is erased", "one that does", "name the request")


def _erase_landed(
    warehouse: Warehouse, topic: str, offsets: Offsets, reason: str, by: str, clock_ms: Callable[[], int]
) -> None:
    """And finish one that died."""
    if LandingLedger(warehouse.landing_ledger(topic)).pending() is not None:
        last_landing(warehouse, topic, clock_ms)
    if offsets:
        book_erasure(warehouse, topic, offsets, reason, by, clock_ms=clock_ms)


def _erase_pipelines(
    goes: WhatGoes, reason: str, by: str, on_step: OnStep, clock_ms: Callable[[], int]
) -> list[PipelinePart]:
    """Parts as they are now, since records may have been read meanwhile."""
    places, done = goes.places({}), list[PipelinePart]()
    erased = ErasedRows(goes.sought, places)
    for pipeline in goes.pipelines():
        part = goes.part(pipeline, {}, places)
        if part is None:
            continue
        last = Ledger(goes.warehouse.pipeline(pipeline).ledger).last_done()
        assert last is not None, f"{pipeline}: has rows, so something is done"
        if part.restates:
            last = erase_rows(
                goes.warehouse, pipeline, erased, reason=reason, by=by, on_step=partial(_of, on_step, pipeline),
                clock_ms=clock_ms,
            )  # fmt: skip
        done.append(replace(part, oldest=last.increment))
    for branch in branches(goes.warehouse):  # also of an erasure that died before it came here
        rows = Ledger(goes.warehouse.pipeline(branch).ledger).done_rows()
        if any(row.content.erased is not None for row in rows) and not rows[-1].content.bases:
            unpin(goes.warehouse, branch, clock_ms=clock_ms)
    return done


def _of(on_step: OnStep, pipeline: str, step: str) -> None:
    on_step(f"{pipeline}: {step}")


def _without(goes: WhatGoes, table: str, path: str) -> int:
    def stays(_: DataFile, rows: pa.Table) -> pa.Array:
        return pa.array(~goes.goes(table, rows))

    return without_rows(path, stays, app_id=_APP_ID)


def _delete_files(goes: WhatGoes, parts: Sequence[PipelinePart], clock_ms: Callable[[], int]) -> None:
    """All that earlier increments of the pipelines need, and what was replaced of other tables; warm copies here."""
    warehouse = goes.warehouse
    for part in parts:
        vacuum(warehouse, part.pipeline, keep_increments=1, delete=True, clock_ms=clock_ms)
    for topic in goes.topics:
        last = LandingLedger(warehouse.landing_ledger(topic)).last_done()
        number = 0 if last is None else last.increment
        for landed in (warehouse.landed(topic), warehouse.landed_dead_letter(topic)):
            delete_files(list(replaced_files(landed, number)))
    for path in goes.tables_beside().values():
        delete_files(list(replaced_files(path, -1)))
    for store in _stores(goes):
        forget_table(default_cache(), store)


def _stores(goes: WhatGoes) -> list[str]:
    """Paths of all stores of the warehouse."""
    owns = [goes.warehouse.pipeline(pipeline) for pipeline in goes.pipelines()]
    return [own.table(table) for own in owns for table in existing_tables(own.root) if TableName(table).kind == STATE]
