"""Sagas of the application's own tests: which transitions, states, requests and responses follow one another."""

import json

import pytest

from kstreams_replay import LocalRunner, replay
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.testing.driver_inputs import encoded
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.applications.sagas import topology
from tests.planted import LandedRecord, plant
from tests.playing import InputRecord, play_cut, play_whole


def action(id, *dependencies, undo=None, type="account"):
    return {
        "action_id": id,
        "action_type": type,
        "command": f"do {id}",
        "command_id": f"{id}-1",
        "undo_command": undo,
        "undo_command_id": None if undo is None else f"{id}-u",
        "dependencies": list(dependencies),
        "status": "Pending",
        "errors": [],
        "retry_count": 0,
    }


def requested(*actions, time_ms=0):
    saga = {"saga_id": "s", "status": "NotStarted", "sequence": 0, "errors": []}
    saga["actions"] = {one["action_id"]: one for one in actions}
    return InputRecord("saga-request", "s", {"request_id": "r", "saga": saga}, time_ms)


def responded(id, time_ms, *errors, command=None, is_undo=False, undo=None, type="account"):
    response = {
        "action_id": id,
        "command_id": command or f"{id}-1",
        "is_undo": is_undo,
        "undo_command": undo,
        "errors": list(errors),
    }
    return InputRecord(f"{type}-action-response", "s", response, time_ms)


def played(tape, folder, **options):
    """Transitions, states, requests and responses in short, the same at every cut."""
    whole = play_whole(topology(**options), tape)

    assert play_cut(topology(**options), tape, folder) == whole
    return {
        "transitions": [_transition(one.value) for one in whole.get("saga-state-transition", [])],
        "states": [_state(one.value) for one in whole.get("saga-state", [])],
        "requests": [
            (topic.removesuffix("-action-request"), one.value["command"], one.value["command_id"])
            for topic in ("account-action-request", "user-action-request")
            for one in whole.get(topic, [])
        ],
        "responses": [(one.value["sequence"], one.value["errors"]) for one in whole.get("saga-response", [])],
        **{topic: [one.key for one in whole[topic]] for topic in ("web", "phone") if topic in whole},
    }


def _transition(transition):
    if transition["kind"] == "status":
        return transition["status"]
    if transition["kind"] == "initial":
        return "initial"
    return [f"{change['action_id']} {change['status']}" for change in transition["changes"]]


def _state(saga):
    return saga["sequence"], saga["status"], " ".join(one["status"] for _, one in sorted(saga["actions"].items()))


def test_a_saga_whose_actions_succeed_completes(tmp_path):
    tape = [
        InputRecord("saga-response-topics", "s", "web", 0),
        requested(action("create"), action("fund", "create", undo="unfund")),
        responded("create", 10),
        responded("fund", 20, undo="unfund 999"),
    ]
    got = played(tape, tmp_path)

    assert got == {
        "transitions": [
            "initial",
            ["create InProgress"],
            ["create Completed"],
            ["fund InProgress"],
            ["fund Completed"],
            "Completed",
        ],
        "states": [
            (0, "InProgress", "Pending Pending"),
            (1, "InProgress", "InProgress Pending"),
            (2, "InProgress", "Completed Pending"),
            (3, "InProgress", "Completed InProgress"),
            (4, "InProgress", "Completed Completed"),
            (5, "Completed", "Completed Completed"),
        ],
        "requests": [("account", "do create", "create-1"), ("account", "do fund", "fund-1")],
        "responses": [(4, [])],
        "web": ["web:s"],
    }


def test_an_action_that_fails_first_ends_the_saga(tmp_path):
    tape = [requested(action("create"), action("fund", "create")), responded("create", 10, "oh noes")]
    got = played(tape, tmp_path)

    assert got["transitions"] == ["initial", ["create InProgress"], ["create Failed"], "Failed"]
    assert got["states"][2:] == [(2, "InProgress", "Failed Pending"), (3, "Failed", "Failed Pending")]
    assert got["responses"] == [(2, ["oh noes"])]


def test_what_was_done_before_a_failure_is_undone(tmp_path):
    tape = [
        requested(action("add", undo="subtract"), action("move", "add", undo="move back")),
        responded("add", 10),
        responded("move", 20, "no money"),
        responded("add", 30, command="add-u", is_undo=True),
    ]
    got = played(tape, tmp_path)

    assert got["transitions"] == [
        "initial",
        ["add InProgress"],
        ["add Completed"],
        ["move InProgress"],
        ["move Failed"],
        "InFailure",
        ["add UndoInProgress"],
        ["add Undone"],
        "Failed",
    ]
    assert got["requests"][-1] == ("account", "subtract", "add-u")
    assert got["states"][-1] == (8, "Failed", "Undone Failed")
    assert got["responses"] == [(7, ["no money"])]


