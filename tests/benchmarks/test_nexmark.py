"""Nexmark: its events have the published distributions, and its queries give what real Kafka Streams gives."""

import json
from pathlib import Path

import polars as pl
import pytest

from kstreams_replay.benchmarks import bench
from kstreams_replay.benchmarks.measuring import summed
from kstreams_replay.benchmarks.nexmark import events, queries
from kstreams_replay.benchmarks.ours import written_values
from kstreams_replay.benchmarks.peers import nexmark_polars
from kstreams_replay.benchmarks.typed_data import prepare, warehouse_of
from kstreams_replay.benchmarks.workloads import NEXMARK
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.judge.judgement import judge
from kstreams_replay.jobs.judge.kafka_tasks import JavaApplication
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.orchestration.cli.main import main
from tests.jvm.streams import compiled

EVENTS = 30_000
PIPELINE = "bench"
TWINS = Path(bench.__file__).parent / "peers" / "Nexmark.java"


def replayed(folder: Path, query: str, records: int):
    """The warehouse, with ``query`` replayed in it."""
    prepare(folder, query, records)
    warehouse = warehouse_of(folder)
    list(replay(warehouse, queries.build(query), pipeline=PIPELINE, runner=LocalRunner(), idle="proceed"))
    return warehouse


# --- events --------------------------------------------------------------------------------------------------


def rows(topic: str, records: int = EVENTS) -> pl.DataFrame:
    """All but those that close windows."""
    found = pl.concat(events.rows_of(topic, records))
    return found.filter(pl.col(events.KEY[topic]) < events.CLOSING_ID)


@pytest.mark.slow
def test_of_fifty_events_one_is_a_person_three_are_auctions_and_the_rest_bids():
    people, auctions, bids = rows("person"), rows("auction"), rows("bid")

    assert (len(people), len(auctions), len(bids)) == (600, 1_800, 27_600)
    times = pl.concat([people["date_time"], auctions["date_time"], bids["date_time"]])
    assert times.sort().to_list() == [*range(1_767_225_600_000, 1_767_225_630_000)]
    assert people["id"].to_list() == [*range(1_000, 1_600)]
    assert auctions["id"].to_list() == [*range(1_000, 2_800)]


@pytest.mark.slow
def test_bids_and_sellers_are_hot_as_published():
    auctions, bids = rows("auction"), rows("bid")
    is_hot_bid = bids["auction"] % 100 == 0
    is_hot_bidder = bids["bidder"] % 100 == 1
    is_hot_seller = auctions["seller"] % 100 == 0

    assert 0.49 < is_hot_bid.mean() < 0.53  # one half, and one of a hundred of the others
    assert 0.74 < is_hot_bidder.mean() < 0.78  # three quarters, likewise
    assert 0.72 < is_hot_seller.mean() < 0.79
    newest = (bids["date_time"] - 1_767_225_600_000) // 50 * 3 + 2 + 1_000
    behind = newest - bids["auction"]
    assert behind.min() == -10
    assert behind.max() <= 100
    assert (behind < 0).any()


@pytest.mark.slow
def test_prices_are_log_uniform_and_sizes_are_as_published():
    people, auctions, bids = rows("person"), rows("auction"), rows("bid")

    shares = [((bids["price"] >= 10**n) & (bids["price"] < 10 ** (n + 1))).mean() for n in range(2, 8)]
    assert all(abs(share - 1 / 6) < 0.01 for share in shares)
    assert bids["price"].min() >= 100
    assert bids["price"].max() <= 10**8
    category = auctions["category"].value_counts()
    assert sorted(category["category"]) == [10, 11, 12, 13, 14]
    assert category["count"].min() > 300  # of 360
    length = auctions["expires"] - auctions["date_time"]
    assert 1 <= length.min() <= length.max() <= 3_332  # twice the 1,666 ms of 100 auctions
    assert 1_600 < length.mean() < 1_740
    assert (
        54 <= bids["extra"].str.len_bytes().min() <= bids["extra"].str.len_bytes().max() <= 82
    )  # 68 ± a fifth, rounded
    texts = ("name", "email", "credit_card", "city", "state", "extra")
    assert 180 < sum(people[name].str.len_bytes().mean() for name in texts) + 8 < 215  # published: 200
    assert 480 < sum(auctions[name].str.len_bytes().mean() for name in ("item", "description", "extra")) + 48 < 520
    hot = bids["channel"].is_in(["Google", "Facebook", "Baidu", "Apple"])
    assert 0.48 < hot.mean() < 0.52


# --- queries -------------------------------------------------------------------------------------------------


@pytest.mark.jvm
@pytest.mark.nightly
@pytest.mark.parametrize("query", queries.QUERIES)
def test_a_query_gives_what_kafka_streams_gives(tmp_path, query):
    warehouse = replayed(tmp_path, query, 3_000)

    with compiled(TWINS) as command:
        application = JavaApplication([Path(command[command.index("-cp") + 1].split(":")[0])], f"Nexmark#{query}")
        found = judge(warehouse, queries.build(query), application, pipeline=PIPELINE)

    assert [output.output for output in found.outputs] == [query]
    assert found.outputs[0].is_equal, found.outputs[0]
    assert found.outputs[0].rows[0] > 0
    assert not found.not_written


@pytest.mark.sampled
@pytest.mark.parametrize("query", queries.QUERIES)
def test_polars_gives_the_same_answer(tmp_path, query):
    warehouse = replayed(tmp_path, query, EVENTS)

    ours = written_values(warehouse, NEXMARK[query])[0].collect()
    theirs = nexmark_polars.FORMS[query](nexmark_polars.decoding(tmp_path)).collect()
    assert len(ours) == len(theirs) > 0
    sums, others = summed(ours.lazy()), summed(theirs.lazy())
    shared = sums.keys() & others.keys()
    assert shared
    assert {name: sums[name] for name in shared} == {name: others[name] for name in shared}


@pytest.mark.jvm
@pytest.mark.nightly
def test_ours_and_polars_are_measured_on_the_same_events(tmp_path, capsys):
    files = ["--json", f"{tmp_path}/run.json", "--plot", f"{tmp_path}/run.png", "--folder", f"{tmp_path}/folder"]
    code = main(["bench", "--nexmark", "--queries", "q2,q4", "--records", "3000", "--runs", "1", *files])

    assert code == 0, capsys.readouterr().out
    lines = json.loads((tmp_path / "run.json").read_text())["lines"]
    assert [(line["workload"], line["agrees"]) for line in lines] == [
        ("q2", "-"), ("q2", "yes"), ("q4", "-"), ("q4", "yes"),
    ]  # fmt: skip
    assert [line["said"]["records"] for line in lines] == [2_764, 2_764, 2_948, 2_948]  # with those that close


def test_a_strange_query_is_refused(capsys, monkeypatch):
    monkeypatch.delattr(bench, "run_workload")  # nothing is run
    assert main(["bench", "--nexmark", "--queries", "q0,q6"]) == 2
    assert "q6" in capsys.readouterr().err
    assert main(["bench", "--nexmark", "--peers", "kafka"]) == 2
