"""Keys of several dictionaries become keys of one."""

import pyarrow as pa
import pyarrow.parquet as pq

from kstreams_replay.state.tables.key_dictionaries import concatenated, without_idle_words


def test_a_row_group_whose_writer_gave_its_dictionary_up_has_each_word_once(tmp_path):
    """Arrow appends the words that it reads behind there, so that each batch has a longer dictionary."""
    keys = pa.array([b"user-%04d" % (row // 2) for row in range(4_000)])
    options = {"dictionary_pagesize_limit": 4_000, "data_page_size": 500, "write_batch_size": 10}
    pq.write_table(pa.table({"key": keys}), tmp_path / "f", **options)
    file = pq.ParquetFile(tmp_path / "f", read_dictionary=["key"])
    batches = [pa.Table.from_batches([batch]) for batch in file.iter_batches(500)]
    words = [len(batch["key"].chunk(0).dictionary) for batch in batches]
    assert words[0] < words[-1] == 2_000

    for order in (batches, batches[::-1]):
        whole = concatenated(order)["key"]
        assert whole.num_chunks == 1
        assert whole.cast(pa.binary()).to_pylist() == [key for batch in order for key in batch["key"].to_pylist()]
        assert len(whole.chunk(0).dictionary) == 2_000


def test_words_of_one_dictionary_do_not_name_those_of_another():
    """Nor where one has all words of the other, in another order."""
    parts = [[b"a", b"b"], [b"b", b"a"], [b"b", b"a", b"c"], [b"c", None]]
    tables = [pa.table({"key": pa.array(part, pa.binary()).dictionary_encode()}) for part in parts]

    whole = concatenated(tables)["key"]

    assert whole.num_chunks == 1
    assert whole.cast(pa.binary()).to_pylist() == [b"a", b"b", b"b", b"a", b"b", b"a", b"c", b"c", None]


def test_a_dictionary_that_has_more_words_than_there_are_rows_is_left():
    whole = pa.table({"key": pa.array([b"a", b"b", b"c", None, b"a"]).dictionary_encode()})

    for table, is_left in ((whole, False), (whole.slice(1, 3), False), (whole.slice(2, 2), True), (whole[:0], True)):
        got = without_idle_words(table)["key"]
        assert pa.types.is_dictionary(got.type) is not is_left
        assert got.to_pylist() == table["key"].to_pylist()
    plain = pa.table({"key": pa.array([b"a"])})
    assert without_idle_words(plain) is plain
    assert without_idle_words(plain.select([])).column_names == []
