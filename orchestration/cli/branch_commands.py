"""What the commands do that go back in time: fork, branches, diff, promote, drop, restore.

Owns their output. Rule: as in `orchestration/cli/describe_commands.py`; what is done is said with the increment at
which it was.
"""

from argparse import Namespace
from typing import Any

from ...jobs.branches import branches as registry
from ...jobs.branches.promotion import promote as promote_branch
from ...jobs.branches.restatement import restore as restore_pipeline
from ...jobs.history.committed_tables import done_row
from ...jobs.history.output_diff import OutputDiff, diff_output, outputs_of
from ...state.tables.warehouse import Warehouse
from ..text_tables import flat_row, text_table
from .topology_loading import load_topology

DIFFERENT = 1
"""Exit code of `diff` when there is a difference, as of the `diff` that compares files."""


def fork(options: Namespace) -> int:
    """Begin a branch with what a pipeline was."""
    warehouse = Warehouse(options.warehouse)
    topology = None if options.topology is None else load_topology(options.topology)
    row = registry.fork(warehouse, options.pipeline, options.at, options.name, topology=topology)
    what = "nothing" if row.increment == 0 else f"increment {row.increment}"
    print(f"{options.name} begins with {what} of {options.pipeline}; replay run … --pipeline {options.name} goes on")
    return 0


def branches(options: Namespace) -> int:
    """The open branches."""
    warehouse = Warehouse(options.warehouse)
    lines: list[dict[str, Any]] = [
        {
            "branch": branch.name,
            "parent": branch.parent,
            "forked_at": branch.increment,
            "increment": done_row(warehouse, branch.name).increment,
            "since_ms": branch.written_at_ms,
        }
        for branch in registry.branches(warehouse).values()
    ]
    print(text_table([flat_row(line) for line in lines]) if lines else "no branches")
    return 0


def diff(options: Namespace) -> int:
    """Rows of outputs that differ between two pipelines; exit code 1 when there are any."""
    warehouse, a, b = Warehouse(options.warehouse), options.a, options.b
    mine, other = outputs_of(warehouse, a, options.increment_a), outputs_of(warehouse, b, options.increment_b)
    one_sided = [] if options.output else sorted({*mine} ^ {*other})
    for name in one_sided:
        print(f"{name}: only {a if name in mine else b} has it")
    differs = bool(one_sided)
    for name in [options.output] if options.output else [name for name in mine if name in other]:
        found = diff_output(warehouse, a, b, name, increment_a=options.increment_a, increment_b=options.increment_b)
        _print_diff(found, options)
        differs = differs or not found.is_empty
    return DIFFERENT if differs else 0


def _print_diff(found: OutputDiff, options: Namespace) -> None:
    """``A`` and ``B`` stand for the names that were given, which may be the same."""
    counts = f"{found.equal:,} equal, {len(found.rows):,} differ"
    print(f"{found.output}: {counts}; changelog of A {found.records[0]:,} records, of B {found.records[1]:,}")
    rows = found.rows.head(options.limit).to_dicts()
    if rows:
        print(text_table([flat_row(row, as_numbers=options.raw) for row in rows]))
    if len(found.rows) > len(rows):
        print(f"… {len(rows):,} of {len(found.rows):,} rows; --limit shows more")


def promote(options: Namespace) -> int:
    """Swap a branch into its parent."""
    warehouse = Warehouse(options.warehouse)
    parent = registry.branch_of(warehouse, options.name).parent
    row = promote_branch(warehouse, options.name)
    print(f"{parent} is {options.name} from increment {row.increment} on (epoch {row.epoch})")
    return 0


def drop(options: Namespace) -> int:
    """Remove a branch."""
    registry.drop(Warehouse(options.warehouse), options.name)
    print(f"{options.name} is gone")
    return 0


def restore(options: Namespace) -> int:
    """Make a pipeline go on from an increment that is done."""
    row = restore_pipeline(Warehouse(options.warehouse), options.pipeline, options.to, abandon=options.abandon)
    what = "the start" if options.to == 0 else f"increment {options.to}"
    print(f"{options.pipeline} goes on from {what} (increment {row.increment}, epoch {row.epoch})")
    return 0
