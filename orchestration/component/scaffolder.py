"""What ``dg scaffold defs kstreams_replay.ReplayPipelineComponent clicks`` writes: a small pipeline that runs at once.

Owns the example: two files of clicks, a topology that counts them, and the ``defs.yaml`` that names both. Rule: nothing
that is there is written over.
"""

import textwrap
from pathlib import Path
from typing import Any

import dagster as dg
from dagster.components.component_scaffolding import scaffold_component
from pydantic import BaseModel

from .attributes import said

TOPOLOGY = '''
"""Counts the pages that users see, in windows of an hour; a count leaves once, when its window is closed."""

from kstreams_replay import Consumed, Serde, StreamsBuilder, Suppressed, TimeWindows


def topology():
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(Serde.string(), Serde.json("user string, page string, ms long")))
    hours = clicks.group_by("page").windowed_by(TimeWindows.of_size("1h", grace="10m"))
    hours.count().suppress(Suppressed.until_window_closes()).to("pages-by-hour")
    return builder.build()
'''
DAYS = {
    "clicks/2026-01-01.csv": """
        user,page,ms
        ann,home,1767225660000
        bob,home,1767225720000
        ann,cart,1767229260000
        """,
    "clicks/2026-01-02.csv": """
        user,page,ms
        bob,cart,1767312060000
        cid,home,1767312120000
        ann,home,1767319260000
        """,
}


class ScaffoldParams(BaseModel):
    """Of your own pipeline, in the place of the example's."""

    topology: str | None = said(None, "file.py:attribute or module:attribute; default: an example")
    topic: str = said("clicks", "the topic that files are landed as")
    files: str | None = said(None, "folder of files, below the project's root; default: an example")
    key: str | None = said(None, "column of the key")
    timestamp: str | None = said(None, "column of the record time, in milliseconds")


class ReplayPipelineScaffolder(dg.Scaffolder[ScaffoldParams]):
    """Writes ``defs.yaml``, and the example's topology and files where none are named."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParams]:
        """Options of ``dg scaffold defs``."""
        return ScaffoldParams

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldParams]) -> None:
        """Write what is not there."""
        params, root = request.params, request.project_root or request.target_path
        source: dict[str, Any] = {"files": params.files or "clicks", "pattern": "*.csv"}
        if params.files is None:
            source |= {"key": params.key or "user", "timestamp": params.timestamp or "ms", "types": {"ms": "long"}}
            for name, text in DAYS.items():
                _write(root / name, textwrap.dedent(text).lstrip())
        else:
            source = {"files": params.files, "timestamp": params.timestamp or "ms"}
            source |= {} if params.key is None else {"key": params.key}
        if params.topology is None:
            text = TOPOLOGY.lstrip().replace('stream("clicks"', f'stream("{params.topic}"')
            _write(request.target_path / "topology.py", text)
        attributes = {
            "topology": params.topology or "topology.py:topology",
            "warehouse": "warehouse",
            "engine": "local",
            "sources": {params.topic: source},
            "schedule": "0 4 * * *",
            "checks": {"engine": "plain"},
        }
        scaffold_component(request, attributes)


def _write(path: Path, text: str) -> None:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
