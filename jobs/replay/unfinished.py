"""Plans that are not done: which command finishes them, and the refusal of anything else."""

from collections.abc import Mapping
from typing import Any

from ...state.errors import LedgerError
from ...state.tables.ledger import LedgerRow


def refuse_pending(pipeline: str, pending: LedgerRow | None) -> None:
    """Raises LedgerError when the pending plan is a restatement, which only its own command can finish."""
    if pending is not None and "restates" in pending.content:
        command = _command(pipeline, pending.content)
        raise LedgerError(
            f"pipeline {pipeline!r}",
            "no unfinished restatement",
            f"increment {pending.increment}, planned by `{command}`",
            f"run `{command}` again, which finishes it",
        )


def _command(pipeline: str, content: Mapping[str, Any]) -> str:
    if content["kind"] == "promote":
        return f"replay promote {content['branch']}"
    return f"replay restore --pipeline {pipeline} --to {content['restates']}"


def unfinished(pipeline: str, pending: LedgerRow, next_step: str) -> LedgerError:
    """A plan is pending where none may be."""
    got = f"increment {pending.increment}, planned and not done"
    return LedgerError(f"pipeline {pipeline!r}", "no unfinished increment", got, next_step)
