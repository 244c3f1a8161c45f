"""Processors of random topologies, with their stores: their own, shared ones, those of tables, and global ones; and
streams of several topics, and topics that records choose.

Rule: a processor uses its store as the store's kind allows; of a table's and a global store it only reads.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.jvm.random_topologies import Growth, Made

READING = ["read", "read", "list", "range:a-b"]
BY_KIND = {
    "key_value": ["append", "append", "around", "remove", "absent", *READING],
    "timestamped": ["tput", "tput", "tput", "remove", *READING],
    "window": ["wput", "wput", "wlook:5"],
    "timestamped_window": ["wput:timed", "wput:timed", "wlook:5"],
    "versioned": ["vput"],
}
"""What `process` and `process_values` do with a store of a kind."""
TICKING = ["tick:7", "tick:20"]
"""What `process` alone does, with a store of keys and values. Kafka's test driver has one stream time for all
sub-topologies, so only where there is one."""
SHARED = {
    "key_value": ["remove", *READING],
    "timestamped": ["remove", *READING],
    "window": ["wlook:5"],
    "timestamped_window": ["wlook:5"],
}
"""What a second node does with a store: to put what it has read there would double its texts with every record."""
KEEPING = {"key_value": ["append", "around", "absent", "remove"], "timestamped": ["tput"]}
"""What keeps a global store."""


def weight(growth: "Growth") -> int:
    """How likely a processor comes next: more where a global store waits for it. No third one with a store, which would
    make texts too long, since each says what its store has.
    """
    if sum("stores" in node for node in growth.nodes) >= 2:
        return 0
    stores = {node["op"] for node in growth.nodes}
    return 15 if "global_store" in stores and "process" not in stores and "process_values" not in stores else 4


def processed(growth: "Growth", made: "Made") -> "Made":
    """Through a processor; of windowed keys through one that keeps them."""
    dice = growth.dice
    keeps_keys = made.window is not None or dice.random() < 0.6
    if not keeps_keys and dice.random() < 0.12:
        return growth.stream("process", made, processor="twice")
    store, functions = _store(growth)
    may_tick = not keeps_keys and not growth.may_repartition and functions is BY_KIND["key_value"]
    if may_tick and dice.random() < 0.4:
        functions, growth.is_over = TICKING, True
    growth.is_over |= growth.is_shared and not keeps_keys  # what comes below might be repartitioned
    op = "process_values" if keeps_keys else "process"
    window = made.window if keeps_keys else None
    return growth.stream(op, made, window=window, processor=dice.choice(functions), stores=store)


def _store(growth: "Growth") -> tuple[str, list[str]]:
    """A store, and what may be done with it; often one that another node has, too."""
    dice, scale = growth.dice, growth.scale
    may_share = not growth.may_repartition
    tables = [node["id"] for node in growth.nodes if _is_readable_table(growth, node)]
    if tables and may_share and dice.random() < 0.5:
        growth.is_shared = True
        return dice.choice(tables), READING
    known = [node for node in growth.nodes if node["op"] in ("state_store", "global_store") and node["kind"] in SHARED]
    if known and may_share and dice.random() < 0.6:
        growth.is_shared = True
        node = dice.choice(known)
        return node["id"], READING if node["op"] == "global_store" else SHARED[node["kind"]]
    kind = dice.choice(["key_value", "key_value", "timestamped", "window", "timestamped_window", "versioned"])
    more: dict[str, Any] = {}
    if kind.endswith("window"):
        size = dice.choice([1, 10]) * scale
        more = {"store": dice.choice(["in_memory", "rocksdb"]), "size": size}
        more["retention"] = size + dice.choice([0, 10, 1_000]) * scale
    if kind == "versioned":
        more = {"retention": dice.choice([0, 5, 20, 1_000]) * scale}
    return growth.add("state_store", kind=kind, **more), BY_KIND[kind]


def _is_readable_table(growth: "Growth", node: dict[str, Any]) -> bool:
    """Whether its store is by its name, of plain keys, and without versions."""
    if not node.get("materialized") or node["op"] == "global_table":
        return False
    return all(made.window is None for made in growth.made if made.id == node["id"])


def global_store(growth: "Growth") -> None:
    """That processors below read."""
    kind = growth.dice.choice(["key_value", "timestamped"])
    topic = growth.topic("global_store")
    growth.add("global_store", topic=topic, kind=kind, processor=growth.dice.choice(KEEPING[kind]))


def of_several_topics(growth: "Growth") -> "Made":
    """A stream of two or three topics."""
    topics = [growth.topic("several") for _ in range(growth.dice.choice([2, 2, 3]))]
    return growth.stream("stream", topic="+".join(topics))


def by_record(growth: "Growth", made: "Made") -> "Made":
    """Topics that each record chooses, read together, or one of them alone."""
    topics = [f"c{len(growth.nodes)}x{number}" for number in range(growth.dice.choice([1, 2, 3]))]
    growth.add("to_one_of", made, topics="+".join(topics))
    read = topics if growth.dice.random() < 0.6 else [growth.dice.choice(topics)]
    return growth.stream("stream", topic="+".join(read))
