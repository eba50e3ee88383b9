"""A typed, patient client of a Fulgurite server, sync and async.

    from fulgurite.client import Client

    with Client("http://127.0.0.1:4747") as server:
        rollouts = server.enqueue([{"question": "6 * 7"}], samples=8)
        for ended in server.wait([rollout.rollout_id for rollout in rollouts]):
            print(ended.rollout_id, ended.status, server.rewards(ended.rollout_id))

`AsyncClient` has the same methods as coroutines. A server that is out of reach or busy is asked again until it answers or
`patience` seconds have passed. What the server refuses is an exception with the server's words.
"""

from fulgurite.client.asynchronous import AsyncClient
from fulgurite.client.errors import (
    FulguriteError,
    KeyRefusedError,
    RefusedError,
    ReplyError,
    RouteMissingError,
    UnreachableError,
)
from fulgurite.client.records import (
    Attempt,
    Datum,
    Generation,
    Health,
    ModelState,
    NamedWeights,
    NewRollout,
    Publication,
    Reward,
    Rollout,
    RolloutConfig,
    RolloutRecord,
    ServedWeights,
    Span,
    Triplet,
    WeightsFrom,
)
from fulgurite.client.synchronous import Client

__all__ = [
    "AsyncClient",
    "Attempt",
    "Client",
    "Datum",
    "FulguriteError",
    "Generation",
    "Health",
    "KeyRefusedError",
    "ModelState",
    "NamedWeights",
    "NewRollout",
    "Publication",
    "RefusedError",
    "ReplyError",
    "Reward",
    "Rollout",
    "RolloutConfig",
    "RolloutRecord",
    "RouteMissingError",
    "ServedWeights",
    "Span",
    "Triplet",
    "UnreachableError",
    "WeightsFrom",
]
