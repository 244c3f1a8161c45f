"""What commands take from `$REPLAY_WAREHOUSE` and from `replay.toml`, and what of it they leave alone."""

from pathlib import Path

import click
import pytest

from kstreams_replay.orchestration.cli.main import _replay
from tests.dagster import shop

SHOP = f"{Path(shop.__file__)}:topology"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The current folder, without a file and without the variable."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REPLAY_WAREHOUSE", raising=False)
    return tmp_path


def taken(name: str, *words: str) -> dict[str, object]:
    """What the function of a command would get."""
    context = click.Context(_replay, info_name="replay")
    found = _replay.get_command(context, name)
    assert found is not None
    return found.make_context(name, list(words), parent=context).params


def test_the_line_counts_before_the_environment_and_that_before_the_file(folder, monkeypatch):
    (folder / "replay.toml").write_text('warehouse = "of the file"\n')
    assert taken("branches")["warehouse"] == "of the file"

    monkeypatch.setenv("REPLAY_WAREHOUSE", "of the environment")
    assert taken("branches")["warehouse"] == "of the environment"
    assert taken("branches", "--warehouse", "of the line")["warehouse"] == "of the line"


def test_a_run_needs_no_words_where_the_file_has_them(folder):
    (folder / "replay.toml").write_text(
        'warehouse = "W"\npipeline = "shop"\ntopology = "topology.py:topology"\nlocal = true\nstorage_timeout = "5m"\n'
    )

    got = taken("run")

    assert {name: got[name] for name in ("warehouse", "pipeline", "topology", "local", "master")} == {
        "warehouse": "W", "pipeline": "shop", "topology": "topology.py:topology", "local": True, "master": None,
    }  # fmt: skip
    assert got["storage_timeout"] is None  # the warehouse is on a disk
    assert taken("run", "--master", "spark://host:7077")["local"] is False
    assert taken("run", "--master", "spark://host:7077", "--local")["local"] is True
    assert taken("show", "pages")["pipeline"] == "shop"
    assert taken("explain", "--record", "clicks:0:0")["topology"] == "topology.py:topology"


@pytest.mark.parametrize(("said", "want"), [("0.05", 0.05), ("1", 1.0)])
def test_a_landing_takes_its_share_of_bad_rows_from_the_file(folder, said, want):
    (folder / "replay.toml").write_text(f'warehouse = "W"\nmax_bad_share = {said}\n')

    assert taken("land", "clicks", "--files", "in")["max_bad_share"] == want
    assert taken("land", "clicks", "--files", "in", "--max-bad-share", "0.5")["max_bad_share"] == 0.5


def test_what_works_on_all_pipelines_or_without_code_still_does(folder):
    (folder / "replay.toml").write_text('warehouse = "W"\npipeline = "shop"\ntopology = "t.py"\n')

    assert taken("fsck")["pipeline"] is None
    assert taken("report", "--out", "q.html")["pipeline"] == ()
    assert taken("sql", "SELECT 1")["topology"] is None
    assert taken("warm-up")["topology"] is None
    assert taken("show", "state/s")["topology"] is None
    assert taken("inspect")["topology"] == "t.py"


def test_storage_options_are_for_a_warehouse_that_is_a_uri(folder):
    (folder / "replay.toml").write_text(
        'warehouse = "s3://lake/w"\nstorage_timeout = "5m"\n'
        'storage_options = { AWS_REGION = "eu", AWS_SECRET_ACCESS_KEY = "${env:NAME}" }\n'
    )

    got = taken("branches")
    assert got["storage_option"] == ("AWS_REGION=eu", "AWS_SECRET_ACCESS_KEY=${env:NAME}")
    assert got["storage_timeout"] == "5m"
    assert taken("branches", "--warehouse", "W")["storage_option"] == ()
    assert taken("branches", "--storage-option", "AWS_REGION=us")["storage_option"] == ("AWS_REGION=us",)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('warehuose = "W"', "replay.toml: expected one of warehouse, pipeline, topology, local, master, "
                            "storage_timeout, max_bad_share, storage_options, got 'warehuose'; did you mean "
                            "'warehouse'?"),
        ("local = 1", "replay.toml, local: expected true or false, got a value of another type; correct it"),
        ("storage_options = { A = 7 }", "replay.toml, storage_options: expected a table of texts, got a value of "),
        ("warehouse = ", "replay.toml: expected a file of TOML, got Invalid value (at line 1, column 13)"),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong_is_refused_before_anything_is_done(folder, command, text, want):
    (folder / "replay.toml").write_text(f"{text}\n")

    code, out, err = command("branches", "--warehouse", "W")

    assert (code, out) == (2, "")
    assert err.startswith(f"replay: {want}")
    assert command("branches", "--help")[0] == 0


def test_a_warehouse_that_nobody_names_is_asked_for_with_what_can_be_done(folder, command):
    assert command("branches") == (
        2,
        "",
        "replay: Missing option '--warehouse'; name it, or set REPLAY_WAREHOUSE, or write warehouse = \"…\" into "
        "replay.toml; see replay branches --help\n",
    )
    assert command("run", "--warehouse", "W", "--pipeline", "p")[2] == (
        "replay: Missing argument 'TOPOLOGY'; name it, or write topology = \"…\" into replay.toml; "
        "see replay run --help\n"
    )


def test_a_shop_is_shown_and_checked_by_the_file_alone(folder, command, replayed):
    (folder / "replay.toml").write_text(f'warehouse = "{replayed.root}"\npipeline = "shop"\ntopology = "{SHOP}"\n')

    code, out, _ = command("show", "pages", "--limit", 1)
    assert (code, out.splitlines()[-1]) == (0, "… 1 of 5 rows; --limit shows more")
    assert command("show", "landed_dead_letter/clicks")[0] == 0  # belongs to no pipeline, and takes none of the file
