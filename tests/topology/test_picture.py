"""The picture of a topology has all that Kafka's description has, in places that can be read."""

import re
from itertools import combinations
from xml.etree import ElementTree as ET

import pytest

from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.orchestration.cli.every_operator import topology as every_operator
from kstreams_replay.orchestration.cli.main import main
from tests.dagster import shop

STRING = Serde.string()
SVG = f"{{http://{'.'.join(('www', 'w3', 'org'))}/2000/svg}}"


def with_a_loop() -> Topology:
    builder = StreamsBuilder()
    tries = builder.stream("tries", Consumed(STRING, STRING))
    tries.filter("value = 'again'").to("tries")
    tries.to("done")
    return builder.build()


def of_odd_names() -> Topology:
    builder = StreamsBuilder()
    builder.stream(re.compile("a<b>&.*"), Consumed(STRING, STRING)).to("out")
    return builder.build()


def drawn(topology: Topology) -> ET.Element:
    return ET.fromstring(topology.picture())


def texts(root: ET.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{SVG}text")]


def boxes(root: ET.Element) -> dict[str, tuple[float, float, float, float]]:
    """First line of each box to its left, top, right and bottom."""
    found = {}
    for group in root.iter(f"{SVG}g"):
        rect, text = group.find(f"{SVG}rect"), group.find(f"{SVG}text")
        assert rect is not None
        assert text is not None
        x, y, width, height = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        found[text.text or ""] = (x, y, x + width, y + height)
    return found


@pytest.mark.parametrize("topology", [shop.topology, every_operator, with_a_loop])
def test_every_node_topic_and_store_of_the_description_is_drawn_and_every_edge(topology):
    described, root = topology().describe(), drawn(topology())

    nodes = set(re.findall(r"(?:Source|Processor|Sink): (\S+) ", described))
    stores = {name for listed in re.findall(r"stores: \[(.*?)\]", described) for name in listed.split(", ") if name}
    sources = [name for listed in re.findall(r"topics: \[(.*?)\]", described) for name in listed.split(", ")]
    sinks = re.findall(r"\(topic: (\S+)\)", described)
    said = texts(root)
    assert set(said) == nodes | {f"store {each}" for each in stores} | {*sources, *sinks}
    between = sum(len(listed.split(", ")) for listed in re.findall(r"--> (.*)", described) if listed != "none")
    edges = [each for each in root.iter(f"{SVG}path") if "marker-end" in each.attrib]
    assert len(edges) == between + len(sources) + len(sinks)


@pytest.mark.parametrize("topology", [shop.topology, every_operator, with_a_loop])
def test_no_box_covers_another_and_all_are_within_the_picture(topology):
    root = drawn(topology())
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    found = boxes(root)

    for x, y, right, bottom in found.values():
        assert 0 <= x < right <= width
        assert 0 <= y < bottom <= height
    for one, other in combinations(found.values(), 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def test_what_reads_is_below_what_it_reads():
    found = boxes(drawn(shop.topology()))

    assert found["clicks"][1] < found["KSTREAM-SOURCE-0000000000"][1] < found["KSTREAM-AGGREGATE-0000000001"][1]
    assert found["KSTREAM-AGGREGATE-0000000005"][1] < found["pages"][1]


def test_names_are_text_whatever_they_contain():
    assert "a<b>&.*" in texts(drawn(of_odd_names()))
    assert "a&lt;b&gt;&amp;.*" in of_odd_names().picture()


def test_a_topology_of_nothing_is_a_picture_of_nothing():
    assert texts(drawn(StreamsBuilder().build())) == []


def test_the_command_writes_the_picture_into_a_file(tmp_path, capsys):
    path = tmp_path / "shop.svg"

    assert main(["describe", "tests.dagster.shop:topology", "--svg", str(path)]) == 0
    assert path.read_text() == shop.topology().picture()
    assert capsys.readouterr().out == f"{path}: {len(path.read_text()):,} characters\n"
