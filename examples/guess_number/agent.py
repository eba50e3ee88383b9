"""The agent: a loop as anybody writes it with OpenAI's package, one process for all games (docs/how-to/warm-agents.md).

When a game is over, what each guess earned is posted for the call that made it (docs/how-to/rewards.md).
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import game
import httpx
import openai
from fulgurite_agent import serve

SHARED = openai.OpenAI(base_url="http://each.task.has.its.own", api_key="too", max_retries=2)
REWARDS = httpx.Client(timeout=30)
MODEL = os.environ.get("GUESS_MODEL", "guesser")


def give(task, call, value):
    """Rewards one call of the attempt."""
    server = task.base_url.split("/rollout/")[0]
    headers = {"authorization": f"Bearer {task.api_key}", "idempotency-key": f"guess-{call}"}
    url = f"{server}/rollout/{task.rollout_id}/generation/{call}/reward"
    REWARDS.post(url, json={"value": value}, headers=headers).raise_for_status()


def run(task):
    client = SHARED.with_options(base_url=task.base_url, api_key=task.api_key)
    calls = []

    def ask(messages):
        reply = client.chat.completions.create(model=MODEL, messages=messages, max_completion_tokens=12)
        calls.append(reply.id)
        return reply.choices[0].message.content

    rewards, numbers = game.play(int(task.input), ask)
    # A last reply that was no guess has no reward, and earns nothing.
    for call, value in zip(calls, rewards):
        give(task, call, value)
    return {"reward": 0.0, **numbers}


if __name__ == "__main__":
    serve(run)
