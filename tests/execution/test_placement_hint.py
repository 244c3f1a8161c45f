"""The hint beside the ledger: what is written is read back, and whatever else is there is as if nothing did."""

import pytest

from kstreams_replay.jobs.execution.placement_hint import group_of, hint_path, read_hint, write_hint
from kstreams_replay.jobs.placement.group import Group, Present
from kstreams_replay.jobs.placement.members import TaskId
from kstreams_replay.jobs.placement.settings import HIGH_AVAILABILITY, PlacementSettings
from kstreams_replay.state.tables.warehouse import PipelineTables

TASK = TaskId(0, 1)


def group() -> Group:
    settings = PlacementSettings(HIGH_AVAILABILITY, num_standby_replicas=1, rack_aware_assignment_tags=("zone",))
    found = Group(settings)
    found.ran(TASK, "c1", {"a": 10, "b": 5})
    found.has_warm("c2", {"a", "of another task"})
    found.assign([Present("c1"), Present("c2")])
    return found


def write(tables: PipelineTables, found: Group) -> None:
    write_hint(tables, found, increment=3, members={}, elsewhere=[], seconds={})


def test_what_is_written_is_read_back_with_its_settings(tmp_path):
    tables = PipelineTables(str(tmp_path))
    write(tables, group())

    got = group_of(read_hint(tables))

    assert got.settings == group().settings
    assert got.lag("c2", TASK) == 5
    assert got.tasks[TASK].owner == "c1"
    assert got.to_learn("c2") == [TASK]


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"7", b"{}", b'{"group": {}}', b'{"group": {"tasks": [], "warm": {}, "standby": {}}}',
        b'{"group": {"tasks": {"x": {"files": null, "owner": null}}, "warm": {}, "standby": {}}}',
    ],
)  # fmt: skip
def test_a_damaged_hint_is_as_none(tmp_path, content):
    tables = PipelineTables(str(tmp_path))
    write(tables, group())
    with open(hint_path(tables), "wb") as file:
        file.write(content)

    got = group_of(read_hint(tables), PlacementSettings(HIGH_AVAILABILITY))

    assert got.tasks == {}
    assert got.settings.placement == HIGH_AVAILABILITY


def test_where_none_was_written_nothing_is_known(tmp_path):
    assert read_hint(PipelineTables(str(tmp_path))) is None
