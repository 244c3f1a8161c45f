"""Runs: whatever was put, replaced, deleted and merged, the newest row of a key is what is found."""

import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from kstreams_replay.state.runs.sorted_runs import (
    MERGE_RATIO,
    NEVER,
    RowForm,
    SortedRun,
    every_row,
    key_hashes,
    merged,
    rows_of,
    run_of,
    to_merge,
)

SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("start", pa.int64()),
        ("value", pa.int64()),
        ("increment", pa.int64()),
        ("deleted", pa.bool_()),
    ]
)
FORM = RowForm(
    name="test",
    schema=SCHEMA,
    row_key=("key", "start"),
    found_by=lambda rows: rows["key"].combine_chunks().cast(pa.binary()),
    due_ms=lambda rows: np.where(rows["start"].to_numpy() % 3 == 0, rows["start"].to_numpy(), NEVER),
)

Model = dict[tuple[str, int], int]


def table(rows: list[tuple[str, int, int | None]], increment: int) -> pa.Table:
    """Rows (key, start, value); value None: deleted."""
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    key, start, value = (list(column) for column in columns)
    deleted = [one is None for one in value]
    return pa.table([key, start, value, [increment] * len(rows), deleted], schema=SCHEMA)


def found(rows: pa.Table) -> Model:
    columns = (rows[name].to_pylist() for name in ("key", "start", "value"))
    every = [((key, start), value) for key, start, value in zip(*columns, strict=True)]
    assert len(dict(every)) == len(every), "a row is there twice"
    return dict(every)


def hashes(keys: list[str]) -> np.ndarray:
    return np.unique(key_hashes(pa.array(keys, pa.binary())))


def nothing(rows: pa.Table) -> np.ndarray:
    return np.zeros(len(rows), np.bool_)


def grown(seed: int, increments: int) -> tuple[list[SortedRun], Model]:
    """Runs of random increments, merged as tasks merge them, and what a dictionary makes of the same."""
    dice, model, runs = random.Random(seed), Model(), list[SortedRun]()
    for increment in range(1, increments + 1):
        names = {(f"k{dice.randrange(40)}", dice.randrange(4)) for _ in range(dice.randrange(1, 30))}
        rows = [(key, start, None if dice.random() < 0.3 else dice.randrange(1000)) for key, start in sorted(names)]
        dice.shuffle(rows)
        for key, start, value in rows:
            model.pop((key, start), None)
            if value is not None:
                model[key, start] = value
        fresh = run_of(table(rows, increment), FORM)
        number = to_merge([len(run) for run in runs], len(fresh))
        pieces = merged([*runs[len(runs) - number :], fresh], FORM, is_whole=number == len(runs), is_forgotten=nothing)
        runs = [*runs[: len(runs) - number], run_of(pa.concat_tables(pieces), FORM)]
    return runs, model


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_all_rows_are_those_of_a_dictionary(seed):
    runs, model = grown(seed, 40)

    assert found(every_row(runs, FORM)) == model


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_rows_of_keys_are_those_of_the_dictionary_with_these_keys(seed):
    runs, model = grown(seed, 40)
    keys = random.Random(seed).sample([f"k{n}" for n in range(60)], 15)

    rows = rows_of(runs, FORM, hashes(keys))

    assert found(rows) == {name: value for name, value in model.items() if name[0] in keys}


@pytest.mark.parametrize("seed", range(5))
def test_runs_get_shorter_so_that_there_are_few(seed):
    runs, _ = grown(seed, 100)

    lengths = [len(run) for run in runs]
    assert all(after * MERGE_RATIO < before for before, after in pairwise(lengths))


def test_equal_increments_are_merged_like_the_digits_of_a_binary_number():
    lengths: list[int] = []
    for _ in range(13):
        number = to_merge(lengths, 10)
        lengths = [*lengths[: len(lengths) - number], 10 + sum(lengths[len(lengths) - number :])]

    assert lengths == [80, 40, 10]  # 13 is 1101


