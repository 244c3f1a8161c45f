"""The second half of a landing from files: the tasks of a plan are run, and what they wrote is checked and committed.

Owns the comparison of written files with their plan. Rule: nothing is committed that is not exactly the plan.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...state.errors import LandingError
from ...state.tables.commit import commit_files
from ...state.tables.data_files import DataFile
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import LandingPlanRow
from ...state.tables.warehouse import LANDED_SCHEMA, Warehouse
from .bad_rows import commit_dead_letters
from .file_source import FileSource
from .file_writing import Order, WriteTask
from .files.kept_records import KeptRecords
from .files.known_files import PlanOutdated
from .files.spark_tasks import run_tasks, runs_here
from .files.streams import FileSlice
from .landing_rules import RowRules

if TYPE_CHECKING:
    from .files.spark_tasks import Spark


def write_planned(
    spark: "Spark | None",
    warehouse: Warehouse,
    topic: str,
    source: FileSource,
    row: LedgerRow[LandingPlanRow],
    app_id: str,
    times: Mapping[str, int | None],
    kept: KeptRecords,
) -> None:
    """Write the records of a plan's tasks, by the mapping ``source``, and commit them. ``times``: of its files now;
    ``kept``: records of its slices.

    Raises PlanOutdated when a file is another one than planned; then nothing is committed.
    """
    plan = row.content
    rules = RowRules.from_dict(plan.rules or {})
    first = {int(p): offset for p, offset in plan.cut_from.items()}
    directories = warehouse.landed(topic), warehouse.landed_dead_letter(topic)
    work = []
    for number, task in enumerate(plan.tasks or ()):
        slices = [FileSlice.from_list(values) for values in task["slices"]]
        # A file that was only touched since the plan has been compared
        # by its digest; from here on its current time guards it.
        slices = [replace(piece, mtime_ns=times[piece.name]) for piece in slices]
        name = f"{row.increment:08d}-{number:05d}"
        order = None if "order" not in task else Order.from_dict(task["order"])
        own = source.for_files({piece.name for piece in slices})
        in_process = kept if runs_here(spark, len(plan.tasks or ())) else None
        work.append(
            WriteTask(own, slices, rules, dict(first), directories, row.increment, name, order, kept=in_process)
        )
        if source.offset is None:
            first = {p: offset + task["counts"].get(str(p), 0) for p, offset in first.items()}
    assert source.offset is not None or {str(p): offset for p, offset in first.items()} == plan.cut_to
    written = run_tasks(spark, warehouse, [task.run for task in work])
    for task in written:
        if task["changed"] is not None:
            raise PlanOutdated(f"{task['changed']} changed while it was read")
    files = [DataFile.from_dict(fields) for task in written for fields in task["files"]]
    if source.offset is None:
        _check_cut(topic, files, plan)
    else:
        _check_offsets(topic, files, plan)
    letters = [DataFile.from_dict(fields) for task in written for fields in task["dead_letters"]]
    # Before the records: the mark of the landed table is what counts as committed, and nothing is written behind it.
    commit_dead_letters(warehouse, topic, letters, app_id, row.increment)
    commit_files(directories[0], LANDED_SCHEMA, files, app_id=app_id, increment=row.increment)


def records_by_partition(tasks: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Records that planned tasks land, by partition."""
    counts = Counter[str]()
    for task in tasks:
        counts.update(task["counts"])
    return counts


def _check_offsets(topic: str, files: Sequence[DataFile], plan: LandingPlanRow) -> None:
    """The files hold as many records of each partition as planned, each offset once and within the cut."""
    counts = records_by_partition(plan.tasks or ())
    for p, first in plan.cut_from.items():
        own = sorted((file for file in files if str(file.partition) == p), key=lambda file: file.min_offset or 0)
        following = first
        for file in own:
            assert file.min_offset is not None
            assert file.max_offset is not None
            assert following <= file.min_offset, f"{file.path}: overlaps another one, or begins before the cut"
            following = file.max_offset + 1
        records = sum(file.records for file in own)
        if records != counts[p] or following > plan.cut_to[p]:
            raise LandingError(
                f"topic {topic}, partition {p}",
                f"{counts[p]:,} records below offset {plan.cut_to[p]}, as counted for the plan",
                f"{records:,} below {following}",
                "a file changed while it was read: put the planned one back, then land the topic again",
            )


def _check_cut(topic: str, files: Sequence[DataFile], plan: LandingPlanRow) -> None:
    """The files hold exactly the planned offsets, each once; else LandingError."""
    following = {int(p): offset for p, offset in plan.cut_from.items()}
    is_dense = True
    for file in sorted(files, key=lambda file: (file.partition, file.min_offset or 0)):
        bounds = following[file.partition], following[file.partition] + file.records - 1
        is_dense = is_dense and (file.min_offset, file.max_offset) == bounds
        following[file.partition] += file.records
    if not is_dense or {str(p): offset for p, offset in following.items()} != plan.cut_to:
        raise LandingError(
            f"topic {topic}",
            f"every offset up to {plan.cut_to} once, as counted for the plan",
            str(following),
            "a file changed while it was read: put the planned one back, then land the topic again",
        )
