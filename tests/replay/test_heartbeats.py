"""What a run says of a heartbeat that cannot be written."""

import logging
from pathlib import Path

from kstreams_replay.jobs.replay.heartbeats import beating
from kstreams_replay.state.tables.warehouse import Warehouse


def test_a_heartbeat_that_cannot_be_written_is_one_line_with_the_cause(tmp_path, caplog):
    tables = Warehouse(str(tmp_path)).pipeline("shop")
    in_its_way = Path(tables.heartbeats)
    in_its_way.parent.mkdir(parents=True)
    in_its_way.touch()

    with caplog.at_level(logging.WARNING), beating(tables, "r1", "waits"):
        pass

    (said,) = caplog.records
    assert said.exc_info is None
    assert said.getMessage().startswith("the heartbeat of run r1 cannot be written: ")
    assert "File exists" in said.getMessage() or "Not a directory" in said.getMessage()
    assert "\n" not in said.getMessage()