@pytest.mark.nightly
def test_an_action_is_tried_again_when_its_retry_comes(tmp_path):
    retry = {"action_id": "create", "status": "RetryCompleted", "errors": [], "undo_command": None, "is_undo": False}
    transition = {"kind": "change", "saga": None, "changes": [retry], "status": None, "errors": None}
    tape = [
        requested(action("create")),
        responded("create", 10, "busy"),
        InputRecord("saga-state-transition", "s", transition, 210),
        responded("create", 220, command="create-1'"),
    ]
    got = played(tape, tmp_path, retries={"account": 1})

    assert [status for _, _, status in got["states"]] == [
        "Pending",
        "InProgress",
        "RetryAwaiting",
        "Pending",
        "InProgress",
        "Completed",
        "Completed",
    ]
    assert got["requests"] == [("account", "do create", "create-1"), ("account", "do create", "create-1'")]
    assert got["responses"] == [(5, [])]


@pytest.mark.nightly
def test_actions_of_several_types_go_to_their_topics_and_unknown_ones_are_refused(tmp_path):
    tape = [requested(action("user", type="user"), action("create", "user")), responded("user", 10, type="user")]
    got = played(tape, tmp_path / "several")

    assert got["requests"] == [("account", "do create", "create-1"), ("user", "do user", "user-1")]
    got = played([requested(action("create", type="dance"))], tmp_path / "unknown")
    assert (got["responses"], got["transitions"]) == ([(None, ["unknown action dance"])], [])


@pytest.mark.nightly
def test_a_saga_is_set_up_once(tmp_path):
    got = played([requested(action("create")), requested(action("create"), time_ms=5)], tmp_path)

    assert got["transitions"] == ["initial", ["create InProgress"]]


@pytest.mark.parametrize("max_records", [pytest.param(None, marks=pytest.mark.nightly), 1])
def test_sagas_at_the_same_time_do_not_disturb_each_other(tmp_path, max_records):
    """Before the first transition of a saga has gone round, its others come to an aggregate that is not there."""
    tape = [
        one._replace(key=key, time_ms=7 * one.time_ms + int(key))
        for key in "15"
        for one in (
            requested(action("create"), action("fund", "create", undo="unfund")),
            responded("create", 10),
            responded("fund", 20, "no"),
        )
    ]
    warehouse = Warehouse(tmp_path)
    shapes = {node.landed_topic: node.shape for node in topology().graph.nodes.values()}
    for topic in topology().source_topics():
        rows = [one for one in tape if one.topic == topic]
        keys = encoded(shapes[topic].key, [one.key for one in rows])
        values = encoded(shapes[topic].value, [one.value for one in rows])
        records = [LandedRecord(0, key, value, one.time_ms) for key, value, one in zip(keys, values, rows, strict=True)]
        plant(warehouse, topic, records, partitions=1)

    for limit in (max_records, None):
        list(replay(warehouse, topology(), pipeline="p", runner=LocalRunner(), max_records=limit, idle="proceed"))

    rows = read_table(warehouse, "p", "outputs/saga-state").sort_by("offset").to_pylist()
    states = [(row["key"], row["record_time_ms"], *_state(_plain(row["value"]))) for row in rows]
    begun = [(0, "InProgress", "Pending Pending"), (1, "InProgress", "InProgress Pending")]
    created = [(2, "InProgress", "Completed Pending"), (3, "InProgress", "Completed InProgress")]
    failed = [
        (4, "InProgress", "Completed Failed"),
        (5, "InFailure", "Completed Failed"),
        (6, "InFailure", "UndoBypassed Failed"),
        (7, "Failed", "UndoBypassed Failed"),
    ]
    assert states == [
        (key, time_ms, *state)
        for key, time_ms, of_saga in (
            ("1", 1, begun),
            ("5", 5, begun),
            ("1", 71, created),
            ("1", 141, failed),  # which lies before the other's response in the topic
            ("5", 75, created),
            ("5", 145, failed),
        )
        for state in of_saga
    ]


def _plain(value):
    return json.loads(value) if isinstance(value, str | bytes) else value | {"actions": dict(value["actions"])}
