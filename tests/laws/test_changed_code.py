"""Law 2 under changed code, at any cut and after any crash. State that a change does not touch continues as if nothing
had changed. Other state begins empty, or is converted by a function; where neither makes sense the change is refused.
"""

from collections.abc import Mapping

import pyarrow.compute as pc
import pytest

from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.code_changes.state_migration import MigrationOptions
from kstreams_replay.jobs.history.committed_tables import read_changelog
from kstreams_replay.jobs.history.output_changes import read_changes
from kstreams_replay.jobs.history.store_reader import read_store
from kstreams_replay.jobs.topology import (
    Consumed,
    JoinWindows,
    Materialized,
    Serde,
    StreamsBuilder,
    TimeWindows,
    Topology,
    fold,
)
from kstreams_replay.state.errors import CodeChanged, LedgerError
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.clicks import final_page_counts
from tests.code_changes.changes import GOES_ON, clicks
from tests.laws.changed import PAGES, STRING, Killed, click, land, run, stored, totals
from tests.planted import LandedRecord, Rows, plant, tables_of

pytestmark = pytest.mark.sampled


def shop(*, is_changed: bool = False) -> Topology:
    """
    Two topics that a task reads together, a repartition, windows that wait for their end, duplicates. Changed: a
    topic that is read first shifts every number of Kafka's, and steps and outputs are put in everywhere.
    """
    builder = StreamsBuilder()
    if is_changed:
        builder.stream("noise", Consumed(STRING, STRING)).group_by_key().count(Materialized.as_("noise")).to("noises")
    clicks = builder.stream("clicks", Consumed(STRING, PAGES))
    orders = builder.stream("orders", Consumed(STRING, PAGES))
    if is_changed:
        clicks.filter("ms > 20").map_values("page").to("slow")
        orders.peek(lambda key, value: None).group_by_key().count(Materialized.as_("orders-by-user")).to(
            "orders-by-user"
        )
    clicks.outer_join(
        orders, lambda left, right: f"{left and left['page']}+{right and right['page']}",
        JoinWindows.of_time_difference_and_grace(8, 6), returns=STRING, materialized=Materialized.as_("meetings"),
        name="meet",
    ).to("meetings")  # fmt: skip
    clicks.deduplicate_by_key(30, name="fresh").to("fresh")
    final_page_counts(clicks, store="pages-store", held="final-pages").to("pages")
    return builder.build()


def unnumbered(warehouse: Warehouse, pipeline: str) -> dict[str, Rows]:
    """
    Tables without Kafka's numbers, which are those of the code that wrote the row, and without what only the changed
    code drops.
    """
    tables = tables_of(warehouse, pipeline, shop())
    tables["dropped"] = [row for row in tables["dropped"] if row["topic"] == "pages-store-repartition"]
    assert tables["dropped"]
    numbers = ("sub_topology", "cause_sub", "node")
    return {
        table: [{name: value for name, value in row.items() if name not in numbers} for row in rows]
        for table, rows in tables.items()
    }


# --- what a change does not touch --------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "max_records", "increments"), [(1, 17, 1), (2, 25, 3), (3, 40, 2)])
def test_what_a_change_does_not_touch_goes_on_as_if_nothing_had_changed(tmp_path, seed, max_records, increments):
    warehouse = Warehouse(tmp_path)
    land(warehouse, seed, 60)

    run(warehouse, shop(), "whole", idle="proceed")
    run(warehouse, shop(), "cut", max_records=max_records, increments=increments, idle="proceed")
    run(warehouse, shop(is_changed=True), "cut", max_records=max_records, increments=2, idle="proceed")
    run(warehouse, shop(), "cut", idle="proceed")  # and back

    assert unnumbered(warehouse, "cut") == unnumbered(warehouse, "whole")


def test_the_changes_stand_in_the_plan_of_the_first_increment_under_them(tmp_path):
    warehouse = Warehouse(tmp_path)
    land(warehouse, 1, 40)
    run(warehouse, shop(), max_records=30, increments=1)

    run(warehouse, shop(is_changed=True), max_records=30, increments=2)

    plans = Ledger(warehouse.pipeline("p").ledger).plans()
    changes = {plan.increment: plan.content.changes for plan in plans}
    assert sorted((change["place"], change["what"]) for change in changes[2]) == [
        ("output 'noises'", "new"),
        ("output 'orders-by-user'", "new"),
        ("output 'slow'", "new"),
        ("store 'noise'", "new"),
        ("store 'orders-by-user'", "new"),
        ("topic 'noise'", "new"),
    ]
    assert (changes[1], changes[3]) == (None, None)


