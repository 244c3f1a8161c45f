"""Nexmark's queries in polars, over the landed bytes: JSON decoded, answer in a Parquet file.

``python -m kstreams_replay.benchmarks.peers.nexmark_polars --workload q5 --folder DIR [--runs 3] [--records N]``

A ceiling: no lateness, order, state or commit. Each form decodes the fields that it needs alone, and gives the answer
alone, where a topology gives every change of it. ``bids`` and the others are frames of the fields that are asked for.
"""

from collections.abc import Callable
from pathlib import Path

import polars as pl

from ..measuring import Stopwatch, print_figures, program_options, summed
from ..nexmark import queries as q
from ..nexmark.events import CLOSING_ID, COLUMNS
from ..typed_data import landed_files, warehouse_of
from ..workloads import NEXMARK

Decode = Callable[..., pl.LazyFrame]
"""(topic, fields) → their frame."""
BID = ("auction", "bidder", "price", "date_time")


def decoding(folder: Path) -> Decode:
    """Frames of a folder's landed topics."""

    def decoded(topic: str, *names: str) -> pl.LazyFrame:
        root = warehouse_of(folder).landed(topic)
        dtypes = {
            name: pl.Int64 if kind == "long" else pl.String
            for name, kind in (column.split() for column in COLUMNS[topic].split(", "))
        }
        value = pl.col("value").cast(pl.String).str.json_decode(pl.Struct({name: dtypes[name] for name in names}))
        files = [f"{root}/{file.path}" for file in landed_files(folder, topic)]
        return pl.scan_parquet(files).select(value.alias("value")).unnest("value")

    return decoded


def _open(rows: pl.LazyFrame, key: str = "auction") -> pl.LazyFrame:
    """Without the records that close windows."""
    return rows.filter(pl.col(key) < CLOSING_ID)


def _starts(size_ms: int) -> pl.Expr:
    """Of tumbling windows."""
    return pl.col("date_time") - pl.col("date_time") % size_ms


def _q0(of: Decode) -> pl.LazyFrame:
    return of("bid", *BID, "extra")


def _q1(of: Decode) -> pl.LazyFrame:
    return of("bid", *BID, "extra").with_columns(price=pl.col("price") * q.RATE)


def _q2(of: Decode) -> pl.LazyFrame:
    return of("bid", "auction", "price").filter(pl.col("auction") % q.DIVISOR == 0)


def _q3(of: Decode) -> pl.LazyFrame:
    auctions = of("auction", "id", "seller", "category").filter(category=q.CATEGORY)
    people = of("person", "id", "name", "city", "state").filter(pl.col("state").is_in(q.STATES))
    joined = auctions.join(people, left_on="seller", right_on="id")
    return joined.select("name", "city", "state", auction="id")


def _in_time(of: Decode) -> pl.LazyFrame:
    auctions = of("auction", "id", "date_time", "expires", "category").rename({"date_time": "opened"})
    joined = of("bid", *BID).join(auctions, left_on="auction", right_on="id")
    return joined.filter(pl.col("date_time").is_between("opened", "expires"))


def _q4(of: Decode) -> pl.LazyFrame:
    won = _in_time(of).group_by("auction", "category").agg(pl.col("price").max())
    return won.group_by("category").agg(total=pl.col("price").sum(), auctions=pl.len())


def _q5(of: Decode) -> pl.LazyFrame:
    bids = _open(of("bid", "auction", "date_time")).with_columns(start=_starts(q.ADVANCE_MS))
    panes = bids.group_by("auction", "start").agg(bids=pl.len())
    back = pl.lit(range(0, q.WINDOW_MS, q.ADVANCE_MS), pl.List(pl.Int64))
    windows = panes.with_columns(start=pl.col("start") - back).explode("start")
    counts = windows.group_by("auction", "start").agg(pl.col("bids").sum())
    most = counts.filter(pl.col("bids") == pl.col("bids").max().over("start"))
    return most.group_by("start").agg(pl.col("bids").first(), auctions=pl.len(), auction=pl.col("auction").min())


def _q7(of: Decode) -> pl.LazyFrame:
    bids = _open(of("bid", *BID)).group_by(start=_starts(q.WINDOW_MS))
    return bids.agg(pl.col(BID).sort_by("price", descending=True, maintain_order=True).first())


def _q8(of: Decode) -> pl.LazyFrame:
    people = _open(of("person", "id", "name", "date_time"), "id").with_columns(start=_starts(q.WINDOW_MS))
    sold = _open(of("auction", "id", "seller", "date_time"), "id").with_columns(start=_starts(q.WINDOW_MS))
    joined = people.join(sold, left_on=["id", "start"], right_on=["seller", "start"])
    return joined.group_by("id", "start").agg(pl.col("name").first(), auctions=pl.len())


