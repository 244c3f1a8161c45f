"""Branches of a stream (BranchedKStream): a record goes to the first branch whose predicate is true, or to the default.

Kafka has one node that forwards to the matching child; here every branch is a filter of what the ones before it left,
which is the same records in the same order.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ....state.errors import TopologyError
from ...functions.call_arguments import checked_class
from ...functions.call_names import Hinting
from ...functions.parameters import form_of
from ...graph.graph import Node
from ...graph.name_rules import check_name
from ...operators.stateless_nodes import FilterNode
from .step_arguments import Step, bind_condition

if TYPE_CHECKING:
    from .kstream import KStream


@checked_class
@dataclass(frozen=True)
class Branched(Hinting):
    """What becomes of a branch (Kafka's Branched): its ``name``, and a ``function`` or a ``consumer``, not both. The
    result of ``function`` replaces the branch among the streams by name; None leaves it out. ``consumer`` takes the
    branch out of them.
    """

    name: str | None = None
    function: "Callable[[KStream], KStream | None] | None" = None
    consumer: "Callable[[KStream], Any] | None" = None

    @classmethod
    def as_(cls, name: str) -> "Branched":
        """The branch with this name.

        Source: ``Branched.as``.

            >>> branches = orders.split(name="is-").branch("amount > 1", Branched.as_("large")).no_default_branch()
            >>> show(branches["is-large"])
            ann: {'item': 'tea', 'amount': 5} at 1000
            ann: {'item': 'tea', 'amount': 2} at 61000
        """
        return cls(name)

    def with_name(self, name: str) -> "Branched":
        """The same with another name.

        Source: ``Branched.withName``.

            >>> wide = Branched.with_function(lambda stream: stream.map_values("item")).with_name("items")
            >>> sorted(orders.split(name="of-").branch("amount = 1", wide).no_default_branch())
            ['of-items']
        """
        return replace(self, name=name)

    @classmethod
    def with_function(cls, function: "Callable[[KStream], KStream | None]", name: str | None = None) -> "Branched":
        """``function`` gives the stream that replaces the branch. TopologyError unless it is of (stream).

        Source: ``Branched.withFunction``.

            >>> items = Branched.with_function(lambda stream: stream.map_values("item"), "items")
            >>> show(orders.split(name="of-").branch("amount = 1", items).no_default_branch()["of-items"])
            bob: mug at 2000
        """
        form_of(function, "Branched.with_function", ("stream",), gives=False)
        return cls(name, function=function)

    @classmethod
    def with_consumer(cls, consumer: "Callable[[KStream], Any]", name: str | None = None) -> "Branched":
        """``consumer`` takes the branch. TopologyError unless it is of (stream).

        Source: ``Branched.withConsumer``.

            >>> large = Branched.with_consumer(lambda stream: stream.to("large"))
            >>> sorted(orders.split(name="is-").branch("amount > 2", large).default_branch(name="small"))
            ['is-small']
            >>> output("large")
            ann: {'item': 'tea', 'amount': 5} at 1000
        """
        form_of(consumer, "Branched.with_consumer", ("stream",), gives=False)
        return cls(name, consumer=consumer)


@checked_class
class BranchedKStream(Hinting):
    """The branches of ``stream``, as ``KStream.split`` returns them. Each is called by the split's ``name`` followed by
    its own, or by its number. ``branched``, of the calls: the branch's name, and what becomes of it.
    """

    def __init__(self, stream: "KStream", name: str | None) -> None:
        self._stream, self._rest = stream, stream.node
        self._name = stream.graph.name(name, "KSTREAM-BRANCH-")
        self._streams: dict[str, KStream] = {}
        self._number = 0

    def branch(
        self, predicate: Step, branched: Branched | None = None, *, name: str | None = None
    ) -> "BranchedKStream":
        """One more branch: records for which ``predicate`` is true and that of no earlier branch was; null is not true.
        ``name`` alone is ``Branched.as_(name)``.

        Source: ``BranchedKStream.branch``.

            >>> pages = clicks.split(name="of-").branch("page = 'home'", name="home").branch("seconds > 1", name="long")
            >>> show(pages.no_default_branch()["of-long"])
            ann: {'page': 'cart', 'seconds': 9} at 2000
            bob: {'page': 'pay', 'seconds': 2} at 70000
        """
        self._number += 1
        branched = _given(branched, name)
        child = self._child(self._number, branched.name)
        graph, above = self._stream.graph, self._rest
        bound = bind_condition(predicate, above.shape, child)

        def filtered(name: str, keeps: bool) -> Node:
            return graph.add(
                FilterNode(name=name, inputs=(above.name,), shape=above.shape, predicate=bound, keeps=keeps)
            )

        taken = filtered(child, keeps=True)
        self._rest = filtered(f"{child}-rest", keeps=False)
        graph.parts[self._rest.name] = ()
        self._take(child, taken, branched)
        return self

    def default_branch(self, branched: Branched | None = None, *, name: str | None = None) -> "dict[str, KStream]":
        """All branches by name, and one for the records that no predicate was true of.

        Source: ``BranchedKStream.defaultBranch``.

            >>> show(clicks.split(name="is-").branch("page = 'home'").default_branch(name="other")["is-other"])
            ann: {'page': 'cart', 'seconds': 9} at 2000
            bob: {'page': 'pay', 'seconds': 2} at 70000
        """
        branched = _given(branched, name)
        child = self._child(0, branched.name)
        above = self._rest
        bound = bind_condition("TRUE", above.shape, child)
        node = FilterNode(name=child, inputs=(above.name,), shape=above.shape, predicate=bound, keeps=True)
        self._take(child, self._stream.graph.add(node), branched)
        return self._streams

    def no_default_branch(self) -> "dict[str, KStream]":
        """All branches by name; records that no predicate was true of end here.

        Source: ``BranchedKStream.noDefaultBranch``.

            >>> sorted(clicks.split(name="is-").branch("page = 'home'", name="home").no_default_branch())
            ['is-home']
        """
        return self._streams

    def _child(self, number: int, name: str | None) -> str:
        child = f"{self._name}{number if name is None else check_name(name)}"
        self._stream.graph.next_name(child)
        return child

    def _take(self, child: str, node: Node, branched: Branched) -> None:
        stream = self._stream
        stream.graph.parts[child] = (self._name, stream.node.name)
        branch = type(stream)(stream.graph, node, is_rekeyed=stream.is_rekeyed, is_scattered=stream.is_scattered)
        if branched.consumer is not None:
            branched.consumer(branch)
            return
        made = branch if branched.function is None else branched.function(branch)
        if made is not None:
            self._streams[child] = made


def _given(branched: Branched | None, name: str | None) -> Branched:
    """Raises TopologyError for anything but a Branched, and for two names."""
    if branched is None:
        return Branched(name)
    if not isinstance(branched, Branched):
        next_step = 'use for example Branched.with_consumer(lambda stream: stream.to("large"))'
        raise TopologyError("branch", "a Branched, which says what becomes of it", repr(branched), next_step)
    if name is not None:
        raise TopologyError("branch", "one name", f"name={name!r} beside a Branched", "name it in the Branched")
    return branched
