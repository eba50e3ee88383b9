"""Agent-lightning's own client through every method of its store. usage: every_method.py URL"""

import asyncio
import sys
import time

from agentlightning.store.client_server import LightningStoreClient
from agentlightning.types import (
    LLM,
    EnqueueRolloutRequest,
    OtelResource,
    PromptTemplate,
    ProxyLLM,
    RolloutConfig,
    Span,
    TraceStatus,
)
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider


def span(attempted, span_id, sequence_id, **attributes):
    return Span(
        rollout_id=attempted.rollout_id,
        attempt_id=attempted.attempt.attempt_id,
        sequence_id=sequence_id,
        trace_id="0af7651916cd43dd8448eb211c80319c",
        span_id=f"{span_id:016x}",
        parent_id=None,
        name="work",
        status=TraceStatus(status_code="OK"),
        attributes=attributes,
        events=[],
        links=[],
        start_time=1.5,
        end_time=2.5,
        context=None,
        parent=None,
        resource=OtelResource(attributes={}, schema_url=""),
    )


async def resources(store):
    assert await store.get_latest_resources() is None
    model = ProxyLLM(endpoint="http://127.0.0.1:1/v1", model="m", sampling_parameters={"temperature": 0.5})
    added = await store.add_resources({"main_llm": model, "text": PromptTemplate(template="hi {x}", engine="f-string")})
    assert added.version == 1 and added.resources["main_llm"] == model
    mine = await store.update_resources("rs-mine", {"llm": LLM(endpoint="http://127.0.0.1:1", model="a")})
    again = await store.update_resources("rs-mine", {"llm": LLM(endpoint="http://127.0.0.1:1", model="b")})
    assert (mine.version, again.version, again.create_time) == (1, 2, mine.create_time)
    assert (await store.get_latest_resources()).resources_id == "rs-mine"
    assert (await store.get_resources_by_id(added.resources_id)) == added
    assert await store.get_resources_by_id("rs-unknown") is None
    page = await store.query_resources(sort_by="version", sort_order="desc", limit=1)
    assert (page.total, [item.resources_id for item in page.items]) == (2, ["rs-mine"])
    assert (await store.query_resources(resources_id_contains="mine")).total == 1


async def queue(store):
    config = RolloutConfig(timeout_seconds=60, max_attempts=2, retry_condition=["failed"])
    one = await store.enqueue_rollout({"q": "1 + 1"}, mode="train", config=config, metadata={"k": 1})
    many = await store.enqueue_many_rollouts([EnqueueRolloutRequest(input=number) for number in (2, 3)])
    assert (one.status, one.resources_id, one.metadata) == ("queuing", "rs-mine", {"k": 1})
    claimed = await store.dequeue_rollout(worker_id="Worker-0")
    assert (claimed.rollout_id, claimed.input, claimed.attempt.sequence_id) == (one.rollout_id, {"q": "1 + 1"}, 1)
    worker = await store.get_worker_by_id("Worker-0")
    assert (worker.status, worker.current_rollout_id) == ("busy", one.rollout_id)
    rest = await store.dequeue_many_rollouts(limit=5, worker_id="Worker-1")
    assert [rollout.rollout_id for rollout in rest] == [rollout.rollout_id for rollout in many]
    assert await store.dequeue_rollout(worker_id="Worker-1") is None
    assert (await store.get_worker_by_id("Worker-1")).status == "idle"
    return claimed


