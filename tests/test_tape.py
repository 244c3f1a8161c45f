"""Slices of landed topics: the first record of one is found without a step for every record before it."""

import pyarrow.parquet as pq

from jobs.tape import slice_of
from state.files import read_files
from tests.planted import Landed, plant

RECORDS = 5_000


def landed(warehouse, records):
    plant(warehouse, "clicks", records, partitions=1)
    path = warehouse.landed("clicks")
    return lambda begin, end: slice_of(path, read_files(path), 0, begin, end)


def test_the_first_record_of_a_slice_is_that_of_its_begin_and_there_is_none_at_the_end(warehouse):
    part = landed(warehouse, [Landed(0, b"k", b"v", 10 * offset) for offset in range(RECORDS)])

    got = [part(begin, RECORDS).first() for begin in (0, 1, RECORDS - 1, RECORDS)]

    assert got == [(0, 0), (1, 10), (RECORDS - 1, 10 * (RECORDS - 1)), None]


def test_the_first_record_costs_no_step_for_each_record_before_it_in_its_file(warehouse, monkeypatch):
    """
    One file, one row group: what is before the slice is read as well, but in one piece.
    """
    part = landed(warehouse, [Landed(0, b"k", b"v", offset) for offset in range(RECORDS)])
    pieces: list[int] = []
    iter_batches = pq.ParquetFile.iter_batches

    def counted(self, *arguments, **options):
        for batch in iter_batches(self, *arguments, **options):
            pieces.append(len(batch))
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    got = part(RECORDS - 1, RECORDS).first()

    assert got == (RECORDS - 1, RECORDS - 1)
    assert pieces == [RECORDS]
