"""The command `land`: what it shows before it lands, what it warns of, and mappings by a topology's serdes."""

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.orchestration import progress_lines
from kstreams_replay.orchestration.cli.commands import land as land_command
from kstreams_replay.orchestration.cli.exit_codes import ExitCode
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.landing.file_folders import write
from tests.landing.landed_rows import landed

NOON = 1_767_268_800_000
TOPOLOGY = """
from kstreams_replay import Consumed, Serde, StreamsBuilder

builder = StreamsBuilder()
price = Serde.json("price double, stock long, ok boolean, tags array<string>")
builder.stream("prices", Consumed(Serde.string(), price)).to("a")
builder.stream("doubles", Consumed(Serde.string(), Serde.double())).to("b")
builder.stream("counts", Consumed(Serde.long(), Serde.long())).to("c")
topology = builder.build()
"""
CSV = f't,item,price,stock,ok,tags\n{NOON},tea,2.5,7,true,"[""green""]"\n{NOON + 1},,,,,\n'


@pytest.fixture
def land(capsys, tmp_path):
    """Lands the folder `in`; returns exit code, stdout and stderr."""

    def run(topic: str, *arguments: object) -> tuple[int, str, str]:
        where = ["--warehouse", tmp_path / "w", "--files", tmp_path / "in", "--timestamp", "t", "--local"]
        code = main([str(argument) for argument in ("land", topic, *where, *arguments)])
        said = capsys.readouterr()
        told = [
            line for line in said.err.splitlines() if line.startswith("replay: ")
        ]  # and what takes long, if it does
        return code, re.sub(r"\d+\.\d s", "0.0 s", said.out), "\n".join(told)

    return run


@pytest.fixture
def topology(tmp_path) -> Path:
    write(tmp_path, {"topology.py": TOPOLOGY})
    return tmp_path / "topology.py"


def values(tmp_path, topic: str, *columns: str):
    return landed(Warehouse(str(tmp_path / "w")), topic, *columns)


def test_the_first_record_is_shown_as_it_lands(land, tmp_path):
    write(tmp_path / "in", {"a.csv": "t,item,n\n", "b.csv": f"t,item,n\n{NOON},tea,5\n"})

    code, out, err = land("prices", "--key", "item", "--partitions", 3, "--types", "n int")

    assert (code, err) == (0, "")
    [(partition, key, value)] = values(tmp_path, "prices", "partition", "key", "value")
    assert out.split("prices:")[0] == (
        "first record, of b.csv (csv):\n"
        "  key        tea\n"
        "  time       2026-01-01T12:00:00.000Z (1767268800000)\n"
        f'  value      {{"t":"{NOON}","item":"tea","n":5}}\n'
        f"  partition  {partition}\n"
        "  order      natural order of the names of files (dump-2 before dump-10)\n"
        "  times      2026-01-01T12:00:00.000Z to 2026-01-01T12:00:00.000Z\n"
    )
    assert (key, value) == (b"tea", f'{{"t":"{NOON}","item":"tea","n":5}}'.encode())


def test_csv_columns_have_the_types_of_the_serde_that_reads_them(land, tmp_path, topology):
    write(tmp_path / "in", {"a.csv": CSV})
    columns = ["--value", "price", "stock", "ok", "tags"]

    assert land("prices", "--key", "item", *columns, "--for", topology)[0] == 0

    assert values(tmp_path, "prices", "value") == [
        (b'{"price":2.5,"stock":7,"ok":true,"tags":["green"]}',),
        (b'{"price":null,"stock":null,"ok":null,"tags":null}',),
    ]


def test_a_topic_of_doubles_gets_doubles_and_one_of_longs_longs(land, tmp_path, topology):
    write(tmp_path / "in", {"a.csv": CSV})

    assert land("doubles", "--key", "item", "--value", "price", "--for", f"{topology}:topology")[0] == 0
    assert land("counts", "--key", "stock", "--value", "stock", "--for", topology)[0] == 0

    assert values(tmp_path, "doubles", "key", "value") == [(b"tea", struct.pack(">d", 2.5)), (None, None)]
    assert values(tmp_path, "counts", "key", "value") == [(struct.pack(">q", 7),) * 2, (None, None)]


