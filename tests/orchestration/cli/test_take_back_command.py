"""The command that undoes what others committed."""

import shutil

from deltalake import DeltaTable

from tests.orchestration.cli.test_main import run as run

TABLE = "shop/outputs/sessions"


def test_what_is_taken_back_is_named(run, replayed, tmp_path):
    root = shutil.copytree(replayed.root, tmp_path / "warehouse")
    DeltaTable(root / TABLE).delete()
    code, _, err = run("show", "sessions", "--warehouse", root, "--pipeline", "shop")
    assert code == 1
    assert f"`replay take-back {TABLE} --warehouse {root}`" in err

    code, out, _ = run("take-back", TABLE, "--warehouse", root)
    assert code == 0
    assert out.startswith(f"{TABLE}: taken back: DELETE of version ")
    assert run("show", "sessions", "--warehouse", root, "--pipeline", "shop")[0] == 0


def test_a_table_that_nobody_touched_is_left_alone(run, replayed):
    code, out, _ = run("take-back", TABLE, "--warehouse", replayed.root)

    assert (code, out) == (0, f"{TABLE}: nobody else has changed it\n")
