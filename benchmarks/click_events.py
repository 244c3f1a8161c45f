"""Clicks as events of twelve fields, in JSON and in Avro: what W10 and W11 read, and what their peers decode.

Rule: an event's key, time and ``amount`` are those of the click; the rest depends on its amount and offset alone. A
text has 430 bytes on average: objects and arrays within, nulls, and letters beyond ASCII. One event in 20 is a robot's.
"""

import numpy as np
import polars as pl
import pyarrow as pa

from kstreams_replay.state.serdes import Serde

from .landed_data import LandedColumns

FIELDS = ", ".join(
    [
        "event_id string, user struct<id long, name string, tags array<string>>, kind string",
        "amount long, seconds long",
        "price double, currency string, page struct<path string, referrer string>, session string",
        "flags struct<new boolean, test boolean>, note string, version int",
    ]
)
READ = "kind string, amount long, seconds long"
"""The fields that the workloads use."""
ROBOT = "robot"
SCHEMA_ID = 7

_KINDS = [ROBOT, *["view", "click", "buy"] * 6, "view"]
_NAMES = ["Zoë", "Jürgen", "张伟", "Ann", "Σοφία"]
_NOTE = "größer als erwartet – 見積もりより大きい; "


def _optional(kind: object) -> list[object]:
    return ["null", kind]


def _record(record: str, /, **fields: object) -> dict[str, object]:
    return {
        "type": "record", "name": record, "fields": [{"name": field, "type": kind} for field, kind in fields.items()]
    }  # fmt: skip


SCHEMA = _record(
    "Click", event_id="string",
    user=_record("User", id="long", name="string", tags={"type": "array", "items": "string"}),
    kind="string", amount="long", seconds="long", price="double", currency="string",
    page=_record("Page", path="string", referrer=_optional("string")), session=_optional("string"),
    flags=_record("Flags", new="boolean", test="boolean"), note="string", version="int",
)  # fmt: skip
READ_SCHEMA = _record("Click", kind="string", amount="long", seconds="long")


def json_serde() -> Serde:
    """Of the fields that the workloads use."""
    return Serde.json(READ)


def avro_serde() -> Serde:
    """The same, behind the head with the id of the whole schema."""
    return Serde.confluent_avro(READ_SCHEMA, ids={SCHEMA_ID: SCHEMA}, write_id=SCHEMA_ID + 1)


def json_values(rows: LandedColumns, part: slice) -> pa.BinaryArray:
    """JSON texts of the clicks ``part``."""
    return Serde.json(FIELDS).encode(_events(rows, part, Serde.json(FIELDS).arrow_type))


def avro_values(rows: LandedColumns, part: slice) -> pa.BinaryArray:
    """The same events in Avro, each behind Confluent's head."""
    serde = Serde.confluent_avro(SCHEMA, ids={SCHEMA_ID: SCHEMA})
    return serde.encode(_events(rows, part, serde.arrow_type))


def _events(rows: LandedColumns, part: slice, arrow_type: pa.DataType) -> pa.StructArray:
    amount = rows.values[part]
    number = np.arange(part.start, part.start + len(amount))
    events = pl.DataFrame({"amount": amount, "number": number}).select(
        event_id=pl.format("evt-{}", pl.col("number").cast(pl.String).str.zfill(16)),
        user=pl.struct(
            id=pl.col("number") % 9_999_991,
            name=_one_of(_NAMES, "amount"),
            tags=pl.concat_list(_one_of(["new", "loyal", "vip"], "amount"), _one_of(["web", "app"], "number")),
        ),
        # The last record of a partition has amount 0 and closes windows: no robot.
        kind=_one_of(_KINDS, pl.col("amount") + 1),
        amount="amount",
        seconds=pl.col("amount") * 7 % 60,
        price=pl.col("amount") / 8,
        currency=_one_of(["EUR", "USD", "JPY"], "number"),
        page=pl.struct(
            path=pl.format("/catalog/products/{}/reviews/{}", "amount", "number"),
            referrer=pl.when(pl.col("number") % 3 > 0).then(pl.format("/search?q={}", "amount")),
        ),
        session=pl.when(pl.col("number") % 4 > 0).then(pl.format("session-{}", pl.col("number") // 10)),
        flags=pl.struct(new=pl.col("amount") > 900, test=pl.lit(False)),
        note=pl.lit(_NOTE * 2),
        version=pl.lit(3, pl.Int32),
    )
    events = events.select(pl.struct(pl.all()).alias("event")).to_series()
    return pa.array(events.to_arrow(compat_level=pl.CompatLevel.oldest())).cast(arrow_type)


def _one_of(texts: list[str], number: str | pl.Expr) -> pl.Expr:
    index = pl.col(number) if isinstance(number, str) else number
    return pl.lit(pl.Series(texts)).gather(index % len(texts))