def test_what_no_reader_could_decode_is_refused_before_it_lands(land, tmp_path, topology):
    """
    Text where the serde has numbers, in JSON lines, whose bytes land as they are.
    """
    write(tmp_path / "in", {"a.jsonl": f'{{"t":{NOON},"price":"2.5"}}\n' * 20})

    code, out, err = land("prices", "--for", topology)

    assert code == 1
    assert err.startswith("replay: topic prices, a.jsonl: expected a value that Serde.json(")
    assert "first record, of a.jsonl (jsonl):" in out
    assert Warehouse(str(tmp_path / "w")).topics() == []


def test_a_type_that_only_a_later_file_has_is_refused_before_it_lands(land, tmp_path, topology):
    (tmp_path / "in").mkdir()
    for n, cell in enumerate((7, 7.0, "seven")):
        pq.write_table(pa.table({"t": [NOON], "stock": [cell]}), tmp_path / "in" / f"{n}.parquet")

    code, out, err = land("prices", "--for", topology)

    assert (code, out.count("first record, of ")) == (1, 1)
    assert err.startswith("replay: topic prices, 2.parquet: expected a value that Serde.json(")
    assert Warehouse(str(tmp_path / "w")).topics() == []
    (tmp_path / "in" / "2.parquet").unlink()
    assert land("prices", "--for", topology)[0] == 0
    assert values(tmp_path, "prices", "value") == [(f'{{"t":{NOON},"stock":7}}'.encode(),)] * 2


def test_a_value_of_a_serde_of_ones_own_needs_the_name_of_its_column(land, tmp_path):
    write(
        tmp_path,
        {
            "in/a.csv": f"t,item,price\n{NOON},tea,2.50\n",
            "own.py": "from kstreams_replay import Consumed, Serde, StreamsBuilder\n"
            "money = Serde.of(lambda price: repr(price).encode(), float, type='double')\n"
            "builder = StreamsBuilder()\n"
            "builder.stream('money', Consumed(Serde.string(), money)).to('out')\n"
            "topology = builder.build()\n",
        },
    )

    code, _, err = land("money", "--key", "item", "--for", tmp_path / "own.py")

    assert code == 1
    assert "name its one column (--value), or correct types of CSV columns (--types)" in err
    assert land("money", "--key", "item", "--value", "price", "--for", tmp_path / "own.py")[0] == 0


@pytest.mark.parametrize(
    ("topic", "arguments", "want"),
    [
        ("doubles", [], "expected one column as the value, got none; name it (--value)"),
        ("nope", [], "expected a topology that reads nope, got one of prices, doubles, counts; name another one"),
    ],
)
def test_a_mapping_that_the_serdes_do_not_fit_is_refused(land, tmp_path, topology, topic, arguments, want):
    write(tmp_path / "in", {"a.csv": CSV})

    code, _, err = land(topic, *arguments, "--for", topology)

    assert (code, want in err) == (2, True)


def test_warnings_are_on_stderr_and_have_an_exit_code(land, tmp_path):
    rows = "".join(f'{{"t":{NOON + n}}}\n' for n in range(199))
    write(tmp_path / "in", {"a.jsonl": rows + '{"t":"soon"}\n'})
    detailed = "--detailed-exit-code"

    code, _, err = land("t", detailed)

    kept = f"t: 1 of 200 rows (0.5%) became no record; see `replay show landed_dead_letter/t --warehouse {tmp_path}/w`"
    assert (code, err) == (5, f"replay: warning: {kept}")
    assert land("t", detailed)[0] == 3
    assert land("u")[0] == 0
    assert land("v", "--on-bad-row", "stop")[0] == 1
    assert land("v", "--max-bad-share", "0")[0] == 1
    assert land("v", detailed, "--plausible-since", "2027-01-01", "--pattern", "a*")[2].count("replay: warning") == 2


