"""A driver that replays an increment for each line that it is sent, and prints what is known of the group after it.

python -m tests.cluster.placed_driver MASTER WAREHOUSE RECORDS SPARK_SETTINGS_AS_JSON
"""

import json
import sys

from kstreams_replay.jobs.execution import spark_runner
from kstreams_replay.jobs.execution.placement_hint import read_hint
from kstreams_replay.jobs.execution.spark_session import open_spark
from kstreams_replay.jobs.placement.settings import HIGH_AVAILABILITY, PlacementSettings
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.runs.local_copies import default_cache
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.cluster.placed_topology import topology
from tests.cluster.two_attempts import meeting

if __name__ == "__main__":
    master, root, records, settings = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
    warehouse = Warehouse(root)
    placement = PlacementSettings(
        HIGH_AVAILABILITY, num_standby_replicas=1, max_warmup_replicas=8, acceptable_recovery_lag_bytes=0
    )
    spark_runner._worker = meeting(spark_runner._worker)
    runner = spark_runner.SparkRunner(open_spark(master, extra=settings), default_cache(), placement)
    for _ in sys.stdin:
        reports = list(replay(warehouse, topology(), pipeline="p", runner=runner, max_records=records, increments=1))
        print(json.dumps({"increments": len(reports), **(read_hint(warehouse.pipeline("p")) or {})}), flush=True)
