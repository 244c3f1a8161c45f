"""Rows of the ledger as JSON: the very bytes that warehouses have, whatever fields they leave out."""

import json

import pytest

from kstreams_replay.state.tables.ledger_rows import (
    DoneRow,
    LandingDoneRow,
    LandingPlanRow,
    PlanRow,
    RowContent,
)

WRITTEN = {
    "the plan of an increment": (
        PlanRow,
        '{"cut_from": {"t": {"0": 0}}, "cut_to": {"t": {"0": 5}}, "partitions": {"0": 1}, "records": 5, '
        '"topology": "7e44", "waiting": 2}',
    ),
    "the plan of a flush with recorded times": (
        PlanRow,
        '{"cut_from": {"t": {"0": 5}}, "cut_to": {"t": {"0": 5}}, "flushes": true, "partitions": {"0": 1}, '
        '"recorded_from": {}, "recorded_to": {"t": {"0": 1}}, "records": 0, "topology": "7e44", "waiting": 0}',
    ),
    "the plan of a restore to the start": (
        PlanRow,
        '{"cut_from": {"t": {"0": 0}}, "cut_to": {"t": {"0": 0}}, "fenced": 0, "kind": "restore", "partitions": {}, '
        '"records": 0, "restates": 0, "topology": null, "waiting": 0}',
    ),
    "the plan of a promote": (
        PlanRow,
        '{"branch": "b", "branch_increment": 3, "cut_from": {}, "cut_to": {}, "fenced": 1, "kind": "promote", '
        '"partitions": {"0": 1}, "records": 7, "restates": 2, "topology": "7e44", "waiting": 0}',
    ),
    "an increment that is done": (
        DoneRow,
        '{"books": {"by_sub_topology": {}, "read": 5}, "code": {"stores": {}}, "cut_to": {"t": {"0": 5}}, '
        '"flushed": true, "lateness": {"avg": null, "max": null}, "moments": 1, "operators": {}, "outputs": {}, '
        '"partitions": {"0": 1}, "recorded_to": {"t": {"0": 1}}, "rss_bytes_max": 0, "seconds": {"plan": 0.5}, '
        '"tape_times": {}, "tasks": {"0_0": {"clocks": {"counts": {"stream_time_ms": 7}}, "heap": null, '
        '"next_offsets": {"outputs/x": 3}, "partition_times": {"t": 7}, "row_keys": {"counts": ["key"]}, '
        '"stream_time_ms": 7, "tape_position": 5, "tape_time_ms": 7, "told": {"r": {"0": 9}}}}, '
        '"topology": "7e44", "versions": {"dropped": 0}}',
    ),
    "the first row of a branch from nothing": (
        DoneRow,
        '{"bases": {}, "cut_to": {}, "forked": {"increment": 0, "pipeline": "p"}, "partitions": {}, "tasks": {}, '
        '"versions": {}}',
    ),
    "a restore to the start that is done": (
        DoneRow,
        '{"books": {"by_sub_topology": {}}, "cut_to": {"t": {"0": 0}}, "kind": "restore", '
        '"lateness": {"avg": null, "max": null}, "operators": {}, "outputs": {"x": 0}, "partitions": {}, '
        '"restates": 0, "rss_bytes_max": 0, "seconds": {"commit": 0.1}, "tape_times": {}, "tasks": {}, '
        '"versions": {"outputs/x": 2}}',
    ),
    "the plan of a landing of files": (
        LandingPlanRow,
        '{"cut_from": {"0": 0}, "cut_to": {"0": 2}, "files": [{"mtime_ns": null, "name": "a"}], "gaps": {}, '
        '"partitions": 1, "source": {"kind": "files"}, "tasks": [{"counts": {"0": 2}, "slices": []}]}',
    ),
    "a landing of files that is done": (
        LandingDoneRow,
        '{"cut_from": {"0": 0}, "cut_to": {"0": 2}, "files": 1, "gaps": {"0": [2, 6]}, "partitions": 1, "records": 2, '
        '"source": {"kind": "files"}, "table_version": 0}',
    ),
    "the plan of recorded times without arrival": (
        LandingPlanRow,
        '{"arrival": null, "cut_from": {"0": 2}, "cut_to": {"0": 2}, "files": 1, "gaps": {}, "partitions": 1, '
        '"recorded_time": {"0": 9}, "records": 0, "source": {"kind": "files"}, "table_version": 0}',
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_a_warehouse_has_is_written_again_byte_by_byte(name):
    kind, written = WRITTEN[name]
    assert json.dumps(kind.from_json(json.loads(written)).to_json(), sort_keys=True) == written


@pytest.mark.parametrize("name", WRITTEN)
def test_every_field_of_a_written_row_is_a_known_one(name):
    kind, written = WRITTEN[name]
    assert kind.from_json(json.loads(written)).unknown == {}


@pytest.mark.parametrize("kind", [PlanRow, DoneRow, LandingPlanRow, LandingDoneRow])
def test_a_field_of_a_later_version_is_kept(kind: type[RowContent]):
    row = kind.from_json({"cut_to": {}, "of_a_later_version": None, "unknown": 1})
    assert row.unknown == {"of_a_later_version": None, "unknown": 1}
    assert {**row.to_json(), "cut_to": {}} == row.to_json()
    assert row.to_json()["of_a_later_version"] is None
    assert row.to_json()["unknown"] == 1


def test_nothing_done_has_no_rows_and_no_code():
    nothing = DoneRow()
    assert (nothing.code, nothing.versions, nothing.tasks, nothing.cut_to) == (None, {}, {}, {})
