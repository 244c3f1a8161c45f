"""A directory, one file or a glob, as a user names files."""

import os

import pytest

from kstreams_replay.jobs.landing.files.named_files import named_files
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import ConfigError, LandingError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.landing.file_folders import land, write
from tests.landing.landed_rows import landed

FILES = {
    "a.json": '{"t":1}\n',
    "b.json": '{"t":2}\n',
    "sub/a.json": '{"t":3}\n',
    "x[1].json": '{"t":4}\n',
    "c.csv": "t\n5\n",
    "sub/deep/d.json": '{"t":6}\n',
    "_x.json": '{"t":7}\n',
    "sub/_tmp/y.json": '{"t":8}\n',
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
        ("in/sub", [3, 6]),
        ("in/sub/", [3, 6]),
        ("in/**/*.json", [1, 2, 3, 6, 4]),
        ("in/**/deep/**", [6]),
        ("in/**/sub/**/d.json", [6]),
        ("in/*/**/a.json", [3]),
        ("in/_x.json", [7]),
        ("in/_*.json", [7]),
        ("in/**/_tmp/*", [8]),
    ],
)
def test_it_is_what_it_is_to_a_shell(tmp_path, monkeypatch, capsys, named, times):
    write(tmp_path / "in", FILES)
    monkeypatch.chdir(tmp_path)

    main(["land", "t", "--warehouse", "W", "--files", named, "--timestamp", "t", "--local"])

    assert [time for (time,) in landed(Warehouse("W"), "t", "timestamp")] == times


@pytest.mark.parametrize(
    ("named", "want"),
    [
        ("day%201/a%20b.json", ("day%201", "./a b.json")),
        ("day%201/x%5B1%5D.json", ("day%201", "./x[[]1].json")),
        ("*/a%20b.json", ("", "./*/a b.json")),
        ("day%201", ("day%201", "*")),
    ],
)
def test_a_uri_of_this_machine_names_files_as_they_are_called(tmp_path, named, want):
    write(tmp_path / "in/day 1", {"a b.json": "", "x[1].json": ""})
    root = f"file://{tmp_path}/in"

    assert named_files(f"{root}/{named}") == (f"{root}/{want[0]}".rstrip("/"), want[1])


@pytest.mark.parametrize("name", ["a b", "100%"])
def test_what_is_no_uri_of_this_machine_is_refused_with_the_way_to_write_it(tmp_path, name):
    (tmp_path / name).mkdir()

    with pytest.raises(ConfigError, match=rf"{name}': expected a URI of this machine, got what is none; encode .*%20"):
        named_files(f"file://{tmp_path}/{name}")


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


@pytest.mark.parametrize(
    ("pattern", "times"),
    [
        ("*.json", [1, 2, 3, 6, 4]),
        ("**/*.json", [1, 2, 3, 6, 4]),
        ("sub/**/*.json", [3, 6]),
        ("sub/*", [3, 6]),
        ("_x.json", [7]),
        ("sub/_tmp/*", [8]),
    ],
)
def test_a_pattern_of_a_directory_is_of_names_or_of_paths_at_any_depth(warehouse, tmp_path, pattern, times):
    land(warehouse, write(tmp_path / "in", FILES), pattern=pattern)

    assert [time for (time,) in landed(warehouse, "t", "timestamp")] == times


def test_a_link_to_what_is_not_there_is_refused_by_its_name(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl": '{"t":1}\n'})
    (directory / "b.jsonl").symlink_to("/absent/b.jsonl")
    (directory / ".#a.jsonl").symlink_to("somebody@machine")  # as editors leave it

    for path, pattern in ((directory, "*"), (directory, "*.jsonl"), named_files(f"{directory}/b.jsonl")):
        with pytest.raises(LandingError) as raised:
            land(warehouse, path, pattern=pattern)
        assert str(raised.value) == (
            f"topic t, file {directory}/b.jsonl: expected a file that can be read, got a link to what is not there "
            "('/absent/b.jsonl'); put back what it should be, or take it out of the directory"
        )
    assert land(warehouse, directory, pattern="a*").warnings[0] == (
        "t: 1 entry is no file and left out (b.jsonl, a link to what is not there ('/absent/b.jsonl'))"
    )


def test_what_is_no_file_is_counted_and_told(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"sub/a.jsonl": '{"t":1}\n'})
    os.mkfifo(directory / "sub/b.jsonl")
    os.mkfifo(directory / "_hidden")

    report = land(warehouse, directory)
    (directory / "sub/a.jsonl").unlink()

    told = "t: 1 entry is no file and left out (sub/b.jsonl, a pipe)"
    assert report.warnings[0] == told
    assert land(warehouse, directory).warnings == (told,)


def test_a_name_that_is_no_utf_8_is_refused(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl": '{"t":1}\n'})
    with open(os.fsencode(directory) + b"/\xff.jsonl", "w"):
        pass

    with pytest.raises(LandingError, match=r"\.jsonl: expected a file that can be read, got a name that is not UTF-8"):
        land(warehouse, directory)


def test_folders_that_link_to_themselves_are_entered_once(warehouse, tmp_path):
    """Two of them would be 2**40 paths to a walk that follows them up to the limit of links in a path."""
    directory = write(tmp_path / "in", {"a.jsonl": '{"t":1}\n', "sub/b.jsonl": '{"t":2}\n'})
    other = write(tmp_path / "other", {"c.jsonl": '{"t":3}\n'})
    (directory / "loop").symlink_to(".")
    (directory / "sub" / "up").symlink_to(directory)
    (directory / "linked").symlink_to(other)
    (other / "back").symlink_to(directory)

    report = land(warehouse, directory)

    assert [time for (time,) in landed(warehouse, "t", "timestamp")] == [1, 3, 2]
    assert report.warnings[0].startswith("t: 3 entries are no files and left out (")
    assert report.warnings[0].endswith(", a link to a folder around it)")
