"""OpenTelemetry's exporter of spans over gRPC, and calls beside it. usage: spans_over_grpc.py URL ROLLOUT ATTEMPT

Prints what came of each as one JSON object."""

import json
import sys

import grpc
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

url, rollout_id, attempt_id = sys.argv[1:]
results = {}


class Noted(OTLPSpanExporter):
    """Says what became of each export."""

    def export(self, spans):
        result = super().export(spans)
        results[spans[0].name] = result.name
        return result


# The attempt stands in the resource, as SDKs set it from OTEL_RESOURCE_ATTRIBUTES.
resource = Resource({"agentlightning.rollout_id": rollout_id, "agentlightning.attempt_id": attempt_id})
for name, compression, text in [
    ("plain", grpc.Compression.NoCompression, ""),
    ("gzip", grpc.Compression.Gzip, "compressed " * 100),
    ("large", grpc.Compression.NoCompression, "x" * (1 << 20)),
    ("deflate", grpc.Compression.Deflate, "compressed " * 100),
]:
    provider = TracerProvider(resource=resource)
    exporter = Noted(endpoint=url, insecure=True, compression=compression, timeout=60)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("test").start_as_current_span(name, attributes={"text": text}):
        pass
    provider.shutdown()

channel = grpc.insecure_channel(url.removeprefix("http://"))


def call(method, message):
    """The answer's bytes, or how the call failed."""
    try:
        return channel.unary_unary(method)(message, timeout=60)
    except grpc.RpcError as error:
        return [error.code().name, error.details()]


traces = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
nobody = ExportTraceServiceRequest()
span = nobody.resource_spans.add().scope_spans.add().spans.add()
span.trace_id, span.span_id, span.name = bytes(15) + b"\1", bytes(7) + b"\7", "of nobody"
partial = ExportTraceServiceResponse.FromString(call(traces, nobody.SerializeToString())).partial_success
results["of nobody"] = [partial.rejected_spans, partial.error_message]
results["metrics"] = call("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", b"")
results["unknown"] = call("/some.Service/Method", b"")
code, details = call(traces, b"\xff")
results["rubbish"] = [code, details.startswith("body: is not an ExportTraceServiceRequest: ")]
print(json.dumps(results))
