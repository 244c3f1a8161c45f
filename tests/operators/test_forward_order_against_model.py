"""Random topologies of branches that merge: records come as if each had been forwarded depth first, call by call."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, KStream, Serde, StreamsBuilder
from tests.sampling import examples

STRING = Serde.string()

Step = tuple[str, int, int]
"""Kind, and the nodes it reads (the second only for "merge"); node 0 is the source, step n makes node n + 1."""


@st.composite
def topologies(draw: st.DrawFn) -> list[Step]:
    kinds = st.sampled_from(["map", "twice", "some", "merge", "merge"])
    steps: list[Step] = []
    for node in range(1, draw(st.integers(2, 12))):
        above = st.integers(max(0, node - 4), node - 1)
        steps.append((draw(kinds), draw(above), draw(above)))
    return [*steps, ("merge", len(steps), draw(st.integers(0, len(steps))))]


def outputs_of(kind: str, node: int, value: str) -> list[str]:
    """What a node forwards for one record; its value is the way it came."""
    if kind == "map":
        return [f"{value}.{node}"]
    if kind == "twice":
        return [f"{value}.{node}a", f"{value}.{node}b"]
    if kind == "some":
        return [value] if (len(value) + node) % 3 else []
    return [value]


def forwarded(steps: list[Step], values: list[str]) -> list[str]:
    """What reaches the last node. Every node's children are in the order in which they were added, each once."""
    children: dict[int, list[int]] = {}
    for node, (kind, one, other) in enumerate(steps, 1):
        for above in sorted({one, other} if kind == "merge" else {one}):
            children.setdefault(above, []).append(node)
    reached = []

    def process(node: int, value: str) -> None:
        kind = steps[node - 1][0] if node else "source"
        for output in outputs_of(kind, node, value):
            if node == len(steps):
                reached.append(output)
            for child in children.get(node, []):
                process(child, output)

    for value in values:
        process(0, value)
    return reached


def built(steps: list[Step]) -> TopologyTestDriver:
    builder = StreamsBuilder()
    nodes: list[KStream] = [builder.stream("in", Consumed(STRING, STRING))]
    for node, (kind, one, other) in enumerate(steps, 1):

        def run(key: str, value: str, kind: str = kind, node: int = node) -> list[str]:
            return outputs_of(kind, node, value)

        above = nodes[one]
        nodes.append(above.merge(nodes[other]) if kind == "merge" else above.flat_map_values(run, returns=STRING))
    nodes[-1].to("out")
    return TopologyTestDriver(builder.build())


@settings(max_examples=examples(300), deadline=None)
@given(steps=topologies(), records=st.integers(1, 4))
def test_records_meet_in_the_order_of_forwarding_depth_first(steps, records):
    values = [f"r{number}" for number in range(records)]
    driver = built(steps)
    for time_ms, value in enumerate(values):
        driver.pipe_input("in", "k", value, time_ms)

    assert [record.value for record in driver.read_outputs("out")] == forwarded(steps, values)