def test_a_first_landing_warns_of_a_topic_that_the_project_does_not_read(land, tmp_path, topology, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"replay.toml": 'topology = "topology.py:topology"\n'})
    write(tmp_path / "in", {"a.jsonl": f'{{"t":{NOON}}}\n'})
    does_not = "the topology topology.py:topology of replay.toml does not read this topic"

    code, out, err = land("price", "--detailed-exit-code")

    assert (code, err) == (5, f"replay: warning: price: {does_not}; did you mean 'prices'?")
    assert "price: 1 record landed" in out
    assert "does not read" not in land("price", "--new-mapping", "--key", "t")[2]  # it is there now, as it was meant
    assert land("other")[2] == f"replay: warning: other: {does_not}; it reads prices, doubles, counts"
    assert [land(name)[2] for name in ("prices", "a")] == ["", ""]  # it reads one and writes the other


@pytest.mark.parametrize("content", ["raise ValueError(1)\n", None])
def test_a_topology_that_cannot_be_loaded_does_not_stop_a_landing(land, tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"replay.toml": 'topology = "topology.py:topology"\n'})
    write(tmp_path, {} if content is None else {"topology.py": content})
    write(tmp_path / "in", {"a.jsonl": f'{{"t":{NOON}}}\n'})

    assert land("clicks")[::2] == (0, "")


def test_a_static_table_without_a_column_of_times_has_the_time_of_its_folder(land, tmp_path):
    write(tmp_path / "in" / "since=2013-01-01", {"users.csv": "user,city\nann,Bonn\n"})

    code, out, _ = land("users", "--timestamp", "since", "--timestamp-unit", "iso", "--key", "user", "--complete")

    assert code == 0
    assert "users: recorded to be complete" in out
    assert values(tmp_path, "users", "timestamp", "key", "value") == [
        (1_356_998_400_000, b"ann", b'{"user":"ann","city":"Bonn"}')
    ]


def test_a_landing_without_a_time_is_answered_with_both_ways(tmp_path, capsys):
    (tmp_path / "users.csv").write_text("user,city\nann,Bonn\n")

    assert main(["land", "users", "--warehouse", str(tmp_path / "w"), "--files", str(tmp_path), "--local"]) == 2

    assert (
        "got none; name it with --timestamp COLUMN; if no column has a time, as of a static table, move the files into "
        "a folder since=2013-01-01, and land with --timestamp since --timestamp-unit iso ["
    ) in capsys.readouterr().err


