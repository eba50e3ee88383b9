"""The agent: a loop as anybody writes it with OpenAI's package, one process for all games (docs/warm-agents.md)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import game
import openai
from fulgurite_agent import serve

SHARED = openai.OpenAI(base_url="http://each.task.has.its.own", api_key="too", max_retries=2)


def run(task):
    client = SHARED.with_options(base_url=task.base_url, api_key=task.api_key)

    def ask(messages):
        reply = client.chat.completions.create(model="speller", messages=messages, max_completion_tokens=8)
        return reply.choices[0].message.content

    return game.play(int(task.input), ask)


if __name__ == "__main__":
    serve(run)
