"""The default tier is one fixed sample, which has something of every kind; what is made once a run is made once."""

import multiprocessing
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests import once_a_run as shared
from tests import ratchet
from tests.ratchet import CPU_SECONDS_MAX, EXCEPTED, EXCEPTED_MAX, REFERENCE_S, WALL_SECONDS_MAX, Durations
from tests.sampling import ROOT, SEED_VARIABLE, TIER_VARIABLE, examples, sample_of, sampled, seed


def kind_of(number: int) -> str:
    """Four rare ones among 96 others."""
    return "rare" if number % 25 == 0 else "usual"


def test_the_sample_has_a_thirtieth_of_every_stratum_rounded_up():
    few = sample_of(range(100), stratum=kind_of)

    assert Counter(map(kind_of, few)) == {"rare": 1, "usual": 4}
    assert few == sorted(few)
    assert sample_of([]) == []


def test_an_item_that_is_added_moves_at_most_one_other():
    few = {*sample_of(range(100))}
    moved = [few ^ ({*sample_of([*range(100), more])} - {more}) for more in range(100, 400)]

    assert max(map(len, moved)) == 1


def test_the_same_names_give_the_same_sample_in_any_process():
    """
    Of these CRC-32 is lowest, whatever the process; ``hash`` of a text is another in every one.
    """
    assert sample_of(range(40)) == [33, 37]
    assert sample_of(["b", "a", "c"], share=2) == ["b", "c"]


def test_the_default_tier_has_the_sample_of_a_list_and_the_nightly_tier_all(monkeypatch):
    monkeypatch.setenv(TIER_VARIABLE, "default")
    default, few = sampled(range(40)), examples(400)
    monkeypatch.setenv(TIER_VARIABLE, "nightly")

    assert (default, few) == ([33, 37], 13)
    assert (sampled(range(40)), examples(400)) == (list(range(40)), 400)


def test_random_tests_have_one_seed_in_the_default_tier_and_the_runs_own_in_the_nightly(monkeypatch):
    monkeypatch.setenv(SEED_VARIABLE, "77")
    seeds = []
    for name in ("default", "nightly"):
        monkeypatch.setenv(TIER_VARIABLE, name)
        seeds.append(seed())

    assert seeds == [0, 77]


TESTS = """
import pytest

@pytest.mark.sampled("kind")
@pytest.mark.parametrize("kind", ["inner", "outer", "left"])
@pytest.mark.parametrize("number", range(30))
def test_joined(kind, number): ...

@pytest.mark.parametrize("number", range(4))
def test_usual(number): ...

@pytest.mark.nightly
def test_long(): ...
"""

FILE = """
import pytest
pytestmark = pytest.mark.sampled(share=3)

@pytest.mark.parametrize("number", range(10))
def test_pipeline(number): ...

def test_other(): ...

@pytest.mark.nightly
def test_long(): ...
"""


def collected(folder: Path, tier: str, seed: int = 0) -> list[str]:
    """Names of the tests of TESTS and FILE that a run of the tier with the seed has."""
    (folder / "test_a.py").write_text(TESTS)
    (folder / "test_b.py").write_text(FILE)
    (folder / "conftest.py").write_text(
        "from tests.sampling import played\n"
        "def pytest_collection_modifyitems(items):\n"
        "    kept = played(items)\n"
        "    items[:] = [item for item in items if item in kept]\n"
    )
    marks = ("sampled", "nightly", "slow", "jvm", "every_run")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n" + "".join(f"    {mark}: is one\n" for mark in marks))
    said = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", str(folder)],
        env={**os.environ, TIER_VARIABLE: tier, SEED_VARIABLE: str(seed), "PYTHONPATH": str(ROOT)},
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [line.partition("::")[2] for line in said.stdout.splitlines() if "::" in line]


def test_a_run_has_what_the_marks_say_and_all_the_rest(tmp_path):
    default, whole = collected(tmp_path, "default"), collected(tmp_path, "whole")

    assert Counter(name.partition("[")[0] for name in whole) == {
        "test_joined": 90, "test_usual": 4, "test_long": 2, "test_pipeline": 10, "test_other": 1,
    }  # fmt: skip
    joined = [name for name in default if name.startswith("test_joined")]
    assert Counter(name.rpartition("-")[2] for name in joined) == {"inner]": 1, "outer]": 1, "left]": 1}
    assert sum(name.startswith("test_usual") for name in default) == 4
    assert sum(name.startswith(("test_pipeline", "test_other")) for name in default) == 4  # a third of 11, rounded up
    assert "test_long" not in default


