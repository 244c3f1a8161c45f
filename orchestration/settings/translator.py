"""What the assets of a pipeline are called in Dagster, and what is on their pages.

Owns names and words, never what is in a table. Rule: a table's asset key is the pipeline's name and then the table's
name as the warehouse spells it (`flights/outputs/hourly`), unless the translator of the definitions says otherwise.
"""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType

import dagster as dg

from ...state.tables.names import REPARTITION, STATE, TableName

_NONE: Mapping[str, str] = MappingProxyType({})
_NUMBERED = re.compile(r"[A-Z]-\d{10}(-|$)")


def is_named_by_kafka(table: str) -> bool:
    """Whether a store or repartition table has the name that Kafka Streams gives where the topology gives none, as
    "state/KTABLE-SUPPRESS-STATE-STORE-0000000022".
    """
    return TableName(table).kind in (STATE, REPARTITION) and _NUMBERED.search(table) is not None


@dataclass(frozen=True)
class ReplayTranslator:
    """Names, groups, owners, tags, kinds and descriptions of a pipeline's assets.

    Tables are given as the warehouse spells them: "outputs/pages", "state/open-pages", "landed/clicks", "dropped".
    ``key_prefix``: before every asset key. ``group``: of all assets; None: one of the pipeline's name.
    ``internal_group``: of stores and repartition tables to which the topology gives no name; None: they are in the
    group of all. ``owners``: mail addresses, or teams as "team:shop". ``tags``, ``kinds``: added
    to every asset. ``descriptions``: table → text, in the place of what is said of it else; a topic or store may be
    without what comes before the "/".

    What these cannot say, a subclass says by overriding a method:

        class ByTeam(ReplayTranslator):
            def get_owners(self, pipeline, table):
                return ["team:web"] if table.startswith("outputs/") else ["team:platform"]

        defs = replay_definitions(topology, pipeline="shop", warehouse="w", translator=ByTeam(group="web"))
    """

    key_prefix: Sequence[str] = ()
    group: str | None = None
    internal_group: str | None = None
    owners: Sequence[str] = ()
    tags: Mapping[str, str] = field(default_factory=lambda: _NONE)
    kinds: Sequence[str] = ()
    descriptions: Mapping[str, str] = field(default_factory=lambda: _NONE)

    def get_asset_key(self, pipeline: str, table: str) -> dg.AssetKey:
        """Asset key of a table of ``pipeline``; two tables must not have the same."""
        return dg.AssetKey([*self.key_prefix, pipeline, *table.split("/", 1)])

    def get_group_name(self, pipeline: str, table: str, group: str) -> str:
        """Group of a table; ``group``: the pipeline's name in the letters that Dagster takes."""
        is_internal = self.internal_group is not None and is_named_by_kafka(table)
        return (self.internal_group if is_internal else self.group) or group

    def get_owners(self, pipeline: str, table: str) -> Sequence[str]:
        """Owners of a table."""
        return self.owners

    def get_tags(self, pipeline: str, table: str) -> Mapping[str, str]:
        """Tags of a table."""
        return self.tags

    def get_kinds(self, pipeline: str, table: str, kinds: Set[str]) -> Set[str]:
        """Kinds of a table; ``kinds``: of the engine, of Delta, of a topic's files."""
        return kinds | set(self.kinds)

    def get_description(self, pipeline: str, table: str, description: str) -> str:
        """Text of a table's page; ``description``: what is said of it else."""
        name = table.partition("/")[2]
        return self.descriptions.get(table) or self.descriptions.get(name) or description

    def get_asset_spec(self, pipeline: str, table: str, spec: dg.AssetSpec) -> dg.AssetSpec:
        """The whole asset spec of a table, after all of the above; its key and its deps must stay."""
        return spec