def test_an_output_that_was_left_out_for_a_while_goes_on_with_its_offsets(tmp_path):
    warehouse = Warehouse(tmp_path)

    def topology(*outputs: str) -> Topology:
        builder = StreamsBuilder()
        clicks = builder.stream("in", Consumed(STRING, STRING))
        for output in outputs:
            clicks.to(output)
        return builder.build()

    for number, outputs in enumerate([("a", "b"), ("a",), ("b", "a")]):
        plant(warehouse, "in", [LandedRecord(0, b"k", b"%d" % number, number)], partitions=1)
        run(warehouse, topology(*outputs))

    rows = read_changelog(warehouse, "p", "b").select(["offset", "value"]).to_pylist()
    assert rows == [{"offset": 0, "value": "0"}, {"offset": 1, "value": "2"}]
    assert read_changelog(warehouse, "p", "b", increment=2)["value"].to_pylist() == ["0"]


# --- what begins -------------------------------------------------------------------------------------------------


def test_a_fold_that_is_added_is_null_until_the_next_record_and_then_of_what_came_since(tmp_path):
    warehouse, before = Warehouse(tmp_path), totals(n=fold.count())
    plant(warehouse, "in", [click(b"a", 5, 1), click(b"a", 6, 2), click(b"b", 7, 3)], partitions=1)
    run(warehouse, before)
    after = totals(
        n=fold.count(), m=fold.count(), ms=fold.sum("ms"), mean=fold.mean("ms"), last=fold.last("page"),
        first=fold.first("page"), most=fold.max("ms"), all=fold.collect("ms"),
    )  # fmt: skip
    plant(warehouse, "in", [click(b"a", 8, 4, b"q"), click(b"c", 9, 5, b"r")], partitions=1)

    run(warehouse, after)

    added = {"m": 1, "ms": 8, "mean": 8.0, "last": "q", "first": "q", "most": 8, "all": [8]}
    assert stored(warehouse, after, "totals") == {
        "a": {"n": 3, **added},
        "b": {"n": 1, **dict.fromkeys(added)},
        "c": {"n": 1, "m": 1, "ms": 9, "mean": 9.0, "last": "r", "first": "r", "most": 9, "all": [9]},
    }
    values = read_changelog(warehouse, "p", "totals")["value"].to_pylist()
    assert [value["n"] for value in values] == [1, 2, 1, 3, 1]
    assert values[2]["ms"] is None
    assert values[3]["ms"] == 8


def test_changes_of_rows_from_before_and_after_a_fold_was_added_have_its_column(tmp_path):
    warehouse, value = Warehouse(tmp_path), {"n": 2, "ms": None}
    for ms, time_ms in ((5, 1), (6, 2)):
        plant(warehouse, "in", [click(b"a", ms, time_ms)], partitions=1)
        run(warehouse, totals(n=fold.count()))
    restore(warehouse, "p", 1)
    run(warehouse, totals(n=fold.count(), ms=fold.sum("ms")))

    changes = read_changes(warehouse, "p", "totals", after=2).to_pylist()

    assert [(row["change"], row["value"]) for row in changes] == [("retract", value), ("insert", value | {"ms": 6})]


def test_a_fold_that_is_left_out_and_comes_back_would_miss_what_came_between_and_is_refused(tmp_path):
    warehouse, both = Warehouse(tmp_path), totals(n=fold.count(), ms=fold.sum("ms"))
    plant(warehouse, "in", [click(b"a", 5, 1), click(b"b", 5, 1)], partitions=1)
    run(warehouse, both)
    plant(warehouse, "in", [click(b"a", 6, 2)], partitions=1)
    run(warehouse, totals(n=fold.count()))

    with pytest.raises(CodeChanged, match="missed what came between"):
        run(warehouse, both)

    assert stored(warehouse, totals(n=fold.count()), "totals") == {"a": {"n": 2}, "b": {"n": 1}}


