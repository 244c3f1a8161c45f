"""Uses of the test driver for a type checker, as typed_uses.py. Not run."""

from kstreams_replay import (
    Serde,
    TestInputTopic,
    TestOutputTopic,
    TestRecord,
    Topology,
    TopologyTestDriver,
    Windowed,
    assert_outputs,
)


def right(topology: Topology) -> None:
    with TopologyTestDriver(topology, start_timestamp="2026-01-01T00:00:00Z", auto_advance="1s") as driver:
        driver.pipe_input("in", "a", 5, 1_000, headers=[("trace", b"x")])
        driver.pipe_key_values("in", [("a", 5)], 1_000, advance="1s")
        clicks: TestInputTopic = driver.create_input_topic("in", Serde.string(), Serde.long(), 0, "1s")
        clicks.pipe_input(TestRecord("a", 5, 1_000))
        clicks.pipe_input("a", 5, 1_000)
        clicks.pipe_input(5)
        clicks.pipe_input(value=5, timestamp_ms=1_000)
        clicks.pipe_value_list([5, 6], start_timestamp=1_000, advance=5)
        counts: TestOutputTopic = driver.create_output_topic("out", value_serde=Serde.bytes())
        record: TestRecord = counts.read_record()
        assert_outputs(driver, "out", [record, ("a", 5), (Windowed("a", 0, 10), 5, 1_000)])
        windows = driver.get_timestamped_window_store("hourly")
        pairs: list[tuple[int, object]] = windows.fetch("a", 0, 10)
        found: list[tuple[Windowed, object]] = windows.fetch("a", "b", 0, 10)
        sessions = driver.get_session_store("visits").find_sessions("a", 0, 10)
        version = driver.get_versioned_key_value_store("prices").get("a", as_of=5)
        print(pairs, found, sessions, version and version.valid_to_ms)


def wrong(driver: TopologyTestDriver, clicks: TestInputTopic, counts: TestOutputTopic) -> None:
    TopologyTestDriver()  # wrong: call-arg
    TestRecord("a")  # wrong: call-arg
    driver.pipe_input("in", "a")  # wrong: call-arg
    driver.pipe_input("in", "a", 5, time=3)  # wrong: call-arg
    driver.pipeInput("in", "a", 5)  # wrong: attr-defined
    driver.create_input_topic("in", "string")  # wrong: arg-type
    clicks.pipe_input()  # wrong: call-overload
    clicks.pipe_input("a", 5, 3, (), 4)  # wrong: call-overload
    clicks.pipe_record_list([("a", 5)])  # wrong: list-item
    counts.read_values()  # wrong: attr-defined
    number: int = counts.is_empty().value  # wrong: attr-defined
    driver.get_window_store("hourly").fetch("a")  # wrong: call-overload
    driver.get_session_store("visits").fetch_session("a", 5)  # wrong: call-arg
    driver.get_key_value_store("counts").put("a", number, 5)  # wrong: call-arg
    assert_outputs(driver, "out", [5])  # wrong: list-item