def test_what_takes_long_on_the_first_use_of_a_machine_is_said_before_it_begins(land, tmp_path, topology, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(progress_lines.ProgressLines, "doing", lambda self, words: said.append(words))
    write(tmp_path / "in", {"a.csv": CSV})
    monkeypatch.setattr(land_command, "refuse_undecodable", lambda *given: said.append("decoded"))

    assert land("prices", "--key", "item", "--timestamp-unit", "ms", "--for", topology)[0] == 0

    decoding = "decoding the first records; on the first use of a serde on this machine it is compiled"
    assert said[0] == "loading the topology; on the first use of this installation Python compiles its libraries"
    assert said[said.index(decoding) :][:3] == [decoding, "decoded", "landing prices"]


def test_for_names_topics_that_are_nearly_the_same(land, tmp_path, topology):
    write(tmp_path / "in", {"a.jsonl": f'{{"t":{NOON}}}\n'})

    assert "got one of prices, doubles, counts; did you mean 'prices'?" in land("price", "--for", topology)[2]


def test_files_that_are_left_out_are_a_warning_also_where_nothing_is_new(land, tmp_path):
    for folder in ("in", "other"):
        write(tmp_path / folder, {"a.jsonl": f'{{"t":{NOON}}}\n'})
    land("t")

    code, out, err = land("t", "--files", tmp_path / "other", "--detailed-exit-code")

    assert (code, out) == (5, "t: nothing new\n")
    assert err.startswith(f"replay: warning: t: {tmp_path}/other/a.jsonl is left out: ")
    assert f"those of {tmp_path}/in/a.jsonl, which landed by increment 1; " in err
    assert land("t", "--files", tmp_path / "other")[0] == 0


def test_rows_that_became_no_record_are_shown(land, tmp_path, capsys):
    rows = "".join(f'{{"t":{NOON + n}}}\n' for n in range(199))
    write(tmp_path / "in", {"a.jsonl": rows + '{"t":"soon"}\n'})
    land("t")

    assert main(["show", "landed_dead_letter/t", "--warehouse", str(tmp_path / "w")]) == 0

    header, _, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["partition", "increment", "file", "line", "bytes", "reason"]
    assert row.split(maxsplit=5) == [
        "0",
        "1",
        "a.jsonl",
        "200",
        '{"t":"soon"}',
        "expected a timestamp (ms), got 'soon' in column t",
    ]
    assert main(["show", "dropped", "--warehouse", str(tmp_path / "w")]) == 2


@pytest.mark.parametrize(
    ("topic", "arguments", "said"),
    [
        ("u", [], "expected a topic that has landed, one of t, v, got 'u'; name one of them"),
        ("", [], "expected a topic that has landed, one of t, v, got ''; name one of them"),
        ("t", ["--pipeline", "p"], "expected no --pipeline, got --pipeline; leave it out: a topic's landing belongs"),
        ("t", ["--increment", "0"], "expected no --increment, got --increment; leave it out: "),
        ("t", ["--topology", "t.py:t", "--changelog"], "expected no --topology, got --topology --changelog; leave "),
    ],
)
@pytest.mark.parametrize("kind", ["landed", "landed_dead_letter"])
def test_what_landed_is_shown_of_a_topic_that_is_there_and_of_no_pipeline(
    land, tmp_path, capsys, kind, topic, arguments, said
):
    write(tmp_path / "in", {"a.jsonl": f'{{"t":{NOON}}}\n'})
    land("v")
    land("t")

    assert main(["show", f"{kind}/{topic}", "--warehouse", str(tmp_path / "w"), *arguments]) == 2

    error = capsys.readouterr().err
    assert error.startswith(f"replay: show {kind}/{topic}: {said}")
    assert main(["show", f"{kind}/t", "--warehouse", str(tmp_path / "w")]) == 0  # none yet is no error


def test_the_last_records_of_a_topic_are_shown(land, tmp_path, capsys):
    rows = "".join(f'{{"t":{NOON + n},"k":"{"ab"[n % 2]}"}}\n' for n in range(5))
    write(tmp_path / "in", {"a.jsonl": rows})
    land("t", "--key", "k")

    def shown(*arguments: str) -> list[list[str]]:
        assert main(["show", "landed/t", "--warehouse", str(tmp_path / "w"), *arguments]) == 0
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    header, _, *records, more = shown("--limit", "2")
    assert header == ["partition", "offset", "timestamp", "key", "value"]
    assert [(key, value) for *_, key, value in records] == [
        ("b", f'{{"t":{NOON + 3},"k":"b"}}'),
        ("a", f'{{"t":{NOON + 4},"k":"a"}}'),
    ]
    assert " ".join(more) == "… 2 of 5 rows; --limit shows more"
    assert [record[3] for record in shown("--key", "b")[2:]] == ["b", "b"]
    assert main(["show", "landed/t", "--warehouse", str(tmp_path / "w"), "--window", "0"]) == 2
    assert "expected no --window, got 0; ask by time: `replay sql" in capsys.readouterr().err


def test_settings_for_one_call_are_options(land, tmp_path):
    write(tmp_path / "in", {"a.jsonl": f'{{"t":{NOON},"k":1}}\n'})
    assert land("t", "--pattern", "*.csv")[0] == 1
    assert land("t", "--pattern", "*.csv", "--allow-empty")[0] == 0
    assert land("t", "--max-future", "1d")[0] == 0
    write(tmp_path / "in", {"b.jsonl": f'{{"t":{NOON},"k":1}}\n'})
    assert land("t")[0] == 1
    assert land("t", "--allow-same-content", "--abandon")[0] == 0
    write(tmp_path / "in", {"c.jsonl": f'{{"t":{NOON},"k":2}}\n'})
    assert land("t", "--key", "k")[0] == 1
    assert land("t", "--key", "k", "--new-mapping")[0] == 0

    assert values(tmp_path, "t", "key") == [(None,), (None,), (b"2",)]


@pytest.mark.slow
def test_a_reader_that_has_gone_does_not_stop_the_landing(tmp_path):
    """
    As in `replay land … | true`: the first record is shown before anything is planned.
    """
    write(tmp_path / "in", {"a.jsonl": f'{{"t":{NOON}}}\n'})
    reader, writer = os.pipe()
    os.close(reader)
    where = ["--warehouse", str(tmp_path / "w"), "--files", str(tmp_path / "in"), "--timestamp", "t", "--local"]
    program = "from kstreams_replay.orchestration.cli.main import main; raise SystemExit(main())"

    ended = subprocess.run([sys.executable, "-c", program, "land", "t", *where], stdout=writer, timeout=60)
    os.close(writer)

    assert ended.returncode == 0
    assert values(tmp_path, "t", "timestamp") == [(NOON,)]


def test_coordinates_of_a_dump_are_options(land, tmp_path):
    rows = [
        {"topic": "clicks", "partition": 1, "offset": 8, "t": NOON, "tstype": "logappend", "headers": ["h", "x"]},
        {"topic": "other", "partition": 0, "offset": 3, "t": NOON, "tstype": "create", "headers": []},
        {"topic": "clicks", "partition": 1, "offset": 7, "t": NOON, "tstype": "create", "headers": None},
    ]
    lines = [json.dumps({**row, "key": "k", "payload": str(row["offset"])}) + "\n" for row in rows]
    write(tmp_path / "in", {"kcat.json": "".join(lines)})
    columns = {
        "key": "key", "value": "payload", "partition": "partition", "partitions": "2", "offset": "offset",
        "headers": "headers", "timestamp-type": "tstype", "topic-column": "topic", "source-topic": "clicks",
    }  # fmt: skip

    code, _, err = land("mine", *[text for name, column in columns.items() for text in (f"--{name}", column)])

    assert (code, err) == (0, "replay: warning: mine: 1 of 3 rows are of other topics than clicks and left out")
    assert values(tmp_path, "mine", "partition", "offset", "timestamp_type", "key", "value", "headers") == [
        (1, 7, "CreateTime", b"k", b"7", []),
        (1, 8, "LogAppendTime", b"k", b"8", [{"key": "h", "value": b"x"}]),
    ]


def test_a_dry_run_says_what_would_land_and_stops(land, tmp_path):
    files = {
        "one.json": f'{{"t":{NOON + 1},"p":1,"o":7,"v":"b"}}\n{{"t":{NOON},"p":1,"o":5,"v":"a"}}\nno\n',
        "two.json": f'{{"t":{NOON + 60_000},"p":0,"o":2,"v":"c"}}\n{{"t":{NOON},"p":1,"o":5,"v":"a"}}\n',
        "_SUCCESS": "",
    }
    write(tmp_path / "in", files)
    mapping = ["--partition", "p", "--partitions", 3, "--offset", "o", "--value", "v", "--max-bad-share", 1]

    code, out, err = land("t", *mapping, "--dry-run")

    assert (code, Warehouse(str(tmp_path / "w")).topics()) == (0, [])
    assert out == (
        "first record, of one.json (jsonl):\n"
        "  key        null\n"
        "  time       2026-01-01T12:00:00.001Z (1767268800001)\n"
        "  value      b\n"
        "  partition  1\n"
        "  offset     7\n"
        "  order      by offset in each partition (column o)\n"
        "  times      2026-01-01T12:00:00.000Z to 2026-01-01T12:01:00.000Z\n"
        "t: 3 records of 2 files would land, and 1 row would become none\n"
        "partition  records  from  to  earliest                  latest\n"
        "---------  -------  ----  --  ------------------------  ------------------------\n"
        "        0        1     2   3  2026-01-01T12:01:00.000Z  2026-01-01T12:01:00.000Z\n"
        "        1        2     5   8  2026-01-01T12:00:00.000Z  2026-01-01T12:00:00.001Z\n"
        "        2        0     0   0\n"
    )
    assert err.splitlines() == [
        "replay: warning: t: 1 row has the offset and the bytes of another one, and each of these lands once",
        "replay: warning: t: 1 file is left out, as names that begin with . or _ are (_SUCCESS); to land "
        f"_SUCCESS, name it (--files {tmp_path}/in/_SUCCESS)",
    ]

    code, out, _ = land("t", *mapping, "--dry-run", "--json")

    said = json.loads(out)
    assert (code, said["order"], said["records"]) == (0, "by offset in each partition (column o)", 3)
    assert said["partitions"]["1"] == {
        "records": 2, "first_offset": 5, "next_offset": 8, "earliest_ms": NOON, "latest_ms": NOON + 1,
    }  # fmt: skip
    assert land("t", *mapping)[1].splitlines()[-3:] == [
        "        0     2   3",
        "        1     5   8",
        "        2     0   0",
    ]
    assert land("t", *mapping, "--dry-run")[:2] == (0, "t: nothing new\n")


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ([], "  order      natural order of the names of files (dump-2 before dump-10)\n"),
        (["--order-by", "n,t"], "  order      by n, t, then by name of file\n"),
        (["--path-pattern", "confluent"], "  order      by offset in each partition (of the paths of files)\n"),
    ],
)
def test_the_order_that_was_chosen_is_said_before_anything_lands(land, tmp_path, options, want):
    write(tmp_path / "in", {"t+0+5.json": f'{{"t":{NOON},"n":1}}\n'})

    code, out, _ = land("t", *options)

    assert code == 0
    assert want in out


