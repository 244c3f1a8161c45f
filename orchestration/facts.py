"""What the checks must know of a topology: topology in, facts out.

Owns the translation from `kstreams_replay.jobs.topology` to `kstreams_replay.expectations.facts`, since neither may
know the other. Rule: an output is final when all that reaches it has left one suppress and still carries its window.
"""

from collections.abc import Iterable
from typing import Literal, cast

from ..expectations.facts import FinalOutput, Promised, ReplayFacts, SourceTopic, SubTopologyFacts
from ..expectations.guarantees import Question, questions_of
from ..jobs.branches.second_run import SecondRun
from ..jobs.code_changes.code_snapshot import steps_by_table
from ..jobs.graph.graph import Graph, Node
from ..jobs.graph.nodes import RepartitionNode, SinkNode
from ..jobs.topology import SubTopology as Part
from ..jobs.topology import Topology
from ..state.node_rows import ROWS_MAX
from ..state.promises import lacks_evidence
from ..state.tables.names import TableName
from ..state.tables.refused_shares import DEFAULT_LIMIT, RefusedLimit
from ..state.tables.warehouse import Warehouse


def replay_facts(topology: Topology, refused: RefusedLimit = DEFAULT_LIMIT) -> ReplayFacts:
    """Facts of the whole topology; ``refused``: from how many refused records on G12 is broken."""
    return ReplayFacts(
        refused=refused,
        topology=topology.fingerprint,
        steps=steps_by_table(topology),
        sub_topologies=tuple(_sub_topology(part) for part in topology.sub_topologies),
        final_outputs=tuple(
            final
            for part in topology.sub_topologies
            for sink in part.sinks
            if (final := _final_output(topology, part, sink)) is not None
        ),
        promises=tuple(
            Promised(part.id, node.name, promise)
            for part in topology.sub_topologies
            for node in part.nodes
            for promise in node.promises(topology.graph)
        ),
    )


def guarantees(topology: Topology) -> list[Question]:
    """What must hold for the increments of ``topology``: each guarantee with a table that it speaks of.

    Judge them with ``check_increment(warehouse, pipeline, replay_facts(topology))``.
    """
    return questions_of(replay_facts(topology))


def second_run(warehouse: Warehouse, pipeline: str, topology: Topology, rows_max: int = ROWS_MAX) -> SecondRun:
    """What ``check_increment`` takes as ``again``: runs increments of up to ``rows_max`` records once more, for the
    operators of which no table has the evidence.
    """
    lacking = [each for each in replay_facts(topology).promises if lacks_evidence(each.promise)]
    beside = {getattr(each.promise, "table_node", "") for each in lacking} - {""}
    return SecondRun(warehouse, pipeline, topology, {each.node for each in lacking} | beside, rows_max)


def facts_of_output(topology: Topology, output: str) -> ReplayFacts:
    """Facts of one output alone: the sub-topologies that its records came through, and whether it is final."""
    facts = replay_facts(topology)
    writer = next(part for part in topology.sub_topologies if output in {sink.topic for sink in part.sinks})
    through = _upstream(topology, writer)
    others = {TableName.output(sink.topic) for part in topology.sub_topologies for sink in part.sinks} - {
        TableName.output(output)
    }
    behind = _behind(topology.graph, [sink for sink in writer.sinks if sink.topic == output])
    return ReplayFacts(
        topology=facts.topology,
        sub_topologies=tuple(each for each in facts.sub_topologies if each.id in through),
        final_outputs=tuple(final for final in facts.final_outputs if final.name == output),
        promises=tuple(each for each in facts.promises if each.node in behind and each.promise.table not in others),
    )


def _sub_topology(part: Part) -> SubTopologyFacts:
    return SubTopologyFacts(
        part.id,
        tuple(
            SourceTopic(
                source.topic,
                "repartition" if isinstance(source, RepartitionNode) else "landed",
                has_own_times=source.time_step is None,
            )
            for source in part.sources
        ),
    )


def _final_output(topology: Topology, part: Part, sink: SinkNode) -> FinalOutput | None:
    suppress = topology.suppress_above(sink)
    if suppress is None or not suppress.is_final or suppress.windows is None or sink.shape.window is None:
        return None
    kind = cast(Literal["time", "sliding", "session"], suppress.windows.kind)
    return FinalOutput(sink.topic, part.id, kind, suppress.wait_ms)


def _behind(graph: Graph, nodes: Iterable[Node]) -> set[str]:
    """Names of ``nodes`` and of all that their records came through or were looked up in."""
    names, begun = set[str](), [node.name for node in nodes]
    while begun:
        node = graph.nodes[begun.pop()]
        if node.name not in names:
            names.add(node.name)
            begun += [*node.inputs, *node.reads, *node.shares]
    return names


def _upstream(topology: Topology, part: Part) -> set[int]:
    """Ids of ``part`` and of the sub-topologies that write what it reads."""
    writers: Iterable[Part] = (
        above
        for above in topology.sub_topologies
        if set(part.sources) & set(above.repartitions) or (above.kafka_id == part.kafka_id and above.level < part.level)
    )
    return {part.id}.union(*(_upstream(topology, above) for above in writers))
