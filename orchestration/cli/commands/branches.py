"""The commands that go back in time: fork, branches, diff, promote, drop, restore.

Owns their output. Rule: what is done is said with the increment at which it was.
"""

from typing import Any

from ....jobs.branches import branches as registry
from ....jobs.branches.promotion import promote as promote_branch
from ....jobs.branches.restatement import restore as restore_pipeline
from ....jobs.history.committed_tables import done_row
from ....jobs.history.output_diff import OutputDiff, diff_output, outputs_left_out, outputs_of
from ....state.tables.warehouse import Warehouse
from ...settings.topology_loading import load_topology
from ...text_tables import flat_row, print_json, print_table
from .. import options
from ..command import argument, command, option
from ..exit_codes import ExitCode

branch_argument = argument("name", metavar="NAME", help="the branch")


@command()
@options.warehouse
@options.pipeline
@option("--at", type=options.INCREMENT, required=True, metavar="N", help="after this increment; 0: from the start")
@option("--as", "name", required=True, metavar="NAME", help="name of the branch, a pipeline of its own")
@options.topology_option("the changed code that it will be replayed with")
def fork(warehouse: str, pipeline: str, at: int, name: str, topology: str | None) -> int:
    """Begin a branch with what a pipeline was, without copying it."""
    changed = None if topology is None else load_topology(topology, warehouse)
    row = registry.fork(Warehouse(warehouse), pipeline, at, name, topology=changed)
    what = "nothing" if row.increment == 0 else f"increment {row.increment}"
    print(f"{name} begins with {what} of {pipeline}; replay run … --pipeline {name} goes on")
    return 0


@command()
@options.warehouse
@options.as_json
def branches(warehouse: str, as_json: bool) -> int:
    """List the open branches."""
    lines: list[dict[str, Any]] = [
        {
            "branch": branch.name,
            "parent": branch.parent,
            "forked_at": branch.increment,
            "increment": done_row(Warehouse(warehouse), branch.name).increment,
            "since_ms": branch.written_at_ms,
        }
        for branch in registry.branches(Warehouse(warehouse)).values()
    ]
    if as_json:
        print_json({"branches": lines})
    elif lines:
        print_table([flat_row(line) for line in lines])
    else:
        print("no branches")
    return 0


@command()
@argument("a", metavar="A", help="a pipeline")
@argument("b", metavar="B", help="another one, or the same as of another increment")
@options.warehouse
@option("--output", metavar="X", help="this output alone (default: all that both have)")
@option("--increment-a", type=options.INCREMENT, metavar="N", help="A as of this increment (default: the last)")
@option("--increment-b", type=options.INCREMENT, metavar="N", help="B as of this increment (default: the last)")
@options.limit
@options.as_json
@options.raw
def diff(
    a: str, b: str, warehouse: str, output: str | None, increment_a: int | None, increment_b: int | None,
    limit: int, as_json: bool, raw: bool,
) -> int:  # fmt: skip
    """Compare the outputs of two pipelines by key and window. The exit code is 4 when any row differs."""
    opened = Warehouse(warehouse)
    mine, other = outputs_of(opened, a, increment_a), outputs_of(opened, b, increment_b)
    left_out = {
        name: f"{one} does not make it (processor {processor})"
        for one, increment in (() if output else ((a, increment_a), (b, increment_b)))
        for name, processor in outputs_left_out(opened, one, increment).items()
    }
    one_sided = [] if output else sorted(({*mine} ^ {*other}) - {*left_out})
    diffs = (
        diff_output(opened, a, b, name, increment_a=increment_a, increment_b=increment_b)
        for name in ([output] if output else [name for name in mine if name in other])
    )
    if as_json:
        outputs = [_as_json(each, limit) for each in diffs]
        print_json(
            {
                "outputs": outputs,
                "only_in_a": sorted({*one_sided} & {*mine}),
                "only_in_b": sorted({*one_sided} - {*mine}),
                "not_compared": left_out,
            }
        )
        differs = bool(one_sided) or any(each["differ"] for each in outputs)
    else:
        for name in one_sided:
            print(f"{name}: only {a if name in mine else b} has it")
        for name, why in left_out.items():
            print(f"{name}: not compared, {why}")
        differs = bool(one_sided)
        for each in diffs:
            _print_diff(each, limit, raw=raw)
            differs = differs or not each.is_empty
    return ExitCode.FAILED if differs else ExitCode.DONE


def _as_json(diff: OutputDiff, limit: int) -> dict[str, Any]:
    """``records``: of the changelogs of A and B."""
    return {
        "output": diff.output, "equal": diff.equal, "differ": len(diff.rows), "records": diff.records,
        "rows": diff.rows.head(limit).to_dicts(),
    }  # fmt: skip


def _print_diff(diff: OutputDiff, limit: int, *, raw: bool) -> None:
    """``A`` and ``B`` represent the names that were given, which may be the same."""
    counts = f"{diff.equal:,} equal, {len(diff.rows):,} differ"
    print(f"{diff.output}: {counts}; changelog of A {diff.records[0]:,} records, of B {diff.records[1]:,}")
    rows = diff.rows.head(limit).to_dicts()
    if rows:
        print_table([flat_row(row, as_numbers=raw) for row in rows])
    if len(diff.rows) > len(rows):
        print(f"… {len(rows):,} of {len(diff.rows):,} rows; --limit shows more")


@command()
@branch_argument
@options.warehouse
def promote(name: str, warehouse: str) -> int:
    """Swap a branch into its parent."""
    parent = registry.branch_of(Warehouse(warehouse), name).parent
    row = promote_branch(Warehouse(warehouse), name)
    print(f"{parent} is {name} from increment {row.increment} on (epoch {row.epoch})")
    return 0


@command()
@branch_argument
@options.warehouse
def drop(name: str, warehouse: str) -> int:
    """Remove a branch."""
    registry.drop(Warehouse(warehouse), name)
    print(f"{name} is gone")
    return 0


@command()
@options.warehouse
@options.pipeline
@option("--to", type=options.INCREMENT, required=True, metavar="N", help="continue from here; 0: from the start")
@option("--abandon", is_flag=True, help="give up an increment that is planned and not done")
def restore(warehouse: str, pipeline: str, to: int, abandon: bool) -> int:
    """Make a pipeline continue from an increment that is done, under a new epoch."""
    row = restore_pipeline(Warehouse(warehouse), pipeline, to, abandon=abandon)
    what = "the start" if to == 0 else f"increment {to}"
    print(f"{pipeline} goes on from {what} (increment {row.increment}, epoch {row.epoch})")
    return 0
