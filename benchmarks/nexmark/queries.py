"""Nexmark's queries as topologies: q0 to q5, q7 to q9, q11, q13, q15 to q20 and q22.

Owns windows and constants of the queries. Not here are q6 (a window of the last ten rows), q10 (files) and q12
(processing time), nor q14 and q21, which are functions of one record, as q1, q2 and q22 are.

A result that changes is a changelog here: its answer is the last row of each key. Where a query asks for all rows
with the largest number (q5), the answer is that number, how many have it, and the smallest of them: one row.
"""

from collections.abc import Callable
from typing import Any

import polars as pl

from kstreams_replay.jobs.topology import (
    Consumed,
    JoinWindows,
    KGroupedStream,
    KStream,
    KTable,
    Serde,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    fold,
)

from .events import COLUMNS

SECOND_MS, MINUTE_MS, DAY_MS = 1_000, 60_000, 86_400_000
WINDOW_MS, ADVANCE_MS, GAP_MS = 10 * SECOND_MS, 2 * SECOND_MS, 10 * SECOND_MS
NEAR_MS = 10 * SECOND_MS
"""q20: a bid and its auction are no further apart, since bids name auctions in flight."""
ONE_KEY = "CAST(0 AS BIGINT)"
RATE, DIVISOR, CATEGORY, SIDE_KEYS, BEST = 0.908, 123, 10, 10_000, 10
CHEAP, DEAR = 10_000, 1_000_000
STATES = ("OR", "ID", "CA")
RANKS = {"all": None, "cheap": f"price < {CHEAP}", "middle": f"price >= {CHEAP} AND price < {DEAR}",
         "dear": f"price >= {DEAR}"}  # fmt: skip
"""Ranges of prices of q15 to q17, by the names that results have for them."""


def _consumed(topic: str) -> Consumed:
    return Consumed(Serde.long(), Serde.json(COLUMNS[topic]))


def _bids(builder: StreamsBuilder) -> KStream:
    return builder.stream("bid", _consumed("bid"))


def _final(table: KTable, name: str) -> None:
    table.suppress(Suppressed.until_window_closes()).to(name)


def _q0(builder: StreamsBuilder) -> None:
    _bids(builder).map_values("auction", "bidder", "price", "date_time", "extra").to("q0")


def _q1(builder: StreamsBuilder) -> None:
    _bids(builder).map_values("auction", "bidder", "date_time", "extra", price=pl.col("price") * RATE).to("q1")


def _q2(builder: StreamsBuilder) -> None:
    _bids(builder).filter(f"auction % {DIVISOR} = 0").map_values("auction", "price").to("q2")


def _q3(builder: StreamsBuilder) -> None:
    """Auctions of a category by sellers of some states: tables joined by a foreign key."""
    auctions = builder.table("auction", _consumed("auction")).filter(f"category = {CATEGORY}")
    people = builder.table("person", _consumed("person")).filter(pl.col("state").is_in(STATES))
    fields = {name: f"right.{name}" for name in ("name", "city", "state")}
    auctions.join(people, foreign_key="seller", fields=fields, auction="left.id").to("q3")


def _bids_in_time(builder: StreamsBuilder) -> KStream:
    """Bids with category of their auction, made while it was open."""
    auctions = builder.table("auction", _consumed("auction"))
    fields = {name: f"left.{name}" for name in ("auction", "bidder", "price", "date_time")}
    others = {"opened": "right.date_time", "expires": "right.expires", "category": "right.category"}
    joined = _bids(builder).join(auctions, fields=fields | others)
    return joined.filter("date_time BETWEEN opened AND expires")


def _q4(builder: StreamsBuilder) -> None:
    """The mean of the winning prices of each category, as sum and number."""
    won = _bids_in_time(builder).group_by_key().aggregate(final=fold.max("price"), category=fold.last("category"))
    prices = won.group_by("category", "final", returns=Serde.long())
    prices.aggregate(total=fold.sum(), auctions=fold.count()).to("q4")


