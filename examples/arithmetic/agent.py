"""The agent: one question to OpenAI's package, one process for all tasks (docs/how-to/warm-agents.md)."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import openai
import sums
from fulgurite_agent import serve

SHARED = openai.OpenAI(base_url="http://each.task.has.its.own", api_key="too", max_retries=2)
MODEL = os.environ.get("ARITHMETIC_MODEL", "adder")
TEMPERATURE = float(os.environ.get("ARITHMETIC_TEMPERATURE", "1"))


def run(task):
    client = SHARED.with_options(base_url=task.base_url, api_key=task.api_key)
    messages = [{"role": "user", "content": sums.question(*sums.PAIRS[task.input])}]
    choice = client.chat.completions.create(
        model=MODEL, messages=messages, max_completion_tokens=16, temperature=TEMPERATURE
    ).choices[0]
    return sums.grade(task.input, choice.message.content, choice.finish_reason == "stop")


if __name__ == "__main__":
    serve(run)