def test_a_merge_of_everything_leaves_out_deleted_and_forgotten_rows_and_another_keeps_them():
    old = run_of(table([("a", 1, 5), ("b", 2, 6), ("c", 3, 7)], 1), FORM)
    new = run_of(table([("a", 1, None)], 2), FORM)

    def is_old(rows: pa.Table) -> np.ndarray:
        return rows["start"].to_numpy() == 2

    whole = pa.concat_tables(merged([old, new], FORM, is_whole=True, is_forgotten=is_old))
    upper = pa.concat_tables(merged([old, new], FORM, is_whole=False, is_forgotten=is_old))

    assert [row["key"] for row in whole.to_pylist()] == ["c"]
    assert sorted((row["key"], row["deleted"]) for row in upper.to_pylist()) == [
        ("a", True),
        ("b", False),
        ("c", False),
    ]


def test_merged_pieces_stand_by_rising_hash_and_are_of_bounded_size(monkeypatch):
    monkeypatch.setattr("kstreams_replay.state.runs.sorted_runs.MERGED_ROWS", 100)
    runs = [run_of(table([(f"k{n}", 0, n) for n in range(part, 2000, 2)], part + 1), FORM) for part in (0, 1)]

    pieces = list(merged(runs, FORM, is_whole=True, is_forgotten=nothing))

    assert max(map(len, pieces)) < 200
    order = np.concatenate([FORM.hashes(piece) for piece in pieces])
    assert (order[1:] >= order[:-1]).all()
    assert sum(map(len, pieces)) == 2000


@pytest.mark.parametrize(("above", "up_to", "starts"), [(-1, 3, [0, 3]), (0, 6, [3, 6]), (3, 5, []), (6, 100, [9])])
def test_due_rows_lie_above_one_time_and_up_to_another_and_rows_that_are_never_due_do_not(above, up_to, starts):
    run = run_of(table([(f"k{start}", start, 1) for start in range(11)], 1), FORM)

    due = run.due(above, up_to)

    assert sorted(due.tolist()) == sorted(hashes([f"k{start}" for start in starts]).tolist())


def test_a_deleted_row_is_never_due():
    run = run_of(table([("a", 3, None), ("b", 3, 1)], 1), FORM)

    assert run.due(-1, 10).tolist() == hashes(["b"]).tolist()


def test_null_keys_are_found_by_nobody_and_stay():
    run = run_of(table([("a", 1, 1)], 1).set_column(0, "key", pa.array([None], pa.string())), FORM)

    assert len(every_row([run], FORM)) == 1
    assert len(rows_of([run], FORM, hashes(["a"]))) == 0


@pytest.mark.parametrize(
    ("kind", "zeros"),
    [
        (pa.float64(), (0.0, -0.0)),
        (pa.float32(), (0.0, -0.0)),
        (pa.struct([("a", pa.float64())]), ({"a": 0.0}, {"a": -0.0})),
        (pa.list_(pa.float64()), ([0.0], [-0.0])),
    ],
)
def test_a_key_that_holds_a_negative_zero_is_another_key(kind, zeros):
    schema = SCHEMA.set(0, pa.field("key", kind))
    form = RowForm("zeros", schema, ("key", "start"), lambda rows: pa.array(map(repr, rows["key"].to_pylist())))
    runs = [
        run_of(pa.table([[key], [0], [number], [number], [False]], schema=schema), form)
        for number, key in enumerate([*zeros, zeros[0]])
    ]

    every = every_row(runs, form)
    pieces = merged(runs, form, is_whole=True, is_forgotten=nothing)

    for rows in (every, pa.concat_tables(pieces)):
        assert sorted(zip(map(repr, rows["key"].to_pylist()), rows["value"].to_pylist(), strict=True)) == sorted(
            [(repr(zeros[0]), 2), (repr(zeros[1]), 1)]
        )
