"""Ten slices are everything, each has something of every kind; what is made once a run is made once."""

import multiprocessing
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import once_a_run as shared
from tests import ratchet, rotation
from tests.ratchet import CPU_SECONDS_MAX, EXCEPTED, EXCEPTED_MAX, REFERENCE_S, WALL_SECONDS_MAX, Durations
from tests.rotation import (
    ROOT,
    SLICE_VARIABLE,
    SLICES,
    TIER_VARIABLE,
    examples,
    of_this_slice,
    rotated,
    slice_number,
    slice_of,
)
from tests.slow_tests import SLOW_TESTS


def kind_of(number: int) -> str:
    """Four rare ones among 96 others."""
    return "rare" if number % 25 == 0 else "usual"


def test_all_slices_together_are_everything_and_each_has_every_stratum():
    slices = [slice_of(range(100), number, kind_of) for number in range(SLICES)]

    assert {item for part in slices for item in part} == set(range(100))
    assert [{kind_of(item) for item in part} for part in slices] == [{"rare", "usual"}] * SLICES
    assert max(map(len, slices)) == 11
    assert all(part == sorted(part) for part in slices)


def test_of_three_slices_each_has_a_third_and_any_three_in_a_row_have_all():
    slices = [slice_of(range(8), number, slices=3) for number in range(SLICES)]

    assert slices[:3] == [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert all({*slices[n], *slices[n + 1], *slices[n + 2]} == set(range(8)) for n in range(SLICES - 2))


def test_a_run_plays_one_slice_and_the_nightly_tier_all(monkeypatch):
    monkeypatch.setenv(TIER_VARIABLE, "default")
    monkeypatch.setenv(SLICE_VARIABLE, "3")
    default, few = rotated(range(20)), examples(400)
    monkeypatch.setenv(TIER_VARIABLE, "nightly")

    assert (default, few) == ([3, 13], 40)
    assert (rotated(range(20)), examples(400)) == (list(range(20)), 400)


@dataclass(eq=False)
class Item:
    """A test, as far as slices look at it."""

    originalname: str
    marks: tuple[pytest.MarkDecorator, ...] = ()
    params: dict[str, str | int] = field(default_factory=dict)
    path: Path = Path("a.py")

    @property
    def callspec(self) -> "Item":
        return self

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next((made.mark for made in self.marks if made.name == name), None)


@pytest.mark.parametrize("number", range(SLICES))
def test_a_slice_has_what_the_marks_say_a_fifth_of_a_files_slow_tests_and_all_the_rest(monkeypatch, number):
    monkeypatch.setenv(TIER_VARIABLE, "default")
    monkeypatch.setenv(SLICE_VARIABLE, str(number))
    named, by_file, by_half = pytest.mark.rotated("kind"), pytest.mark.rotated_by_file, pytest.mark.rotated_by_file(2)
    kinds = ["inner"] * 30 + ["outer"] * 10 + ["left"]
    items: Any = [
        *(Item("joined", (named,), {"kind": kind, "seed": seed}) for seed, kind in enumerate(kinds)),
        *(Item(f"of_a_file_{test}", (by_file,), path=Path("b.py")) for test in range(12)),
        *(Item("of_a_file", (by_file, named), {"kind": kind}, Path("b.py")) for kind in "abcdefgh"),
        *(Item(f"of_another_file_{test}", (by_half,), path=Path("c.py")) for test in range(6)),
        *(Item("usual", (), {"seed": seed}) for seed in range(4)),
        *(Item(f"long_{test}", (pytest.mark.slow,), path=Path("d.py")) for test in range(10)),
        *(Item(f"of_java_{test}", (pytest.mark.jvm,), path=Path("e.py")) for test in range(10)),
        *(Item(f"long_{test}", (pytest.mark.slow, pytest.mark.every_run), path=Path("f.py")) for test in range(6)),
        Item("long", (pytest.mark.slow,), path=Path("g.py")),
    ]

    played = of_this_slice(items)

    assert Counter(item.params["kind"] for item in played if item.originalname == "joined") == {
        "inner": 3,
        "outer": 1,
        "left": 1,
    }
    assert Counter(item.path.name for item in played) == {
        "a.py": 3 + 1 + 1 + 4, "b.py": 2, "c.py": 3, "d.py": 2, "e.py": 2, "f.py": 6, "g.py": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("git", "want"),
    [
        ({"rev-parse": "false", "rev-list": "423"}, 3),
        ({"rev-parse": "true", "rev-list": "1"}, 0),  # a shallow clone knows one commit
        ({"rev-parse": "", "rev-list": ""}, 0),  # no git
    ],
)
def test_the_slice_goes_on_with_every_commit_and_is_the_first_where_these_are_not_known(monkeypatch, git, want):
    monkeypatch.delenv(SLICE_VARIABLE, raising=False)
    monkeypatch.setattr(rotation, "_git", lambda command, *options: git[command])

    assert slice_number() == want


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        (SLICE_VARIABLE, "10", r"\$REPLAY_SLICE: expected a number from 0 to 9, got '10'"),
        (TIER_VARIABLE, "nightly!", r"\$REPLAY_TIER: expected one of default, nightly, got 'nightly!'"),
    ],
)
def test_another_slice_or_tier_is_refused(monkeypatch, variable, value, sentence):
    monkeypatch.setenv(TIER_VARIABLE, "default")
    monkeypatch.setenv(variable, value)

    with pytest.raises(ValueError, match=sentence):
        rotated([]) if variable == TIER_VARIABLE else slice_number()


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


def test_every_test_that_the_fast_tier_leaves_out_is_there():
    missing = [
        f"{file}::{name}"
        for file, names in SLOW_TESTS.items()
        for name in names
        if f"def {name}(" not in (ROOT / file).read_text()
    ]

    assert missing == [], "take them out of tests/slow_tests.py, or give them their new names"
