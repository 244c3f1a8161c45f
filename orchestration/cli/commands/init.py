"""The command `init`: a project that runs as it is.

Owns which files it has; their texts are in ``new_project/``. Rule: nothing that is there is written over.
"""

from importlib.resources import files
from pathlib import Path

from ....state.errors import ConfigError
from ....state.tables.warehouse import Warehouse
from ....state.version import VERSION
from ..command import argument, command

FILES = {
    "README.md": "README.md.in",
    "topology.py": "topology.py.in",
    "test_topology.py": "test_topology.py.in",
    "in/clicks.jsonl": "clicks.jsonl.in",
    "replay.toml": "replay.toml.in",
    "definitions.py": "definitions.py.in",
    "requirements.txt": "requirements.txt.in",
    ".github/workflows/test.yml": "test.yml.in",
    ".gitignore": "gitignore.in",
}
"""Path in the project → the file with its text."""


@command()
@argument("name", metavar="NAME", help="a new folder; its last part is the name of the pipeline")
def init(name: str) -> int:
    """Make a project that runs as it is: topology, test, data, Dagster definitions and a CI file."""
    folder = Path(name)
    pipeline = folder.resolve().name
    Warehouse("warehouse").pipeline(pipeline)  # refuses what is no name of a pipeline
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ConfigError(f"init {name}", "a new or an empty folder", "one with files", "choose another name")
    for path, text in project_files(pipeline).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
        print(folder / path)
    print(
        f"\nnext: cd {name}, then python -m pytest\n"
        "      replay land clicks --files in --timestamp ms --key user\n"
        "      replay run\n"
        "      replay show click_sessions\n"
        "README.md says more"
    )
    return 0


def project_files(pipeline: str) -> dict[str, str]:
    """The text of every file of the project of ``pipeline``, by its path."""
    texts = files(__package__.rpartition(".")[0]) / "new_project"
    return {
        path: (texts / name).read_text(encoding="utf-8").replace("@NAME@", pipeline).replace("@VERSION@", VERSION)
        for path, name in FILES.items()
    }
