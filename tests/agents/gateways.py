"""The gateways of agentcore and rLLM stand in front of the embedded engine, as they do in front of vLLM, and what they would train on
is what was recorded here. Run by the Python that has both; usage: gateways.py MODEL_DIRECTORY (see `environments`)"""

import asyncio
import contextlib
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from agentcore_rl_toolkit.rollout_gateway import HfTemplateRenderer, RolloutGateway
from agentcore_rl_toolkit.rollout_gateway.sampling_backends.vllm_http import VllmHttpBackend
from agentcore_rl_toolkit.rollout_gateway.server import ThreadedGatewayServer
from common import free_port, main_in_directory, post, recorded, serving, start
from rllm_model_gateway import GatewayClient
from transformers import AutoTokenizer

MODEL = Path(sys.argv[1]).resolve()
TURNS = ("Say a colour.", "Another.", "And a third.")


def converse(ask):
    """Three turns, each of which sends back what `ask` returned for the ones before."""
    messages = []
    for turn in TURNS:
        messages.append({"role": "user", "content": turn})
        messages.append({"role": "assistant", "content": ask(messages)})


def agentcore(url):
    """What agentcore's gateway makes of a conversation in OpenAI's dialect and of one in Anthropic's: it renders the prompts itself,
    samples by `/inference/v1/generate`, whose requests name no model, and tells whose a call is by `x-session-id`."""
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    gateway = RolloutGateway(backend=VllmHttpBackend(url), renderer=HfTemplateRenderer(tokenizer), tokenizer=tokenizer)
    server = ThreadedGatewayServer(gateway, host="127.0.0.1")
    server.start()

    def by_openai(messages):
        body = {"model": "any", "messages": messages, "max_tokens": 12}
        return post(f"{server.base_url}/chat/completions", body, "openai")["choices"][0]["message"]["content"]

    def by_anthropic(messages):
        body = {"model": "any", "messages": messages, "max_tokens": 12}
        return post(f"{server.base_url}/messages", body, "anthropic")["content"][0]["text"]

    def played(session, ask):
        gateway.create_session(session, sampling_defaults={"temperature": 0.7, "top_p": 0.9, "top_k": -1})
        converse(ask)
        return asyncio.run(gateway.finish_session(session))

    try:
        return [played("openai", by_openai), played("anthropic", by_anthropic)]
    finally:
        server.shutdown()


def trained_pairs(trace):
    """The tokens and logprobs that it would train of a trace, whose prompt has neither mask nor logprobs."""
    tokens = trace.token_ids[-len(trace.loss_mask):]
    return [(token, logprob) for token, mask, logprob in zip(tokens, trace.loss_mask, trace.logprobs, strict=True) if mask]


def check_agentcore(sessions, generations):
    """Each of its sessions is one here, and each token that it would train was sampled in it, with that logprob; none is missing."""
    ours = {}
    for g in generations:
        ours.setdefault(g["rollout_id"], []).extend(zip(g["sampled_tokens"], g["logprobs"], strict=True))
    theirs = [[pair for trace in traces for pair in trained_pairs(trace)] for traces in sessions]
    assert len(generations) == 6 and theirs == list(ours.values()), (theirs, ours)
    print(f"agentcore's gateway: two sessions of 3 turns in two dialects, each a session here, whose {sum(map(len, theirs))} trained "
          "tokens and logprobs are those recorded here")


@contextlib.contextmanager
def rllm_gateway(work, worker):
    """rLLM's gateway, as its own command starts it: its URL."""
    port = free_port()
    words = [Path(sys.executable).with_name("rllm-model-gateway"), "--host", "127.0.0.1", "--port", str(port), "--worker", worker,
             "--store", "memory"]
    with (work / "log").open("a") as log:
        gateway = subprocess.Popen(words, stdout=log, stderr=log, env={**os.environ, "HOME": str(work)})
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        gateway.terminate()
        gateway.wait()


def answers(client):
    with contextlib.suppress(Exception):
        return client.health()["status"] is not None
    return False


def rllm(work, url):
    """What rLLM's gateway takes down of a conversation, whose second answer streams."""
    rollout, attempt = start(url)
    with rllm_gateway(work, attempt) as here, GatewayClient(here) as client:
        while not answers(client):
            time.sleep(0.1)
        session = client.get_session_url(client.create_session("one"))

        def ask(messages):
            body = {"model": "smol", "messages": messages, "max_tokens": 12}
            if len(messages) != 3:
                return post(f"{session}/chat/completions", body)["choices"][0]["message"]["content"]
            events = post(f"{session}/chat/completions", {**body, "stream": True}, read=lambda reply: reply.read().decode())
            chunks = [json.loads(line[6:]) for line in events.splitlines() if line.startswith("data: {")]
            return "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"])

        converse(ask)
        client.flush()
        return rollout, client.get_session_traces("one")


def check_rllm(traces, generations):
    theirs = [(t.prompt_token_ids, t.completion_token_ids, t.logprobs) for t in traces]
    ours = [(g["prompt_tokens"], g["sampled_tokens"], g["logprobs"]) for g in generations]
    assert len(ours) == 3 and theirs == ours, (theirs, ours)
    # Its rows are merged into one sequence where each prompt begins with all of the turn before.
    for (prompt, sampled, _), (later, _, _) in itertools.pairwise(ours):
        assert later[: len(prompt) + len(sampled)] == prompt + sampled
    print("rLLM's gateway: 3 turns, one of them streamed, whose prompts, tokens and logprobs are those recorded here, each prompt "
          "going on from the turn before token by token")


def main(work):
    model = f'[[models]]\nname = "smol"\nbackend = "embedded"\npath = "{MODEL}"\n'
    with serving(work, settings=model) as url:
        check_agentcore(agentcore(url), recorded(work))
        rollout, traces = rllm(work, url)
        check_rllm(traces, recorded(work, rollout))


main_in_directory(main)
