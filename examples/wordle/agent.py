"""The agent: a loop over OpenAI's chat completions, one process for all games (docs/how-to/warm-agents.md).

It speaks plain HTTP and needs no package: with calls as cheap as these, a client library would be half of the time.
When a game is over, what each guess earned is posted for the call that made it (docs/how-to/rewards.md).
"""

import json
import sys
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import game
from fulgurite_agent import serve


def post(url, task, fields, headers=()):
    """Posts JSON with the attempt's key, and returns the answer's."""
    headers = {"authorization": f"Bearer {task.api_key}", "content-type": "application/json", **dict(headers)}
    request = urllib.request.Request(url, json.dumps(fields).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def give(task, call, value):
    """Rewards one call of the attempt."""
    server = task.base_url.split("/rollout/")[0]
    url = f"{server}/rollout/{task.rollout_id}/generation/{call}/reward"
    post(url, task, {"value": value}, {"idempotency-key": f"guess-{call}"})


def run(task):
    calls = []

    def ask(messages):
        fields = {"model": "speller", "messages": messages, "max_completion_tokens": 8}
        reply = post(f"{task.base_url}/chat/completions", task, fields)
        calls.append(reply["id"])
        return reply["choices"][0]["message"]["content"]

    rewards, numbers = game.play(int(task.input), ask)
    # A last reply that was no guess has no reward, and earns nothing.
    for call, value in zip(calls, rewards):
        give(task, call, value)
    return {"reward": 0.0, **numbers}


if __name__ == "__main__":
    serve(run)
