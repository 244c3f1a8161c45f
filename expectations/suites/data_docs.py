"""Data Docs: a folder of pages about what every increment was found to be, which anybody may open.

Owns the folder. Rule: Great Expectations keeps suites and results in ``<folder>/gx``, as JSON, and builds the pages
beside it; the newest RUNS_MAX runs are kept, since building the index reads each of them. Great Expectations writes to
local disks alone: of an object store, what the next page needs is brought to a temporary folder, and what came of it is
taken back. Others may have written to the folder: nothing in it is code, and no name in it leads out of it.
"""

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from pyarrow import fs

from ...state.tables.kept_below import below, files_below
from ...state.tables.object_stores import open_filesystem
from .library import KEPT

RUNS_MAX = 100
INDEX = "index.html"
_SITE = "local_site"
_PAGES = f"{__package__}.docs_pages"
_BUILDING = threading.Lock()


@dataclass(frozen=True)
class DataDocs:
    """Where the pages of one pipeline lie, and how to come there.

    ``folder``: a directory, or a URI of an object store. ``served_at``: the address under which it can be read, None
    for the folder's own. ``dagster_url``: of Dagster's web server, to which pages link back; None: they name the run.
    """

    folder: str
    served_at: str | None = None
    dagster_url: str | None = None

    @property
    def is_local(self) -> bool:
        """On a disk of this machine."""
        return "://" not in self.folder

    def address(self, page: str = INDEX) -> str:
        """Of a page, by its path in the folder."""
        if self.served_at is not None:
            return f"{self.served_at.rstrip('/')}/{quote(page)}"
        return (Path(self.folder).resolve() / page).as_uri() if self.is_local else f"{self.folder.rstrip('/')}/{page}"


@contextmanager
def site_folder(docs: DataDocs | None) -> Iterator[str | None]:
    """A local folder with all that the next pages need; what is written to it is part of ``docs`` afterwards.

    One at a time: in this process, and on a disk among all processes of the machine. Raises StorageError for a symbolic
    link in the folder, and for a key that would lead out of it.
    """
    if docs is None:
        yield None
        return
    with _BUILDING:
        if docs.is_local:
            with _locked(Path(docs.folder)):
                files_below(docs.folder)
                yield docs.folder
            return
        with tempfile.TemporaryDirectory(prefix="replay-data-docs-") as folder:
            there = _Mirror(docs.folder, Path(folder))
            there.bring()
            yield folder
            there.take()


def publish(context: Any, docs: DataDocs, site: str, results: Mapping[Any, Any]) -> dict[Any, str]:
    """Build the pages of ``results`` (by identifier) and the index in the folder ``site``; identifier to address."""
    config = _site_config(docs, site)
    context.add_data_docs_site(_SITE, config)
    _forget_old_runs(context)
    names = {result.suite_name for result in results.values()}
    suites = [key for key in context.stores[context.expectations_store_name].list_keys() if key.name in names]
    context.build_data_docs(site_names=[_SITE], resource_identifiers=[*suites, *results])
    shutil.rmtree(Path(site, "static"), ignore_errors=True)  # 4 MB of pictures and letters, which no page of ours loads
    addresses = {}
    for identifier in results:
        (link,) = context.get_docs_sites_urls(resource_identifier=identifier, site_names=[_SITE])
        page = Path(unquote(urlsplit(link["site_url"]).path)).resolve().relative_to(Path(site).resolve())
        addresses[identifier] = docs.address(page.as_posix())
    return addresses


def _site_config(docs: DataDocs, site: str) -> dict[str, Any]:
    page = {"module_name": _PAGES, "class_name": "OfflinePageView", "dagster_url": docs.dagster_url}
    return {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(Path(site).resolve())},
        "site_section_builders": {
            "expectations": {"view": page},
            "validations": {
                "renderer": {"class_name": "ValidationResultsPageRenderer", "run_info_at_end": True},
                "view": page,
            },
            "profiling": "none",
        },
        "site_index_builder": {
            "class_name": "DefaultSiteIndexBuilder",
            "renderer": {"module_name": _PAGES, "class_name": "VerdictIndex"},
            "view": {"module_name": _PAGES, "class_name": "VerdictIndexView", "dagster_url": docs.dagster_url},
        },
    }


def _forget_old_runs(context: Any) -> None:
    store = context.validation_results_store
    keys = store.list_keys()
    runs = sorted({key.run_id.run_time for key in keys})
    for key in keys if len(runs) > RUNS_MAX else []:
        if key.run_id.run_time < runs[-RUNS_MAX]:
            store.remove_key(key)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    import fcntl  # POSIX

    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(below(str(folder), ".lock"), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _is_kept(name: str) -> bool:
    """Whether the next page needs what is in that file."""
    return name.endswith(".json") and name.startswith(tuple(f"{folder}/" for folder in KEPT.values()))


class _Mirror:
    """A folder of an object store and its image on this disk."""

    def __init__(self, there: str, here: Path) -> None:
        self.files, root = open_filesystem(there)
        self.root, self.here = root.rstrip("/"), here
        self.known: dict[str, int] = {}

    def bring(self) -> None:
        """Suites and results, which are JSON, and of pages their names: the index lists them, and nobody reads them."""
        for info in self.files.get_file_info(fs.FileSelector(self.root, recursive=True, allow_not_found=True)):
            name = info.path.removeprefix(f"{self.root}/")
            if info.type != fs.FileType.File or (name.startswith("gx/") and not _is_kept(name)):
                continue
            file = Path(below(str(self.here), name))
            file.parent.mkdir(parents=True, exist_ok=True)
            if _is_kept(name):
                with self.files.open_input_stream(info.path) as stream:
                    file.write_bytes(stream.read())
            else:
                file.touch()
            self.known[name] = file.stat().st_mtime_ns

    def take(self) -> None:
        """Upload what was written since, the index last, and delete what is gone."""
        now = {path.relative_to(self.here).as_posix(): path for path in self.here.rglob("*") if path.is_file()}
        for name, path in sorted(now.items(), key=lambda item: item[0] == INDEX):
            if self.known.get(name) == path.stat().st_mtime_ns:
                continue
            with self.files.open_output_stream(f"{self.root}/{name}") as stream:
                stream.write(path.read_bytes())
        for name in self.known.keys() - now.keys():
            self.files.delete_file(f"{self.root}/{name}")
