"""After simplesourcing/simplesagas: a coordinator of sagas. A saga is a graph of actions; each is requested when those
that it depends on are done, is tried again or undone, and the saga completes or fails.

Two loops: transitions make a new state, which is written to a topic; what that topic brings makes more transitions,
and requests. Retries come from outside, into the topic of transitions. The id of a command that is repeated is made of
the one before.
"""

from kstreams_replay import Consumed, JoinWindows, Serde, StreamsBuilder, Topology

TEXT = Serde.string()
_ACTION = (
    "action_id string, action_type string, command string, command_id string, undo_command string, "
    "undo_command_id string, dependencies array<string>, status string, errors array<string>, retry_count int"
)
_SAGA = f"saga_id string, status string, sequence long, errors array<string>, actions map<string, struct<{_ACTION}>>"
_CHANGE = "action_id string, status string, errors array<string>, undo_command string, is_undo boolean"
SAGA = Serde.json(_SAGA)
REQUEST = Serde.json(f"request_id string, saga struct<{_SAGA}>")
CHECKED = Serde.json(f"saga struct<{_SAGA}>, errors array<string>")
TRANSITION = Serde.json(
    f"kind string, saga struct<{_SAGA}>, changes array<struct<{_CHANGE}>>, status string, errors array<string>"
)
ACTION_REQUEST = Serde.json("action_id string, action_type string, command string, command_id string, is_undo boolean")
EXECUTION = Serde.json(
    "action_id string, action_type string, command string, command_id string, status string, is_undo boolean"
)
EXECUTIONS = Serde.json(
    "array<struct<action_id string, action_type string, command string, command_id string, status string, "
    "is_undo boolean>>"
)
ACTION_RESPONSE = Serde.json(
    "action_id string, command_id string, is_undo boolean, undo_command string, errors array<string>"
)
JUDGED = Serde.json("action_id string, is_undo boolean, errors array<string>, is_retried boolean")
SAGA_RESPONSE = Serde.json("saga_id string, sequence long, errors array<string>")
STATUS = Serde.json("sequence long, status string, errors array<string>")

NOTHING = {"kind": None, "saga": None, "changes": None, "status": None, "errors": None}


# --- rules ---------------------------------------------------------------------------------------------------


def next_actions(saga):
    """What can be requested now, or undone."""
    actions = saga["actions"].values()
    if saga["status"] == "InProgress":
        done = {action["action_id"] for action in actions if action["status"] == "Completed"}
        ready = [action for action in actions if action["status"] == "Pending" and done >= set(action["dependencies"])]
        return [_execution(action, "InProgress", is_undo=False) for action in ready]
    if saga["status"] == "InFailure":
        standing = {action["action_id"] for action in actions if action["status"] in ("UndoInProgress", "Completed")}
        needed = {name for action in actions if action["action_id"] in standing for name in action["dependencies"]}
        ready = [action for action in actions if action["status"] == "Completed" and action["action_id"] not in needed]
        return [
            _execution(action, "UndoBypassed" if action["undo_command"] is None else "UndoInProgress", is_undo=True)
            for action in ready
        ]
    return []


def _execution(action, status, *, is_undo):
    prefix = "undo_" if is_undo else ""
    command = {name: action[prefix + name] for name in ("command", "command_id")}
    of_action = {"action_id": action["action_id"], "action_type": action["action_type"]}
    return of_action | command | {"status": status, "is_undo": is_undo}


def next_status(saga):
    """(status, errors) that the saga changes to by what its actions are, or None."""
    statuses = {action["status"] for action in saga["actions"].values()}
    has_failed, is_running = "Failed" in statuses, "InProgress" in statuses
    is_in_progress = saga["status"] == "InProgress"
    if is_in_progress and statuses == {"Completed"}:
        return "Completed", []
    if is_in_progress and has_failed and (is_running or "RetryAwaiting" in statuses):
        return "FailurePending", []
    can_fail = is_in_progress or saga["status"] == "FailurePending"
    if can_fail and has_failed and not is_running and statuses & {"UndoInProgress", "Completed"}:
        return "InFailure", []
    is_at_an_end = not statuses & {"InProgress", "UndoInProgress", "Completed", "RetryAwaiting"}
    if (is_in_progress or saga["status"] == "InFailure") and has_failed and is_at_an_end:
        failed = [action for action in saga["actions"].values() if action["status"] == "Failed"]
        return "Failed", [error for action in failed for error in action["errors"]]
    return None