def test_a_topic_whose_values_gain_a_field_goes_on_and_rows_of_before_have_null(tmp_path):
    warehouse = Warehouse(tmp_path)

    def topology(schema: str) -> Topology:
        builder = StreamsBuilder()
        items = builder.table("in", Consumed(STRING, Serde.json(schema)), materialized=Materialized.as_("items"))
        items.to_stream().to("items")
        clicks = builder.stream("clicks", Consumed(STRING, STRING))
        clicks.join(items, lambda left, right: right, returns=Serde.json(schema), name="named").to("named")
        return builder.build()

    before, after = topology("name string"), topology("price double, name string, place struct<aisle int>")
    items = [LandedRecord(0, b"a", b'{"name": "tea"}', 1), LandedRecord(0, b"b", b'{"name": "mug"}', 2)]
    plant(warehouse, "in", items, partitions=1)
    plant(warehouse, "clicks", [LandedRecord(0, b"a", b"1", 3)], partitions=1)
    run(warehouse, before, idle="proceed")
    value = b'{"name": "green tea", "price": 2.5, "place": {"aisle": 4}}'
    plant(warehouse, "in", [LandedRecord(0, b"a", value, 4)], partitions=1)
    plant(warehouse, "clicks", [LandedRecord(0, b"a", b"2", 5), LandedRecord(0, b"b", b"3", 6)], partitions=1)

    run(warehouse, after, idle="proceed")

    green = {"price": 2.5, "name": "green tea", "place": {"aisle": 4}}
    mug = {"price": None, "name": "mug", "place": None}
    assert stored(warehouse, after, "items") == {"a": green, "b": mug}
    # Delta adds fields behind those that are there.
    named = read_changelog(warehouse, "p", "named")["value"].to_pylist()
    assert named == [{"price": None, "name": "tea", "place": None}, green, mug]


# --- names that decide which state is whose ----------------------------------------------------------------------


def unnamed(*, has_filter: bool) -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("in", Consumed(STRING, PAGES))
    if has_filter:
        clicks.filter("ms > 3").to("slow")
    clicks.group_by_key().count().to_stream().to("counts")
    return builder.build()


def test_an_operator_that_moves_a_generated_name_is_refused_until_the_store_is_named(tmp_path):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "in", [click(b"a", 5, 1)], partitions=1)
    run(warehouse, unnamed(has_filter=False))
    plant(warehouse, "in", [click(b"a", 6, 2)], partitions=1)
    old, new = "KSTREAM-AGGREGATE-STATE-STORE-0000000001", "KSTREAM-AGGREGATE-STATE-STORE-0000000003"

    with pytest.raises(CodeChanged) as error:
        run(warehouse, unnamed(has_filter=True))
    reports = run(warehouse, unnamed(has_filter=True), wanted=MigrationOptions(renamed={old: new}))

    assert f"store '{old}': gone" in error.value.got
    assert "moved the numbers in the names" in error.value.got
    assert f"renamed={{'{old}': '{new}'}}" in error.value.got
    assert [report.books.read for report in reports] == [0, 1]
    assert read_changelog(warehouse, "p", "counts")["value"].to_pylist() == [1, 2]
    assert run(warehouse, unnamed(has_filter=True), wanted=MigrationOptions(renamed={old: new})) == []


def test_a_history_that_was_closed_stays_closed_behind_a_rename(tmp_path):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "in", [click(b"a", 5, 1)], partitions=1)
    old, new = "KSTREAM-AGGREGATE-STATE-STORE-0000000001", "KSTREAM-AGGREGATE-STATE-STORE-0000000003"
    run(warehouse, unnamed(has_filter=False), flush_at_end=True)
    run(warehouse, unnamed(has_filter=True), wanted=MigrationOptions(renamed={old: new}))
    plant(warehouse, "in", [click(b"a", 6, 2)], partitions=1)

    with pytest.raises(LedgerError, match="no records after its history was flushed"):
        run(warehouse, unnamed(has_filter=True))


def test_a_store_whose_rows_are_let_go_begins_empty_under_its_new_name(tmp_path):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "in", [click(b"a", 5, 1)], partitions=1)
    run(warehouse, unnamed(has_filter=False))
    plant(warehouse, "in", [click(b"a", 6, 2)], partitions=1)

    run(
        warehouse,
        unnamed(has_filter=True),
        wanted=MigrationOptions(renamed={"KSTREAM-AGGREGATE-STATE-STORE-0000000001": None}),
    )

    assert read_changelog(warehouse, "p", "counts")["value"].to_pylist() == [1, 1]


