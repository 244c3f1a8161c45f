"""A name that somebody else has written leads nowhere but below its root; what leads elsewhere is refused by name."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.execution.placement_hint import hint_path, read_hint, write_hint
from kstreams_replay.jobs.execution.task_description import exchange_folder
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.fsck import fsck
from kstreams_replay.jobs.landing.file_source import FileSource
from kstreams_replay.jobs.landing.files.streams import opened
from kstreams_replay.jobs.landing.files.verified_files import read_verified, write_verified
from kstreams_replay.jobs.placement.group import Group
from kstreams_replay.jobs.placement.settings import PlacementSettings
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.replay.stage_exchange import clear_exchange, delete_files
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder
from kstreams_replay.state.errors import DamagedTable, LandingError, StorageError
from kstreams_replay.state.tables.data_files import read_files
from kstreams_replay.state.tables.kept_below import below, files_below, why_outside
from kstreams_replay.state.tables.object_stores import open_filesystem
from kstreams_replay.state.tables.parquet_reader import DataFile
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant
from tests.sampling import examples

LEADS_OUT = [
    "..", "../x", "a/../../x", "a/..", "./x", ".", "", "/etc/passwd", "//x", "a//b", "a/", "a\0b", "%2e%2e/x", "%2E%2e",
    "a/%2e%2e/x", "%252e%252e/x", "..%2fx", "%00", "a%00b", "..\\x", "a\\..\\x", "%5c..%5cx", "x" * 256, "ä" * 128,
    "a/" * 2048 + "x", "s3://bucket/x", "file:///etc/x", "\ud800",
]  # fmt: skip
STAYS = [
    "x", "partition=0/00000001-a.parquet", "...", "..x", "x..", "a..b/c", ".lock", "a b", "ä" * 127, "x" * 255, "A/a",
    "day=2026%2F01/x", "100%/x", "a%zz", "a\\b", "a:b", "\N{FULLWIDTH FULL STOP}\N{FULLWIDTH FULL STOP}/x", "\n",
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(LEADS_OUT)))
def test_a_name_that_leads_elsewhere_is_refused(number):
    assert why_outside(LEADS_OUT[number]) is not None
    with pytest.raises(StorageError, match="names that stay below it"):
        below("/warehouse", LEADS_OUT[number])


@pytest.mark.parametrize("number", range(len(STAYS)))
def test_a_name_that_stays_is_taken_as_it_is(number):
    assert below("s3://bucket/root", STAYS[number]) == f"s3://bucket/root/{STAYS[number]}"


@pytest.fixture(scope="module")
def ground(tmp_path_factory) -> Path:
    """root/ with folders and links out of it; outside/ with what nobody may reach."""
    folder = tmp_path_factory.mktemp("ground")
    (folder / "root" / "real").mkdir(parents=True)
    (folder / "outside").mkdir()
    (folder / "outside" / "x").write_text("secret")
    (folder / "root" / "link").symlink_to(folder / "outside")
    (folder / "root" / "file").symlink_to(folder / "outside" / "x")
    (folder / "root" / "real" / "up").symlink_to("..")
    return folder


PARTS = st.sampled_from([
    "..", ".", "", "/", "\\", "%2e", "%2E%2e", "%252e%252e", "%2f", "%5c", "%00", "\0", "real", "REAL", "link", "LINK",
    "file", "up", "x", "root", "outside", "~", "$HOME", "C:", "s3:", "\N{FULLWIDTH FULL STOP}", "ä" * 200, "x" * 300,
    "con", "\ud800", " ", "\n",
])  # fmt: skip


@settings(max_examples=examples(1500))
@given(parts=st.lists(PARTS, min_size=1, max_size=6), separator=st.sampled_from(["/", "", "\\", "%2f", "//"]))
def test_whatever_a_name_is_made_of_it_is_refused_or_stays_below_its_root(ground, parts, separator):
    name, root = separator.join(parts), ground / "root"
    try:
        place = below(str(root), name)
    except StorageError as error:
        str(error).encode()  # can be printed, whatever the name
        return

    assert place == f"{root}/{name}"
    assert Path(os.path.realpath(place)).is_relative_to(root)
    assert os.path.realpath(place) != str(root)


def test_links_are_not_followed_below_the_root_and_the_root_may_be_one(ground, tmp_path):
    (tmp_path / "here").symlink_to(ground / "root")

    assert below(str(tmp_path / "here"), "real/x") == f"{tmp_path}/here/real/x"
    for name in ("link/x", "file", "real/up", "real/up/x"):
        with pytest.raises(StorageError, match="behind the symbolic link"):
            below(str(tmp_path / "here"), name)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_files_are_listed_without_following_links(tmp_path, scheme):
    (tmp_path / "root" / "a").mkdir(parents=True)
    for name in ("x", "a/y", "a/%2e%2e"):
        (tmp_path / "root" / name).write_text(name)

    assert {name: info.size for name, info in files_below(f"{scheme}{tmp_path}/root").items()} == {"x": 1, "a/y": 3}
    assert files_below(f"{scheme}{tmp_path}/none") == {}
    (tmp_path / "root" / "a" / "loop").symlink_to(tmp_path)
    with pytest.raises(StorageError, match=r"the symbolic link .*a/loop"):
        files_below(f"{scheme}{tmp_path}/root")
    with pytest.raises(StorageError, match="behind the symbolic link"):
        below(f"{scheme}{tmp_path}/root", "a/loop/x")


@pytest.mark.parametrize("number", range(len(STAYS)))
def test_a_name_below_a_uri_of_this_machine_is_the_one_that_its_path_has(number):
    source = FileSource("file:///data/a%20b", timestamp="at")

    for uri in (below(source.path, STAYS[number]), source.uri_of(STAYS[number])):
        assert open_filesystem(uri)[1] == f"/data/a b/{STAYS[number]}"


def test_links_below_an_encoded_uri_are_not_followed_either(tmp_path):
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "link").symlink_to(tmp_path)

    with pytest.raises(StorageError, match="behind the symbolic link"):
        below(f"file://{tmp_path}/a%20b", "link/x")


# --- who asks ----------------------------------------------------------------------------------------------------


def with_path(folder: Path, name: str) -> str:
    """A Delta table whose log names its file so."""
    write_deltalake(str(folder), pa.table({"a": [1]}))
    log = folder / "_delta_log" / "00000000000000000000.json"
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    for entry in entries:
        if "add" in entry:
            entry["add"]["path"] = name
    log.write_text("\n".join(map(json.dumps, entries)))
    return str(folder)


@pytest.mark.parametrize("name", ["../x.parquet", "/etc/x.parquet", "a/../../x", "%2e%2e/x.parquet", "s3://b/x"])
def test_a_log_of_a_table_that_names_files_elsewhere_is_damaged(tmp_path, name):
    table = with_path(tmp_path / "table", name)

    with pytest.raises(DamagedTable, match="names of files that stay below it"):
        read_files(table)


def test_no_file_of_a_table_can_be_made_that_lies_elsewhere():
    fields = {"path": "../../etc/passwd", "bytes": 1, "records": 1, "partition": 0, "min_offset": 0, "max_offset": 0}

    with pytest.raises(StorageError, match="names that stay below it"):
        DataFile.from_dict(fields)


def test_a_plan_of_a_landing_that_names_files_elsewhere_reads_none(tmp_path):
    (tmp_path / "secret.jsonl").write_text("{}")
    (tmp_path / "in").mkdir()
    source = FileSource(str(tmp_path / "in"), timestamp="at")

    with pytest.raises(LandingError, match="names of files that stay below it"), opened(source, "../secret.jsonl"):
        pass


def test_an_exchange_folder_that_is_a_link_is_not_cleared(tmp_path):
    tables = Warehouse(str(tmp_path / "warehouse")).pipeline("p")
    (tmp_path / "home" / "00000001").mkdir(parents=True)
    Path(tables.root).mkdir(parents=True)
    (Path(tables.root) / "_exchange").symlink_to(tmp_path / "home")

    with pytest.raises(StorageError, match="symbolic link"):
        clear_exchange(tables, 3)
    assert (tmp_path / "home" / "00000001").is_dir()


def test_only_folders_of_increments_are_cleared(tmp_path):
    tables = Warehouse(str(tmp_path / "warehouse")).pipeline("p")
    above = Path(exchange_folder(tables, 3)).parent
    for name in ("00000002", "00000003", "00000004", ".ssh", "!"):
        (above / name).mkdir(parents=True)

    clear_exchange(tables, 3)

    assert sorted(path.name for path in above.iterdir()) == ["!", ".ssh", "00000004"]


def test_what_a_task_says_it_wrote_is_deleted_below_its_table_alone(tmp_path):
    (tmp_path / "table").mkdir()
    (tmp_path / "mine").touch()

    with pytest.raises(StorageError, match="names that stay below it"):
        delete_files(str(tmp_path / "table"), [{"path": "../mine"}])
    assert (tmp_path / "mine").exists()


@pytest.mark.parametrize("folder", ["p", "p/outputs", "p/outputs/out", "p/ledger", "landed", "landed/in", "landing/in"])
def test_a_table_behind_a_link_is_not_read_and_nothing_is_written_there(tmp_path, folder):
    warehouse, builder = Warehouse(str(tmp_path / "warehouse")), StreamsBuilder()
    builder.stream("in", Consumed(Serde.string(), Serde.string())).to("out")
    topology, elsewhere = builder.build(), tmp_path / "elsewhere"
    plant(warehouse, "in", [LandedRecord(0, b"a", b"x", 1)], partitions=1)
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner()))
    plant(warehouse, "in", [LandedRecord(0, b"a", b"y", 2)], partitions=1)
    (tmp_path / "warehouse" / folder).rename(elsewhere)
    (tmp_path / "warehouse" / folder).symlink_to(elsewhere)
    before = sorted(elsewhere.rglob("*"))

    for use in (
        lambda: list(replay(warehouse, topology, pipeline="p", runner=LocalRunner())),
        lambda: fsck(warehouse),
    ):
        with pytest.raises(StorageError, match=f"behind the symbolic link {tmp_path}/warehouse/{folder}"):
            use()
    assert sorted(elsewhere.rglob("*")) == before


def test_hints_are_not_written_through_links(tmp_path):
    tables, mine = Warehouse(str(tmp_path / "warehouse")).pipeline("p"), tmp_path / "mine"
    mine.write_text("mine")
    for path in (hint_path(tables), f"{tmp_path}/verified_files.json"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).symlink_to(mine)

    write_hint(tables, Group(PlacementSettings()), increment=1, members={}, elsewhere=[], seconds={})
    write_verified(f"{tmp_path}/verified_files.json", {})

    assert mine.read_text() == "mine"
    assert (read_hint(tables), read_verified(f"{tmp_path}/verified_files.json")) == (None, {})


def test_folders_of_other_names_are_passed_over_by_who_lists_a_warehouse(tmp_path):
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    plant(warehouse, "clicks", [LandedRecord(0, b"a", b"x", 1)], partitions=1)
    for folder in ("landed/my clicks", "my pipeline/ledger", "my pipeline/outputs/x"):
        (tmp_path / "warehouse" / folder / "_delta_log").mkdir(parents=True)

    assert (warehouse.topics(), warehouse.pipelines()) == (["clicks"], [])
    assert fsck(warehouse).findings == []
