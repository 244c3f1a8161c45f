"""Records as land_records takes them, for tests."""

import pyarrow as pa

Record = tuple[int, int, bytes | None, bytes | None]
"""(partition, timestamp, key, value)."""


def records(*rows: Record, arrivals: list[int] | None = None) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
    kinds = {"partition": pa.int32(), "timestamp": pa.int64(), "key": pa.binary(), "value": pa.binary()}
    table = pa.table(
        [pa.array(column, kind) for column, kind in zip(columns, kinds.values(), strict=True)], list(kinds)
    )
    return table if arrivals is None else table.append_column("arrival", pa.array(arrivals, pa.int64()))
