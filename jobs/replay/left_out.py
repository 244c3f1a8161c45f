"""Records that a pipeline does not read, since they were taken out of play (jobs/landing/exclusions.py), and those
before which it restarts (jobs/landing/recorded_restarts.py).

Owns what a plan and its done row say of them. Rule: a plan keeps the offsets from its beginning on that were out of
play, or had a restart before them, when it was made, and its increment reads so for ever. What is taken out or recorded
later counts for later plans alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...state.tables.ledger_rows import Cut, DoneRow, Excluded, PlanRow
from ..tape.landed_topic import Landed


def as_read(landed: Landed, previous: DoneRow) -> Landed:
    """For who continues from ``previous``: before its cut without the records that its increments left out, from there
    on without those that are out of play now.
    """
    cut = previous.cut_to.get(landed.topic, {})
    later = {p: [each for each in out if each >= cut.get(p, 0)] for p, out in landed.excluded.items()}
    return _behind(landed, previous, later)


def as_planned(landed: Landed, previous: DoneRow, row: PlanRow) -> Landed:
    """For the increment of a plan that continues from ``previous``."""
    return _behind(landed, previous, (row.excluded or {}).get(landed.topic, {}))


def _behind(landed: Landed, previous: DoneRow, later: Mapping[str, list[int]]) -> Landed:
    before = (previous.excluded or {}).get(landed.topic, {})
    excluded = {p: [*before.get(p, []), *later.get(p, [])] for p in landed.ends}
    return replace(landed, excluded={p: out for p, out in excluded.items() if out})


def out_of_play(landed: Mapping[str, Landed], begin: Cut) -> Excluded | None:
    """For a plan: what is out of play from ``begin`` on."""
    return _some({topic: _within(each.excluded, begin.get(topic, {}), None) for topic, each in landed.items()})


def restarts_ahead(landed: Mapping[str, Landed], begin: Cut) -> Excluded | None:
    """For a plan: records from ``begin`` on before which production restarted, as far as is recorded."""
    return _some({topic: _within(each.restarts, begin.get(topic, {}), None) for topic, each in landed.items()})


def restarts_taken(previous: DoneRow, row: PlanRow) -> Excluded | None:
    """For a done row: those of the increments up to it."""
    return _grown(previous.restarts or {}, row.restarts or {}, row)


def left_out(previous: DoneRow, row: PlanRow) -> Excluded | None:
    """For a done row: what the increments up to it have not read."""
    return _grown(previous.excluded or {}, row.excluded or {}, row)


def _grown(before: Excluded, planned: Excluded, row: PlanRow) -> Excluded | None:
    """``before``, with what is ``planned`` before the end of ``row``."""
    grown = {topic: {p: [*out] for p, out in of_topic.items()} for topic, of_topic in before.items()}
    for topic, of_topic in planned.items():
        for p, out in _within(of_topic, {}, row.cut_to.get(topic, {})).items():
            mine = grown.setdefault(topic, {})
            mine[p] = [*mine.get(p, []), *out]
    return _some(grown)


def is_planned_otherwise(row: PlanRow, landed: Mapping[str, Landed]) -> bool:
    """Whether something that a plan reads was taken out of play since it was made."""
    now = out_of_play(landed, row.cut_from) or {}
    return any(
        _within(now.get(topic, {}), {}, ends) != _within((row.excluded or {}).get(topic, {}), {}, ends)
        for topic, ends in row.cut_to.items()
    )


def _within(
    excluded: Mapping[str, Sequence[int]], begin: Mapping[str, int], end: Mapping[str, int] | None
) -> dict[str, list[int]]:
    """By partition, offsets of ``[begin, end)``; ``end`` None: of all from ``begin`` on."""
    within = {
        p: [each for each in out if begin.get(p, 0) <= each and (end is None or each < end.get(p, 0))]
        for p, out in excluded.items()
    }
    return {p: out for p, out in within.items() if out}


def _some(excluded: Excluded) -> Excluded | None:
    return {topic: of_topic for topic, of_topic in excluded.items() if of_topic} or None
