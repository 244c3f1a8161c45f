"""A replay that breaks a guarantee on purpose."""

import pyarrow as pa
import pyarrow.parquet as pq

from kstreams_replay.jobs.execution.task_description import TaskDescription, TaskReport
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.topology import Topology
from kstreams_replay.orchestration.resources import LocalEngine
from kstreams_replay.state.tables.data_files import DataFile
from kstreams_replay.state.tables.parquet_writer import write_task_file


class DuplicatingEngine(LocalEngine):
    """A replay that emits its first final session a second time."""

    def runner(self, kafka_version: str | None = None) -> LocalRunner:
        return DuplicatingRunner()


class DuplicatingRunner(LocalRunner):
    pipeline = "shop"

    def run(self, topology: Topology, descriptions: list[TaskDescription]) -> list[TaskReport]:
        reports = super().run(topology, descriptions)
        path = descriptions[0].warehouse.pipeline(self.pipeline).output("sessions")
        for report in reports:
            for fields in report.files.get("outputs/sessions", [])[:1]:
                written = DataFile.from_dict(fields)
                assert written.max_offset is not None
                rows = pq.ParquetFile(f"{path}/{written.path}").read().slice(0, 1)
                offset = pa.array([written.max_offset + 1])
                rows = rows.set_column(rows.schema.get_field_index("offset"), "offset", offset)
                second = write_task_file(path, rows, partition=report.partition, name="planted")
                report.files["outputs/sessions"].append(second.to_dict())
        return reports
