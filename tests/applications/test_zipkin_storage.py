"""Inputs and outputs of the application's own tests of its three topologies, and a longer day of spans."""

from kstreams_replay import StreamsBuilder, TopologyTestDriver
from tests.applications import zipkin_storage
from tests.playing import InputRecord, assert_plays, pipe

NOTHING = dict.fromkeys(("parent_id", "name", "kind", "service", "remote_service", "timestamp_us", "tags"))


def span(trace, id, **fields):
    return NOTHING | {"trace_id": trace, "id": id} | fields


CLIENT = span("a", "a", name="op_a", kind="CLIENT", service="svc_a")
SERVER = span("a", "b", name="op_b", kind="SERVER", service="svc_b")


def test_spans_of_a_session_are_a_trace_and_a_link(tmp_path):
    builder = StreamsBuilder()
    zipkin_storage.span_aggregation(builder, "1s")
    tape = [
        InputRecord("spans", "a", [CLIENT], 0),
        InputRecord("spans", "a", [SERVER], 0),
        InputRecord("spans", "c", [span("c", "c")], 1_001),
    ]
    wanted = {
        "traces": [("a", [CLIENT, SERVER])],
        "dependencies": [("svc_a:svc_b", {"parent": "svc_a", "child": "svc_b", "calls": 1, "errors": 0})],
    }
    assert_plays(builder.build(), tape, wanted, tmp_path)


LINK = {"parent": "svc_a", "child": "svc_b", "calls": 1, "errors": 0}


def test_calls_of_a_link_are_counted_together_until_its_window_has_passed():
    builder = StreamsBuilder()
    zipkin_storage.dependency_storage(builder)
    driver = TopologyTestDriver(builder.build())
    links = driver.get_window_store("zipkin-dependencies")

    pipe(driver, [InputRecord("dependencies", "svc_a:svc_b", LINK, 10)])
    assert [value for _, value in links.fetch("svc_a:svc_b", 0, 100)] == [LINK]

    pipe(driver, [InputRecord("dependencies", "svc_a:svc_b", LINK, 90)])
    assert [value["calls"] for _, value in links.fetch("svc_a:svc_b", 0, 100)] == [2]

    pipe(driver, [InputRecord("dependencies", "svc_a:svc_b", LINK, 60_000 + 91)])
    assert [value["calls"] for _, value in links.fetch("svc_a:svc_b", 1_000, 70_000)] == [1]


SEARCHED = [
    span("a", "a", name="op_a", kind="CLIENT", service="svc_a", timestamp_us=10_000, tags={"environment": "dev"}),
    span("a", "b", name="op_b", kind="SERVER", service="svc_b", timestamp_us=10_000),
    span("c", "c", name="op_a", kind="CLIENT", service="svc_a", timestamp_us=10_000, tags={"environment": "dev"}),
]


def test_traces_names_and_tags_are_stored():
    builder = StreamsBuilder()
    zipkin_storage.trace_storage(builder)
    driver = TopologyTestDriver(builder.build())
    pipe(driver, [InputRecord("spans", "a", SEARCHED, 10)])

    assert [value for _, value in driver.get_window_store("zipkin-traces").fetch("a", 0, 10_000)] == [SEARCHED]
    names = driver.get_window_store("zipkin-span-names").fetch_all(0, 10_000)
    assert [(key.key, value) for key, value in names] == [("svc_a", ["op_a"]), ("svc_b", ["op_b"])]
    tags = driver.get_window_store("zipkin-autocomplete-tags").fetch_all(0, 10_000)
    assert [(key.key, value) for key, value in tags] == [("environment", ["dev"])]