def _q5(builder: StreamsBuilder) -> None:
    """The auctions with the most bids of each window."""
    counts = _bids(builder).group_by_key().windowed_by(TimeWindows.of_size(WINDOW_MS, grace=0).advance_by(ADVANCE_MS))
    closed = counts.aggregate(bids=fold.count()).suppress(Suppressed.until_window_closes()).to_stream()
    by_window = closed.map_values("bids", auction="record_key").group_by("window_start_ms")
    hottest = fold.of(
        {"bids": 0, "auctions": 0, "auction": 0},
        {
            "bids": "GREATEST(aggregate.bids, bids)",
            "auctions": "CASE WHEN bids > aggregate.bids THEN 1 WHEN bids = aggregate.bids "
            "THEN aggregate.auctions + 1 ELSE aggregate.auctions END",
            "auction": "CASE WHEN bids > aggregate.bids THEN auction WHEN bids = aggregate.bids "
            "THEN LEAST(aggregate.auction, auction) ELSE aggregate.auction END",
        },
    )
    by_window.aggregate(hottest).to("q5")


def _q7(builder: StreamsBuilder) -> None:
    """The highest bid of each window."""
    windows = _bids(builder).group_by(ONE_KEY).windowed_by(TimeWindows.of_size(WINDOW_MS, grace=0))
    of_best = {name: fold.max_by(name, "price") for name in ("auction", "bidder", "date_time")}
    _final(windows.aggregate(price=fold.max("price"), **of_best), "q7")


def _q8(builder: StreamsBuilder) -> None:
    """Who is new and sold something in the same window."""
    people = builder.stream("person", _consumed("person"))
    sold = builder.stream("auction", _consumed("auction")).select_key("seller")
    near = JoinWindows.of_time_difference_with_no_grace(WINDOW_MS)
    fields = {"name": "left.name", "registered": "left.date_time", "sold": "right.date_time"}
    joined = people.join(sold, windows=near, fields=fields)
    same = joined.filter(f"registered // {WINDOW_MS} = sold // {WINDOW_MS}")
    of_pair = {"name": fold.first("name"), "auctions": fold.count()}
    windows = same.group_by_key().windowed_by(TimeWindows.of_size(WINDOW_MS, grace=0))
    _final(windows.aggregate(fields=of_pair), "q8")


def _q9(builder: StreamsBuilder) -> None:
    """The winning bid of each auction: the highest, of equal ones the first."""
    names = ("bidder", "date_time", "category")
    best = {name: fold.max_by(name, "price") for name in names}
    _bids_in_time(builder).group_by_key().aggregate(price=fold.max("price"), **best).to("q9")


def _q11(builder: StreamsBuilder) -> None:
    """Bids of each bidder's sessions."""
    by_bidder = _bids(builder).group_by("bidder")
    _final(
        by_bidder.windowed_by(SessionWindows.with_inactivity_gap(GAP_MS, grace=0)).aggregate(bids=fold.count()), "q11"
    )


def _q13(builder: StreamsBuilder) -> None:
    """Bids with a value of a bounded table."""
    side = builder.table("side_input", _consumed("side_input"))
    fields = {name: f"left.{name}" for name in ("auction", "bidder", "price", "date_time")}
    _bids(builder).select_key(f"auction % {SIDE_KEYS}").join(side, fields=fields, value="right.value").to("q13")


def _of_day(grouped: KGroupedStream, name: str, **folds: Any) -> None:
    windows = grouped.windowed_by(TimeWindows.of_size(DAY_MS, grace=0))
    _final(windows.aggregate(**folds), name)


def _bids_by_rank() -> dict[str, Any]:
    return {f"bids_{rank}": fold.count() if step is None else fold.count_if(step) for rank, step in RANKS.items()}


def _distinct_by_rank(field: str) -> dict[str, Any]:
    of = {rank: field if step is None else f"CASE WHEN {step} THEN {field} END" for rank, step in RANKS.items()}
    return {f"{field}s_{rank}": fold.count_distinct(step) for rank, step in of.items()}


