"""What is known of a pipeline's group, kept beside its ledger from run to run.

Rule: a hint. Lost, damaged or old it costs time, and never a row; so whatever cannot be read is as if it were not
there, and what cannot be written is left out. A symbolic link in its place is not followed.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from ...state.errors import StorageError
from ...state.tables.kept_below import below
from ...state.tables.object_stores import open_filesystem
from ...state.tables.warehouse import PipelineTables
from ...state.wall_clock import now_ms
from ..placement.group import Group
from ..placement.settings import PlacementSettings

_PLACE = "_placement/group.json"
_FIELDS = {"increment", "settings", "members", "active", "moves", "elsewhere", "seconds", "group"}


def hint_path(tables: PipelineTables) -> str:
    """Where it lies."""
    return f"{tables.root}/{_PLACE}"


def read_hint(tables: PipelineTables) -> dict[str, Any] | None:
    """What was written last; None: nothing that is whole."""
    with suppress(OSError, ValueError, StorageError):
        filesystem, path = open_filesystem(below(tables.root, _PLACE))
        with filesystem.open_input_file(path) as file:
            content = json.loads(file.read())
        return content if isinstance(content, dict) and content.keys() >= _FIELDS else None
    return None


def group_of(content: Mapping[str, Any] | None, settings: PlacementSettings | None = None) -> Group:
    """The group of a hint; an empty one where there is none. ``settings`` None: those with
    which it was written.
    """
    with suppress(KeyError, TypeError, ValueError, AttributeError):
        if content is not None:
            return Group.from_dict(settings or _settings(content["settings"]), content["group"])
    return Group(settings or PlacementSettings())


def write_hint(
    tables: PipelineTables,
    group: Group,
    *,
    increment: int,
    members: Mapping[str, Mapping[str, Any]],
    elsewhere: Sequence[str],
    seconds: Mapping[str, float],
) -> None:
    """``members``: hosts, cores and tags of those that are there; ``elsewhere``: tasks that Spark ran on another member
    than its owner; ``seconds``: of every task.
    """
    assignment = group.assignment
    content = {
        "increment": increment,
        "written_at_ms": now_ms(),
        "settings": asdict(group.settings),
        "members": members,
        "active": {name: list(map(str, tasks)) for name, tasks in assignment.active.items()},
        "moves": [asdict(move) | {"task": str(move.task)} for move in assignment.moves],
        "elsewhere": list(elsewhere),
        "seconds": dict(seconds),
        "group": group.to_dict(),
    }
    with suppress(OSError, StorageError):
        filesystem, path = open_filesystem(below(tables.root, _PLACE))
        filesystem.create_dir(path.rpartition("/")[0], recursive=True)
        with filesystem.open_output_stream(path) as file:
            file.write(json.dumps(content).encode())


def _settings(content: Mapping[str, Any]) -> PlacementSettings:
    return PlacementSettings(**{**content, "rack_aware_assignment_tags": tuple(content["rack_aware_assignment_tags"])})
