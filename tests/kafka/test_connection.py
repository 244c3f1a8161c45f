"""Questions to a broker that has just started: it may still look for a group, or load it, or make leaders."""

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kstreams_replay.state.kafka.connection import Connection


def answers(*given: Any) -> Any:
    """A question that is answered so, one time after the other."""
    left = list(given)

    def question(*asked: Any, request_timeout: float) -> "Future[Any]":
        found: Future[Any] = Future()
        answer = left.pop(0)
        if isinstance(answer, int):
            found.set_exception(KafkaException(KafkaError(answer)))
        else:
            found.set_result(answer)
        return found

    return question


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    ],
)
def test_a_question_that_brokers_cannot_answer_for_a_moment_is_asked_again(code):
    connection = Connection("localhost:1", {}, patience_s=30)

    assert connection.ask(answers(code, code, "found")) == ["found"]


@pytest.mark.parametrize(
    ("code", "patience_s"),
    [(KafkaError.GROUP_AUTHORIZATION_FAILED, 30), (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, 0)],
)
def test_a_refusal_and_a_broker_that_looks_for_too_long_are_errors(code, patience_s):
    connection = Connection("localhost:1", {}, patience_s=patience_s)

    with pytest.raises(KafkaException) as caught:
        connection.ask(answers(code, "too late"))
    assert caught.value.args[0].code() == code
