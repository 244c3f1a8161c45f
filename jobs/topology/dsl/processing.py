"""Calls of a stream that run Python for every record: flat maps, peek, foreach, print, and processors (KIP-820)."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ....state.errors import TopologyError
from ....state.serdes import Serde
from ...functions.expressions import Shape
from ...functions.parameters import check_supplier, of_key_and_value
from ...functions.printed import Printed
from ...functions.processor_api import KeyValues
from ...operators.processor.given_stores import given_stores
from ...operators.processor.process_node import ProcessNode, ProcessValuesNode
from ...operators.stateless_nodes import FlatMapNode, PeekNode
from ..call_options import Named
from .rekeying import followed
from .step_arguments import both_serdes, check_serdes, on_error_of

if TYPE_CHECKING:
    from .kstream import KStream


def flat_map(
    this: "KStream",
    function: Callable[[Any, Any], Iterable[tuple[Any, Any]]],
    *options: Named,
    returns_key: Serde | None = None,
    returns: Serde | None = None,
    name: str | None = None,
    on_error: str = "stop",
) -> "KStream":
    """Any number of (key, value) for each record, which ``function(key, value)`` gives; they are forwarded in their
    order. ``returns_key`` and ``returns``: serdes of the keys and values, else TopologyError.

    Source: ``KStream.flatMap``.

        >>> def letters(key, value):
        ...     return [(letter, len(value)) for letter in value[:2]]
        >>> show(words.flat_map(letters, returns_key=STRING, returns=Serde.long()))
        t: 5 at 0
        o: 5 at 0
        o: 6 at 1
        r: 6 at 1
    """
    name = this.graph.name(name, "KSTREAM-FLATMAP-")
    on_error_of(this.graph, name, this.node, on_error)
    return flat_mapped(this, function, returns_key, returns, name)


def flat_mapped(
    this: "KStream",
    function: Callable[[Any, Any], Any],
    returns_key: Serde | None,
    returns: Serde | None,
    name: str,
) -> "KStream":
    """A flat map of new keys: ``function`` of (key, value) gives any number of pairs; both serdes must be given."""
    of_key_and_value(function, name, may_yield=True)
    shape = Shape(*both_serdes(name, returns_key, returns))
    node = FlatMapNode(name=name, inputs=(this.node.name,), shape=shape, function=function, keeps_key=False)
    return followed(this, node, is_rekeyed=True)


def flat_map_values(
    this: "KStream",
    function: Callable[..., Iterable[Any]],
    *options: Named,
    returns: Serde | None = None,
    name: str | None = None,
    on_error: str = "stop",
) -> "KStream":
    """Any number of values for each record, which ``function``, of (key, value) or of (value), gives. They are
    forwarded in their order under the record's key. ``returns``: serde of the values, else TopologyError.

    Source: ``KStream.flatMapValues``.

        >>> show(words.flat_map_values(lambda line: line.split(), returns=STRING))
        k: to at 0
        k: be at 0
        k: or at 1
        k: not at 1
    """
    name = this.graph.name(name, "KSTREAM-FLATMAPVALUES-")
    on_error_of(this.graph, name, this.node, on_error)
    called = of_key_and_value(function, name, may_take_value=True, may_yield=True)
    if returns is None:
        raise TopologyError(name, "returns= beside a Python callable", "none", "give the serde of the result")
    check_serdes(name, returns=returns)
    shape = Shape(this.shape.key, returns, this.shape.window)
    return followed(
        this, FlatMapNode(name=name, inputs=(this.node.name,), shape=shape, function=called, keeps_key=True)
    )


def peek(this: "KStream", function: Callable[[Any, Any], None], *options: Named, name: str | None = None) -> "KStream":
    """``function(key, value)`` is called for every record, which continues unchanged.

    An increment that dies is run again, and then so are these calls.

    Source: ``KStream.peek``.

        >>> show(words.peek(lambda key, value: print("seen", value)).filter("value = 'to be'"))
        seen to be
        seen or not
        k: to be at 0
    """
    return _peeked(this, function, this.graph.name(name, "KSTREAM-PEEK-"))


def foreach(this: "KStream", function: Callable[[Any, Any], None], *options: Named, name: str | None = None) -> None:
    """``function(key, value)`` is called for every record, which ends here.

    Source: ``KStream.foreach``.

        >>> words.foreach(lambda key, value: print(key, value.upper()))
        >>> show(words.filter("FALSE"))
        k TO BE
        k OR NOT
    """
    _peeked(this, function, this.graph.name(name, "KSTREAM-FOREACH-"))


def print_(this: "KStream", printed: Printed) -> None:
    """A line for every record, which ends here. ``printed``: where the line goes and what is in it; TopologyError for
    anything but a Printed.

    Source: ``KStream.print``.

        >>> words.print(Printed.to_sys_out().with_label("line"))
        >>> show(words.filter("FALSE"))
        [line]: k, to be
        [line]: k, or not
    """
    if not isinstance(printed, Printed):
        next_step = "use for example Printed.to_sys_out()"
        raise TopologyError("print", "a Printed, which says where to", repr(printed), next_step)
    _peeked(this, printed.printer(this.name, this.shape), this.graph.name(printed.name, "KSTREAM-PRINTER-"))


def _peeked(this: "KStream", function: Callable[[Any, Any], None], name: str) -> "KStream":
    of_key_and_value(function, name, gives=False)
    return followed(this, PeekNode(name=name, inputs=(this.node.name,), shape=this.shape, function=function))


def process(
    this: "KStream",
    supplier: Callable[[], Any],
    stores: Iterable[KeyValues | str] | Named = (),
    *options: Named,
    returns_key: Serde | None = None,
    returns: Serde | None = None,
    name: str | None = None,
) -> "KStream":
    """A Python processor, which is called record by record (jobs/functions/processor_api.py).

    - ``supplier``: makes the Processor, once a task.
    - ``stores``: its stores, each a KeyValues or what Stores builds, or the name of one. A name means the store that a
      processor, a table or ``add_state_store`` has, before this call or after it; it is then shared, and the task runs
      record by record. A global store can only be read. ``build`` refuses a name that nobody has.
    - ``returns_key``, ``returns``: serdes of what it forwards, those of its input if not given.

    TopologyError for a store of other types than the one of that name, and for the store of a table with windows or
    versions. Source: KStream.process, InternalTopologyBuilder.connectProcessorAndStateStores.

        >>> class Numbered(Processor):
        ...     def init(self, context):
        ...         super().init(context)
        ...         self.seen = context.store("seen")
        ...
        ...     def process(self, record):
        ...         self.seen.put(record.key, (self.seen.get(record.key) or 0) + 1)
        ...         self.context.forward(record.with_value(self.seen.get(record.key)))
        >>> show(clicks.process(Numbered, [KeyValues("seen", STRING, Serde.long())], returns=Serde.long()))
        ann: 1 at 0
        bob: 1 at 1000
        ann: 2 at 2000
        bob: 2 at 70000
    """
    name = this.graph.name(name, "KSTREAM-PROCESSOR-")
    check_serdes(name, returns_key=returns_key, returns=returns)
    shape = Shape(returns_key or this.shape.key, returns or this.shape.value)
    node = ProcessNode(shape=shape, **_processor(this, supplier, stores, name))
    return followed(this, node, is_rekeyed=True)


def process_values(
    this: "KStream",
    supplier: Callable[[], Any],
    stores: Iterable[KeyValues | str] | Named = (),
    *options: Named,
    returns: Serde | None = None,
    name: str | None = None,
) -> "KStream":
    """A Python processor that keeps keys, windowed ones too: a grouping or join below needs no repartition.

    ``supplier``: makes the FixedKeyProcessor (jobs/functions/processor_api.py), whose records have no ``with_key``.
    ``stores``: as of ``process``. ``returns``: serde of the values that it forwards, that of its input by default.
    Example: ``clicks.process_values(Numbered, [KeyValues("seen", Serde.string(), Serde.long())])``.
    Source: KStream.processValues (KIP-820).

        >>> class Late(FixedKeyProcessor):
        ...     def process(self, record):
        ...         self.context.forward(record.with_value(record.timestamp_ms >= 60_000))
        >>> show(orders.process_values(Late, returns=Serde.boolean()))
        ann: False at 1000
        bob: False at 2000
        ann: True at 61000
    """
    name = this.graph.name(name, "KSTREAM-PROCESSVALUES-")
    check_serdes(name, returns=returns)
    shape = Shape(this.shape.key, returns or this.shape.value, this.shape.window)
    return followed(this, ProcessValuesNode(shape=shape, **_processor(this, supplier, stores, name)))


def _processor(this: "KStream", supplier: Callable[[], Any], stores: Any, name: str) -> dict[str, Any]:
    """What nodes of processors have in common."""
    check_supplier(supplier, name, "init", "process")
    given = given_stores(this.graph, stores, name)
    return {"name": name, "inputs": (this.node.name,), "supplier": supplier, "store": f"{name}-stores", **vars(given)}


class One:
    """A function that gives one pair, as one that gives a list of them."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function

    def __call__(self, key: Any, value: Any) -> list[Any]:
        return [self.function(key, value)]
