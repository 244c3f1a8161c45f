"""Nexmark's events, by the distributions of its published generator, as landed topics.

Rule: the same number of events gives the same bytes. Of 50 events one is a person, three are auctions,
46 are bids; ids count up from 1000. Half of the bids go to the newest auction whose number is a multiple of 100. The
others go to one of the last 100, or of the ten that come next. Three quarters of the bids are of a hot person, the
others of one of the last 1000 or the next ten; likewise the sellers. Prices are log-uniform.

One event a millisecond, so that no two have one time and merging topics has one order; the published default of
10,000 a second would give ten of them one time. Keys are Kafka longs: the person, the auction, the auction bid for.
Behind all events four of each topic, days later, close the windows of every partition.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl
import pyarrow as pa

from kstreams_replay.state.records.murmur2 import murmur2_partitions
from kstreams_replay.state.serdes import Serde

PARTITIONS = 4
START_MS, STEP_MS, DAY_MS = 1_767_225_600_000, 1, 86_400_000
OF_EPOCH, PERSONS, AUCTIONS = 50, 1, 3
"""Events of an epoch, those of it that are persons, and auctions; the others are bids."""
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1_000, 10, 5
LEAD, IN_FLIGHT, ACTIVE_PEOPLE, HOT = 10, 100, 1_000, 100
"""Ids that are named before they exist; auctions and people that are named; every so many auctions or people one is
hot."""
HOT_AUCTION, HOT_SELLER, HOT_BIDDER, HOT_CHANNEL = 1 / 2, 3 / 4, 3 / 4, 1 / 2
"""Shares of events that name a hot one."""
SIDE_ROWS = 10_000
CLOSING_ID = 10**9
"""Ids from here on are of the records that close windows."""
CHUNK = 1 << 18

STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
CITIES = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
]
FIRST_NAMES = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
LAST_NAMES = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
CHANNELS = 10_000
HOST = "www.nexmark.example"
"""Of the addresses; its ending is one that nobody can have."""

COLUMNS = {
    "person": "id long, name string, email string, credit_card string, city string, state string, date_time long, "
    "extra string",
    "auction": "id long, item string, description string, initial_bid long, reserve long, date_time long, "
    "expires long, seller long, category long, extra string",
    "bid": "auction long, bidder long, price long, channel string, url string, date_time long, extra string",
    "side_input": "key long, value string",
}
"""Fields of each topic's JSON values."""

KEY = {"person": "id", "auction": "id", "bid": "auction", "side_input": "key"}
"""The field that is a topic's key."""


def closing_ms(records: int) -> int:
    """The time of the first record that closes windows, of a stream of so many events."""
    return START_MS + records * STEP_MS + 3 * DAY_MS