def apply(saga_id, transition, saga):
    """The saga after a transition."""
    if transition["kind"] == "initial":
        return transition["saga"] | {"status": "InProgress", "sequence": 0}
    if transition["kind"] == "status":
        return _with_status(saga, transition)
    for change in transition["changes"]:
        saga = _with_change(saga, change)
    return saga


def _with_status(saga, transition):
    actions = saga["actions"]
    if transition["status"] in ("FailurePending", "InFailure", "Failed") and saga["status"] == "InProgress":
        actions = {
            name: action | {"status": "Failed"} if action["status"] == "RetryAwaiting" else action
            for name, action in actions.items()
        }
    of_transition = {"status": transition["status"], "errors": transition["errors"]}
    return saga | {"actions": actions, "sequence": saga["sequence"] + 1} | of_transition


def _with_change(saga, change):
    action = saga["actions"].get(change["action_id"])
    changed = None if action is None else _changed(saga, change, action)
    if changed is None:
        return saga
    actions = saga["actions"] | {change["action_id"]: changed}
    return saga | {"actions": actions, "sequence": saga["sequence"] + 1}


def _changed(saga, change, action):
    status, prefix = change["status"], "undo_" if change["is_undo"] else ""
    if status == "RetryCompleted":
        if saga["status"] == "FailurePending":
            return action | {"status": "Failed"}
        if action["status"] == ("UndoFailed" if change["is_undo"] else "Failed"):
            return None
        return action | {"status": "Completed" if change["is_undo"] else "Pending"}
    changed = action | {"status": status}
    if status == "RetryAwaiting":
        fresh = {f"{prefix}command_id": action[f"{prefix}command_id"] + "'"}
        errors = {} if change["is_undo"] else {"errors": change["errors"]}
        return changed | fresh | errors | {"retry_count": action["retry_count"] + 1}
    if not change["is_undo"]:
        if change["undo_command"] is not None:
            undo_id = f"{action['command_id']}-undo"
            changed |= {"undo_command": change["undo_command"], "undo_command_id": undo_id}
        if status == "Failed":
            changed |= {"errors": change["errors"]}
    return changed | {"retry_count": 0} if status == "Completed" else changed


# --- the coordinator -----------------------------------------------------------------------------------------


def check_requests(requests, action_types, state_table):
    """Requests of new sagas become transitions; of those with unknown actions the response says so."""

    def check(request):
        types = [action["action_type"] for action in request["saga"]["actions"].values()]
        return {
            "saga": request["saga"],
            "errors": [f"unknown action {one}" for one in types if one not in action_types],
        }

    checked = requests.map_values(check, returns=CHECKED)
    branches = (
        checked.split(name="request-")
        .branch(lambda key, one: not one["errors"], name="valid")
        .default_branch(name="invalid")
    )
    (
        branches["request-invalid"]
        .map_values(
            lambda key, checked: {"saga_id": key, "sequence": None, "errors": checked["errors"]},
            returns=SAGA_RESPONSE,
        )
        .to("saga-response")
    )
    (
        branches["request-valid"]
        .left_join(
            state_table,
            lambda checked, known: checked["saga"] if known is None else None,
            returns=SAGA,
        )
        .filter("NOT value_is_null")
        .map_values(lambda saga: NOTHING | {"kind": "initial", "saga": saga}, returns=TRANSITION)
        .to("saga-state-transition")
    )


def request_actions(states):
    """What each state allows is noted as in progress, and requested."""

    def noted(executions):
        changes = [
            {"action_id": one["action_id"], "status": one["status"], "is_undo": one["is_undo"]} for one in executions
        ]
        empty = {"errors": [], "undo_command": None}
        return NOTHING | {"kind": "list", "changes": [change | empty for change in changes]}

    executions = states.map_values(next_actions, returns=EXECUTIONS)
    some = executions.filter(lambda key, found: len(found) > 0)
    some.map_values(noted, returns=TRANSITION).to("saga-state-transition")
    (
        executions.flat_map_values(lambda found: found, returns=EXECUTION)
        .filter("command IS NOT NULL")
        .map_values(
            action_id="action_id",
            action_type="action_type",
            command="command",
            command_id="command_id",
            is_undo="is_undo",
        )
        .to("action_type || '-action-request'", topics=["account-action-request", "user-action-request"])
    )