async def states(store, claimed):
    failed = await store.update_attempt(claimed.rollout_id, claimed.attempt.attempt_id, status="failed")
    assert failed.end_time is not None
    assert (await store.get_rollout_by_id(claimed.rollout_id)).status == "requeuing"
    second = await store.dequeue_rollout(worker_id="Worker-0")
    assert (second.rollout_id, second.attempt.sequence_id) == (claimed.rollout_id, 2)
    ended = await store.update_attempt(claimed.rollout_id, "latest", status="succeeded", metadata={"a": 1})
    assert ended.metadata == {"a": 1}
    finished = await store.wait_for_rollouts(rollout_ids=[claimed.rollout_id, "ro-unknown"], timeout=0.1)
    assert [(rollout.rollout_id, rollout.status) for rollout in finished] == [(claimed.rollout_id, "succeeded")]
    third = await store.start_attempt(claimed.rollout_id, worker_id="Worker-2")
    assert (third.status, third.attempt.sequence_id) == ("preparing", 3)
    assert (await store.get_latest_attempt(claimed.rollout_id)).sequence_id == 3
    assert await store.get_latest_attempt("ro-unknown") is None
    attempts = await store.query_attempts(claimed.rollout_id, sort_order="desc")
    assert [attempt.sequence_id for attempt in attempts.items] == [3, 2, 1]
    updated = await store.update_rollout(claimed.rollout_id, status="cancelled", mode=None, metadata={"b": 2})
    assert (updated.status, updated.mode, updated.metadata) == ("cancelled", None, {"b": 2})
    found = await store.query_rollouts(status_in=["cancelled"], rollout_id_contains=claimed.rollout_id[3:])
    assert [rollout.rollout_id for rollout in found.items] == [claimed.rollout_id]
    assert (await store.query_rollouts(status_in=[])).total == 0
    either = await store.query_rollouts(status_in=["cancelled"], rollout_id_contains="ro-", filter_logic="or")
    assert either.total == (await store.query_rollouts()).total
    assert await store.get_rollout_by_id("ro-unknown") is None


async def spans(store):
    started = await store.start_rollout("direct", mode="val", worker_id="Worker-3")
    assert started.status == "preparing"
    first = span(started, 1, 7, whole=2, real=2.0, ids=[1, 2], flag=True)
    assert await store.add_span(first) == first
    assert await store.add_span(first) is None
    assert len(await store.add_many_spans([span(started, 2, 8), span(started, 3, 9)])) == 2
    assert (await store.get_rollout_by_id(started.rollout_id)).status == "running"
    attempt_id = started.attempt.attempt_id
    assert await store.get_next_span_sequence_id(started.rollout_id, attempt_id) == 10
    assert await store.get_many_span_sequence_ids([(started.rollout_id, attempt_id)] * 2) == [11, 12]
    tracer = TracerProvider().get_tracer("test")
    with tracer.start_as_current_span("otel", attributes={"ids": [3, 4]}) as recorded:
        trace.get_current_span().add_event("happened", {"why": "because"})
    added = await store.add_otel_span(started.rollout_id, attempt_id, recorded)
    assert (added.sequence_id, added.attributes["ids"], added.events[0].name) == (13, [3, 4], "happened")
    found = await store.query_spans(started.rollout_id, "latest", name_contains="or", sort_by="span_id", sort_order="desc")
    assert [item.sequence_id for item in found] == [9, 8, 7]
    assert [type(value) for value in found[-1].attributes.values()] == [int, float, list, bool]
    assert [item.name for item in await store.query_spans(started.rollout_id, limit=1, offset=3)] == ["otel"]
    assert len(await store.query_spans("ro-unknown")) == 0


async def workers(store):
    worker = await store.update_worker("Worker-9", {"cpu": 0.5})
    assert (worker.status, worker.heartbeat_stats) == ("unknown", {"cpu": 0.5})
    assert await store.get_worker_by_id("Worker-unknown") is None
    busy = await store.query_workers(status_in=["busy"], worker_id_contains="Worker")
    assert "Worker-9" not in [worker.worker_id for worker in busy.items]
    assert (await store.query_workers(worker_id_contains="-9")).total == 1


async def what_is_not_there(store):
    """Refused at once: their client would try a server error again for eight seconds."""
    began = time.monotonic()
    for call in (
        store.update_attempt("ro-unknown", "latest", status="failed"),
        store.update_rollout("ro-unknown", status="failed"),
        store.start_attempt("ro-unknown"),
    ):
        try:
            await call
        except Exception as error:
            assert "404" in str(error), error
        else:
            raise AssertionError("what does not exist was changed")
    # Before its second try it would wait a second each time.
    assert time.monotonic() - began < 3


async def main(url):
    store = LightningStoreClient(url)
    assert store.capabilities["otlp_traces"] and store.otlp_traces_endpoint() == f"{url}/v1/traces"
    try:
        await resources(store)
        claimed = await queue(store)
        await states(store, claimed)
        await spans(store)
        await workers(store)
        await what_is_not_there(store)
        statistics = await store.statistics()
        assert (statistics["total_rollouts"], statistics["total_resources"], statistics["total_workers"]) == (4, 2, 5)
    finally:
        await store.close()
    print("every method")


asyncio.run(main(sys.argv[1]))