def _q9(of: Decode) -> pl.LazyFrame:
    names = ("bidder", "price", "date_time", "category")
    first = _in_time(of).sort("price", "date_time", descending=[True, False])
    return first.group_by("auction").agg(pl.col(names).first())


def _q11(of: Decode) -> pl.LazyFrame:
    bids = _open(of("bid", "auction", "bidder", "date_time")).sort("bidder", "date_time")
    begins = (pl.col("bidder") != pl.col("bidder").shift()) | (pl.col("date_time").diff() > q.GAP_MS)
    return bids.group_by(session=begins.fill_null(True).cum_sum()).agg(bids=pl.len())


def _q13(of: Decode) -> pl.LazyFrame:
    bids = of("bid", *BID).with_columns(key=pl.col("auction") % q.SIDE_KEYS)
    return bids.join(of("side_input", "key", "value"), on="key").drop("key")


def _ranks() -> dict[str, pl.Expr]:
    price = pl.col("price")
    middle = (price >= q.CHEAP) & (price < q.DEAR)
    return {"all": price.is_not_null(), "cheap": price < q.CHEAP, "middle": middle, "dear": price >= q.DEAR}


def _statistics(*, distinct: bool) -> list[pl.Expr]:
    columns = [rank.sum().alias(f"bids_{name}") for name, rank in _ranks().items()]
    for field in ("bidder", "auction") if distinct else ():
        columns += [pl.col(field).filter(rank).n_unique().alias(f"{field}s_{name}") for name, rank in _ranks().items()]
    return columns


def _q15(of: Decode) -> pl.LazyFrame:
    return _open(of("bid", *BID)).group_by(start=_starts(q.DAY_MS)).agg(_statistics(distinct=True))


def _q16(of: Decode) -> pl.LazyFrame:
    bids = _open(of("bid", *BID, "channel")).group_by("channel", start=_starts(q.DAY_MS))
    minute = (pl.col("date_time") % q.DAY_MS // q.MINUTE_MS).max().alias("minute")
    return bids.agg(minute, *_statistics(distinct=True))


def _q17(of: Decode) -> pl.LazyFrame:
    price = pl.col("price")
    prices = [price.min().alias("least"), price.max().alias("most"), price.sum().alias("total")]
    bids = _open(of("bid", *BID)).group_by("auction", start=_starts(q.DAY_MS))
    return bids.agg(*_statistics(distinct=False), *prices)


def _q18(of: Decode) -> pl.LazyFrame:
    return of("bid", *BID).group_by("bidder", "auction").agg(pl.col("price", "date_time").sort_by("date_time").last())


def _q19(of: Decode) -> pl.LazyFrame:
    best = of("bid", *BID).sort("price", "date_time", descending=[True, False]).group_by("auction", maintain_order=True)
    return best.agg(prices=pl.col("price").head(q.BEST), bidders=pl.col("bidder").head(q.BEST))


def _q20(of: Decode) -> pl.LazyFrame:
    auctions = of("auction", "id", "item", "initial_bid", "expires", "seller", "category")
    return of("bid", *BID).join(auctions.filter(category=q.CATEGORY), left_on="auction", right_on="id")


def _q22(of: Decode) -> pl.LazyFrame:
    parts = pl.col("url").str.split("/")
    directories = {f"dir{number}": parts.list.get(number + 2, null_on_oob=True) for number in (1, 2, 3)}
    return of("bid", "auction", "bidder", "price", "channel", "url").with_columns(**directories).drop("url")


FORMS: dict[str, Callable[[Decode], pl.LazyFrame]] = {
    "q0": _q0, "q1": _q1, "q2": _q2, "q3": _q3, "q4": _q4, "q5": _q5, "q7": _q7, "q8": _q8, "q9": _q9, "q11": _q11,
    "q13": _q13, "q15": _q15, "q16": _q16, "q17": _q17, "q18": _q18, "q19": _q19, "q20": _q20, "q22": _q22,
}  # fmt: skip


def main() -> None:
    """The program."""
    options = program_options(__doc__ or "", list(NEXMARK))
    target, clock, of = options.folder / "nexmark_polars.parquet", Stopwatch(), decoding(options.folder)
    for _ in range(options.runs):
        target.unlink(missing_ok=True)
        clock.time(lambda: FORMS[options.workload](of).sink_parquet(target, compression="snappy"))
    rows = pl.scan_parquet(target)
    print_figures(
        options,
        clock,
        system=f"polars {pl.__version__}",
        configuration="landed JSON to Parquet",
        rows_out=rows.select(pl.len()).collect().item(),
        checks=summed(rows),
    )
    target.unlink()


if __name__ == "__main__":
    main()
