"""Kafka's assignment of a client's tasks to its threads: its worked example, and cases by hand."""

from kstreams_replay.jobs.placement.members import RUNNING, TaskId
from kstreams_replay.jobs.placement.threads import Thread, threads_of_tasks


def ids(text: str) -> list[TaskId]:
    return [TaskId.of(word) for word in text.split()]


def ran(text: str) -> dict[TaskId, int]:
    return dict.fromkeys(ids(text), RUNNING)


def given(active: str, threads: list[Thread], standby: str = "", stateless: str = "") -> dict[str, str]:
    got = threads_of_tasks(ids(active), ids(standby), ids(stateless), threads)
    return {thread: " ".join(map(str, tasks)) for thread, tasks in got.items()}


def test_tasks_return_to_their_threads_as_far_as_the_share_goes_and_a_new_thread_gets_the_rest():
    threads = [Thread("c1", ran("0_0 0_1 0_2")), Thread("c2", {TaskId.of("0_3"): 90}), Thread("c3")]

    # 5 // 3 = 1 each: c1 keeps 0_0 and c2 0_3, c3 gets 0_1; of the two left 0_2 returns to c1, 0_4 goes to c2, the next
    # that has one. The standby makes it 6 // 3 = 2, so c3 gets it; two more without state go to c1 and c2.
    assert given("0_0 0_1 0_2 0_3 0_4", threads, standby="0_5", stateless="1_0 1_1") == {
        "c1": "0_0 0_2 1_0",
        "c2": "0_3 0_4 1_1",
        "c3": "0_1 0_5",
    }


def test_of_two_threads_that_know_a_task_the_first_has_it_and_of_two_tasks_the_one_with_less_to_catch_up_stays():
    known = {TaskId.of("0_0"): 70, TaskId.of("0_1"): 5}

    assert given("0_0 0_1", [Thread("c2", known), Thread("c1", known)]) == {"c1": "0_1", "c2": "0_0"}


def test_standbys_return_to_their_threads_and_tasks_without_state_go_round():
    threads = [Thread("c1"), Thread("c2", {TaskId.of("0_0"): 0})]

    assert given("", threads, standby="0_0 0_1") == {"c1": "0_1", "c2": "0_0"}
    assert given("", threads, stateless="1_0 1_1 1_2") == {"c1": "1_0 1_2", "c2": "1_1"}


def test_fewer_tasks_than_threads_leave_some_without_any():
    assert given("0_0", [Thread("c1"), Thread("c2")]) == {"c1": "0_0", "c2": ""}