def rows_of(topic: str, records: int, *, seed: int = 7) -> Iterator[pl.DataFrame]:
    """The fields of ``topic`` in order of time, in chunks, those that close windows last."""
    generator = np.random.default_rng([seed, list(COLUMNS).index(topic)])
    if topic == "side_input":
        keys = np.arange(SIDE_ROWS)
        yield pl.DataFrame({"key": keys, "value": [f"side-{key % 97}" for key in keys.tolist()]})
        return
    make = {"person": _persons, "auction": _auctions, "bid": _bids}[topic]
    texts = _Texts(generator)
    for first in range(0, records, CHUNK * OF_EPOCH // 10):
        numbers = np.arange(first, min(records, first + CHUNK * OF_EPOCH // 10))
        at = numbers % OF_EPOCH
        is_mine = {"person": at < PERSONS, "bid": at >= PERSONS + AUCTIONS}.get(
            topic, (at >= PERSONS) & (at < PERSONS + AUCTIONS)
        )
        mine = numbers[is_mine]
        for start in range(0, len(mine), CHUNK):
            yield make(mine[start : start + CHUNK], generator, texts)
    yield _closing(topic, make(np.full(PARTITIONS, records), generator, texts), records)


def records_of(topic: str, records: int) -> Iterator[pa.Table]:
    """Landed columns ``partition``, ``key``, ``timestamp`` and ``value`` (JSON) of ``topic``, in order of time."""
    for rows in rows_of(topic, records):
        keys = Serde.long().encode(rows[KEY[topic]].to_arrow())
        times = rows["date_time"] if "date_time" in rows.columns else pl.Series(np.full(len(rows), START_MS - DAY_MS))
        yield pa.table(
            {
                "partition": murmur2_partitions(keys.cast(pa.binary()), PARTITIONS),
                "key": keys.cast(pa.binary()),
                "timestamp": times.to_arrow(),
                "value": rows.select(_json(rows.schema)).to_series().cast(pl.Binary).to_arrow().cast(pa.binary()),
            }
        )


def _json(schema: pl.Schema) -> pl.Expr:
    """A row as JSON text; no text of the generator has anything to escape."""
    cells = [f'"{name}":' + ('"{}"' if dtype == pl.String else "{}") for name, dtype in schema.items()]
    return pl.concat_str(pl.lit("{"), pl.format(",".join(cells), *schema), pl.lit("}"))


# --- events --------------------------------------------------------------------------------------------------


def last_person(events: np.ndarray) -> np.ndarray:
    """Number of the newest person at an event, from 0."""
    return events // OF_EPOCH


def last_auction(events: np.ndarray) -> np.ndarray:
    """Number of the newest auction at an event, from 0; -1 before the first."""
    at = events % OF_EPOCH
    in_epoch = np.clip(at - PERSONS, -1, AUCTIONS - 1)
    return events // OF_EPOCH * AUCTIONS + in_epoch


def _persons(events: np.ndarray, generator: np.random.Generator, texts: "_Texts") -> pl.DataFrame:
    count = len(events)
    names = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]
    cards = generator.integers(0, 10_000, (4, count))
    rows = pl.DataFrame(
        {
            "id": last_person(events) + FIRST_ID,
            "name": texts.of(names, count),
            "user": texts.words(7, count),
            "host": texts.words(5, count),
            **{f"card{number}": card for number, card in enumerate(cards)},
            "city": texts.of(CITIES, count),
            "state": texts.of(STATES, count),
            "date_time": START_MS + events * STEP_MS,
        }
    )
    card = pl.concat_str([pl.col(f"card{n}").cast(pl.String).str.zfill(4) for n in range(4)], separator=" ")
    rows = rows.with_columns(email=pl.format("{}@{}.com", "user", "host"), credit_card=card)
    size = 8 + sum(rows[name].str.len_bytes() for name in ("name", "email", "credit_card", "city", "state"))
    return _ordered("person", rows.with_columns(extra=texts.extra(200 - size.to_numpy())))


def _auctions(events: np.ndarray, generator: np.random.Generator, texts: "_Texts") -> pl.DataFrame:
    count, newest = len(events), last_person(events)
    first_bid = _prices(generator, count)
    # as long as it takes until all auctions in flight are replaced, on average
    horizon_ms = IN_FLIGHT * OF_EPOCH // AUCTIONS * STEP_MS
    time_ms = START_MS + events * STEP_MS
    rows = pl.DataFrame(
        {
            "id": last_auction(events) + FIRST_ID,
            "item": texts.words(20, count),
            "description": texts.words(100, count),
            "initial_bid": first_bid,
            "reserve": first_bid + _prices(generator, count),
            "date_time": time_ms,
            "expires": time_ms + 1 + generator.integers(0, 2 * horizon_ms, count),
            "seller": _people(newest, generator, HOT_SELLER, 0) + FIRST_ID,
            "category": FIRST_CATEGORY + generator.integers(0, CATEGORIES, count),
        }
    )
    size = 48 + rows["item"].str.len_bytes() + rows["description"].str.len_bytes()
    return _ordered("auction", rows.with_columns(extra=texts.extra(500 - size.to_numpy())))


def _bids(events: np.ndarray, generator: np.random.Generator, texts: "_Texts") -> pl.DataFrame:
    count, newest = len(events), last_auction(events)
    oldest = np.maximum(newest - IN_FLIGHT, 0)
    any_auction = oldest + (generator.random(count) * (newest - oldest + 1 + LEAD)).astype(np.int64)
    is_hot = generator.random(count) < HOT_AUCTION
    hot_channel, other = generator.integers(0, 4, count), generator.integers(0, CHANNELS, count)
    channel = np.where(generator.random(count) < HOT_CHANNEL, hot_channel, 4 + other)
    channels, urls = texts.channels
    return _ordered(
        "bid",
        pl.DataFrame(
            {
                "auction": np.where(is_hot, newest // HOT * HOT, any_auction) + FIRST_ID,
                "bidder": _people(last_person(events), generator, HOT_BIDDER, 1) + FIRST_ID,
                "price": _prices(generator, count),
                "channel": channels.gather(channel),
                "url": urls.gather(channel),
                "date_time": START_MS + events * STEP_MS,
                "extra": texts.extra(np.full(count, 100 - 32)),
            }
        ),
    )


def _people(newest: np.ndarray, generator: np.random.Generator, share: float, hot: int) -> np.ndarray:
    """A hot person in ``share`` of the cases (number ``hot`` of its hundred), else an active one or one to come."""
    active = np.minimum(newest + 1, ACTIVE_PEOPLE)
    anyone = newest + 1 - active + (generator.random(len(newest)) * (active + LEAD)).astype(np.int64)
    people: np.ndarray = np.where(generator.random(len(newest)) < share, newest // HOT * HOT + hot, anyone)
    return people


def _prices(generator: np.random.Generator, count: int) -> np.ndarray:
    """In cents, log-uniform from 100 to 10^8."""
    return np.rint(10.0 ** (generator.random(count) * 6) * 100).astype(np.int64)


def _ordered(topic: str, rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(column.split()[0] for column in COLUMNS[topic].split(", "))


def _closing(topic: str, rows: pl.DataFrame, records: int) -> pl.DataFrame:
    """Four records whose keys, bidders, sellers and channels lie in partitions 0 to 3, and far behind all others."""
    numbers = np.arange(CLOSING_ID, CLOSING_ID + 64 * PARTITIONS)
    ids = _one_a_partition(Serde.long().encode(pa.array(numbers)).cast(pa.binary()))
    names = [f"closing-{number}" for number in range(64 * PARTITIONS)]
    channels = [names[at] for at in _one_a_partition(pa.array(names).cast(pa.binary()))]
    keys = pl.Series(numbers[ids])
    time_ms = pl.Series(closing_ms(records) + list(COLUMNS).index(topic) * 10 + np.arange(PARTITIONS))
    changed = {KEY[topic]: keys, "date_time": time_ms}
    changed |= {"auction": {"seller": keys}, "bid": {"bidder": keys, "channel": pl.Series(channels)}}.get(topic, {})
    return rows.with_columns(**changed)


def _one_a_partition(keys: pa.Array) -> list[int]:
    """Where the first key of each partition is."""
    partitions = murmur2_partitions(keys, PARTITIONS)
    return [int(np.flatnonzero(partitions == number)[0]) for number in range(PARTITIONS)]


class _Texts:
    """Random texts of small letters, one in 13 a space; drawn from a pool, for ten million of them take too long."""

    POOL = 1 << 20

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator
        letters = generator.integers(ord("a"), ord("z") + 1, self.POOL, np.uint8)
        letters[generator.integers(0, 13, self.POOL) == 0] = ord(" ")
        self.pool = letters
        self.channels = self._channels()

    def of(self, words: list[str], count: int) -> pl.Series:
        """One of ``words`` each, all alike."""
        return pl.Series(words).gather(self.generator.integers(0, len(words), count))

    def words(self, longest: int, count: int) -> pl.Series:
        """Of 3 to ``longest`` - 1 letters, without spaces at the ends."""
        return self._cut(self.generator.integers(3, longest, count)).str.strip_chars()

    def extra(self, wanted: np.ndarray) -> pl.Series:
        """Of ``wanted`` letters, a fifth less to a fifth more; none where that is not positive."""
        wanted = np.maximum(wanted, 0)
        delta = np.rint(wanted * 0.2).astype(np.int64)
        more = (self.generator.random(len(wanted)) * 2 * delta).astype(np.int64)
        return self._cut(wanted - delta + more)

    def _cut(self, lengths: np.ndarray) -> pl.Series:
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        start = int(self.generator.integers(0, self.POOL))
        rolled = np.concatenate([self.pool[start:], self.pool[:start]])
        data = np.resize(rolled, total)
        offsets = np.concatenate([[0], ends]).astype(np.int64)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        texts = pl.from_arrow(pa.Array.from_buffers(pa.large_string(), len(lengths), buffers))
        assert isinstance(texts, pl.Series)
        return texts

    def _channels(self) -> tuple[pl.Series, pl.Series]:
        """Names and addresses, the four hot ones first."""
        count = len(HOT_CHANNELS) + CHANNELS
        parts = [self._cut(np.full(count, 5)).str.replace_all(" ", "_") for _ in range(3)]
        names = pl.Series([*HOT_CHANNELS, *(f"channel-{number}" for number in range(CHANNELS))])
        frame = pl.DataFrame([names.alias("n"), *(part.alias(f"p{at}") for at, part in enumerate(parts))])
        address = pl.format("https://{}/{}/{}/{}/item.htm?query=1", pl.lit(HOST), "p0", "p1", "p2")
        has_id = self.generator.integers(0, 10, count) > 0
        frame = frame.with_columns(url=address, has_id=has_id, number=pl.int_range(pl.len()))
        with_id = pl.format("{}&channel_id={}", "url", "number")
        return names, frame.select(pl.when("has_id").then(with_id).otherwise("url")).to_series()
