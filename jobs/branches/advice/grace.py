"""What another grace would have done: per windowed operator and join of streams, with a suggestion.

Owns the choice of the graces that are tried, and the suggestion. Rule: nothing is estimated. Each grace is run over the
landed history through a copy of the topology (trial.py), so its counts are those of a fork that is replayed with that
grace. Nodes of which none is above another are tried in one run: the refusals of an operator depend only on the nodes
above it. Where the files of a topic have landed in a wrong order, no grace is suggested for the records that are late
by that.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ....state.errors import ConfigError, LedgerError, ReplayError
from ....state.records.drop_reasons import DropReason
from ....state.tables.ledger import Ledger, LedgerRow
from ....state.tables.ledger_rows import DoneRow
from ....state.tables.rows_in_force import in_force
from ....state.tables.warehouse import Warehouse
from ....state.times import duration_text
from ...code_changes.upstream_lineage import nodes_upstream
from ...graph.graph import Graph, Node
from ...landing.files.file_order import Disorder
from ...landing.landed_disorder import landed_disorder
from ...replay.rerun import recorded_order
from ...topology.topology import Topology
from .lateness import Lateness, lateness_of
from .trial import Trial, TrialRange, run_trial

REFUSED_MAX = 0.001
"""Share of an operator's records that it may refuse, unless it is said otherwise."""
_DAY_MS = 86_400_000
_SECONDS, _HOURS = (1, 2, 5, 10, 15, 20, 30), (1, 2, 3, 6, 12)
ROUND_MS = [
    *(one * ten for ten in (1, 10, 100) for one in (1, 2, 5)),
    *(number * 1000 for number in _SECONDS),
    *(number * 60_000 for number in _SECONDS),
    *(number * 3_600_000 for number in _HOURS),
]
"""Graces that are tried when none are given: those next above the percentiles; beyond the last of them whole days."""


@dataclass(frozen=True)
class WhatIf:
    """One grace. ``refused``: records that at least one window refused as too late, ``refusals``: rows of the table
    `dropped`; ``saved``: refusals that the grace which is given makes and this one does not (below 0: more).
    ``delayed_by_ms``: how much later, by stream time, results leave that wait for the close of windows; 0 when none do.
    ``buffer_results``, ``buffer_bytes``: the most in the suppress buffers below at one time, summed over tasks (None
    without one); ``state_rows``, ``state_bytes``: in the operator's store at the end of the range. The last four are
    None when the range does not begin at the beginning. ``fails``: why there are no numbers.
    """

    grace_ms: int
    refused: int
    refusals: int
    saved: int
    delayed_by_ms: int
    buffer_results: int | None = None
    buffer_bytes: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    fails: str | None = None


@dataclass(frozen=True)
class GraceAdvice:
    """Of one node. ``lateness``: of all partitions, then of each; ``what_if``: by grace, the given one among them.
    ``suggested_ms``: None when nothing can be suggested; ``reason``: a sentence.
    """

    node: str
    sub_topology: int
    grace_ms: int
    lateness: list[Lateness]
    what_if: list[WhatIf]
    suggested_ms: int | None
    reason: str


@dataclass(frozen=True)
class Advice:
    """``since``, ``until``: first and last increment of the range; ``runs``: how often its ``records`` were run."""

    pipeline: str
    topology: str
    since: int
    until: int
    records: int
    runs: int
    seconds: float
    nodes: list[GraceAdvice]


