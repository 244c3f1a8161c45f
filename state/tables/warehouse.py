"""Where every table of a warehouse lies, and the fixed schemas.

Owns paths and columns, never rows. Rule: all times are BIGINT milliseconds; nobody else spells a path of the warehouse.
A table behind a symbolic link has none: whoever asks for its path gets StorageError.

    <warehouse>/landed/<topic>               records as they came, partitioned by `partition`
    <warehouse>/landing/<topic>/ledger       ledger of that topic's landing
    <warehouse>/landed_dead_letter/<topic>   rows of files that became no record
    <warehouse>/landing/<topic>/recorded_time  stream times recorded between its records
    <warehouse>/landing/<topic>/verified_files.json  files that need not be read again; no table
    <warehouse>/<pipeline>/outputs/<name>    changelog of an output topic
    <warehouse>/<pipeline>/state/<store>     rows of a store
    <warehouse>/<pipeline>/repartition/<name>  landed-shaped, written by tasks
    <warehouse>/<pipeline>/retractions/<name>  rows of an output that a restatement took back
    <warehouse>/<pipeline>/current/<name>    the newest row of every key and window of an output
    <warehouse>/<pipeline>/dropped, dead_letter, ledger
    <warehouse>/<pipeline>/quality_results, quality_metrics  verdicts on guarantees, and numbers of increments
    <warehouse>/branches                     which pipelines are branches, and of what
"""

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any

import pyarrow as pa
from pyarrow import fs

from ..argument_types import check_fields, path_text
from ..errors import ConfigError
from ..near_names import did_you_mean
from .kept_below import below
from .names import (
    BRANCHES,
    DEAD_LETTER,
    DROPPED,
    LANDED,
    LANDED_DEAD_LETTER,
    LEDGER,
    QUALITY_METRICS,
    QUALITY_RESULTS,
    TableName,
)
from .object_stores import open_filesystem, options_of, refuse_encoded, remember_options

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

WINDOW = ("window_start_ms", "window_end_ms")
"""Columns of a window's bounds."""

WINDOW_KEY = ("key", *WINDOW)
"""Columns that name a row of a store or an output, where windows are part of the key; else the first one alone."""

LANDED_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("timestamp_type", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("increment", pa.int64()),
    ]
)
"""A file holds one partition, in offset order, so that `offset` ranges of a partition's files never overlap."""

RECORDED_TIME_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("before_offset", pa.int64()),
        ("time_ms", pa.int64()),
        ("arrival", pa.int64()),
        ("increment", pa.int64()),
    ]
)
"""Beside a landed table: stream time has reached `time_ms` before the record of `before_offset`."""

LANDED_DEAD_LETTER_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("increment", pa.int64()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("bytes", pa.binary()),
        ("reason", pa.string()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("headers", HEADERS),
    ]
)
"""Of a file's row `partition` is 0, and `timestamp`, `key` and `headers` are null: all that it has is in `bytes`."""

_REFUSED_WHERE = (
    ("partition", pa.int32()),
    ("increment", pa.int64()),
    ("sub_topology", pa.int32()),
    ("node", pa.string()),
    ("reason", pa.string()),
    ("topic", pa.string()),
    ("offset", pa.int64()),
    ("record_time_ms", pa.int64()),
)
"""Of a record that was refused: in which task, by which node, and which record it was."""

DROPPED_SCHEMA = pa.schema(
    [
        *_REFUSED_WHERE,
        ("stream_time_ms", pa.int64()),
        ("limit_ms", pa.int64()),
        ("window_start_ms", pa.int64()),
        ("window_end_ms", pa.int64()),
        ("is_record", pa.bool_()),
        ("arrival", pa.int64()),
    ]
)
"""`is_record`: the record had no effect anywhere in its sub-topology, so it is one of the dropped in the books; else
one window refused it, or one branch did while another took it."""

DEAD_LETTER_SCHEMA = pa.schema(
    [
        *_REFUSED_WHERE,
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("arrival", pa.int64()),
    ]
)

LEDGER_SCHEMA = pa.schema(
    [
        ("increment", pa.int64()),
        ("epoch", pa.int64()),
        ("phase", pa.string()),
        ("content", pa.string()),
        ("written_at_ms", pa.int64()),
    ]
)

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_TAKEN = frozenset({LANDED, LANDED_DEAD_LETTER, "landing", "branches"})


