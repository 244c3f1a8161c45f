"""After openzipkin-contrib/zipkin-storage-kafka: spans become traces and links between services, and processors keep
both in window stores, with the names that a search page offers.

Its three topologies are one here: the links that the first one writes are read by the second. Where the application
asks the machine's clock, this asks stream time. Its linker is Zipkin's; here a call is a server's span below that of
a client.
"""

from kstreams_replay import (
    Consumed,
    Materialized,
    Processor,
    Record,
    Serde,
    SessionWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    Topology,
)

TEXT = Serde.string()
SPANS = Serde.json(
    "array<struct<trace_id string, id string, parent_id string, name string, kind string, service string, "
    "remote_service string, timestamp_us long, tags map<string, string>>>"
)
LINK = Serde.json("parent string, child string, calls long, errors long")
NAMES = Serde.json("array<string>")
DAY_MS = 86_400_000


# --- traces and links ----------------------------------------------------------------------------------------


def merged(spans):
    """Each span once, parts of one span as one."""
    found = {}
    for span in spans:
        known = found.get((span["id"], span["kind"]), {})
        found[span["id"], span["kind"]] = known | {field: value for field, value in span.items() if value is not None}
    return list(found.values())


def links_of(spans):
    """Calls between services, in the order of their spans."""
    by_id = {span["id"]: span for span in spans}
    root = by_id.get(spans[0]["trace_id"], spans[0])
    links = {}
    for span in spans:
        caller = by_id.get(span["parent_id"], root)
        if span["kind"] != "SERVER" or caller is span or caller["service"] is None:
            continue
        link = links.setdefault(
            (caller["service"], span["service"]),
            {"parent": caller["service"], "child": span["service"], "calls": 0, "errors": 0},
        )
        link["calls"] += 1
        link["errors"] += "error" in dict(span["tags"] or {})
    return list(links.values())


def span_aggregation(builder, trace_timeout):
    def add(trace, spans, all_spans):
        return merged(all_spans + spans)

    traces = (
        builder.stream("spans", Consumed(TEXT, SPANS))
        .group_by_key()
        .windowed_by(SessionWindows.with_inactivity_gap(trace_timeout, grace=0))
        .aggregate(
            list,
            add,
            lambda trace, first, second: merged(first + second),
            returns=SPANS,
            materialized=Materialized.as_(Stores.persistent_session_store("trace-aggregation", "1d")),
        )
        .suppress(Suppressed.until_window_closes())
        .to_stream()
        .select_key("record_key")
    )
    traces.to("traces")
    links = traces.flat_map_values(lambda spans: links_of(spans or []), returns=LINK)
    links.select_key("parent || ':' || child").to("dependencies")


# --- what is stored ------------------------------------------------------------------------------------------


class DependencyStorage(Processor):
    """Calls of a link are counted together within a window's size of their first."""

    size_ms = 100

    def init(self, context):
        super().init(context)
        self.links = context.store("zipkin-dependencies")

    def process(self, record: Record) -> None:
        now_ms, link = record.timestamp_ms, record.value
        windows = list(self.links.fetch_range(record.key, now_ms - self.size_ms, now_ms))
        if not windows:
            self.links.put(record.key, link, now_ms)
            return
        start_ms, current = windows[-1]
        summed = {name: current[name] + link[name] for name in ("calls", "errors")}
        self.links.put(record.key, current | summed, start_ms)


class TraceStorage(Processor):
    """All spans of a trace of the last day, below the time of the first."""

    def init(self, context):
        super().init(context)
        self.traces = context.store("zipkin-traces")

    def process(self, record: Record) -> None:
        if not record.value:
            return
        now_ms = self.context.current_stream_time_ms()
        for start_ms, spans in self.traces.backward_fetch_range(record.key, now_ms - DAY_MS, now_ms):
            self.traces.put(record.key, spans + record.value, start_ms)
            return
        self.traces.put(record.key, record.value, record.value[0]["timestamp_us"] // 1000)


class SearchNames(Processor):
    """Names of spans and of called services by service, and values of tags that are offered."""

    tags = ("environment",)

    def init(self, context):
        super().init(context)
        self.span_names = context.store("zipkin-span-names")
        self.remote_names = context.store("zipkin-remote-service-names")
        self.tag_values = context.store("zipkin-autocomplete-tags")

    def process(self, record: Record) -> None:
        for span in record.value:
            if span["service"] is not None:
                self.remember(self.span_names, span["service"], span["name"], span)
                self.remember(self.remote_names, span["service"], span["remote_service"], span)
            for tag in self.tags:
                self.remember(self.tag_values, tag, dict(span["tags"] or {}).get(tag), span)

    def remember(self, store, key, name, span):
        if name is None:
            return
        now_ms = self.context.current_stream_time_ms()
        newest = next(iter(store.backward_fetch_range(key, now_ms - 7 * DAY_MS, now_ms)), (None, []))
        if name not in newest[1]:
            store.put(key, [*newest[1], name], span["timestamp_us"] // 1000)


def window_store(name, retention, size, value, *, in_memory=False):
    kind = Stores.in_memory_window_store if in_memory else Stores.persistent_window_store
    return Stores.window_store_builder(kind(name, retention, size), TEXT, value)


def dependency_storage(builder, topic="dependencies"):
    builder.add_state_store(window_store("zipkin-dependencies", "1m", 100, LINK))
    builder.stream(topic, Consumed(TEXT, LINK)).process(DependencyStorage, ["zipkin-dependencies"])


def trace_storage(builder, *, has_search=True):
    builder.add_state_store(window_store("zipkin-traces", "1d", "1h", SPANS))
    spans = builder.stream("spans", Consumed(TEXT, SPANS))
    spans.process(TraceStorage, ["zipkin-traces"])
    if not has_search:
        return
    names = ["zipkin-span-names", "zipkin-remote-service-names", "zipkin-autocomplete-tags"]
    for name in names:
        builder.add_state_store(window_store(name, "7d", "1d", NAMES, in_memory=name != names[-1]))
    spans.process(SearchNames, names)


def topology(*, has_search=True) -> Topology:
    builder = StreamsBuilder()
    span_aggregation(builder, "1s")
    dependency_storage(builder)
    trace_storage(builder, has_search=has_search)
    return builder.build()
