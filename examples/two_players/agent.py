"""The agent: one process for all games (docs/warm-agents.md), with OpenAI's package.

In self-play each call is rewarded by itself (docs/rewards.md): what a side earned is posted for each of its calls,
and the game as a whole earns 0, since what one side wins the other loses.
"""

import json
import sys
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import game
import openai
from fulgurite_agent import serve

SHARED = openai.OpenAI(base_url="http://each.task.has.its.own", api_key="too", max_retries=2)


def give(task, call, value):
    """Rewards one call of the attempt."""
    server = task.base_url.split("/rollout/")[0]
    body = json.dumps({"value": value}).encode()
    headers = {
        "authorization": f"Bearer {task.api_key}",
        "content-type": "application/json",
        "idempotency-key": f"side-{call}",
    }
    url = f"{server}/rollout/{task.rollout_id}/generation/{call}/reward"
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as answer:
        answer.read()


def run(task):
    client = SHARED.with_options(base_url=task.base_url, api_key=task.api_key)

    def ask(text):
        messages = [{"role": "user", "content": text}]
        reply = client.chat.completions.create(model="player", messages=messages, max_completion_tokens=4)
        return reply.choices[0].message.content, reply.id

    number = int(task.input)
    if number >= game.OPPONENT_FROM:
        return game.against(number, ask)
    earned, numbers = game.self_play(number, ask)
    for call, value in earned:
        give(task, call, value)
    return {"reward": 0.0, **numbers}


if __name__ == "__main__":
    serve(run)
