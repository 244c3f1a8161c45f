"""Spans of OpenTelemetry: what a collector is sent by the command, and by a program that has set the SDK up itself."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.errors import TaskFailed
from kstreams_replay.state.hidden_values import hide
from kstreams_replay.state.tracing import span
from tests.dagster import shop
from tests.expectations.pipelines import tape
from tests.planted import plant
from tests.source_tree import ROOT

INCREMENT = ["replay.increment", "replay.stage", "replay.stage", "replay.commit"]


@pytest.fixture
def collector() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """Address of a collector of OTLP over HTTP, and what it was sent."""
    came: list[ExportTraceServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append(ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", came
        server.shutdown()


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Where the SDK of this process, as a program would set it up, keeps spans that have ended."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    own = SimpleNamespace(get_tracer=provider.get_tracer, Status=trace.Status, StatusCode=trace.StatusCode)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", own)
    return exporter


def ended(exporter: InMemorySpanExporter) -> list[ReadableSpan]:
    """In the order in which they began."""
    return sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0)


def test_the_command_sends_an_increment_with_its_stages_to_the_collector(warehouse, collector, tmp_path):
    endpoint, came = collector
    plant(warehouse, "clicks", tape(("ann", '{"page": "a"}', 10), ("bob", '{"page": "a"}', 20)), partitions=1)
    asked = ["run", "tests/dagster/shop.py:topology", "--warehouse", warehouse.root, "--pipeline", "shop"]
    program = "import sys; from kstreams_replay.orchestration.cli.main import program; sys.exit(program())"

    ran = subprocess.run(
        [sys.executable, "-c", program, *asked, "--local"], cwd=ROOT, text=True, capture_output=True,
        env=os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "REPLAY_KERNELS": "interpreted"},
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr
    found = [
        (scope.scope.name, span)
        for request in came
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert {scope for scope, _ in found} == {"kstreams_replay"}
    by_time = sorted((span for _, span in found), key=lambda span: span.start_time_unix_nano)
    assert [span.name for span in by_time] == INCREMENT
    assert {span.parent_span_id for span in by_time[1:]} == {by_time[0].span_id}
    numbers = {each.key: each.value.int_value for each in by_time[0].attributes}
    assert (numbers["replay.increment"], numbers["replay.read"]) == (1, 2)
    (service,) = {
        each.value.string_value
        for request in came
        for each in request.resource_spans[0].resource.attributes
        if each.key == "service.name"
    }
    assert service == "kafka-streams-replay"


def test_a_program_that_has_set_the_sdk_up_gets_the_same_spans_below_its_own(warehouse, spans):
    plant(warehouse, "clicks", tape(("ann", '{"page": "a"}', 10)), partitions=1)
    tracer = sys.modules["opentelemetry.trace"].get_tracer("mine")

    with tracer.start_as_current_span("mine"):
        list(replay(warehouse, shop.topology(), pipeline="shop", runner=LocalRunner()))

    mine, increment, *rest = ended(spans)
    assert [span.name for span in (increment, *rest)] == INCREMENT
    assert increment.parent is not None
    assert increment.parent.span_id == mine.context.span_id
    assert dict(rest[0].attributes or {}) == {
        "replay.sub_topology": 0, "replay.tasks": 1, "replay.is_trial": False,
    }  # fmt: skip


def test_an_error_is_the_status_of_the_spans_that_it_ends_without_what_is_secret(warehouse, spans):
    plant(warehouse, "clicks", tape(("ann", '{"page": "a"}', 10)), partitions=1)
    hide({"password": "s3cr3t-of-mine"})

    class Failing(LocalRunner):
        def run(self, topology: object, descriptions: object) -> list:
            raise TaskFailed("task 0_0", "an end", "s3cr3t-of-mine", "look at it")

    with pytest.raises(TaskFailed):
        list(replay(warehouse, shop.topology(), pipeline="shop", runner=Failing()))

    increment, stage = ended(spans)
    assert increment.status.status_code is stage.status.status_code is trace.StatusCode.ERROR
    for each in (increment, stage):
        assert (each.status.description or "").startswith("TaskFailed: task 0_0")
        assert "s3cr3t" not in str(each.to_json())


def test_attributes_are_without_what_is_secret(spans):
    hide({"password": "s3cr3t-of-mine"})

    with span("landing", warehouse="s3://shop:s3cr3t-of-mine@bucket") as said:
        said["source"] = "of s3cr3t-of-mine"

    (landing,) = ended(spans)
    assert {*(landing.attributes or {})} == {"replay.warehouse", "replay.source"}
    assert "s3cr3t" not in str(landing.to_json())


def test_without_a_collector_the_command_loads_nothing_of_opentelemetry(tmp_path: Path):
    program = (
        "import sys; from kstreams_replay.orchestration.cli.main import main; main(['--version']); "
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}

    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment).returncode == 0