def hear_responses(responses, state_table, retries):
    """``retries``: how often an action of a type is tried again."""

    def changed(response, status):
        change = {name: response[name] for name in ("action_id", "is_undo", "errors")}
        undo = {"undo_command": response.get("undo_command")}
        return NOTHING | {"kind": "change", "changes": [change | undo | {"status": status}]}

    def judge(response, saga):
        action = saga["actions"][response["action_id"]]
        is_known = response["command_id"] in (action["command_id"], action["undo_command_id"])
        is_left = is_known and action["retry_count"] < retries.get(action["action_type"], 0)
        is_retried = is_left and saga["status"] != "FailurePending"
        return {name: response[name] for name in ("action_id", "is_undo", "errors")} | {"is_retried": is_retried}

    def failed(judged):
        status = "RetryAwaiting" if judged["is_retried"] else "UndoFailed" if judged["is_undo"] else "Failed"
        return changed(judged, status)

    def succeeded(response):
        return changed(response, "Undone" if response["is_undo"] else "Completed")

    branches = (
        responses.split(name="response-")
        .branch(lambda key, one: not one["errors"], name="good")
        .default_branch(name="bad")
    )
    good = branches["response-good"].map_values(succeeded, returns=TRANSITION)
    bad = branches["response-bad"].join(state_table, judge, returns=JUDGED).map_values(failed, returns=TRANSITION)
    good.merge(bad).to("saga-state-transition")


def answer(states):
    """A saga whose actions say so changes its status; of one that ends there is a response."""

    def status_of(saga):
        found = next_status(saga)
        if found is None:
            return None
        return {"sequence": saga["sequence"], "status": found[0], "errors": found[1]}

    def response(saga_id, found):
        return {"saga_id": saga_id, "sequence": found["sequence"], "errors": found["errors"]}

    statuses = states.map_values(status_of, returns=STATUS).filter("NOT value_is_null")
    (
        statuses.map_values(
            lambda found: NOTHING | {"kind": "status", "status": found["status"], "errors": found["errors"]},
            returns=TRANSITION,
        ).to("saga-state-transition")
    )
    ended = statuses.filter("status IN ('Completed', 'Failed')")
    ended.map_values(response, returns=SAGA_RESPONSE).to("saga-response")


def distribute(responses, topics_of_askers, topics):
    """Each response goes to the topic that its asker had named, under a key that has both."""
    joined = responses.join(
        topics_of_askers,
        asker="right",
        saga_id="left.saga_id",
        sequence="left.sequence",
        errors="left.errors",
        windows=JoinWindows.of_time_difference_and_grace("60s", "1d"),
    ).select_key("asker || ':' || saga_id")
    of_asker = joined.map_values(saga_id="saga_id", sequence="sequence", errors="errors")
    of_asker.to(lambda key, response: key.rpartition(":")[0], topics=topics)


def topology(*, retries=None, asker_topics=("web", "phone")) -> Topology:
    builder = StreamsBuilder()
    states = builder.stream("saga-state", Consumed(TEXT, SAGA))
    newest = states.group_by_key().reduce(lambda one, other: one if one["sequence"] > other["sequence"] else other)
    check_requests(builder.stream("saga-request", Consumed(TEXT, REQUEST)), {"account", "user"}, newest)
    request_actions(states)
    responses = builder.stream(["account-action-response", "user-action-response"], Consumed(TEXT, ACTION_RESPONSE))
    hear_responses(responses, newest, retries or {})
    answer(states)
    transitions = builder.stream("saga-state-transition", Consumed(TEXT, TRANSITION, others=True))
    transitions.group_by_key().aggregate(dict, apply, returns=SAGA).to_stream().to("saga-state")
    answers = builder.stream("saga-response", Consumed(TEXT, SAGA_RESPONSE))
    distribute(answers, builder.stream("saga-response-topics", Consumed(TEXT, TEXT)), asker_topics)
    return builder.build()
