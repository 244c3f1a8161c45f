"""Pieces of a file side by side: results and errors are those of one thread, in its order."""

import threading

import pytest

from kstreams_replay.jobs.landing.files.side_by_side import SideBySide


@pytest.mark.parametrize(("waits", "awaited", "first_alone"), [(1, 2, True), (0, 1, False)])
def test_results_come_in_the_order_of_the_pieces_whichever_is_ready_first(waits, awaited, first_alone):
    is_done = threading.Event()

    def work(piece):
        if piece == waits:
            assert is_done.wait(30)
        if piece == awaited:
            is_done.set()
        return piece * 10

    found = list(SideBySide([0, 1, 2, 3], work, threads=2, first_alone=first_alone))

    assert found == [(0, 0), (1, 10), (2, 20), (3, 30)]


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_of_the_work_or_of_the_pieces_comes_behind_the_results_before_it(threads):
    def pieces():
        yield from range(4)
        raise OSError("no more")

    def work(piece):
        if piece == 2:
            raise ValueError("two")
        return piece

    found = []
    with pytest.raises(ValueError, match="two"):
        found.extend(SideBySide(pieces(), work, threads))
    assert found == [(0, 0), (1, 1)]

    found = []
    with pytest.raises(OSError, match="no more"):
        found.extend(SideBySide(pieces(), lambda piece: piece, threads))
    assert found == [(0, 0), (1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seen", [1, 2, 5])
def test_the_rest_begins_behind_what_was_yielded_and_ends_with_the_pieces_error(threads, seen):
    def pieces():
        yield from range(6)
        raise OSError("no more")

    side_by_side = SideBySide(pieces(), str, threads)
    yielded = iter(side_by_side)
    found = [next(yielded)[0] for _ in range(seen)]
    with pytest.raises(OSError, match="no more"):
        found.extend(side_by_side.rest())

    assert found == list(range(6))


def test_one_piece_is_worked_on_in_the_thread_that_asks():
    assert [thread for _, thread in SideBySide([0], lambda _: threading.current_thread())] == [
        threading.current_thread()
    ]
    assert list(SideBySide([], str)) == []
    assert list(SideBySide([], str, first_alone=False)) == []
