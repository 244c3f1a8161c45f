"""Names that a class of the DSL does not have, and what they are here.

Owns the words for Kafka's Java names, for names of another class, and for slips of the hand. Rule: an unknown name is
an AttributeError, as everywhere in Python, which says what to write.
"""

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

SAID_OTHERWISE = {
    "as": "as_(name)",
    "through": "repartition(), or to() and another stream()",
    "transform": "process(supplier, stores)",
    "transform_values": "process_values(supplier, stores); of a KTable it is transform_values(supplier)",
    "flat_transform": "process(supplier, stores)",
    "flat_transform_values": "process_values(supplier, stores)",
    "branch": "split().branch(step)",
    "emit_strategy": "emit_strategy(…) of the windowed stream, before the aggregate: windowed_by(…).emit_strategy(…)",
    "windowed_by": "windowed_by(windows) of a grouped stream: group_by_key().windowed_by(…)",
    "aggregate": "aggregate(…) of a grouped stream or table: group_by_key().aggregate(…)",
    "count": "count() of a grouped stream or table: group_by_key().count()",
    "reduce": "reduce(…) of a grouped stream or table: group_by_key().reduce(…)",
    "suppress": "suppress(…) of a table, behind an aggregate",
    "with_caching_disabled": "nothing: there are no record caches, every change is forwarded",
    "with_caching_enabled": "suppress(…) to hold changes back by the records' times: there are no record caches",
    "add_read_only_state_store": "StreamsBuilder.table(topic, consumed, materialized=…), whose store processors name",
    "with_logging_disabled": "nothing: a store's files are its changelog",
    "with_logging_enabled": "nothing: a store's files are its changelog",
    "with_retention": "as_(name, retention=…)",
    "with_": "as_(name): serdes are those of the stream or table, or returns=",
    "with_name": "name=… in the call that makes it",
    "with_store_type": "as_(name, store=…)",
    "number_of_partitions": "as_(name).with_number_of_partitions(number)",
    "stream_partitioner": "as_(name).with_stream_partitioner(function)",
    "key_serde": "nothing: serdes are those of the stream, or returns=",
    "value_serde": "nothing: serdes are those of the stream, or returns=",
    "other_value_serde": "nothing: serdes are those of the stream or table",
    "with_other_value_serde": "nothing: serdes are those of the stream or table",
    "with_key_serde": "nothing: serdes are those of the stream, or returns=",
    "with_value_serde": "nothing: serdes are those of the stream, or returns=",
    "grace": "of_size(size, grace=…), of_time_difference(…, grace=…) or with_inactivity_gap(gap, grace=…)",
    "on_window_close": 'emit_strategy("on_window_close")',
    "avg": "fold.mean(of)",
    "average": "fold.mean(of)",
    "collect_list": "fold.collect(of)",
    "variance": "fold.var_pop(of), or fold.var_samp(of) of a sample",
    "stddev": "fold.stddev_pop(of), or fold.stddev_samp(of) of a sample",
}
"""What Kafka's words, in snake case, are here where it is not the same word."""


def hint(name: str, known: list[str]) -> str:
    """What to write instead of ``name`` where names are ``known``; empty when nothing comes near."""
    snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
    if snake != name and snake in known:
        return f"Kafka's {name} is {snake} here"
    if snake in SAID_OTHERWISE:
        return f"write {SAID_OTHERWISE[snake]}"
    near = get_close_matches(snake, known, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else ""


def refuse(what: str, name: str, known: list[str]) -> AttributeError:
    """The error of ``what``, a class or a module, that has no ``name``."""
    said = "" if name.startswith("_") else hint(name, known)
    return AttributeError(f"{what} has no {name!r}{f'; {said}' if said else ''}")


def public(names: Any) -> list[str]:
    """Those of ``names`` that a user may write."""
    return [name for name in names if not name.startswith("_")]


class _Hinting(type):
    """The class itself, asked for a name that it does not have: ``TimeWindows.ofSizeAndGrace``."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            raise refuse(cls.__name__, name, public(dir(cls)))


class Hinting(metaclass=_Hinting):
    """A class of the DSL, and its instances: unknown names are refused with what to write."""

    __slots__ = ()

    if not TYPE_CHECKING:  # to a type checker an unknown name is one

        def __getattr__(self, name: str) -> Any:
            raise refuse(type(self).__name__, name, public(dir(type(self))))
