"""The command `check-topology`: what a changed topology would do to the state of a pipeline. It writes nothing.

Owns its output and the options of changed code. Rule: it asks the same rule as `run`, of the same ledger row.
"""

from argparse import Namespace

from ...jobs.code_changes.compatibility import Verdict
from ...jobs.code_changes.state_migration import Wanted, verdict_on
from ...jobs.history.committed_tables import done_row
from ...state.errors import ConfigError
from ...state.tables.ledger import Ledger
from ...state.tables.warehouse import Warehouse
from .topology_loading import load_function, load_topology

REFUSED = 2
"""Exit code when the topology cannot go on, as of `run`, which would refuse it."""


def check_topology(options: Namespace) -> int:
    """Every difference that state can tell, and whether it goes on."""
    warehouse, topology = Warehouse(options.warehouse), load_topology(options.topology)
    last = done_row(warehouse, options.pipeline)
    if last.content.code is None:
        is_same = last.content.topology == topology.fingerprint
        print("the topology that made the state" if is_same else "another topology than that which made the state")
        return 0 if is_same else REFUSED
    verdict = verdict_on(last.content, topology, wanted_of(options))
    pending = Ledger(warehouse.pipeline(options.pipeline).ledger, warehouse.storage_options).pending()
    is_held = pending is not None and pending.content.topology != topology.fingerprint
    _print(verdict, last.increment)
    if is_held and pending is not None:
        print(f"increment {pending.increment} is planned by other code: run it to its end with that code first")
    return 0 if verdict.goes_on and not is_held else REFUSED


def wanted_of(options: Namespace) -> Wanted:
    """What ``--migrate`` and ``--renamed`` ask for. Raises ConfigError for one that cannot be read."""
    migrate = {store: load_function(name) for store, name in _pairs(options.migrate, "--migrate")}
    renamed = {old: new or None for old, new in _pairs(options.renamed, "--renamed")}
    return Wanted(migrate, renamed)


def _pairs(given: list[str], option: str) -> list[tuple[str, str]]:
    pairs = [text.partition("=") for text in given]
    wrong = next((text for text, (_, equals, _) in zip(given, pairs, strict=True) if not equals), None)
    if wrong is not None:
        raise ConfigError(option, "NAME=…", wrong, "put = between the store and the rest")
    return [(name, rest) for name, _, rest in pairs]


def _print(verdict: Verdict, increment: int) -> None:
    if not verdict.changes:
        print(f"nothing differs that the state of increment {increment} depends on")
        return
    for change in verdict.changes:
        print(f"{'goes on' if change.goes_on else 'REFUSED':9}{change.sentence()}")
    if verdict.goes_on:
        print(f"the state of increment {increment} goes on")
    else:
        print("two ways on: fork and replay from the start, or --migrate STORE=MODULE:FUNCTION")