def advise_grace(
    warehouse: Warehouse,
    topology: Topology,
    *,
    pipeline: str,
    graces: Sequence[int] | None = None,
    nodes: Sequence[str] = (),
    refused_max: float = REFUSED_MAX,
    since_ms: int | None = None,
    until_ms: int | None = None,
    order: str | None = None,
    doing: Callable[[str], None] = lambda sentence: None,
) -> Advice:
    """Try ``graces`` (ms; None: those around the percentiles of lateness) on each of ``nodes`` (none: all with a
    grace).

    ``since_ms``: begin with the first increment that took stream time to this time or past it, from the state before
    it; ``until_ms``: take no record of this time or later. ``refused_max``: share of records that a suggestion may
    refuse. ``order``: None for that in which the range took records; another one is refused. ``doing`` gets a line for
    each step, first the cost.
    Raises ConfigError for nodes without a grace and for a topology without any, LedgerError when nothing was replayed,
    and what a replay raises.
    """
    watched = _watched(topology, nodes)
    over, since, until, seconds = _range(warehouse, pipeline, since_ms, until_ms, order)
    doing(f"running increments {since} to {until} again as they are; the replay computed {seconds:,.1f} s on them")
    base = run_trial(over, topology, [node.name for node in watched])
    lateness = {node.name: lateness_of(base.lateness.get(node.name, {})) for node in watched}
    wanted = {node.name: _wanted(node, lateness[node.name][0], graces) for node in watched}
    trials = {(node.name, _grace(node)): base for node in watched}
    groups = list(_groups(topology.graph, watched, wanted))
    doing(f"{base.records:,} records {len(groups)} times more, about {base.seconds * len(groups):,.0f} s")
    fails: dict[tuple[str, int], str] = {}
    total, runs = base.seconds, 1
    while groups:
        group = groups.pop(0)
        doing("with " + ", ".join(f"{duration_text(ms)} in {name}" for name, ms in group.items()))
        try:
            runs += 1
            trial = run_trial(over, topology.with_graces(group))
        except ReplayError as error:
            if len(group) > 1:
                groups = [{name: grace_ms} for name, grace_ms in group.items()] + groups
            else:
                fails |= dict.fromkeys(group.items(), str(error))
            continue
        total += trial.seconds
        trials |= dict.fromkeys(group.items(), trial)
    said = [
        _advice(
            topology, node, lateness[node.name], trials, fails, refused_max,
            _disorder_above(warehouse, topology.graph, node), is_whole=over.before is None,
        )
        for node in watched
    ]  # fmt: skip
    return Advice(pipeline, topology.fingerprint, since, until, base.records, runs, total, said)


def _watched(topology: Topology, names: Sequence[str]) -> list[Node]:
    nodes = {node.name: node for node in topology.graph.nodes.values() if node.given_grace_ms is not None}
    unknown = [name for name in names if name not in nodes]
    if unknown or not nodes:
        known = ", ".join(nodes) or "none at all"
        next_step = "name one of them" if nodes else "advice on a grace is for windows and for joins of streams"
        place = f"node {unknown[0]!r}" if unknown else "topology"
        raise ConfigError(place, "an operator whose windows have a grace", f"those are {known}", next_step)
    return [node for name, node in nodes.items() if not names or name in names]


def _range(
    warehouse: Warehouse, pipeline: str, since_ms: int | None, until_ms: int | None, order: str | None
) -> tuple[TrialRange, int, int, float]:
    """The range, its first and last increment, and the seconds that tasks computed on it."""
    ledger = Ledger(warehouse.pipeline(pipeline).ledger)
    rows = in_force(ledger.done_rows())
    if not any(row.content.books for row in rows):
        raise LedgerError(ledger.path, "an increment that is done", "none", "run the replay first")
    before = None if since_ms is None else _before(rows, since_ms)
    own = [row for row in rows if row.content.books and (before is None or row.increment > before.increment)]
    last = rows[-1]
    seconds = sum((row.content.seconds or {}).get("compute", 0.0) for row in own)
    plans = ledger.plans(own[0].increment, last.increment) if own else []
    taken = [row.content.by_arrival for row in plans] or [last.content.by_arrival]
    order = recorded_order(f"pipeline {pipeline!r}", taken, order)
    over = TrialRange(warehouse, pipeline, before, last.content, order, until_ms)
    return over, own[0].increment if own else last.increment, last.increment, seconds


