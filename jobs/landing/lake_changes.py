"""Records that have landed from a table and are not there any more as they were.

Owns finding and wording them, and which of them may be erased. Rule: what is missing in the table is found by comparing
offsets, wherever its log says that rows were taken, or says nothing; only offsets that landed from a table are looked
for. Only what certainly is the owner's will is erased: rows that are gone from the newest version of the table that
they landed from.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from ...state.distinct_numbers import without
from ...state.errors import LandingError
from ...state.tables.branch_files import landed_files
from ...state.tables.data_files import read_rows
from ...state.tables.ledger import Ledger, LedgerRow
from ...state.tables.ledger_rows import LandingDoneRow, LandingPlanRow
from ...state.tables.out_of_play import erased_offsets, is_read_by
from ...state.tables.warehouse import LANDED_SCHEMA, Warehouse
from .files.columns import numbers_or_none
from .lake.lake_rows import LakeMapping, read_columns
from .lake.lake_table import Bounds, LakeChanges, LakeTable, numbers_of
from .lake.new_files import overlaps
from .ordered_plan import joined_ranges

Ranges = Mapping[str, list[list[int]]]
"""By partition ranges `[from, to)` of offsets."""

_OFFSETS = pa.schema([LANDED_SCHEMA.field("partition"), LANDED_SCHEMA.field("offset")])
_SHOWN = 5
"""So many ranges are in a sentence."""
ERASED_AT_MOST = 10_000
"""So many records are erased by one landing, since ledgers name each of them in every row from then on."""


def gone_offsets(
    warehouse: Warehouse,
    topic: str,
    mapping: LakeMapping,
    table: LakeTable,
    changes: LakeChanges,
    plans: Sequence[LandingPlanRow],
    last: LedgerRow[LandingDoneRow] | None,
) -> dict[str, list[list[int]]]:
    """Offsets that landed by ``plans`` and are not in the table any more, in what ``changes`` touched. ``last``: the
    topic's last done row.
    """
    # Empty bounds overlap with those of every file, so the whole table is compared.
    touched: Sequence[Bounds] = ({},) if changes.unknown is not None and plans else changes.touched
    if not touched or last is None:
        return {}
    gone: dict[str, list[list[int]]] = {}
    present = _present(mapping, table, touched)
    known = [offsets for bounds in touched if (offsets := numbers_of(bounds, mapping.offset)) is not None]
    within = None
    if len(known) == len(touched):
        within = ("offset", min(least for least, _ in known), max(most for _, most in known))
    landed = read_rows(warehouse.landed(topic), landed_files(warehouse, topic, last, within=within), _OFFSETS)
    partitions, offsets = landed["partition"].to_numpy(), landed["offset"].to_numpy()
    for p in np.unique(partitions).tolist():
        own = offsets[partitions == p]
        mask = np.zeros(len(own), np.bool_)
        for plan in plans:
            mask |= (own >= plan.cut_from.get(str(p), 0)) & (own < plan.cut_to.get(str(p), 0))
        mask &= _within(own, p, mapping, touched)
        missing = without(own[mask], present.get(p, np.array([], np.int64)))
        if len(missing):
            gone[str(p)] = joined_ranges(missing)
    return gone


def _within(offsets: np.ndarray, partition: int, mapping: LakeMapping, touched: Sequence[Bounds]) -> np.ndarray:
    mask = np.zeros(len(offsets), np.bool_)
    for bounds in touched:
        least, most = numbers_of(bounds, mapping.partition) or (partition, partition)
        if least <= partition <= most:
            known = numbers_of(bounds, mapping.offset)
            mask |= True if known is None else (offsets >= known[0]) & (offsets <= known[1])
    return mask


def _present(mapping: LakeMapping, table: LakeTable, touched: Sequence[Bounds]) -> dict[int, np.ndarray]:
    """Offsets that are in the table, by partition, at least where it was touched."""
    held: dict[int, list[np.ndarray]] = {}
    names = [name for name in (mapping.partition, mapping.offset) if name is not None]
    for file in table.files:
        if any(overlaps(mapping, file.bounds, bounds) for bounds in touched):
            for columns in read_columns(mapping, file, names):
                partition, offset = (numbers_or_none(columns[name]) for name in names)
                for p in np.unique(partition).tolist():
                    held.setdefault(p, []).append(offset[partition == p])
    return {p: np.concatenate(parts) for p, parts in held.items()}


def refuse_changed(place: str, changed: Mapping[str, Ranges], changes: LakeChanges) -> NoReturn:
    """Raises LandingError for what ``changed``."""
    raise LandingError(
        place,
        "the records that have landed, as they landed",
        changed_sentence(changed, changes),
        "restore them in the table, or keep the records as they landed (--on-change ignore)",
    )


def refuse_to_erase(
    place: str, gone: Ranges, changes: LakeChanges, *, asked: int | None, mapped: Mapping[str, Any]
) -> None:
    """Raises LandingError where records that are ``gone`` may be so by mistake, or are too many to be named one by one.
    ``asked``: the version that was asked for; ``mapped``: what is mapped otherwise than before.
    """
    count, got = _count(gone), None
    if count > ERASED_AT_MOST:
        got = f"{count:,}"
    elif changes.is_other_table:
        got = f"{count:,} in a table of which {changes.unknown}"
    elif mapped:
        got = f"{count:,} by another mapping ({', '.join(mapped)})"
    elif asked is not None:
        got = f"{count:,} in version {asked}, which was asked for"
    if got is not None:
        expected = f"at most {ERASED_AT_MOST:,} records to erase, gone from the newest version of the table they are of"
        next_step = "restore them in the table, or keep the records as they landed (--on-change ignore)"
        raise LandingError(place, expected, got, next_step)


def gone_to_erase(warehouse: Warehouse, topic: str, plans: Sequence[LandingPlanRow]) -> dict[str, list[int]]:
    """By partition, offsets that ``plans`` found gone and want erased, and that are not erased yet."""
    erased, gone = erased_offsets(warehouse, topic), dict[str, list[int]]()
    for plan in plans:
        for p, ranges in (plan.changed or {}).get("gone", {}).items() if plan.erases else ():
            gone.setdefault(p, []).extend(_offsets(ranges).tolist())
    left = {p: sorted({*gone[p]} - {*erased.get(int(p), ())}) for p in sorted(gone, key=int)}
    return {p: offsets for p, offsets in left.items() if offsets}


def refuse_unfinished(warehouse: Warehouse, topic: str, gone: Mapping[str, Sequence[int]]) -> None:
    """Raises LandingError where an increment of a pipeline that is planned and not done reads what is to be erased."""
    for pipeline in warehouse.pipelines():
        pending = Ledger(warehouse.pipeline(pipeline).ledger).pending()
        # A restatement reads no records.
        if pending is None or pending.content.restates is not None:
            continue
        row, records = pending.content, ((p, offset) for p, offsets in gone.items() for offset in offsets)
        for p, offset in records:
            # Finished after the erasure, the increment would read
            # nulls where its first attempt may have read the content.
            if is_read_by(row, row.cut_from, topic, p, offset):
                expected = f"records to erase that no unfinished increment reads (the landing of {topic} is done)"
                got = f"{topic}:{p}:{offset}, which increment {pending.increment} of {pipeline!r} reads"
                next_step = "run the pipeline to its end, or give it up (replay restore --abandon); then land again"
                raise LandingError(f"topic {topic}", expected, got, next_step)


def _count(ranges: Ranges) -> int:
    return sum(to - begin for of in ranges.values() for begin, to in of)


def changed_sentence(changed: Mapping[str, Ranges], changes: LakeChanges) -> str:
    """How many records, at which offsets, by which statements."""
    words = {"gone": "gone from the table", "others": "changed in the table"}
    said = []
    for name, what in words.items():
        if ranges := changed.get(name):
            count = _count(ranges)
            records = "1 landed record is" if count == 1 else f"{count:,} landed records are"
            said.append(f"{records} {what} ({ranges_text(ranges)})")
    by = f", by {', '.join(changes.did)}" if changes.did else ""
    return " and ".join(said) + by


def ranges_text(ranges: Ranges) -> str:
    """The first of them, as people read them."""
    said = []
    for p, of in ranges.items():
        shown = [str(begin) if to == begin + 1 else f"{begin} to {to - 1}" for begin, to in of[:_SHOWN]]
        shown += [f"{len(of) - _SHOWN:,} more ranges"] if len(of) > _SHOWN else []
        word = "offset" if len(shown) == 1 and shown[0].isdecimal() else "offsets"
        said.append(f"partition {p}: {word} {', '.join(shown)}")
    return "; ".join(said)


def without_known(changed: Mapping[str, Ranges], plans: Sequence[LandingPlanRow]) -> dict[str, Any]:
    """What of it ``plans`` have not noted before."""
    new: dict[str, Any] = {}
    for name, ranges in changed.items():
        noted = [(plan.changed or {}).get(name, {}) for plan in plans]
        known = {p: [pair for each in noted for pair in each.get(p, [])] for p in ranges}
        left = {p: _without(of, known[p]) if known[p] else of for p, of in ranges.items()}
        if any(left.values()):
            new[name] = {p: of for p, of in left.items() if of}
    return new


def _without(ranges: Sequence[Sequence[int]], known: Sequence[Sequence[int]]) -> list[list[int]]:
    return joined_ranges(without(_offsets(ranges), _offsets(known)))


def _offsets(ranges: Sequence[Sequence[int]]) -> np.ndarray:
    return np.concatenate([np.arange(begin, to) for begin, to in ranges])


def missing_sentences(table: LakeTable, topic: str, plan: LandingPlanRow, landed: LandingDoneRow | None) -> list[str]:
    """What a landing says of offsets before its first ones, which the table does not have."""
    name = f"{table.format} table {table.place}"
    if landed is None:
        later = {p: begin for p, begin in plan.cut_from.items() if begin and plan.cut_to[p] > begin}
        said = ", ".join(f"{begin} of partition {p}" for p, begin in later.items())
        return (
            [f"{topic}: the history in {name} begins at offset {said}; what came before is not in it"] if said else []
        )
    gaps = {p: [gap] for p, gap in plan.gaps.items()}
    return [f"{topic}: {name} does not have what follows the landed records ({ranges_text(gaps)})"] if gaps else []