def output_schema(key: pa.DataType, value: pa.DataType, *, windowed: bool, has_topics: bool = False) -> pa.Schema:
    """Schema of an output's changelog. A null value is a tombstone; `cause_offset` is the task's input record;
    `arrival`: of the landed record that caused it, where the replay follows arrivals. ``has_topics``: each record names
    its topic.
    """
    topic = [("topic", pa.string())] if has_topics else []
    window = [("window_start_ms", pa.int64()), ("window_end_ms", pa.int64())] if windowed else []
    return pa.schema(
        [
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("increment", pa.int64()),
            ("cause_offset", pa.int64()),
            *topic,
            ("key", key),
            *window,
            ("value", value),
            ("record_time_ms", pa.int64()),
            ("stream_time_ms", pa.int64()),
            ("headers", HEADERS),
            ("arrival", pa.int64()),
        ]
    )


def output_identity(columns: Collection[str]) -> list[str]:
    """Those of an output's ``columns`` that say what a record is the newest of: topic, key and window."""
    return [name for name in ("topic", *WINDOW_KEY) if name in columns]


@dataclass(frozen=True)
class PipelineTables:
    """Paths of one pipeline's tables."""

    root: str

    def output(self, name: str) -> str:
        """Changelog of the output topic ``name``."""
        return below(self.root, TableName.output(_checked(name, "output")))

    def state(self, store: str) -> str:
        """Rows of the store ``store``."""
        return below(self.root, TableName.state(_checked(store, "store")))

    def repartition(self, name: str) -> str:
        """The repartition table ``name``, landed-shaped."""
        return below(self.root, TableName.repartition(_checked(name, "repartition table")))

    def retractions(self, output: str) -> str:
        """Rows of the output ``output`` that a restatement took back."""
        return below(self.root, TableName.retractions(_checked(output, "output")))

    def current(self, output: str) -> str:
        """The newest row of every key and window of the output ``output``; there is no table until one is kept."""
        return below(self.root, TableName.current(_checked(output, "output")))

    def table(self, name: str) -> str:
        """A table by its name in the ledger: "outputs/x", "state/y", "dropped", …"""
        return below(self.root, "/".join(_checked(part, "table") for part in name.split("/")))

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.root.rpartition("/")[2]

    @property
    def dropped(self) -> str:
        """Refused records, each with its reason."""
        return below(self.root, DROPPED)

    @property
    def dead_letter(self) -> str:
        """Undecodable records, with their bytes."""
        return below(self.root, DEAD_LETTER)

    @property
    def ledger(self) -> str:
        """The pipeline's ledger."""
        return below(self.root, LEDGER)

    @property
    def quality_results(self) -> str:
        """Verdicts on the guarantees; there is no table until something was checked."""
        return below(self.root, QUALITY_RESULTS)

    @property
    def quality_metrics(self) -> str:
        """Numbers of increments; there is no table until something was checked."""
        return below(self.root, QUALITY_METRICS)

    def heartbeat(self, run: str) -> str:
        """A file that is written time and again while the run ``run`` is at work; no table."""
        return f"{self.heartbeats}/{_checked(run, 'run')}"

    @property
    def heartbeats(self) -> str:
        """The folder of all of them."""
        return f"{self.root}/_heartbeats"