# --- crashes while columns are added -----------------------------------------------------------------------------


@pytest.mark.parametrize("last_step", ["planned", "computed", "committed state/totals", "committed outputs/totals"])
def test_columns_that_are_added_survive_a_crash_at_any_step(tmp_path, last_step):
    before, after = totals(n=fold.count()), totals(n=fold.count(), ms=fold.sum("ms"))
    found: list[Mapping[str, Rows]] = []
    for dies in (False, True):
        warehouse = Warehouse(tmp_path / str(dies))
        plant(warehouse, "in", [click(b"a", 5, 1), click(b"b", 5, 1)], partitions=1)
        run(warehouse, before)
        plant(warehouse, "in", [click(b"a", 6, 2)], partitions=1)

        def die(step: str) -> None:
            if step == f"{last_step} 2":
                raise Killed(step)

        if dies:
            with pytest.raises(Killed):
                run(warehouse, after, on_step=die)
        run(warehouse, after)
        found.append(tables_of(warehouse, "p", after))

    assert found[1] == found[0]


# --- stores that come back ---------------------------------------------------------------------------------------


def test_a_store_that_comes_back_is_refused_unless_a_function_says_what_becomes_of_its_rows(tmp_path):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "in", [click(b"a", 5, 1), click(b"b", 5, 1)], partitions=1)
    run(warehouse, totals(n=fold.count()))
    plant(warehouse, "in", [click(b"a", 6, 2)], partitions=1)
    builder = StreamsBuilder()
    builder.stream("in", Consumed(STRING, PAGES)).to("copies")
    run(warehouse, builder.build())
    plant(warehouse, "in", [click(b"a", 7, 3)], partitions=1)

    with pytest.raises(CodeChanged, match="its rows end with increment 1 and miss what came since"):
        run(warehouse, totals(n=fold.count()))
    only_a = MigrationOptions(migrate={"totals": lambda rows: rows.filter(pc.equal(rows["key"], "a"))})
    run(warehouse, totals(n=fold.count()), wanted=only_a)

    assert stored(warehouse, totals(n=fold.count()), "totals") == {"a": {"n": 2}}
    offsets = read_changelog(warehouse, "p", "totals")["offset"].to_pylist()
    assert offsets == [0, 1, 2]


# --- every change that is said to continue --------------------------------------------------------------------------


@pytest.mark.parametrize("change", GOES_ON)
def test_what_is_said_to_go_on_does_and_every_record_is_booked(tmp_path, change):
    warehouse, (before, now, _) = Warehouse(tmp_path), GOES_ON[change]
    plant(warehouse, "clicks", [click(b"a", 5, 1), click(b"b", 6, 4), click(b"a", 7, 9)], partitions=1)
    run(warehouse, clicks(before))
    plant(warehouse, "clicks", [click(b"a", 8, 8), click(b"c", 9, 31)], partitions=1)

    (report,) = run(warehouse, clicks(now))

    assert (report.books.read, report.books.balance) == (2, True)
    for store in clicks(now).stores():
        assert read_store(warehouse, "p", clicks(now), store).num_columns > 0


def test_windows_that_closed_before_results_go_on_at_their_close_leave_as_final_if_they_are_still_kept(tmp_path):
    def counts(strategy: str) -> Topology:
        builder = StreamsBuilder()
        windows = builder.stream("in", Consumed(STRING, PAGES)).group_by_key().windowed_by(TimeWindows.of_size(10))
        kept = Materialized.as_("counts", retention=1000)
        windows.emit_strategy(strategy).count(kept).to_stream().to("counts")
        return builder.build()

    warehouse = Warehouse(tmp_path)
    plant(warehouse, "in", [click(b"a", 5, 1), click(b"a", 5, 12)], partitions=1)
    run(warehouse, counts("on_window_update"))
    plant(warehouse, "in", [click(b"a", 5, 13), click(b"a", 5, 20)], partitions=1)

    run(warehouse, counts("on_window_close"))

    rows = read_changelog(warehouse, "p", "counts").select(["increment", "window_start_ms", "value"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [(1, 0, 1), (1, 10, 1), (2, 0, 1), (2, 10, 2)]