def test_nightly_runs_of_three_seeds_in_a_row_play_each_parameter_of_what_takes_long_once(tmp_path):
    nights = [collected(tmp_path, "nightly", seed) for seed in (7, 8, 9)]

    assert {*nights[0], *nights[1], *nights[2]} == {*collected(tmp_path, "whole")}
    of_each = [Counter(name.partition("[")[0] for name in night) for night in nights]
    assert [night["test_joined"] for night in of_each] == [30, 30, 30]
    assert sorted(night["test_pipeline"] for night in of_each) == [3, 3, 4]
    assert all(night["test_usual"] == 4 and night["test_long"] == 2 and night["test_other"] == 1 for night in of_each)


def test_another_tier_is_refused(monkeypatch):
    monkeypatch.setenv(TIER_VARIABLE, "nightly!")

    with pytest.raises(ValueError, match=r"\$REPLAY_TIER: expected one of default, nightly, whole, got 'nightly!'"):
        sampled([])


# --- what is made once a run ---------------------------------------------------------------------------------


def ask(folder: str, answers: multiprocessing.Queue) -> None:
    """In a process of its own: ask for what leaves a file named by the process that made it."""
    os.environ[shared.RUN_VARIABLE] = folder
    made = shared.once_a_run("thing", lambda place: (place / f"by-{os.getpid()}").touch())
    answers.put(sorted(path.name for path in made.iterdir()))


def test_of_several_processes_that_ask_at_once_one_makes_it_and_all_get_the_same(tmp_path):
    context = multiprocessing.get_context("forkserver")
    answers = context.Queue()
    processes = [context.Process(target=ask, args=(str(tmp_path), answers)) for _ in range(3)]
    for process in processes:
        process.start()
    said = [answers.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()

    assert said[0][0].startswith("by-")
    assert said == [[said[0][0], "made"]] * 3


def test_what_was_left_half_made_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr(shared, "run_folder", lambda: tmp_path)

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise RuntimeError("died")

    with pytest.raises(RuntimeError, match="died"):
        shared.once_a_run("thing", fail)
    made = shared.once_a_run("thing", lambda folder: (folder / "whole").touch())

    assert sorted(path.name for path in made.iterdir()) == ["made", "whole"]


# --- groups --------------------------------------------------------------------------------------------------


def test_what_needs_one_program_is_one_group_that_xdist_sees(request):
    """
    xdist appends a group to the names of its tests; where it does not, every process would start every program.
    """
    needing = [item for item in request.session.items if "spark" in getattr(item, "fixturenames", ())]
    groups = {mark.args[0] for item in needing for mark in item.iter_markers("xdist_group")}

    assert groups <= {"spark"}
    if "PYTEST_XDIST_WORKER" in os.environ:
        assert {item.nodeid.rpartition("@")[2] for item in needing} == groups


# --- the ratchet ---------------------------------------------------------------------------------------------


def durations(seconds: float, cpu_seconds: float) -> Durations:
    found = Durations(limited=True)
    found.seconds = {"tests/test_a.py::test_long[1]": seconds, "tests/test_a.py::test_short": 0.1}
    found.cpu_seconds = {"tests/test_a.py::test_long[1]": cpu_seconds, "tests/test_a.py::test_short": 0.1}
    return found


def test_a_test_that_takes_longer_than_a_limit_is_named(monkeypatch):
    long = "tests/test_a.py::test_long[1]"
    assert durations(WALL_SECONDS_MAX, CPU_SECONDS_MAX).too_slow() == []
    assert durations(WALL_SECONDS_MAX + 0.1, 1.0).too_slow() == [long]
    assert durations(30.0, CPU_SECONDS_MAX + 0.1).too_slow() == [long]

    monkeypatch.setitem(EXCEPTED, "tests/test_a.py::test_long", "shows that an exception counts")
    assert durations(WALL_SECONDS_MAX + 0.1, CPU_SECONDS_MAX + 0.1).too_slow() == []


@pytest.mark.parametrize(("loop_s", "want"), [(REFERENCE_S, 20.4), (REFERENCE_S / 2, 20.4), (REFERENCE_S * 1.5, 13.6)])
def test_cpu_seconds_of_a_slow_core_are_those_of_a_quiet_one(monkeypatch, loop_s, want):
    monkeypatch.setattr(ratchet, "_loop_s", lambda: loop_s)

    assert ratchet.cpu_seconds_of_reference(20.4) == pytest.approx(want)


def test_at_most_five_tests_may_take_longer_and_each_says_why():
    assert len(EXCEPTED) <= EXCEPTED_MAX
    assert all(EXCEPTED.values())
