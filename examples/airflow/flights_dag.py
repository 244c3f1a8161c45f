"""A DAG for Apache Airflow 3: land the flights, replay what has landed, check what came out, each night.

Owns what an exit code of `replay` means to Airflow (orchestration/README.md, Exit codes). Rule: 0 and 5 are done. 3
is nothing new, which skips the later tasks. 2 and 4 fail at once, since trying again will not help. Any other code is
tried again, which is safe: an increment that died is run again as planned. A task that is stopped sends SIGTERM on
to the command, which says what stays.

Copy it to the folder of the DAGs. ``REPLAY_WAREHOUSE`` and ``REPLAY_INCOMING`` in the environment of the workers say
where tables and files lie, and `replay` must be on their PATH.
"""

import datetime as dt
import os
import subprocess

from airflow.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.sdk import dag, task

PIPELINE, TOPOLOGY = "flights", "examples.flights.topology:topology"
TOPICS = {
    "departures": ("--timestamp", "departed_ms", "--key", "origin", "--partitions", "2"),
    "aircraft": ("--timestamp", "departed_ms", "--key", "tail_number", "--partitions", "4"),
}
"""Topic → the mapping of its files to records."""

DONE, NOTHING_NEW, WARNINGS = 0, 3, 5
NOT_AGAIN = {2: "an argument or a setting is wrong", 4: "a check failed, or no record could be applied"}


def replay(*arguments: str) -> None:
    """Run `replay` to its end, and report its result to Airflow. What it says on stderr is in the task's log."""
    command = ["replay", *arguments]
    with subprocess.Popen(command) as process:
        try:
            code = process.wait()
        except BaseException:  # Airflow stops the task
            process.terminate()
            raise
    said = f"`{' '.join(command)}` ended with exit code {code}"
    if code == NOTHING_NEW:
        raise AirflowSkipException(f"{said}: nothing new")
    if code in NOT_AGAIN:
        raise AirflowFailException(f"{said}: {NOT_AGAIN[code]}")
    if code not in (DONE, WARNINGS):
        raise AirflowException(said)


def of_warehouse() -> list[str]:
    """Options that all commands share."""
    return ["--warehouse", os.environ["REPLAY_WAREHOUSE"]]


@dag(
    schedule="0 4 * * *",
    start_date=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": dt.timedelta(minutes=5)},
)
def flights_replay() -> None:
    """Topics land one beside the other; then one increment is replayed and checked."""

    @task
    def land(topic: str) -> None:
        """Without news it is done all the same: what landed before may not have been replayed."""
        files = f"{os.environ['REPLAY_INCOMING']}/{topic}"
        replay("land", topic, *of_warehouse(), "--files", files, *TOPICS[topic])

    @task
    def run() -> None:
        """Skipped, with what comes behind, when nothing is new."""
        replay("run", TOPOLOGY, *of_warehouse(), "--pipeline", PIPELINE, "--increments", "1", "--detailed-exit-code")

    @task
    def check() -> None:
        """Fails when a guarantee of an output is broken, so that no later task reads wrong rows."""
        replay("check", TOPOLOGY, *of_warehouse(), "--pipeline", PIPELINE)

    replayed = run()
    for topic in TOPICS:
        land.override(task_id=f"land_{topic}")(topic) >> replayed
    replayed >> check()


flights_replay()
