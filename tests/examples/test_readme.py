"""What README says and shows: the counts of its eight records, and the commands over a user's own data.

Rule: tables and commands are read from the page. Spark's counts come from Spark, ours from the driver and from tables.
"""

import json
import os
import shlex

import pytest

from kstreams_replay.jobs.history.committed_tables import read_changelog, read_table
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Suppressed, TimeWindows, Topology
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.explain.explained import played
from tests.test_docs import code_blocks, document, section

WRONG = "## What batch engines get wrong"


def numbered(first_cell: str) -> list[str]:
    """Cells of the row of README that begins with this one."""
    lines = [line.strip("|").split("|") for line in section(document("README.md"), WRONG).splitlines()]
    (cells,) = [[cell.strip(" *") for cell in line] for line in lines if line[0].strip() == first_cell]
    return cells[1:]


def records() -> list[tuple[str, int]]:
    """(key, time in seconds) by offset."""
    return [(key, int(seconds)) for key, seconds in zip(numbered("key"), numbered("time in s"), strict=True)]


def counts() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(Serde.string(), Serde.string()))
    windowed = stream.group_by_key().windowed_by(TimeWindows.of_size("10s", grace="5s"))
    windowed.count().suppress(Suppressed.until_window_closes()).to("counts")
    return builder.build()


@pytest.mark.slow
def test_the_count_is_the_same_for_each_way_to_cut_the_eight_records(tmp_path):
    sizes, ours = (
        list(map(int, numbered(row)))
        for row in ("records in a batch", "Kafka Streams counts, and so does this project")
    )
    got = []
    for size in sizes:
        tape = [(key, "x", seconds * 1_000) for key, seconds in records()]
        warehouse = played(tmp_path / str(size), counts(), {"in": tape}, max_records=size)
        rows = read_changelog(warehouse, "p", "counts").to_pylist()
        got += [row["value"] for row in rows if (row["key"], row["window_start_ms"]) == ("a", 0)]
        (drop,) = read_table(warehouse, "p", "dropped").to_pylist()
        assert (drop["offset"], drop["stream_time_ms"], drop["limit_ms"]) == (5, 19_000, 14_000)

    assert got == ours


@pytest.mark.jvm
@pytest.mark.nightly
def test_spark_counts_what_readme_says(spark, tmp_path):
    from pyspark.sql import functions as spark_functions

    sizes, said = (list(map(int, numbered(row))) for row in ("records in a batch", "Spark 4.1.3 counts"))
    got = []
    for size in sizes:
        folder = tmp_path / str(size)
        (folder / "in").mkdir(parents=True)
        for begin in range(0, len(records()), size):
            file = folder / "in" / f"{begin}.json"
            rows = [json.dumps({"key": key, "time": seconds}) for key, seconds in records()[begin : begin + size]]
            file.write_text("\n".join(rows))
            os.utime(file, (1_000_000_000 + begin,) * 2)  # Spark takes the oldest first
        stream = (
            spark.readStream.schema("key string, time long").option("maxFilesPerTrigger", 1).json(str(folder / "in"))
        )
        counted = (
            stream.withColumn("at", spark_functions.timestamp_seconds("time"))
            .withWatermark("at", "5 seconds")
            .groupBy("key", spark_functions.window("at", "10 seconds"))
            .count()
        )
        writer = counted.writeStream.outputMode("append").format("memory").queryName(f"counts_{size}")
        writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(
            availableNow=True
        ).start().awaitTermination()
        got += [row["count"] for row in spark.table(f"counts_{size}").where("key = 'a'").collect()]

    assert got == said


@pytest.mark.slow
def test_the_commands_over_a_users_own_data_do_what_readme_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = document("README.md")
    (tmp_path / "topology.py").write_text("\n".join(code_blocks(section(page, "## A topology"), "python")[0]))
    (lines,) = code_blocks(section(page, "## Your own data"), "bash")
    make, printf = lines[1].split(" && ")
    (tmp_path / make.removeprefix("mkdir ")).mkdir()
    command, text, arrow, file = shlex.split(printf)
    assert (command, arrow) == ("printf", ">")
    (tmp_path / file).write_text(text.replace("\\n", "\n"))

    codes = [main(shlex.split(line)[1:]) for line in lines[2:]]

    said = capsys.readouterr().out
    assert codes == [0] * 4
    assert "3 records landed" in said
    assert "ann" in said
    assert len(read_changelog(Warehouse("W"), "shop", "click_sessions")) == 1
