"""The agent: one process for all games (docs/how-to/warm-agents.md), which speaks plain HTTP and needs no package.

In self-play each call is rewarded by itself (docs/how-to/rewards.md): what it earned is posted for it, and the game as a
whole earns 0, since what one side wins the other loses.
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
    post(url, task, {"value": value}, {"idempotency-key": f"side-{call}"})


def run(task):
    def ask(text):
        messages = [{"role": "user", "content": text}]
        fields = {"model": "player", "messages": messages, "max_completion_tokens": 4}
        reply = post(f"{task.base_url}/chat/completions", task, fields)
        return reply["choices"][0]["message"]["content"], reply["id"]

    number = int(task.input)
    if number >= game.OPPONENT_FROM:
        return game.against(number, ask)
    earned, numbers = game.self_play(number, ask)
    for call, value in earned:
        give(task, call, value)
    return {"reward": 0.0, **numbers}


if __name__ == "__main__":
    serve(run)
