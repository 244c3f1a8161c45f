"""The demo of a live application on trial, whole: a broker, an application that is closed and killed, and causes."""

import pytest

from examples.broker import running_broker
from examples.on_trial.__main__ import run

pytestmark = [pytest.mark.jvm, pytest.mark.nightly]


def test_every_row_that_the_rules_do_not_give_has_its_cause(spark, tmp_path, capsys):
    (tmp_path / "broker").mkdir()
    with running_broker(tmp_path / "broker") as broker:
        code = run(tmp_path, broker)

    said = capsys.readouterr().out
    assert code == 0
    assert "--restart 0:4" in said  # the clean restart, before the late click
    assert "twice" in said  # what was processed again after the kill
    assert "not explained" not in said