def _q15(builder: StreamsBuilder) -> None:
    """Bids, bidders and auctions of each day, by range of prices."""
    distinct = _distinct_by_rank("bidder") | _distinct_by_rank("auction")
    _of_day(_bids(builder).group_by(ONE_KEY), "q15", **_bids_by_rank(), **distinct)


def _q16(builder: StreamsBuilder) -> None:
    """The same of each channel, with the last minute of the day that had a bid."""
    distinct = _distinct_by_rank("bidder") | _distinct_by_rank("auction")
    minute = fold.max(f"date_time % {DAY_MS} // {MINUTE_MS}")
    _of_day(_bids(builder).group_by("channel"), "q16", minute=minute, **_bids_by_rank(), **distinct)


def _q17(builder: StreamsBuilder) -> None:
    """Bids of each auction and day, by range of prices; least, largest, sum."""
    prices = {"least": fold.min("price"), "most": fold.max("price"), "total": fold.sum("price")}
    _of_day(_bids(builder).group_by_key(), "q17", **_bids_by_rank(), **prices)


def _q18(builder: StreamsBuilder) -> None:
    """The last bid of each bidder for each auction."""
    pair = pl.format("{}-{}", pl.col("bidder"), pl.col("auction"))
    last = {name: fold.last(name) for name in ("auction", "bidder", "price", "date_time")}
    _bids(builder).group_by(pair).aggregate(**last).to("q18")


def _q19(builder: StreamsBuilder) -> None:
    """The ten highest bids of each auction."""
    best = {"prices": fold.top(BEST, "price"), "bidders": fold.top(BEST, "price", "bidder")}
    _bids(builder).group_by_key().aggregate(**best).to("q19")


def _q20(builder: StreamsBuilder) -> None:
    """Bids with their auction, of one category."""
    auctions = builder.stream("auction", _consumed("auction")).filter(f"category = {CATEGORY}")
    of_bid = {name: f"left.{name}" for name in ("auction", "bidder", "price", "date_time")}
    of_auction = {name: f"right.{name}" for name in ("item", "initial_bid", "expires", "seller", "category")}
    near = JoinWindows.of_time_difference_with_no_grace(NEAR_MS)
    _bids(builder).join(auctions, windows=near, fields=of_bid | of_auction).to("q20")


def _q22(builder: StreamsBuilder) -> None:
    """Bids with the three directories of their address."""
    parts = pl.col("url").str.split("/")
    directories = {f"dir{number}": parts.list.get(number + 2, null_on_oob=True) for number in (1, 2, 3)}
    _bids(builder).map_values("auction", "bidder", "price", "channel", **directories).to("q22")


_FILL: dict[str, Callable[[StreamsBuilder], None]] = {
    "q0": _q0, "q1": _q1, "q2": _q2, "q3": _q3, "q4": _q4, "q5": _q5, "q7": _q7, "q8": _q8, "q9": _q9, "q11": _q11,
    "q13": _q13, "q15": _q15, "q16": _q16, "q17": _q17, "q18": _q18, "q19": _q19, "q20": _q20, "q22": _q22,
}  # fmt: skip
QUERIES = tuple(_FILL)
CHANGING = ("q4", "q5", "q9", "q18", "q19")
"""Whose output is a changelog."""
CLOSING = ("q5", "q7", "q8", "q11", "q15", "q16", "q17")
"""Whose windows the last records close; those are no part of the answer."""
_READ = {"q3": ("auction", "person"), "q4": ("bid", "auction"), "q8": ("auction", "person"), "q9": ("bid", "auction"),
         "q13": ("bid", "side_input"), "q20": ("bid", "auction")}  # fmt: skip
TOPICS = {query: _READ.get(query, ("bid",)) for query in QUERIES}
"""What each query reads."""


def build(query: str) -> Topology:
    """The topology of ``query``, whose output has its name."""
    builder = StreamsBuilder()
    _FILL[query](builder)
    return builder.build()
