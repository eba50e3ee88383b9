"""OpenEnv's capture and verifiers' client for training stand in front of the embedded engine, as they do in front of vLLM, and what
they take down is what was recorded here. Run by OpenEnv's Python; usage: captures.py MODEL_DIRECTORY (see `environments`)"""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

from common import free_port, main_in_directory, post, recorded, serving, start, verifiers_environment
from openenv.core.harness.capture import CaptureServer, validate_llm

MODEL = Path(sys.argv[1]).resolve()


def probe(url):
    """OpenEnv asks what an engine gives, and takes this one for one that trains, without working around anything. Tools are taken;
    whether SmolLM2 calls one, or talks until its tokens are used up ("unknown"), is its own affair."""
    report = validate_llm(url, "smol")
    print(f"openenv's probe: {report.capture_level}, logprobs {report.logprobs_mode}, tools: {report.tool_support}")
    assert report.ok and report.capture_level == "tokens" and report.logprobs_mode == "processed", report
    assert not report.param_fixes and report.tool_support != "rejected", report


def capture(url):
    """A conversation of three turns through OpenEnv's capture becomes one sequence, since its session has an attempt for its engine:
    OpenEnv tells whose a call is by nothing else."""
    _, engine_url = start(url)
    port = free_port()
    server = CaptureServer(llm_url=url, model="smol", port=port)
    server.start()
    try:
        here = f"http://127.0.0.1:{port}"
        key = post(f"{here}/sessions", {"llm_url": engine_url, "model": "smol"})["session_id"]
        messages = []
        for turn in ("Say a colour.", "Another.", "And a third."):
            messages.append({"role": "user", "content": turn})
            answer = post(f"{here}/v1/chat/completions", {"model": "smol", "messages": messages, "max_tokens": 12}, key)
            messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
        with urllib.request.urlopen(f"{here}/sessions/{key}/rollout", timeout=60) as reply:
            return json.load(reply)
    finally:
        server.stop()


def play(work, url):
    """`vf-eval` with verifiers' client for training, which renders the prompts itself: the traces that it writes."""
    home = verifiers_environment(work)
    words = [home / "vf-eval", "my-env", "-n", "3", "--model", "smol", "--client.type", "train", "--client.base-url", f"{url}/v1",
             "--client.api-key-var", "KEY", "--client.renderer-model-name", MODEL, "--sampling.max-tokens", "12",
             "--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess", "--no-push", "--output-dir", work / "outputs"]
    environment = {**os.environ, "KEY": "none", "PATH": f"{home}:{os.environ['PATH']}"}
    ended = subprocess.run(words, cwd=work, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    lines = [line for file in work.glob("outputs/*/traces.jsonl") for line in file.read_text().splitlines()]
    return [trace for line in lines for trace in json.loads(line)["traces"]]


def check_document(document):
    stats = document["stats"]
    assert stats["n_sequences"] == stats["n_trainable_sequences"] == 1 and stats["n_forks"] == 0, stats
    sampled = sum(turn["n_sampled"] for turn in document["turns"])
    assert document["trainable"] and stats["n_turns"] == 3 and stats["n_trainable_tokens"] == sampled > 0, stats
    length = len(document["sequences"][0]["input_ids"])
    print(f"openenv's capture: 3 turns, one sequence of {length} tokens, of which all {sampled} that were sampled are trained")


def check_traces(traces, generations):
    """What verifiers took down of each answer is what was sampled here, token by token."""
    ours = {tuple(g["prompt_tokens"] + g["sampled_tokens"]): g["logprobs"] for g in generations}
    assert len(traces) == 3 and all(trace["ok"] for trace in traces), [trace["errors"] for trace in traces]
    for trace in traces:
        tokens = tuple(token for node in trace["nodes"] for token in node["token_ids"])
        # It keeps four digits.
        assert trace["nodes"][-1]["logprobs"] == [round(logprob, 4) for logprob in ours[tokens]], trace
    print(f"verifiers' client for training: {len(traces)} rollouts, whose tokens and logprobs are those recorded here")


def main(work):
    model = f'[[models]]\nname = "smol"\nbackend = "embedded"\npath = "{MODEL}"\ntools = "preamble"\n'
    with serving(work, settings=model) as url:
        probe(url)
        check_document(capture(url))
        traces = play(work, url)
        check_traces(traces, recorded(work))


main_in_directory(main)
