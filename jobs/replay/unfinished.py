"""Pipelines that no run continues: those with a plan that is not done (with the command that finishes it), a flushed
history, or records between tasks that the code does not read. So is a backfill of a range, with the command to drop it.
"""

from shlex import quote

from ...state.errors import CodeChanged, LedgerError
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import DoneRow, PlanRow
from ...state.tables.parquet_reader import restore_command
from ...state.tables.warehouse import Warehouse
from ..topology.topology import Topology


def refuse_pending(warehouse: Warehouse, pipeline: str, pending: LedgerRow[PlanRow] | None) -> None:
    """Raises LedgerError when the pending plan is a restatement, which only its own command can finish."""
    if pending is not None and pending.content.erased is not None:
        raise LedgerError(
            f"pipeline {pipeline!r}",
            "no unfinished erasure",
            f"increment {pending.increment}, planned by `replay erase`",
            "give that command again, with the same key and --delete, which finishes it",
        )
    if pending is not None and pending.content.restates is not None:
        command = _command(warehouse, pipeline, pending.content.branch, pending.content.restates)
        raise LedgerError(
            f"pipeline {pipeline!r}",
            "no unfinished restatement",
            f"increment {pending.increment}, planned by `{command}`",
            f"run `{command}` again, which finishes it",
        )


def refuse_after_flush(pipeline: str, last: DoneRow) -> None:
    """Before records are read. Raises LedgerError when history was closed."""
    if last.flushed:
        raise LedgerError(
            f"pipeline {pipeline!r}", "no records after its history was flushed", "records that landed since",
            "they would all be late: replay the topics under another pipeline name",
        )  # fmt: skip


def refuse_lost_between(pipeline: str, last: DoneRow, topology: Topology) -> None:
    """Raises CodeChanged where an application's records between tasks are of a repartition topic that the code has no
    more: no task would take them.
    """
    known = {node.topic for sub in topology.sub_topologies for node in sub.repartitions}
    gone = [topic for topic in last.unread or {} if topic not in known]
    if gone:
        raise CodeChanged(
            f"pipeline {pipeline!r}", f"code that reads repartition topic {', '.join(gone)}, whose records no task "
            "has taken", "code without it", "run an increment with the code from before, then change it",
        )  # fmt: skip


def refuse_backfill(warehouse: Warehouse, pipeline: str, last: DoneRow, is_its_own: bool) -> None:
    """Raises LedgerError when it has rows of a range alone, unless who runs it makes these (``is_its_own``)."""
    if last.backfill is not None and not is_its_own:
        raise LedgerError(
            f"pipeline {pipeline!r}", "a pipeline that has all rows up to where it has read",
            "a backfill of a range, which ends with it",
            "compare it with `replay diff`, or fork a pipeline and run that; "
            f"`{drop_command(warehouse, pipeline)}` removes it",
        )  # fmt: skip


def drop_command(warehouse: Warehouse, branch: str) -> str:
    """What to paste so that a branch is dropped."""
    return f"replay drop {branch} --warehouse {quote(warehouse.root)}"


def promote_command(warehouse: Warehouse, branch: str) -> str:
    """What to paste so that a branch takes the place of its parent, or a promote that died is finished."""
    return f"replay promote {branch} --warehouse {quote(warehouse.root)}"


def _command(warehouse: Warehouse, pipeline: str, branch: str | None, restates: int) -> str:
    if branch is not None:
        return promote_command(warehouse, branch)
    return restore_command(warehouse.pipeline(pipeline).root, restates)


def unfinished(pipeline: str, pending: LedgerRow[PlanRow], next_step: str) -> LedgerError:
    """A plan is pending where none may be."""
    got = f"increment {pending.increment}, planned and not done"
    return LedgerError(f"pipeline {pipeline!r}", "no unfinished increment", got, next_step)
