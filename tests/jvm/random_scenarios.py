"""Random scenarios, the same for the same seed: topologies (random_topologies.py) and their tapes (random_tapes.py).

A line is tagged ``buffer_size`` when the name of an internal topic would count in a suppress buffer.
"""

from random import Random
from typing import Any

from tests.jvm.random_tapes import tape
from tests.jvm.random_topologies import INTERNAL, Growth, Node

VALUE_KINDS = ("integers", "strings", "both")
VALUES_OF = {"several": ("strings",), "global_store": ("strings",)}
"""By kind of topic: topics that are read together have values of one kind, and global stores are of strings."""


def scenario(seed: int) -> dict[str, Any]:
    """One scenario of its own topology, without a result."""
    return scenarios(seed, 1)[0]


def scenarios(seed: int, tapes: int) -> list[dict[str, Any]]:
    """``tapes`` scenarios of one topology, without results."""
    dice = Random(seed)
    scale = dice.choice([1, 1, 1, 1_000, 20_000])
    growth = Growth(dice, scale)
    growth.grow()
    is_spoiled = growth.is_path and not growth.is_over and dice.random() < 0.06
    output = growth.made[-1].id if is_spoiled else growth.output()
    topology: dict[str, Any] = {"nodes": growth.nodes, "output": output}
    if dice.random() < 0.3:
        topology["store"] = "rocksdb"
    if is_spoiled:
        _spoil(dice, growth.nodes)
    kinds = {topic: dice.choice(VALUES_OF.get(kind, VALUE_KINDS)) for topic, kind in growth.topics.items()}
    sensitive = ["buffer_size"] if any(node["op"] in INTERNAL for node in growth.nodes) else []
    return [
        {
            "name": f"random/{seed}.{number}",
            "topology": topology,
            "records": tape(dice, scale, kinds, has_offsets=growth.has_offsets),
            "sensitive": sensitive,
        }
        for number in range(tapes)
    ]


def _spoil(dice: Random, nodes: list[Node]) -> None:
    """One number that Kafka Streams may refuse, or on which a record fails: no branches then (Growth).

    Not a wait, a limit or the grace of a table join: it takes those below 0, we do not.
    """
    names = ("size", "advance", "difference", "gap", "grace", "retention", "before", "after")
    spoiled = [node for node in nodes if node["op"] != "stream_table_join"]
    numbers = [(node, name) for node in spoiled for name in names if name in node]
    numbers += [(node["versioned"], name) for node in nodes if "versioned" in node for name in node["versioned"]]
    if numbers:
        node, name = dice.choice(numbers)
        node[name] = dice.choice([-1, 0, 1, 10**6])
