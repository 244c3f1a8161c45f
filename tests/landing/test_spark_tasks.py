"""Tasks over files on executors: what they need of the driver travels with them."""

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from kstreams_replay.jobs.landing.files.spark_tasks import run_tasks
from kstreams_replay.state.tables import object_stores
from kstreams_replay.state.tables.object_stores import options_of
from kstreams_replay.state.tables.warehouse import Warehouse

OPTIONS = {"aws_region": "eu-west-1", "aws_endpoint_url": "http://127.0.0.1:1"}


class _Executor:
    """In the place of a Spark session: runs what it is given after it was pickled, in a process that knows no store."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch

    def range(self, _first, end, _step, _slices):
        self.numbers = list(range(end))
        return self

    def mapInArrow(self, run, _schema):  # noqa: N802
        self.pickled = cloudpickle.dumps(run)
        return self

    def collect(self):
        with self.monkeypatch.context() as patch:
            patch.setattr(object_stores, "_OPTIONS", {})
            batch = pa.RecordBatch.from_arrays([pa.array(self.numbers)], ["id"])
            done = list(cloudpickle.loads(self.pickled)(iter([batch])))
        return [row for each in done for row in each.to_pylist()]


def test_an_executor_reaches_the_store_as_the_driver_does(monkeypatch):
    monkeypatch.setattr(object_stores, "_OPTIONS", {})
    warehouse = Warehouse("s3://bucket/w", OPTIONS)

    found = run_tasks(_Executor(monkeypatch), warehouse, [lambda: options_of("s3://bucket/w/landed/t")])

    assert found == [OPTIONS]
