"""Java's orders, where Kafka's description shows them."""

from hypothesis import given
from hypothesis import strategies as st

from kstreams_replay.jobs.topology.java_collections import TreeSet, in_hash_order


@given(st.lists(st.integers(), unique=True))
def test_a_tree_set_is_in_order_of_its_ranks(numbers):
    items: TreeSet[int] = TreeSet(lambda number: -number)
    for number in numbers:
        items.add(number)

    assert list(items) == sorted(numbers, reverse=True)


def test_a_rank_that_changes_leaves_the_tree_as_it_is():
    """
    A java.util.TreeSet finds the place of a new item by the ranks of those on the way down, at that time.
    """
    ranks = {"a": 1, "b": 2, "c": 3}
    items: TreeSet[str] = TreeSet(lambda item: ranks[item])
    for item in "abc":  # after the third the root is b
        items.add(item)
    ranks |= {"a": 9, "c": 0, "d": 1}

    items.add("d")  # before b (2), then before a (9)

    assert list(items) == ["d", "a", "b", "c"]


def test_names_come_by_bucket():
    """
    String.hashCode: "a" 97, "b" 98, "q" 113; of sixteen buckets 1, 2 and 1.
    """
    assert in_hash_order(["b", "q", "a"]) == ["q", "a", "b"]


def test_a_map_of_more_than_twelve_names_has_more_buckets():
    """
    "q" is 113: bucket 17 of 32.
    """
    names = [chr(97 + number) for number in range(13)]  # "a" to "m": buckets 1 to 13
    assert in_hash_order(["q", *names]) == [*names, "q"]
