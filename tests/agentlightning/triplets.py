"""What Agent-lightning's own adapters make of the finished rollouts of a store, as JSON: for each rollout, from its
tracer's adapter and from its proxy's. usage: triplets.py URL"""

import asyncio
import json
import sys

from agentlightning.adapter import LlmProxyTraceToTriplet, TracerTraceToTriplet
from agentlightning.store.client_server import LightningStoreClient


def described(triplets):
    return [
        {
            "prompt": triplet.prompt["token_ids"],
            "response": triplet.response["token_ids"],
            "logprobs": [token["logprob"] for token in triplet.response.get("logprobs") or []],
            "reward": triplet.reward,
        }
        for triplet in triplets
    ]


async def main(url):
    store = LightningStoreClient(url)
    found = {}
    for rollout in await store.query_rollouts(status_in=["succeeded"]):
        spans = list(await store.query_spans(rollout.rollout_id, "latest"))
        found[rollout.rollout_id] = {
            "tracer": described(TracerTraceToTriplet().adapt(spans)),
            "proxy": described(LlmProxyTraceToTriplet().adapt(spans)),
        }
    await store.close()
    print(json.dumps(found))


asyncio.run(main(sys.argv[1]))
