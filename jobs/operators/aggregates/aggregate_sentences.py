"""What an aggregate of a stream says of a row: windows that changed, sessions that merged, results that are final.

Rule: a window that the row changed is said with its values before and after; one that stays as it was, once.
"""

from ...graph.observations import Observation, name_of
from ...graph.wording import Wording


def say_aggregate(seen: Observation, say: Wording, window: str | None, *, is_final: bool) -> list[str]:
    """``window``: kind of the windows, None without. ``is_final``: only final results are forwarded."""
    if window == "session":
        said = _sessions(seen, say)
    else:
        said = [say.change(change, window) for change in seen.changes if change.after is not None or not window]
    changed = {name_of(change.after) for change in seen.changes if change.after is not None}
    for row in seen.forwarded:
        if is_final:
            said.append(f"closed, goes on: {say.row(row, window)}")
        elif row.named not in changed and row.value is not None:
            said.append(f"stays {say.row(row, window)}")
    return said or ([] if seen.refusals else ["changes nothing"])


def _sessions(seen: Observation, say: Wording) -> list[str]:
    gone = [change.before for change in seen.changes if change.after is None and change.before is not None]
    said = []
    for change in seen.changes:
        if change.after is None:
            continue
        start, end = change.after["window_start_ms"], change.after["window_end_ms"]
        name = f"{change.after['key']!r} {say.window((start, end), 'session')}"
        merged = [e for e in gone if start <= e["window_start_ms"] and e["window_end_ms"] <= end]
        spans = [say.window((e["window_start_ms"], e["window_end_ms"]), "session") for e in merged]
        parts = " and ".join(f"{span} = {e['value']!r}" for span, e in zip(spans, merged, strict=True))
        if len(merged) > 1:
            said.append(f"merges {parts} into session {name} = {change.after['value']!r}")
        elif merged:
            said.append(f"extends {parts} to session {name} = {change.after['value']!r}")
        else:
            said.append(f"session {say.change(change, 'session')}")
    return said
