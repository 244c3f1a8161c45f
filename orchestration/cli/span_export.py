"""Where spans of OpenTelemetry go (state/tracing.py): to the collector that its own variables name.

Rule: without OTEL_EXPORTER_OTLP_ENDPOINT, or that of traces alone, nothing is imported. A program other than the
command sets OpenTelemetry up as it sets up its own spans.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ...state.version import VERSION

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


@contextmanager
def spans_exported() -> Iterator[None]:
    """Spans that end meanwhile are sent by OTLP over HTTP, the last ones before this ends. OTEL_SERVICE_NAME and the
    other variables of OpenTelemetry's SDK hold. ModuleNotFoundError with the extra's name when it is not installed.
    """
    if not any(os.environ.get(name) for name in ENDPOINTS):
        yield
        return
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    name = os.environ.get("OTEL_SERVICE_NAME", "kafka-streams-replay")
    provider = TracerProvider(resource=Resource.create({"service.name": name, "service.version": VERSION}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        provider.shutdown()
