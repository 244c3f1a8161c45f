"""The command `check-topology`: what a changed topology would do to the state of a pipeline. It writes nothing.

Owns its output and the options of changed code. Rule: it asks the same rule as `run`, of the same ledger row.
"""

from collections.abc import Sequence

from ....jobs.code_changes.compatibility import Compatibility
from ....jobs.code_changes.state_migration import MigrationOptions, verdict_on
from ....jobs.history.committed_tables import done_row
from ....jobs.replay.takeover import tables_with
from ....state.errors import ConfigError
from ....state.tables.ledger import Ledger
from ....state.tables.warehouse import Warehouse
from ...settings.topology_loading import load_function, load_topology
from .. import options
from ..command import command
from ..exit_codes import ExitCode


@command()
@options.topology_argument
@options.warehouse
@options.pipeline
@options.migrate
@options.renamed
def check_topology(
    topology: str, warehouse: str, pipeline: str, migrate: tuple[str, ...], renamed: tuple[str, ...]
) -> int:
    """Say whether a changed topology can continue with a pipeline's state. The exit code is 4 when it does not."""
    opened, changed = Warehouse(warehouse), load_topology(topology, warehouse)
    last = done_row(opened, pipeline)
    if last.content.code is None:
        is_same = last.content.topology == changed.fingerprint
        print("the topology that made the state" if is_same else "another topology than that which made the state")
        return ExitCode.DONE if is_same else ExitCode.FAILED
    verdict = verdict_on(last.content, changed, wanted_of(migrate, renamed))
    pending = Ledger(opened.pipeline(pipeline).ledger).pending()
    _print(verdict, last.increment)
    is_held = False
    if pending is not None and pending.content.topology != changed.fingerprint:
        is_held = bool(tables_with(opened, pipeline, pending))
        next_step = (
            "run it to its end with that code first"
            if is_held
            else "no table has anything of it, so a run takes it over"
        )
        print(f"increment {pending.increment} is planned by other code: {next_step}")
    return ExitCode.DONE if verdict.goes_on and not is_held else ExitCode.FAILED


def wanted_of(migrate: Sequence[str], renamed: Sequence[str]) -> MigrationOptions:
    """What ``--migrate`` and ``--renamed`` ask for. Raises ConfigError for one that cannot be read."""
    return MigrationOptions(
        {store: load_function(name) for store, name in _pairs(migrate, "--migrate")},
        {old: new or None for old, new in _pairs(renamed, "--renamed")},
    )


def _pairs(given: Sequence[str], option: str) -> list[tuple[str, str]]:
    pairs = [text.partition("=") for text in given]
    wrong = next((text for text, (_, equals, _) in zip(given, pairs, strict=True) if not equals), None)
    if wrong is not None:
        raise ConfigError(option, "NAME=…", wrong, "put = between the store and the rest")
    return [(name, rest) for name, _, rest in pairs]


def _print(verdict: Compatibility, increment: int) -> None:
    if not verdict.changes:
        print(f"nothing differs that the state of increment {increment} depends on")
        return
    for change in verdict.changes:
        print(f"{'goes on' if change.goes_on else 'REFUSED':9}{change.sentence()}")
    if verdict.goes_on:
        print(f"the state of increment {increment} goes on")
    else:
        print("two options: fork and replay from the start, or --migrate STORE=MODULE:FUNCTION")
