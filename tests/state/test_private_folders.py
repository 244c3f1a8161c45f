"""A folder that others made, or may write, is refused by name; what we make is ours alone."""

import os
import stat
from pathlib import Path

import pytest

from kstreams_replay.jobs.execution.spark_session import _ivy_cache, _settings
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.state.compilation.numba_cache import refuse_foreign
from kstreams_replay.state.errors import StorageError
from kstreams_replay.state.private_folders import private_folder, refuse_shared
from kstreams_replay.state.runs.local_copies import default_cache, own_cache

ME = os.geteuid()
SOMEBODY = ME + 1


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def owned(path: Path, user: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """``path`` is of ``user``, as far as lstat says: only root could give it away."""
    real = os.lstat

    def lstat(asked, *args, **options):
        found = real(asked, *args, **options)
        return os.stat_result((*found[:4], user, *found[5:])) if str(asked) == str(path) else found

    monkeypatch.setattr(os, "lstat", lstat)


def refusal(folder: Path) -> str:
    with pytest.raises(StorageError) as caught:
        private_folder(str(folder), "REPLAY_CACHE")
    return str(caught.value)


def test_what_is_made_is_readable_and_writable_for_its_user_alone_whatever_the_umask_allows(tmp_path):
    before = os.umask(0)
    try:
        private_folder(str(tmp_path / "a" / "b"), "REPLAY_CACHE")
    finally:
        os.umask(before)

    assert (mode_of(tmp_path / "a"), mode_of(tmp_path / "a" / "b")) == (0o700, 0o700)


def test_a_folder_of_ours_that_others_may_read_is_taken(tmp_path):
    (tmp_path / "cache").mkdir(mode=0o755)

    assert private_folder(str(tmp_path / "cache"), "REPLAY_CACHE") == str(tmp_path / "cache")


def test_a_folder_that_another_user_has_made_is_refused(tmp_path, monkeypatch):
    (tmp_path / "cache").mkdir(mode=0o700)
    owned(tmp_path / "cache", SOMEBODY, monkeypatch)

    assert refusal(tmp_path / "cache") == (
        f"folder {tmp_path}/cache: expected a folder that only this user may write, got one of user {SOMEBODY}; name "
        "another by REPLAY_CACHE, or delete it; if nobody else had a hand in it, `chmod go-w` is enough"
    )


def test_a_symbolic_link_is_refused_also_to_a_folder_of_ours(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "cache").symlink_to(tmp_path / "real")

    assert "got a symbolic link" in refusal(tmp_path / "cache")


def test_a_dangling_link_is_refused_and_nothing_is_made_where_it_leads(tmp_path):
    (tmp_path / "cache").symlink_to(tmp_path / "elsewhere")

    assert "got a symbolic link" in refusal(tmp_path / "cache")
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_is_refused(tmp_path):
    (tmp_path / "cache").touch()

    assert "got no folder" in refusal(tmp_path / "cache")


@pytest.mark.parametrize(
    ("mode", "is_own_group", "is_taken"),
    [(0o777, True, False), (0o1777, True, False), (0o770, False, False), (0o770, True, True), (0o750, False, True)],
)
def test_the_folder_itself_may_be_written_by_nobody_else(tmp_path, monkeypatch, mode, is_own_group, is_taken):
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    real = os.lstat(folder)
    group = real.st_uid if is_own_group else real.st_uid + 1
    stats = {str(folder): os.stat_result((*real[:5], group, *real[6:]))}
    lstat = os.lstat
    monkeypatch.setattr(os, "lstat", lambda path: stats.get(str(path)) or lstat(path))

    if is_taken:
        private_folder(str(folder), "REPLAY_CACHE")
    else:
        assert f"got mode {mode:04o}, so that others may write it" in refusal(folder)


@pytest.mark.parametrize(("mode", "is_taken"), [(0o777, False), (0o1777, True), (0o755, True)])
def test_a_folder_above_may_be_shared_if_nobody_can_replace_what_is_another_users(tmp_path, mode, is_taken):
    above = tmp_path / "shared"
    above.mkdir()
    above.chmod(mode)

    if is_taken:
        private_folder(str(above / "cache"), "REPLAY_CACHE")
    else:
        assert f"got one below {above}, of mode {mode:04o}" in refusal(above / "cache")


def test_a_folder_below_one_of_another_user_is_refused(tmp_path, monkeypatch):
    (tmp_path / "theirs" / "cache").mkdir(parents=True)
    owned(tmp_path / "theirs", SOMEBODY, monkeypatch)

    assert f"got one below {tmp_path}/theirs, of user {SOMEBODY}" in refusal(tmp_path / "theirs" / "cache")


def test_a_link_above_is_followed_and_where_it_leads_is_looked_at(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "open")

    assert f"got one below {tmp_path}/open" in refusal(tmp_path / "link" / "cache")


# --- who asks ----------------------------------------------------------------------------------------------------


@pytest.fixture
def planted_cache(tmp_path, monkeypatch):
    """The default cache, which somebody has made before us among the temporary files."""
    monkeypatch.delenv("REPLAY_CACHE")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = Path(default_cache())
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def test_a_run_in_this_process_refuses_the_default_cache_that_somebody_has_planted(planted_cache):
    with pytest.raises(StorageError, match="REPLAY_CACHE"):
        LocalRunner(default_cache()).run(None, [])


def test_a_worker_refuses_it_too(planted_cache):
    with pytest.raises(StorageError, match="REPLAY_CACHE"):
        own_cache(default_cache())


def test_a_worker_makes_the_cache_that_its_environment_names(tmp_path, monkeypatch):
    monkeypatch.setenv("REPLAY_CACHE", str(tmp_path / "mine"))

    assert own_cache("/as/the/driver/has/it") == str(tmp_path / "mine")
    assert mode_of(tmp_path / "mine") == 0o700


def test_a_driver_of_spark_refuses_a_folder_that_somebody_has_planted(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"replay-spark-{ME}").mkdir()
    (tmp_path / f"replay-spark-{ME}").chmod(0o777)

    with pytest.raises(StorageError, match="TMPDIR"):
        _settings([])


def test_jars_are_not_taken_from_a_folder_that_others_may_write(tmp_path, monkeypatch):
    monkeypatch.setenv("REPLAY_IVY_CACHE", str(tmp_path / "jars"))
    assert _ivy_cache() == tmp_path / "jars", "it is made when it is needed"
    (tmp_path / "jars").mkdir()
    assert _ivy_cache() == tmp_path / "jars"
    (tmp_path / "jars").chmod(0o777)

    with pytest.raises(StorageError, match="REPLAY_IVY_CACHE"):
        _ivy_cache()


def test_compiled_code_is_not_read_from_a_folder_that_others_may_write(tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    folder = tmp_path / "numba" / "kernels_123"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    refuse_foreign.cache_clear()
    refuse_foreign(str(folder))  # beside the modules, where who installed them decides
    refuse_foreign.cache_clear()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))

    with pytest.raises(StorageError, match="NUMBA_CACHE_DIR"):
        refuse_foreign(str(folder))
    folder.chmod(0o755)
    refuse_foreign(str(folder))


def test_owners_that_are_named_are_trusted(tmp_path, monkeypatch):
    (tmp_path / "theirs").mkdir()
    owned(tmp_path / "theirs", SOMEBODY, monkeypatch)

    refuse_shared(str(tmp_path / "theirs"), "X", owners=[SOMEBODY])
