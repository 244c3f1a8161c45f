"""Differences of two pipelines' outputs, by key and window: what changed code, or another cut, changes in the results.

Owns the comparison. Rule: outputs are compared as tables (the newest record of every key and window, tombstones left
out): value, field by field, and record time. Offsets, increments and causes are not compared, since a cut or a branch
may change them; of the changelogs only the number of records is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from ...state.buffers import float_bits, only_chunk
from ...state.errors import ConfigError
from ...state.tables.branch_files import table_names
from ...state.tables.names import OUTPUTS, TableName
from ...state.tables.warehouse import WINDOW, Warehouse, output_identity
from .committed_tables import count_rows, done_row, read_newest

TIME = "record_time_ms"
_KEY_BITS = "bits of the key"


@dataclass(frozen=True)
class OutputDiff:
    """Two versions of an output. ``rows``: those that differ, by key and window: `difference` ("only in A", "only in
    B", "differs"), key, window, then every field as `A.<field>` and `B.<field>`, null where there is none.

    ``equal``: keys and windows that are the same in both; ``records``: of the changelogs, in A and in B.
    """

    output: str
    rows: pl.DataFrame
    equal: int
    records: tuple[int, int]

    @property
    def is_empty(self) -> bool:
        """Whether both are the same table, whatever their changelogs."""
        return self.rows.is_empty()


def outputs_of(warehouse: Warehouse, pipeline: str, increment: int | None = None) -> list[str]:
    """Outputs that a pipeline has as of ``increment`` (None: the last done one), in alphabetical order."""
    tables = map(TableName, table_names(done_row(warehouse, pipeline, increment).content))
    return [table.name for table in tables if table.kind == OUTPUTS]


def outputs_left_out(warehouse: Warehouse, pipeline: str, increment: int | None = None) -> dict[str, str]:
    """Of a backfill, outputs that it does not make, each with the processor that they depend on; else none."""
    backfill = done_row(warehouse, pipeline, increment, of=()).content.backfill or {}
    return dict(backfill.get("left_out", {}))


def diff_output(
    warehouse: Warehouse,
    a: str,
    b: str,
    output: str,
    *,
    increment_a: int | None = None,
    increment_b: int | None = None,
) -> OutputDiff:
    """Compare ``output`` of pipelines ``a`` and ``b``, each as of an increment (None: its last done one).

    Where one of them is a backfill of a range, only records of that range are compared. Raises ConfigError for an
    output that one of them does not have, or whose keys are of different types.
    """
    within = _range(warehouse, a, increment_a) or _range(warehouse, b, increment_b)
    tables = (
        read_newest(warehouse, a, output, increment=increment_a, within=within),
        read_newest(warehouse, b, output, increment=increment_b, within=within),
    )
    identity = output_identity(tables[0].column_names)
    kinds = [
        [(name, str(t.schema.field(name).type)) for name in ("key", *WINDOW) if name in t.column_names] for t in tables
    ]
    if kinds[0] != kinds[1]:
        raise ConfigError(
            f"output {output!r}", f"the key and window of {a}", str(kinds[1]), "compare outputs of one kind"
        )
    fields = list(dict.fromkeys(name for table in tables for name in _fields(table)))
    left, right = (_flat(table, identity, fields, side) for table, side in zip(tables, "AB", strict=True))
    named = [_KEY_BITS if name == "key" else name for name in identity]
    joined = left.join(right, on=named, how="full", nulls_equal=True, coalesce=True)
    both = joined.with_columns(pl.coalesce("key", "key_right")).sort(identity)
    differs = pl.any_horizontal(*(_is_other(both, name) for name in fields))
    compared = both.select(
        pl.when(pl.col("in A").is_null()).then(pl.lit("only in B")).when(pl.col("in B").is_null())
        .then(pl.lit("only in A")).when(differs).then(pl.lit("differs")).alias("difference"),
        *identity,
        *(f"{side}.{name}" for name in fields for side in "AB"),
    )  # fmt: skip
    rows = compared.filter(pl.col("difference").is_not_null())
    counts = (
        count_rows(warehouse, a, TableName.output(output), increment=increment_a),
        count_rows(warehouse, b, TableName.output(output), increment=increment_b),
    )
    return OutputDiff(output, rows, len(compared) - len(rows), counts)


def _range(warehouse: Warehouse, pipeline: str, increment: int | None) -> tuple[int, int] | None:
    """The times that a backfill has rows of, ``[from, to)`` in ms; None for another pipeline."""
    backfill = done_row(warehouse, pipeline, increment, of=()).content.backfill
    return None if backfill is None else (backfill["from_ms"], backfill["to_ms"])


def _fields(table: pa.Table) -> list[str]:
    """Fields of a struct value, or the value; and the record time."""
    kind = table.schema.field("value").type
    return [*([field.name for field in kind] if pa.types.is_struct(kind) else ["value"]), TIME]


def _flat(table: pa.Table, identity: Sequence[str], fields: Sequence[str], side: str) -> pl.DataFrame:
    """Key, window and fields of one side; a field that it does not have is null."""
    bits = float_bits(only_chunk(table, "key"))
    frame = pl.from_arrow(table.select([*identity, "value", TIME]).append_column(_KEY_BITS, bits))
    assert isinstance(frame, pl.DataFrame)
    is_struct = isinstance(frame.schema["value"], pl.Struct)
    own = _fields(table)

    def column(name: str) -> pl.Expr:
        if name not in own:
            return pl.lit(None)
        return pl.col("value").struct.field(name) if is_struct and name != TIME else pl.col(name)

    columns = [column(name).alias(f"{side}.{name}") for name in fields]
    return frame.select(_KEY_BITS, *identity, *columns, pl.lit(True).alias(f"in {side}"))


def _is_other(both: pl.DataFrame, name: str) -> pl.Expr:
    """Null equals null, NaN equals NaN; fields of different types are compared as text, and where one is a list or a
    struct they differ, unless both are null.
    """
    a, b = pl.col(f"A.{name}"), pl.col(f"B.{name}")
    kinds = both.schema[f"A.{name}"], both.schema[f"B.{name}"]
    if kinds[0] == kinds[1]:
        return a.ne_missing(b)
    if any(kind.is_nested() for kind in kinds):
        return a.is_not_null() | b.is_not_null()
    return a.cast(pl.String, strict=False).ne_missing(b.cast(pl.String, strict=False))
