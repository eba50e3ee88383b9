"""What a server can be asked for, each as the requests that it takes and the reading of their replies.

Both clients run these: an operation yields requests and is sent replies, and knows nothing of sockets.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal

from fulgurite.client.errors import FulguriteError, ReplyError
from fulgurite.client.records import (
    Attempt,
    Generation,
    Giver,
    Health,
    Mode,
    ModelState,
    NamedWeights,
    NewRollout,
    Publication,
    Reward,
    Rollout,
    RolloutRecord,
    RolloutStatus,
    ServedWeights,
    Span,
)
from fulgurite.client.wire import LOADING_SECONDS, Operation, Reply, Request

ROLLOUTS_PER_REQUEST = 500
RECORDS_PER_REQUEST = 1000
GENERATIONS_PER_REQUEST = 1000

LONGEST_WAIT = 20.0
"""How long one request waits for rollouts at most; whoever wants to wait longer asks again."""

OWN = ("v1", "fulgurite")
AGL = ("v1", "agl")


def health() -> Operation[Health]:
    """See `Client.health`."""
    return (yield Request("GET", ("healthz",))).read(Health)


def enqueue(
    tasks: Iterable[Any], samples: int, mode: Mode | None, metadata: Mapping[str, Any] | None
) -> Operation[list[Rollout]]:
    """See `Client.enqueue`."""
    if samples < 1:
        raise FulguriteError("samples must be at least 1")
    new = [_new_rollout(task, mode, metadata) for task in tasks for _ in range(samples)]
    enqueued: list[Rollout] = []
    for first in range(0, len(new), ROLLOUTS_PER_REQUEST):
        part = new[first : first + ROLLOUTS_PER_REQUEST]
        # The server takes an id that is there for enqueued, so that a request may be sent twice.
        body = {"rollouts": [asdict(rollout) for rollout in part]}
        reply = yield Request("POST", (*AGL, "queues", "rollouts", "enqueue"), body=body)
        enqueued += reply.read(list[Rollout])
        if [rollout.rollout_id for rollout in enqueued[first:]] != [rollout.rollout_id for rollout in part]:
            raise ReplyError(reply.url, "its rollouts are not those that were enqueued")
    return enqueued


def _new_rollout(task: Any, mode: Mode | None, metadata: Mapping[str, Any] | None) -> NewRollout:
    new = task if isinstance(task, NewRollout) else NewRollout(task)
    return replace(
        new,
        rollout_id=new.rollout_id or f"ro-{uuid.uuid4().hex}",
        mode=new.mode or mode,
        metadata={**(metadata or {}), **(new.metadata or {})},
    )


def wait(rollout_ids: Sequence[str], seconds: float | None) -> Operation[list[Rollout]]:
    """See `Client.wait`."""
    end = None if seconds is None else time.monotonic() + seconds
    ended: dict[str, Rollout] = {}
    missing = list(dict.fromkeys(rollout_ids))
    while missing:
        left = LONGEST_WAIT if end is None else min(LONGEST_WAIT, max(0.0, end - time.monotonic()))
        reply = yield Request("POST", (*AGL, "waits", "rollouts"), body={"rollout_ids": missing, "timeout": left})
        for rollout in reply.read(list[Rollout]):
            if rollout.rollout_id not in missing or not rollout.is_finished:
                raise ReplyError(reply.url, f"rollout {rollout.rollout_id}, {rollout.status}, was not waited for")
            ended[rollout.rollout_id] = rollout
        missing = [rollout_id for rollout_id in missing if rollout_id not in ended]
        if end is not None and time.monotonic() >= end:
            break
    return [ended[rollout_id] for rollout_id in rollout_ids if rollout_id in ended]


def rollout(rollout_id: str) -> Operation[Rollout | None]:
    """See `Client.rollout`."""
    reply = yield Request("GET", (*AGL, "rollouts", rollout_id))
    return None if reply.accepted().body.strip() == b"null" else reply.read(Rollout)


def rollouts(
    *,
    status: Sequence[RolloutStatus] | None,
    run_id: str | None,
    step: int | None,
    mode: Mode | None,
    sessions: bool,
    limit: int | None,
    offset: int,
) -> Operation[list[Rollout]]:
    """See `Client.rollouts`."""
    body = {
        "status_in": None if status is None else list(status),
        "run_id": run_id,
        "step": step,
        "mode": mode,
        "include_sessions": sessions,
        "sort_by": "start_time",
        "sort_order": "desc",
        "limit": -1 if limit is None else limit,
        "offset": offset,
    }
    reply = yield Request("POST", (*AGL, "rollouts", "search"), body=body)
    return reply.read(list[Rollout], "items")


def attempts(rollout_id: str) -> Operation[list[Attempt]]:
    """See `Client.attempts`."""
    reply = yield Request("GET", (*AGL, "rollouts", rollout_id, "attempts"), query={"limit": -1})
    return reply.read(list[Attempt], "items")


def spans(rollout_id: str, attempt_id: str | None, name: str | None) -> Operation[list[Span]]:
    """See `Client.spans`."""
    query = {"rollout_id": rollout_id, "attempt_id": attempt_id, "name": name, "limit": -1}
    reply = yield Request("GET", (*AGL, "spans"), query=query)
    return reply.read(list[Span], "items")


def give_reward(
    rollout_id: str,
    value: float,
    *,
    attempt_id: str | None,
    generation_id: str | None,
    name: str | None,
    components: Mapping[str, float] | None,
    giver: Giver | None,
) -> Operation[Reward]:
    """See `Client.give_reward`."""
    if attempt_id is not None and generation_id is not None:
        raise FulguriteError("a reward is for an attempt or for a generation: give one of attempt_id and generation_id")
    way = ("generation", generation_id) if generation_id is not None else ("attempt", attempt_id or "latest")
    body: dict[str, Any] = {"value": value, "components": dict(components or {})}
    body |= {key: word for key, word in (("name", name), ("giver", giver)) if word is not None}
    # However often it is sent, it is given once.
    headers = {"idempotency-key": str(uuid.uuid4())}
    reply = yield Request("POST", ("rollout", rollout_id, *way, "reward"), body=body, headers=headers)
    return reply.read(Reward)


def rewards(rollout_id: str, attempt_id: str) -> Operation[list[Reward]]:
    """See `Client.rewards`."""
    reply = yield Request("GET", (*OWN, "rollouts", rollout_id, "attempts", attempt_id, "rewards"))
    return reply.read(list[Reward])


def generations(
    rollout_id: str | None,
    *,
    attempt_id: str | None,
    run_id: str | None,
    generation_id: str | None,
    limit: int | None,
    offset: int,
) -> Operation[list[Generation]]:
    """See `Client.generations`."""
    found: list[Generation] = []
    next_offset: int | None = offset
    while next_offset is not None and (limit is None or len(found) < limit):
        left = GENERATIONS_PER_REQUEST if limit is None else min(GENERATIONS_PER_REQUEST, limit - len(found))
        named = {"rollout_id": rollout_id, "attempt_id": attempt_id, "run_id": run_id, "generation_id": generation_id}
        reply = yield Request("GET", (*OWN, "generations"), query={**named, "limit": left, "offset": next_offset})
        found += reply.read(list[Generation], "items")
        next_offset = _next(reply, next_offset)
    return found


def _next(reply: Reply, offset: int) -> int | None:
    following = reply.read(dict[str, Any]).get("next_offset")
    if following is not None and following <= offset:
        raise ReplyError(reply.url, "its next page is no later one")
    return following


def records(rollout_ids: Sequence[str]) -> Operation[list[RolloutRecord | None]]:
    """See `Client.records`."""
    found: list[RolloutRecord | None] = []
    while len(found) < len(rollout_ids):
        wanted = list(rollout_ids[len(found) : len(found) + RECORDS_PER_REQUEST])
        reply = yield Request("POST", (*OWN, "rollouts", "records"), body={"rollout_ids": wanted})
        items = reply.read(list[Any], "items")
        if not 0 < len(items) <= len(wanted):
            raise ReplyError(reply.url, f"it has {len(items)} records of {len(wanted)} rollouts")
        packed = reply.read(list[RolloutRecord | None], "items")
        for rollout_id, item, record in zip(wanted, items, packed, strict=False):
            if record is None or item["next_offset"] is None:
                found.append(record)
                continue
            rest = yield from generations(
                rollout_id, attempt_id=None, run_id=None, generation_id=None, limit=None, offset=item["next_offset"]
            )
            found.append(replace(record, generations=record.generations + rest))
    return found


def record(rollout_id: str) -> Operation[RolloutRecord]:
    """Return the record of a rollout that must be there."""
    found = yield from records([rollout_id])
    if found[0] is None:
        raise FulguriteError(f"there is no rollout {rollout_id}")
    return found[0]


def model(name: str) -> Operation[ModelState]:
    """See `Client.model`."""
    return (yield Request("GET", (*OWN, "models", name))).read(ModelState)


def pause_model(name: str, reason: str | None, drain: bool) -> Operation[ModelState]:
    """See `Client.pause_model`."""
    body = {"reason": reason, "drain": drain}
    return (yield Request("POST", (*OWN, "models", name, "pause"), body=body, seconds=LOADING_SECONDS)).read(ModelState)


def resume_model(name: str) -> Operation[ModelState]:
    """See `Client.resume_model`."""
    return (yield Request("POST", (*OWN, "models", name, "resume"), body={})).read(ModelState)


def publish_weights(
    name: str,
    *,
    directory: str | None,
    adapter: str | None,
    kept: str | None,
    version: int | None,
    replaces: int | Literal["anything", "older"],
    run_id: str | None,
    base: str | None,
) -> Operation[ModelState]:
    """See `Client.publish_weights`."""
    sources = {"model": directory, "adapter": adapter, "kept": kept}
    given = {key: str(place) for key, place in sources.items() if place is not None}
    if len(given) != 1:
        raise FulguriteError("say where the weights are by one of directory, adapter and kept")
    optional = {"version": version, "run_id": run_id, "base": base}
    body = {**given, "replaces": replaces, **{key: value for key, value in optional.items() if value is not None}}
    request = Request("POST", (*OWN, "models", name, "weights"), body=body, seconds=LOADING_SECONDS)
    return (yield request).read(ModelState)


def named_weights(name: str, run_id: str | None) -> Operation[list[NamedWeights]]:
    """See `Client.named_weights`."""
    reply = yield Request("GET", (*OWN, "weights"), query={"model": name, "run_id": run_id})
    return reply.read(list[NamedWeights])


def publications() -> Operation[list[Publication]]:
    """See `Client.publications`."""
    return (yield Request("GET", (*OWN, "publications"))).read(list[Publication])


def served_weights() -> Operation[list[ServedWeights]]:
    """See `Client.served_weights`."""
    return (yield Request("GET", (*OWN, "servers"))).read(list[ServedWeights])
