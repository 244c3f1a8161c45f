"""Which rows of a file of somebody else's table are the topic's, and what is decoded to know it."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreams_replay.state.tables.in_place import InPlace, InPlaceRows

COLUMNS = {name: name for name in ("topic", "partition", "offset", "timestamp", "key", "value")}
GROUP = 3


class Watched:
    """A Parquet file that notes which columns of which row group were decoded."""

    def __init__(self, parquet: pq.ParquetFile) -> None:
        self._parquet, self.decoded = parquet, dict[int, list[str]]()
        self.metadata, self.schema_arrow = parquet.metadata, parquet.schema_arrow

    def iter_batches(self, size, *, row_groups, columns):
        self.decoded[row_groups[0]] = list(columns)
        return self._parquet.iter_batches(size, row_groups=row_groups, columns=columns)


def watched(tmp_path, topics: list[str | None], partitions: list[int | None]) -> Watched:
    rows = len(topics)
    table = pa.table(
        {
            "topic": pa.array(topics, pa.string()),
            "partition": pa.array(partitions, pa.int32()),
            "offset": pa.array(range(rows), pa.int64()),
            "timestamp": pa.array(range(rows), pa.int64()),
            "key": pa.array([b"k"] * rows, pa.binary()),
            "value": pa.array([b"%d" % number for number in range(rows)], pa.binary()),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=GROUP)
    return Watched(pq.ParquetFile(tmp_path / "a.parquet"))


def values(parquet: Watched, topic: str = "t") -> list[bytes]:
    how = InPlace(COLUMNS, parquet.metadata.num_rows, "", topic=topic)
    return InPlaceRows(parquet, how, 0, "place").read(["offset", "value"])["value"].to_pylist()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("topics", "partitions", "found", "decided_by"),
    [
        (["t"] * 3, [0] * 3, [b"0", b"1", b"2"], []),
        (["t", "u", "t"], [0] * 3, [b"0", b"2"], ["topic"]),
        (["t"] * 3, [0, 1, 0], [b"0", b"2"], ["partition"]),
        (["u"] * 3, [0] * 3, [], ["topic"]),
        (["t", None, "t"], [0] * 3, [b"0", b"2"], ["topic"]),
        (["t"] * 3, [1] * 3, [], ["partition"]),
    ],
)
def test_a_column_decides_where_statistics_do_not_say_that_every_row_is_the_topics(
    tmp_path, topics, partitions, found, decided_by
):
    parquet = watched(tmp_path, ["t"] * GROUP + topics, [0] * GROUP + partitions)

    assert values(parquet) == [b"0", b"1", b"2", *(b"%d" % (GROUP + int(value)) for value in found)]
    assert parquet.decoded == {0: ["offset", "value"], 1: ["offset", "value", *decided_by]}


def test_a_name_so_long_that_statistics_cut_it_is_looked_at_in_each_row(tmp_path):
    long = "t" * 5_000
    parquet = watched(tmp_path, [long, long + "u", long], [0] * 3)

    assert values(parquet, long) == [b"0", b"2"]
