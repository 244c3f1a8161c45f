"""What the command `check` does. Rule: as in `orchestration/cli/describe_commands.py`."""

from argparse import Namespace

from ...expectations.verdicts import Verdict, check_increment
from ...jobs.history.committed_tables import done_row
from ...state.tables.ledger import Ledger
from ...state.tables.warehouse import Warehouse
from ..facts import replay_facts
from ..text_tables import flat_row, text_table
from .describe_commands import own_increments
from .topology_loading import load_topology

BROKEN = 1
"""Exit code of `check` when a guarantee does not hold or cannot be judged."""


def check(options: Namespace) -> int:
    """Verdicts on increments, with the rows that speak against them."""
    warehouse, facts = Warehouse(options.warehouse), replay_facts(load_topology(options.topology))
    last = done_row(warehouse, options.pipeline, options.increment).increment
    ledger = Ledger(warehouse.pipeline(options.pipeline).ledger, warehouse.storage_options)
    verdicts = [
        verdict
        for increment in (own_increments(ledger.done_rows(ledger.oldest_kept())) if options.all else [last])
        for verdict in check_increment(warehouse, options.pipeline, facts, increment, engine=options.engine)
    ]
    for verdict in verdicts:
        _print_verdict(verdict)
    return 0 if all(verdict.answer == "true" for verdict in verdicts) else BROKEN


def _print_verdict(verdict: Verdict) -> None:
    answer = {"true": "holds", "false": "BROKEN", "unknown": "UNKNOWN"}[verdict.answer]
    observed = ", ".join(f"{name} {count:,}" for name, count in verdict.observed.items())
    print(
        f"{answer:8}{verdict.guarantee} {verdict.table}, increment {verdict.increment}: {verdict.sentence} ({observed})"
    )
    if verdict.reason:
        print(f"        {verdict.reason}")
    if verdict.witnesses:
        print(text_table([flat_row(row, as_numbers=True) for row in verdict.witnesses]))
