"""Which folders are the packages of ``kstreams_replay``: wheel, sdist and editable installation take them from where
they are, so that a stack trace, a breakpoint and ``git blame`` name the same file. The links in ``kstreams_replay/``,
which tools that only read files follow, are no part of the build: a checkout without them builds the same.
"""

from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
PARTS = ("state", "jobs", "expectations", "orchestration")
PAGE = "when-something-is-wrong.md"
"""``replay errors`` prints its sections (state/error_page.py)."""


class BuildWithPage(build_py):
    """As setuptools builds, with the page beside the module that reads it."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            self.copy_file(str(ROOT / "docs" / PAGE), self._page())

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), self._page()]

    def _page(self) -> str:
        return str(Path(self.build_lib) / "kstreams_replay" / "state" / PAGE)


absent = [path for path in (*(f"{part}/__init__.py" for part in PARTS), f"docs/{PAGE}") if not (ROOT / path).is_file()]
if absent:
    raise SystemExit(f"{ROOT}: expected a whole checkout, got one without {', '.join(absent)}; take them along")

packages = ["kstreams_replay"]
for part in PARTS:
    packages += [f"kstreams_replay.{name}" for name in (part, *(f"{part}.{below}" for below in find_packages(part)))]

setup(
    packages=packages,
    package_dir={f"kstreams_replay.{part}": part for part in PARTS},
    cmdclass={"build_py": BuildWithPage},
)
