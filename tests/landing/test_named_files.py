"""A directory, one file or a glob, as a user names files."""

import pytest

from kstreams_replay.jobs.landing.files.named_files import named_files
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.landing.file_folders import write
from tests.landing.landed_rows import landed

FILES = {
    "a.json": '{"t":1}\n',
    "b.json": '{"t":2}\n',
    "sub/a.json": '{"t":3}\n',
    "x[1].json": '{"t":4}\n',
    "c.csv": "t\n5\n",
}


@pytest.mark.parametrize(
    ("named", "times"),
    [
        ("in/a.json", [1]),
        ("in/*.json", [1, 2, 4]),
        ("in/[ab].json", [1, 2]),
        ("in/*/a.json", [3]),
        ("i?/sub/*", [3]),
        ("in/x[1].json", [4]),
        ("in/sub", [3]),
        ("in/sub/", [3]),
    ],
)
def test_it_is_what_it_is_to_a_shell(tmp_path, monkeypatch, capsys, named, times):
    write(tmp_path / "in", FILES)
    monkeypatch.chdir(tmp_path)

    main(["land", "t", "--warehouse", "W", "--files", named, "--timestamp", "t", "--local"])

    assert [time for (time,) in landed(Warehouse("W"), "t", "timestamp")] == times


def test_a_key_of_several_columns_and_lines_on_the_command(tmp_path, monkeypatch, capsys):
    write(tmp_path / "in", {"a.txt": "CreateTime:5;a;null;x;y\n"})
    monkeypatch.chdir(tmp_path)
    main(
        [
            "land",
            "t",
            "--warehouse",
            "W",
            "--files",
            "in/a.txt",
            "--timestamp",
            "t",
            "--key",
            "a",
            "b",
            "--value",
            "v",
            "--local",
            "--format",
            "lines",
            "--delimiter",
            ";",
            "--columns",
            "t",
            "a",
            "b",
            "v",
            "--nulls",
            "null",
        ]
    )

    assert landed(Warehouse("W"), "t", "timestamp", "key", "value") == [(5, b'{"a":"a","b":null}', b"x;y")]


def test_a_pattern_beside_a_file_or_a_glob_is_refused(tmp_path):
    write(tmp_path, FILES)

    for named in ("a.json", "*.json"):
        with pytest.raises(ConfigError, match="expected a directory beside a pattern, got pattern"):
            named_files(f"{tmp_path}/{named}", "b*")


def test_what_is_not_there_is_named_as_it_was(tmp_path):
    assert named_files(f"{tmp_path}/none", "b*") == (f"{tmp_path}/none", "b*")
