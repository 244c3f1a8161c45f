"""Dagster as a person has it: a workspace, the GraphQL that its pages call, and the daemon that carries out backfills.

Runs are in this process, one after the other, as Dagster's own tests have them.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.execution.backfill import BulkActionStatus
from dagster._core.instance import InstanceRef
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.test_utils import create_test_daemon_workspace_context
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster._daemon.backfill import execute_backfill_iteration
from dagster_graphql.client.query import LAUNCH_PARTITION_BACKFILL_MUTATION
from dagster_graphql.test.utils import execute_dagster_graphql

LOOKS_MAX = 20
IN_PROCESS = {"module": "dagster._core.launcher.sync_in_memory_run_launcher", "class": "SyncInMemoryRunLauncher"}
AT_ONCE = {"module": "dagster._core.run_coordinator", "class": "DefaultRunCoordinator"}


class Workspace:
    """One location: the definitions of a file. ``logger``: of the daemon."""

    def __init__(self, process: WorkspaceProcessContext) -> None:
        self.process, self.instance = process, process.instance
        self.logger = logging.getLogger("tests.dagster.launching")

    def ask(self, query: str, **variables: Any) -> Any:
        """The answer's data; an error of the query is raised."""
        return execute_dagster_graphql(self.process.create_request_context(), query, variables).data

    def backfill(self, **params: Any) -> list[dg.DagsterRun]:
        """Launch as the pages do, and let the daemon carry it out; its runs, in the order in which they began."""
        data = self.ask(LAUNCH_PARTITION_BACKFILL_MUTATION, backfillParams=params)["launchPartitionBackfill"]
        assert data["__typename"] == "LaunchBackfillSuccess", data
        for _ in range(LOOKS_MAX):
            errors = [error for error in execute_backfill_iteration(self.process, self.logger) if error is not None]
            assert errors == []
            backfill = self.instance.get_backfill(data["backfillId"])
            assert backfill is not None
            if backfill.status not in (BulkActionStatus.REQUESTED, BulkActionStatus.FAILING):
                break
        return self.runs(**{"dagster/backfill": data["backfillId"]})

    def runs(self, **tags: str) -> list[dg.DagsterRun]:
        """In the order in which they began."""
        records = self.instance.get_run_records(dg.RunsFilter(tags=tags))
        return [record.dagster_run for record in reversed(records)]

    def stale_statuses(self, key: dict[str, list[str]], partitions: list[str]) -> list[str]:
        """Of an asset's partitions, as its page shows them: FRESH, STALE or MISSING."""
        query = """query ($key: AssetKeyInput!, $partitions: [String!]!) {
          assetNodeOrError(assetKey: $key) {
            ... on AssetNode { staleStatusByPartition(partitions: $partitions) }
          }
        }"""
        answer = self.ask(query, key=key, partitions=partitions)["assetNodeOrError"]
        return list(answer["staleStatusByPartition"])


@contextmanager
def workspace(root: Path, definitions: str) -> Iterator[Workspace]:
    """Over a file of ``definitions``, Python, and an instance on disk; both are below ``root``."""
    file = root / "definitions.py"
    file.write_text(definitions)
    storage = root / "dagster"
    storage.mkdir()
    overrides = {"run_launcher": IN_PROCESS, "run_coordinator": AT_ONCE, "telemetry": {"enabled": False}}
    reference = InstanceRef.from_dir(str(storage), overrides=overrides)
    origin = InProcessCodeLocationOrigin(
        LoadableTargetOrigin(python_file=str(file), working_directory=str(root), executable_path=None)
    )
    with (
        dg.DagsterInstance.from_ref(reference) as instance,
        create_test_daemon_workspace_context(InProcessWorkspaceLoadTarget(origin), instance) as process,
    ):
        yield Workspace(process)


def asset(*path: str) -> dict[str, list[str]]:
    """A key as GraphQL takes it."""
    return {"path": list(path)}
