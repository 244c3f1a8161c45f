"""Data Docs where others may write: no code of theirs is read, and no key of theirs leads out of the folder."""

import io
from pathlib import Path

import pytest
from pyarrow import fs

from kstreams_replay.expectations.suites import data_docs
from kstreams_replay.expectations.suites.data_docs import DataDocs, site_folder
from kstreams_replay.expectations.suites.library import open_context
from kstreams_replay.state.errors import StorageError

pytestmark = pytest.mark.every_run

LEADS_OUT = ["../escaped", "gx/expectations/../../../escaped.json", "a/../../escaped", "a\\..\\..\\escaped", "%2e%2e/x"]


class PlayedBucket:
    """What Data Docs ask of pyarrow's file system of a bucket, whose ``objects`` have any keys."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects = objects

    def get_file_info(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        return [fs.FileInfo(f"{selector.base_dir}/{key}", fs.FileType.File) for key in self.objects]

    def open_input_stream(self, path: str) -> io.BytesIO:
        return io.BytesIO(self.objects[path.removeprefix("bucket/docs/")])

    def open_output_stream(self, path: str) -> io.BytesIO:
        objects = self.objects

        class Stream(io.BytesIO):
            def close(self) -> None:
                objects[path.removeprefix("bucket/docs/")] = self.getvalue()
                super().close()

        return Stream()

    def delete_file(self, path: str) -> None:
        del self.objects[path.removeprefix("bucket/docs/")]


@pytest.fixture
def bucket(monkeypatch, tmp_path):
    """Data Docs in a bucket; temporary folders are below ``tmp_path``/t."""
    (tmp_path / "t").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    played = PlayedBucket({})
    monkeypatch.setattr(data_docs, "open_filesystem", lambda _: (played, "bucket/docs"))
    return played


@pytest.mark.parametrize("number", range(len(LEADS_OUT)))
def test_a_key_that_leads_out_of_the_folder_is_refused_and_nothing_is_written(bucket, tmp_path, number):
    bucket.objects[LEADS_OUT[number]] = b"escaped"

    with (
        pytest.raises(StorageError, match="names that stay below it"),
        site_folder(DataDocs("s3://bucket/docs")),
    ):
        raise AssertionError("no page is built")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert list(bucket.objects) == [LEADS_OUT[number]]


def test_of_a_bucket_only_json_of_suites_and_results_is_brought_and_the_rest_stays_as_it_is(bucket):
    kept = {"gx/expectations/a.json": b"{}", "gx/uncommitted/validations/a/b.json": b"{}"}
    code = {"gx/great_expectations.yml": b"x", "gx/plugins/evil.py": b"x", "gx/expectations/evil.py": b"x"}
    bucket.objects |= kept | code | {"index.html": b"page"}

    with site_folder(DataDocs("s3://bucket/docs")) as site:
        here = {
            path.relative_to(site).as_posix(): path.read_bytes() for path in Path(site).rglob("*") if path.is_file()
        }
        (Path(site) / "index.html").write_text("new page")

    assert here == kept | {"index.html": b""}
    assert bucket.objects == kept | code | {"index.html": b"new page"}


@pytest.mark.slow
@pytest.mark.usefixtures("great_expectations")
def test_a_project_file_that_somebody_has_put_there_is_not_read(tmp_path):
    """
    Great Expectations would import the class that the file names, from its folder of plugins.
    """
    plugins = tmp_path / "gx" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "evil.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w').close()\nclass Store: pass\n")
    (tmp_path / "gx" / "great_expectations.yml").write_text(
        "config_version: 4.0\nplugins_directory: plugins/\nexpectations_store_name: expectations_store\n"
        "stores:\n  expectations_store:\n    class_name: Store\n    module_name: evil\n"
    )

    context = open_context(str(tmp_path))

    assert context.expectations_store_name == "expectations_store"
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("name", ["index.html", ".lock", "validations"])
def test_no_page_is_written_through_a_symbolic_link(tmp_path, name):
    mine, folder = tmp_path / "mine", tmp_path / "docs"
    mine.write_text("mine")
    folder.mkdir()
    (folder / name).symlink_to(mine)

    with pytest.raises(StorageError, match="symbolic link"), site_folder(DataDocs(str(folder))):
        raise AssertionError("no page is built")
    assert mine.read_text() == "mine"