def _before(rows: list[LedgerRow[DoneRow]], since_ms: int) -> LedgerRow[DoneRow] | None:
    """The last row, but the very last, after which no task had reached the time."""
    earlier = [row for row in rows[:-1] if row.content.stream_time_ms < since_ms]
    return earlier[-1] if earlier else None


def _grace(node: Node) -> int:
    assert node.given_grace_ms is not None, f"{node.name} has a grace"
    return node.given_grace_ms


def _wanted(node: Node, lateness: Lateness, graces: Sequence[int] | None) -> list[int]:
    """Graces to try beside the given one."""
    tried_ms = graces
    if tried_ms is None:
        tried_ms = [round_up(late_ms) for late_ms in (*lateness.percentiles_ms.values(), lateness.max_ms)]
    return sorted(set(tried_ms) - {_grace(node)})


def round_up(grace_ms: int) -> int:
    """The next of ROUND_MS, or whole days."""
    if grace_ms == 0:
        return 0
    return next((each for each in ROUND_MS if each >= grace_ms), -(-grace_ms // _DAY_MS) * _DAY_MS)


def _groups(graph: Graph, nodes: Sequence[Node], wanted: Mapping[str, list[int]]) -> Iterator[dict[str, int]]:
    """Graces by node, to be tried together."""
    shares = any(node.shares for node in graph.nodes.values())
    for related in _unrelated(graph, nodes, alone=shares):
        for number in range(max((len(wanted[name]) for name in related), default=0)):
            yield {name: wanted[name][number] for name in related if number < len(wanted[name])}


def _unrelated(graph: Graph, nodes: Sequence[Node], *, alone: bool) -> list[list[str]]:
    """Names in as few lists as a first fit makes, none above another in its list. ``alone``: one a list."""
    above = {node.name: {one.name for one in nodes_upstream(graph, node)} for node in nodes}
    lists: list[list[str]] = []
    for name in above:
        fits = (each for each in lists if not any(one in above[name] or name in above[one] for one in each))
        chosen = None if alone else next(fits, None)
        if chosen is None:
            lists.append([name])
        else:
            chosen.append(name)
    return lists


# --- what is said --------------------------------------------------------------------------------------------------


class _TopicDisorder(NamedTuple):
    """Of the files of ``topic``."""

    topic: str
    disorder: Disorder

    def explains(self, needed_ms: int, too_short_ms: int) -> bool:
        """Whether records need the first grace because of it, where the second is too short: without it they would be
        late by less, and with it by more.
        """
        return round_up(self.disorder.within_ms) < needed_ms and too_short_ms < self.disorder.back_ms

    def reason(self) -> str:
        """Why no grace is suggested, and what to do."""
        return (
            f"No grace, since the order of the log is wrong: in topic {self.topic}, {self.disorder.words()}. Land the "
            "files in the right order, into a topic of another name: --order-by names columns of theirs, --offset the "
            "one of Kafka's offsets. Without both, files are read in natural order of their names."
        )


def _disorder_above(warehouse: Warehouse, graph: Graph, node: Node) -> _TopicDisorder | None:
    """The worst of the topics whose records come to ``node``."""
    topics = {above.landed_topic for above in nodes_upstream(graph, node) if above.is_source}
    disorders = [
        _TopicDisorder(topic, disorder)
        for topic in sorted(topic for topic in topics if topic is not None)
        if (disorder := landed_disorder(warehouse, topic)) is not None
    ]
    return max(disorders, key=lambda each: each.disorder.back_ms, default=None)


def _advice(
    topology: Topology,
    node: Node,
    lateness: list[Lateness],
    trials: Mapping[tuple[str, int], Trial],
    fails: Mapping[tuple[str, int], str],
    refused_max: float,
    disorder: _TopicDisorder | None,
    *,
    is_whole: bool,
) -> GraceAdvice:
    given_ms = _grace(node)
    graph = topology.graph
    changed = topology.with_graces({node.name: given_ms + 1}).graph
    below = [name for name, each in changed.nodes.items() if each is not graph.nodes[name] and name != node.name]
    waits = node.waits_for_close or any(changed.nodes[name].waits_for_close for name in below)
    _, before = late_refusals(trials[node.name, given_ms], node.name)
    what_if = []
    for name, grace_ms in sorted({*trials, *fails}):
        if name != node.name:
            continue
        delayed_ms = grace_ms - given_ms if waits else 0
        if (name, grace_ms) in fails:
            what_if.append(WhatIf(grace_ms, 0, 0, 0, delayed_ms, fails=fails[name, grace_ms]))
            continue
        trial = trials[name, grace_ms]
        records, refusals = late_refusals(trial, name)
        held = [trial.operators[each] for each in below if is_whole and each in trial.operators]
        rows, size = trial.stores.get(graph.store_of(node) or "", (0, 0))
        what_if.append(
            WhatIf(
                grace_ms,
                records,
                refusals,
                before - refusals,
                delayed_ms,
                sum(int(numbers["count_max"] or 0) for numbers in held) if held else None,
                sum(int(numbers["bytes_max"] or 0) for numbers in held) if held else None,
                rows if is_whole else None,
                size if is_whole else None,
            )
        )
    sub = next(sub.id for sub in topology.sub_topologies if node.name in {each.name for each in sub.nodes})
    suggested_ms, reason = _suggestion(given_ms, lateness[0], what_if, refused_max, disorder)
    return GraceAdvice(node.name, sub, given_ms, lateness, what_if, suggested_ms, reason)


def late_refusals(trial: Trial, node: str) -> tuple[int, int]:
    """Records, and refusals, of the node because a limit of time was passed."""
    reasons = trial.refused.get(node, {})
    counts = [numbers for reason, numbers in reasons.items() if DropReason(reason).has_limit]
    return sum(records for records, _ in counts), sum(refusals for _, refusals in counts)


def _suggestion(
    given_ms: int,
    lateness: Lateness,
    what_if: Sequence[WhatIf],
    refused_max: float,
    disorder: _TopicDisorder | None,
) -> tuple[int | None, str]:
    if not lateness.records:
        return None, "No record with a key came to it, so nothing speaks for another grace."
    ran = [each for each in what_if if each.fails is None]
    now = next(each for each in ran if each.grace_ms == given_ms)
    asked = f"at most {refused_max:.3%} of its records"
    fits = [each for each in ran if each.refused <= refused_max * lateness.records]
    needed_ms = fits[0].grace_ms if fits else lateness.max_ms
    too_short_ms = max((each.grace_ms for each in ran if not fits or each.grace_ms < needed_ms), default=0)
    if disorder is not None and disorder.explains(needed_ms, too_short_ms):
        return None, disorder.reason()
    if not fits:
        largest = ran[-1]
        return largest.grace_ms, (
            f"None that was tried refuses {asked}: {duration_text(largest.grace_ms)} still refuses "
            f"{_of(largest.refused, lateness.records)}. The latest record was {duration_text(lateness.max_ms)} behind; "
            "a grace of that much refuses none."
        )
    best = fits[0]
    refuses = f"{duration_text(best.grace_ms)} refuses {_of(best.refused, lateness.records)}"
    if best is now:
        return given_ms, f"Keep it: {refuses}, and nothing shorter that was tried refuses {asked}."
    later = best.delayed_by_ms
    leave = f"results leave {duration_text(abs(later))} {'later' if later > 0 else 'sooner'}" if later else (
        "results leave when they do now"
    )  # fmt: skip
    than = f"{duration_text(given_ms)} refuses {now.refused:,}"
    return best.grace_ms, f"{refuses}, where {than}; {leave}, and it is the shortest that refuses {asked}."


def _of(number: int, records: int) -> str:
    return f"{number:,} of {records:,} records ({number / records:.3%})"
