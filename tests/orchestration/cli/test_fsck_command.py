"""The command that reads everything: what it prints, and with which exit code."""

import shutil
from pathlib import Path

from tests.orchestration.cli.test_main import place, run

__all__ = ["run"]


def test_what_is_whole_is_said_to_be(run, replayed):
    code, out, err = run("fsck", *place(replayed))

    assert code == 0
    assert out.endswith(" bytes read: nothing damaged\n")
    assert "reading shop/outputs/sessions\n" in err
    assert "reading landed/clicks\n" in err


def test_damage_is_named_with_the_way_back(run, replayed, tmp_path):
    root = shutil.copytree(replayed.root, tmp_path / "warehouse")
    (file,) = (Path(root) / "shop" / "outputs" / "sessions").glob("partition=0/00000001-*.parquet")
    file.unlink()

    code, out, _ = run("fsck", "--warehouse", root)

    assert code == 4
    assert out.startswith(
        f"DAMAGED {file}, of increment 1\n        expected the file as it was committed, got no file\n"
    )
    assert "        to repair it: put it back from a copy of the warehouse, or replay the landed topics" in out
    assert out.endswith(" bytes read: 1 damaged\n")


def test_a_pipeline_that_is_not_there_is_refused(run, replayed):
    code, _, err = run("fsck", "--warehouse", replayed.root, "--pipeline", "shp")

    assert code == 2
    assert "expected a pipeline, one of shop, got shp" in err
