"""The agent: `loop.py` with OpenAI's package, one process for all questions (docs/how-to/warm-agents.md)."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import loop
import openai
from fulgurite_agent import serve
from pages import question

SHARED = openai.OpenAI(base_url="http://each.task.has.its.own", api_key="too", max_retries=2)
MODEL = os.environ.get("SEARCH_MODEL", "reader")


def run(task):
    client = SHARED.with_options(base_url=task.base_url, api_key=task.api_key)

    def ask(messages, tools):
        reply = client.chat.completions.create(model=MODEL, messages=messages, tools=tools, max_completion_tokens=40)
        return reply.choices[0].message

    return loop.play(question(int(task.input)), ask)


if __name__ == "__main__":
    serve(run)