@dataclass(frozen=True)
class Warehouse:
    """All tables of some topics and pipelines. ``root``: their directory, or a URI that both pyarrow and Delta can
    open. A relative directory becomes an absolute one, since workers run in folders of their own.

    ``storage_options``: how an object store is reached, in the words of Delta (delta-rs): "AWS_ENDPOINT_URL",
    "AWS_REGION", … They are sent along with its tasks; None: the options that this process was given for the store, if
    any. ``storage_timeout``: how long a request to the store that fails is made again, such as "5m"; None: what the
    options say as "retry_timeout", else two minutes.
    """

    root: str
    storage_options: Mapping[str, str] | None = field(default=None, hash=False, repr=False)
    storage_timeout: InitVar[str | None] = None

    def __post_init__(self, storage_timeout: str | None) -> None:
        root = path_text(self.root, "warehouse")
        if not root:
            raise ConfigError("warehouse", "a directory or a URI", repr(self.root), "name a directory")
        root = root if "://" in root else os.path.abspath(root)
        refuse_encoded("warehouse", root)
        object.__setattr__(self, "root", root)
        check_fields(self)
        remember_options(root, self.storage_options, storage_timeout)
        # Workers get the options, and the timeout as one of them, with the pickled warehouse.
        if self.storage_options is None or storage_timeout is not None:
            object.__setattr__(self, "storage_options", options_of(root))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """It has come from another process."""
        self.__dict__.update(state)
        remember_options(self.root, self.storage_options)

    def landed(self, topic: str) -> str:
        """The landed table of ``topic``."""
        return below(self.root, TableName.landed(_checked(topic, "topic")))

    def landed_dead_letter(self, topic: str) -> str:
        """What was found in the sources of ``topic`` and became no record; there is no table until there is some."""
        return below(self.root, TableName.landed_dead_letter(_checked(topic, "topic")))

    def landing_ledger(self, topic: str) -> str:
        """The ledger of the landing of ``topic``."""
        return below(self.root, f"landing/{_checked(topic, 'topic')}/ledger")

    def recorded_time(self, topic: str) -> str:
        """Stream times recorded between the records of ``topic``; there is no table until there is one."""
        return below(self.root, f"landing/{_checked(topic, 'topic')}/recorded_time")

    def verified_files(self, topic: str) -> str:
        """A file, no table, about files of ``topic`` that were found to be what has landed; it may be gone."""
        return f"{self.root}/landing/{_checked(topic, 'topic')}/verified_files.json"

    @property
    def branches(self) -> str:
        """The registry of branches."""
        return below(self.root, BRANCHES)

    def pipeline(self, name: str) -> PipelineTables:
        """Tables of the pipeline ``name``. ConfigError for no name, and for that of another folder."""
        if name in _TAKEN:
            raise ConfigError("pipeline", "a name that is not a folder of the warehouse", name, "choose another name")
        return PipelineTables(below(self.root, _checked(name, "pipeline")))

    def topics(self) -> list[str]:
        """Names of the landed topics, in alphabetical order."""
        filesystem, path = open_filesystem(f"{self.root}/{LANDED}")
        entries = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
        names = [entry.base_name for entry in entries if entry.type == fs.FileType.Directory]
        names = list(filter(is_name, names))
        logs = filesystem.get_file_info([f"{path}/{name}/_delta_log" for name in names])
        return sorted(n for n, log in zip(names, logs, strict=True) if log.type == fs.FileType.Directory)

    def pipelines(self) -> list[str]:
        """Names of the pipelines that have a ledger, in alphabetical order."""
        filesystem, path = open_filesystem(self.root)
        entries = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
        names = [entry.base_name for entry in entries if entry.type == fs.FileType.Directory]
        names = [name for name in names if name not in _TAKEN and is_name(name)]
        logs = filesystem.get_file_info([f"{path}/{name}/{LEDGER}/_delta_log" for name in names])
        return sorted(n for n, log in zip(names, logs, strict=True) if log.type == fs.FileType.Directory)

    def where_to_look(self, pipeline: str) -> str:
        """What to do where ``pipeline`` has no increment: a next step that names those that are there."""
        there = self.pipelines()
        if pipeline in there:
            return "run the replay first"
        names = ", ".join(map(repr, there)) or "none"
        otherwise = f"run the replay first, or correct the name: the pipelines in {self.root} are {names}"
        near = did_you_mean(pipeline, there, "")
        return f"{near} All pipelines in {self.root}: {names}" if near else otherwise


def is_name(name: str) -> bool:
    """Whether a topic, a pipeline or a table may have that name: no other folder of a warehouse is one of ours."""
    return _NAME.fullmatch(name) is not None and name not in (".", "..")


def _checked(name: str, kind: str) -> str:
    if not is_name(name):
        raise ConfigError(kind, "letters, digits, '.', '_' and '-', at most 249", repr(name), "choose another name")
    return name


RETRACTED_IN = "retracted_in"
"""Column of a retraction: the increment that took the row back. The others are the output's."""
