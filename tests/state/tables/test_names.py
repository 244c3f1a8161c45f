"""Names of tables and tasks: text that ledgers have had from the first version on."""

import json

import pytest

from kstreams_replay.state.tables.names import DEAD_LETTER, DROPPED, TableName, TaskId
from kstreams_replay.state.tables.warehouse import Warehouse


@pytest.mark.parametrize(
    ("named", "text", "kind", "name"),
    [
        (TableName.output("clicks"), "outputs/clicks", "outputs", "clicks"),
        (TableName.state("open-hours"), "state/open-hours", "state", "open-hours"),
        (TableName.repartition("x-repartition"), "repartition/x-repartition", "repartition", "x-repartition"),
        (TableName.retractions("clicks"), "retractions/clicks", "retractions", "clicks"),
        (TableName.landed("t.1"), "landed/t.1", "landed", "t.1"),
        (DROPPED, "dropped", "dropped", ""),
        (DEAD_LETTER, "dead_letter", "dead_letter", ""),
    ],
)
def test_a_name_is_its_text_and_can_be_taken_apart(named, text, kind, name):
    assert (named, named.kind, named.name) == (text, kind, name)
    assert json.dumps({named: named}) == json.dumps({text: text})
    assert TableName(text).kind == kind


def test_a_table_lies_where_its_name_says():
    warehouse = Warehouse("/w")
    tables = warehouse.pipeline("p")
    assert tables.output("x") == tables.table("outputs/x") == "/w/p/outputs/x"
    assert tables.state("x") == tables.table("state/x") == "/w/p/state/x"
    assert tables.repartition("x") == tables.table("repartition/x") == "/w/p/repartition/x"
    assert tables.retractions("x") == tables.table("retractions/x") == "/w/p/retractions/x"
    assert (tables.dropped, tables.dead_letter, tables.ledger) == ("/w/p/dropped", "/w/p/dead_letter", "/w/p/ledger")
    assert warehouse.landed("x") == "/w/landed/x"


def test_tasks_stand_by_number_and_not_by_text():
    assert [str(task) for task in sorted(map(TaskId.of, ["10_0", "2_10", "2_9"]))] == ["2_9", "2_10", "10_0"]
