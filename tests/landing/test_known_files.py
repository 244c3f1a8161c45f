"""Files are known by their path below the folder, content by its digest; no content lands twice unasked."""

import gzip
import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.jobs.landing.files import streams
from kstreams_replay.state.errors import LandingError
from kstreams_replay.state.tables.ledger import LandingLedger
from tests.landing.file_folders import dies, land, write
from tests.landing.landed_rows import landed

ONE, TWO = '{"t":1}\n', '{"t":2}\n'


def times(warehouse) -> list[int]:
    return [time for (time,) in landed(warehouse, "t", "timestamp")]


# The same content under another name


def test_a_renamed_file_is_refused_with_both_names_and_nothing_is_planned(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl": ONE, "b.jsonl": TWO})
    land(warehouse, directory)
    (directory / "b.jsonl").rename(directory / "c.jsonl")

    with pytest.raises(LandingError) as raised:
        land(warehouse, directory)

    assert str(raised.value) == (
        f"topic t, file {directory}/c.jsonl: expected records that have not landed, got the content of b.jsonl, "
        "landed by increment 1; take it out of the directory, or land it once more as other records "
        "(--allow-same-content)"
    )
    assert times(warehouse) == [1, 2]
    assert LandingLedger(warehouse.landing_ledger("t")).pending() is None


def test_the_same_content_lands_twice_when_that_is_asked_for(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl": ONE})
    land(warehouse, directory)
    write(directory, {"b.jsonl": ONE})

    land(warehouse, directory, rules={"allow_same_content": True})
    report = land(warehouse, directory)

    assert times(warehouse) == [1, 1]
    assert report.increments == ()


def test_a_file_of_the_same_name_and_content_in_another_folder_lands_when_that_is_asked_for(warehouse, tmp_path):
    land(warehouse, write(tmp_path / "in", {"a.jsonl": ONE}))
    other = write(tmp_path / "other", {"a.jsonl": ONE})
    assert land(warehouse, other).increments == ()

    assert land(warehouse, other, rules={"allow_same_content": True}).records == 1
    os.utime(other / "a.jsonl", ns=(1, 1))
    again = land(warehouse, other, rules={"allow_same_content": True})

    assert times(warehouse) == [1, 1]
    assert again.increments == ()


def test_a_file_that_is_left_out_since_another_folder_had_it_is_told_of_with_both_paths(warehouse, tmp_path):
    one = write(tmp_path / "in", {"a.jsonl": ONE, "b.jsonl": TWO, "empty.jsonl": ""})
    other = write(tmp_path / "other", {"a.jsonl": ONE, "empty.jsonl": ""})
    said = (
        f"t: {other}/a.jsonl is left out: its name and its content are those of {one}/a.jsonl, which landed by "
        "increment 1; where these are other records, land them with --allow-same-content"
    )

    def warnings_of(directory):
        return land(warehouse, directory, rules={"plausible_since": "1970-01-01"}).warnings

    assert warnings_of(one) == ()
    assert [warnings_of(other) for _ in range(2)] == [(said,), (said,)]  # for as long as nothing is new
    assert warnings_of(one) == ()

    write(other, {"b.jsonl": TWO, "c.jsonl": '{"t":3}\n'})
    (warning,) = warnings_of(other)

    assert warning.startswith(f"t: {other}/a.jsonl is left out (and so are 1 more files of {other}): its name and its ")
    assert warnings_of(other) == ()  # the ledger has noted it
    assert times(warehouse) == [1, 2, 3]


def test_what_was_left_out_lands_when_that_is_asked_for_also_once_the_ledger_has_noted_it(warehouse, tmp_path):
    land(warehouse, write(tmp_path / "in", {"a.jsonl": ONE}))
    other = write(tmp_path / "other", {"a.jsonl": ONE, "c.jsonl": TWO})
    assert land(warehouse, other).records == 1

    reports = [land(warehouse, other, rules={"allow_same_content": True}) for _ in range(2)]

    assert [report.records for report in reports] == [1, 0]
    assert times(warehouse) == [1, 2, 1]


def test_two_new_files_of_the_same_content_are_refused(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl": ONE, "b.jsonl": ONE})

    with pytest.raises(LandingError, match=r"b\.jsonl: expected .*, got the content of a\.jsonl, which is new as well"):
        land(warehouse, directory)

    assert warehouse.topics() == []


def test_a_file_that_was_compressed_meanwhile_has_the_same_content(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl": ONE})
    land(warehouse, directory)
    (directory / "a.jsonl").unlink()
    write(directory, {"a.jsonl.gz": gzip.compress(ONE.encode())})

    with pytest.raises(LandingError, match=r"a\.jsonl\.gz: expected .*, got the content of a\.jsonl, landed by"):
        land(warehouse, directory)


@pytest.mark.parametrize("content", ["", "t,v\n", "\n\n"])
def test_files_without_records_may_be_alike(warehouse, tmp_path, content):
    directory = write(tmp_path / "in", {"a.csv": content, "b.csv": content, "c.csv": "t,v\n1,x\n"})

    assert land(warehouse, directory).records == 1


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
@pytest.mark.parametrize("is_touched", [False, True])
def test_an_empty_file_may_be_filled_later_once(warehouse, tmp_path, name, is_touched):
    head = "" if name == "a.jsonl" else "t\n"
    directory = write(tmp_path / "in", {name: head})
    assert land(warehouse, directory).records == 0
    if is_touched:
        os.utime(directory / name, ns=(1, 1))
        write(directory, {f"b{name}": (head or "\n") + (ONE if not head else "1\n")})
        assert land(warehouse, directory).records == 1

    write(directory, {name: head + (TWO if not head else "2\n")})
    filled = [land(warehouse, directory).records for _ in range(2)]

    assert filled == [1, 0]
    assert times(warehouse) == ([1, 2] if is_touched else [2])
    for other in (head, head + (ONE if not head else "3\n")):  # it has landed now, and must not change any more
        write(directory, {name: other})
        os.utime(directory / name, ns=(2, 2))
        with pytest.raises(LandingError, match="expected the file as it was when it was landed"):
            land(warehouse, directory)


def test_a_file_of_nothing_but_bad_rows_has_landed(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl": "no\n"})
    land(warehouse, directory, rules={"max_bad_share": 1})
    write(directory, {"a.jsonl": "no\n" + ONE})

    with pytest.raises(LandingError, match="expected the file as it was when it was landed"):
        land(warehouse, directory, rules={"max_bad_share": 1})


def test_an_empty_file_that_is_filled_before_its_plan_is_written_makes_another_plan(warehouse, tmp_path, monkeypatch):
    directory = write(tmp_path / "in", {"a.jsonl": "", "b.jsonl": TWO})
    with dies(monkeypatch, in_="before_the_commit"):
        land(warehouse, directory)
    write(directory, {"a.jsonl": ONE})

    land(warehouse, directory)

    assert times(warehouse) == [1, 2]


def test_an_empty_file_that_is_filled_with_what_another_folder_had_is_told_of(warehouse, tmp_path):
    one, other = write(tmp_path / "in", {"a.jsonl": ONE}), write(tmp_path / "other", {"a.jsonl": ""})
    for directory in (one, other):
        land(warehouse, directory)
    write(other, {"a.jsonl": ONE})

    report = land(warehouse, other)

    assert report.warnings[0].startswith(
        f"t: {other}/a.jsonl is left out: its name and its content are those of {one}/a"
    )
    assert times(warehouse) == [1]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_file_of_several_slices_is_known_by_its_content(warehouse, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(streams, "SLICE_BYTES", 100)
    directory = tmp_path / "in"
    directory.mkdir()
    for name in "ab":
        if kind == "jsonl":
            write(directory, {f"{name}.jsonl": "".join(f'{{"t":{n}}}\n' for n in range(50))})
        else:
            pq.write_table(pa.table({"t": list(range(50))}), directory / f"{name}.parquet", row_group_size=7)
    (directory / f"b.{kind}").rename(tmp_path / "away")
    land(warehouse, directory)
    (tmp_path / "away").rename(directory / f"b.{kind}")

    with pytest.raises(LandingError, match=rf"b\.{kind}: expected .*, got the content of a\.{kind}, landed by"):
        land(warehouse, directory)
    if kind == "jsonl":  # one digit is another content
        write(directory, {"b.jsonl": "".join(f'{{"t":{n}}}\n' for n in range(49)) + '{"t":0}\n'})
        assert land(warehouse, directory).records == 50


def test_the_content_of_a_large_file_of_a_ledger_of_before_is_known(warehouse, tmp_path, monkeypatch):
    """
    Ledgers from before have SHA-256 of the whole file, however large.
    """
    text = "".join(f'{{"t":{n}}}\n' for n in range(50))
    directory = write(tmp_path / "in", {"a.jsonl": text})
    land(warehouse, directory)  # one slice: SHA-256 of the whole
    write(directory, {"b.jsonl": text})
    monkeypatch.setattr(streams, "SLICE_BYTES", 100)

    with pytest.raises(LandingError, match=r"got the content of a\.jsonl, landed by increment 1"):
        land(warehouse, directory)


# Names


def test_equal_names_in_two_folders_below_do_not_collide(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"day1/part-0": ONE, "day2/part-0": TWO})

    land(warehouse, directory, format="jsonl")

    assert times(warehouse) == [1, 2]


def test_equal_names_in_two_folders_landed_one_after_the_other_do_not_collide(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"day1/part-0": ONE, "day2/part-0": TWO})

    reports = [land(warehouse, directory / day, format="jsonl") for day in ("day1", "day2", "day1", "day2")]

    assert times(warehouse) == [1, 2]
    assert [report.records for report in reports] == [1, 1, 0, 0]


def test_a_folder_that_was_moved_brings_no_file_again(warehouse, tmp_path, monkeypatch):
    directory = write(tmp_path / "in", {"a.jsonl": ONE, "b.jsonl": TWO})
    land(warehouse, directory)
    moved = directory.rename(tmp_path / "archive")
    os.utime(moved / "b.jsonl", (5, 5))

    assert land(warehouse, moved).increments == ()
    write(moved, {"c.jsonl": '{"t":3}\n'})
    assert land(warehouse, moved).records == 1
    monkeypatch.setattr("kstreams_replay.jobs.landing.files.known_files.digest_like", None)  # known: not read again
    assert land(warehouse, moved).increments == ()


def reads_of_digests(monkeypatch) -> list[str]:
    """Files that are read to be compared, from now on."""
    read: list[str] = []

    def digest(known, source, name):
        read.append(name)
        return streams.digest_like(known, source, name)

    monkeypatch.setattr("kstreams_replay.jobs.landing.files.known_files.digest_like", digest)
    return read


def test_files_that_were_touched_moved_or_left_out_are_read_once_and_not_at_every_landing(
    warehouse, tmp_path, monkeypatch
):
    directory = write(tmp_path / "in", {"a.jsonl": ONE, "b.jsonl": TWO})
    other = write(tmp_path / "other", {"b.jsonl": TWO})
    land(warehouse, directory)
    os.utime(directory / "a.jsonl", (5, 5))
    read = reads_of_digests(monkeypatch)

    for place in (directory, other, directory, other):
        assert land(warehouse, place).increments == ()

    assert read == ["a.jsonl", "b.jsonl"]
    os.utime(directory / "a.jsonl", (6, 6))
    land(warehouse, directory)
    assert read == ["a.jsonl", "b.jsonl", "a.jsonl"]


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b"\xff", "other"])
def test_what_was_written_about_files_that_were_read_is_believed_only_whole(warehouse, tmp_path, monkeypatch, damage):
    """
    And never about a file whose content has not landed, whatever it says of it.
    """
    directory = write(tmp_path / "in", {"a.jsonl": ONE})
    land(warehouse, directory)
    os.utime(directory / "a.jsonl", (5, 5))
    land(warehouse, directory)
    written = Path(warehouse.verified_files("t"))
    if damage == "other":
        assert b'"mtime_ns": 5000000000' in written.read_bytes()
        write(directory, {"a.jsonl": TWO})
        os.utime(directory / "a.jsonl", (7, 7))
        damage = written.read_bytes().replace(b'"mtime_ns": 5000000000', b'"mtime_ns": 7000000000')
    written.write_bytes(damage)
    read = reads_of_digests(monkeypatch)

    if b"7000000000" in damage:
        with pytest.raises(LandingError, match="got other bytes"):
            land(warehouse, directory)
    else:
        assert land(warehouse, directory).increments == ()

    assert read == ["a.jsonl"]


def test_a_warehouse_that_cannot_be_written_reads_files_again_and_says_nothing(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl": ONE})
    land(warehouse, directory)
    os.utime(directory / "a.jsonl", (5, 5))
    Path(warehouse.verified_files("t")).mkdir()

    assert land(warehouse, directory).warnings == ()


def test_a_changed_file_is_refused_wherever_its_folder_is_called_from(warehouse, tmp_path, monkeypatch):
    directory = write(tmp_path / "in", {"a.jsonl": ONE})
    land(warehouse, directory)
    write(directory, {"a.jsonl": TWO})
    os.utime(directory / "a.jsonl", (5, 5))
    monkeypatch.chdir(tmp_path)

    for path in ("in", "./in", Path("in/../in")):
        with pytest.raises(LandingError, match="expected the file as it was when it was landed, got other bytes"):
            land(warehouse, path)


def test_a_ledger_of_before_knows_its_files_by_their_bare_names(warehouse, tmp_path, monkeypatch):
    """
    Such a plan has neither the folder nor records of files nor rules.
    """
    later = ("folder", "files_again", "rules", "seen")
    plan = LandingLedger.plan

    def plan_of_before(self, increment, content, **keywords):
        files = [{n: file[n] for n in ("name", "bytes", "mtime_ns", "digest")} for file in content.files]
        tasks = [{**task, "slices": [piece[:6] for piece in task["slices"]]} for task in content.tasks]
        for name in ("key_type", "value_type"):
            del content.source["mapping"][name]
        before = replace(content, **dict.fromkeys(later), files=files, tasks=tasks)
        return plan(self, increment, before, **keywords)

    directory = write(tmp_path / "in", {"day1/part-0": '{"t":1,"k":"x"}\n'})
    with monkeypatch.context() as patch:
        patch.setattr(LandingLedger, "plan", plan_of_before)
        land(warehouse, directory, format="jsonl", key="k")
    write(directory, {"day2/part-0": TWO})  # and it need not have the key, which was there before

    assert land(warehouse, directory, format="jsonl", key="k").records == 1
    assert times(warehouse) == [1, 2]


# What is there to land


@pytest.mark.parametrize(
    ("files", "pattern", "got"),
    [
        ({"a.csv": ONE, "b.csv": ONE}, "*.jsonl", r"none of 2 \(a\.csv, b\.csv\)"),
        ({"a.csv": ONE, "_b.jsonl": ONE}, "*.jsonl", r"none of 1 \(a\.csv\)"),
    ],
)
def test_a_first_landing_whose_pattern_matches_no_file_is_refused_and_fixes_nothing(
    warehouse, tmp_path, files, pattern, got
):
    directory = write(tmp_path, files)

    with pytest.raises(LandingError, match=rf"expected files whose names match '.*', got {got}; correct the path"):
        land(warehouse, directory, pattern=pattern, partitions=3)

    write(directory, {"c.jsonl": TWO})
    assert land(warehouse, directory, pattern="c*", partitions=2).partitions == 2


def test_another_pattern_that_matches_nothing_is_refused_later_too(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.jsonl": ONE})
    land(warehouse, directory, pattern="a*")

    with pytest.raises(LandingError, match=r"match 'b\*', got none of 1 \(a\.jsonl\)"):
        land(warehouse, directory, pattern="b*")
    (directory / "a.jsonl").rename(directory / "readme.txt")  # archived: the pattern is as it was

    assert land(warehouse, directory, pattern="a*").increments == ()


def test_a_pattern_with_a_slash_is_of_the_path_below_the_folder(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"day1/a.jsonl": ONE, "day2/a.jsonl": TWO})

    land(warehouse, directory, pattern="day2/*")

    assert times(warehouse) == [2]


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "A.JSON", "a.json.gz"])
def test_the_extension_tells_the_format(warehouse, tmp_path, name):
    content = gzip.compress(ONE.encode()) if name.endswith(".gz") else ONE

    assert land(warehouse, write(tmp_path / "in", {name: content})).records == 1


def test_files_of_two_formats_are_refused(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.csv": "t\n1\n", "b.jsonl": ONE})

    with pytest.raises(LandingError, match=r"expected files of one format, got a\.csv \(csv\), b\.jsonl \(jsonl\)"):
        land(warehouse, directory)


def test_an_extension_that_tells_nothing_is_refused(warehouse, tmp_path):
    with pytest.raises(LandingError, match=r"notes\.txt: expected an extension that gives the format .*, got 'txt'"):
        land(warehouse, write(tmp_path / "in", {"notes.txt": ONE}))