@pytest.mark.parametrize(
    ("options", "want"),
    [
        (["--order-by", "n", "--offset", "o"], "FileSource order_by: expected at least one column, and none where "),
        (["--source-topic", "other"], "--source-topic: expected --topic-column, in which files have the name of their"),
        (["--idle-after", "soon"], "--idle-after: expected a duration such as"),
        (["--tick", "--plausible-since", "soon"], "plausible_since"),
        (["--max-bad-share", "nan"], "Invalid value for '--max-bad-share': 'nan' is not a finite number; see"),
        (["--on-disorder", "stop", "--max-late-share", "2"], "Invalid value for '--max-late-share'"),
        (["--partitions", "0"], "Invalid value for '--partitions': 0 is not in the range x>=1; see"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_lands(land, tmp_path, options, want):
    write(tmp_path / "in", {"a.jsonl": f'{{"t":{NOON}}}\n'})

    code, _, err = land("t", *options)

    assert code == 2
    assert want in err
    assert Warehouse(str(tmp_path / "w")).topics() == []


@pytest.mark.parametrize("option", ["--dry-run", "--complete", "--tick", "--idle-after=5m"])
def test_a_restart_without_a_source_refuses_what_it_would_not_do(capsys, tmp_path, land, option):
    write(tmp_path / "in", {"a.csv": CSV})
    land("prices", "--key", "item")
    restart = ["land", "prices", "--warehouse", str(tmp_path / "w"), "--restart", "0:1"]

    code = main([*restart, option])

    assert code == ExitCode.USAGE
    assert f"topic 'prices', {option.partition('=')[0]}: expected a source" in capsys.readouterr().err
    main(restart)
    assert "1 restart recorded before 0:1" in capsys.readouterr().out  # the refused call had recorded none


@pytest.mark.parametrize("option", ["--complete", "--tick", "--idle-after=5m", "--restart=0:1"])
def test_a_dry_run_refuses_what_it_would_not_record(land, tmp_path, option):
    write(tmp_path / "in", {"a.jsonl": f'{{"t":{NOON}}}\n'})

    code, _, err = land("t", option, "--dry-run")

    assert code == ExitCode.USAGE
    assert f"topic 't', {option.partition('=')[0]}: expected a landing, after which it is recorded" in err


@pytest.mark.parametrize("given", [["--new-mapping"], ["--key", "k"]])
def test_what_kafka_does_not_read_is_refused_beside_it(capsys, tmp_path, given):
    kafka = ["land", "t", "--warehouse", str(tmp_path / "w"), "--kafka", "localhost:1", "--local"]

    assert main([*kafka, *given]) == ExitCode.USAGE
    assert "expected a source that reads it: --files or --delta or --iceberg, got --kafka" in capsys.readouterr().err


def test_a_restart_that_is_recorded_already_is_nothing_new(capsys, tmp_path, land):
    write(tmp_path / "in", {"a.csv": CSV})
    land("prices", "--key", "item")
    restart = ["land", "prices", "--warehouse", str(tmp_path / "w"), "--restart", "0:1", "--detailed-exit-code"]

    assert [main(restart), main(restart)] == [ExitCode.DONE, ExitCode.NOTHING_NEW]
